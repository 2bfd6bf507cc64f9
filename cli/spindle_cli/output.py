"""The forms of output that commands share."""

import json
from enum import StrEnum
from typing import Annotated, Any

import typer


class Output(StrEnum):
    """Forms of output."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


_WIDE = 1000  # characters; no line wraps

OutputOption = Annotated[
    Output,
    typer.Option("--output", "-o", help="table, wide (as table, with nothing shortened), json or yaml."),
]


def wide(form: Output) -> int | None:
    """Width in characters in which this form is printed; None for that of the terminal."""
    return _WIDE if form is Output.WIDE else None


def structured(value: Any, form: Output) -> str:
    """A value as JSON or YAML; both escape control characters themselves."""
    if form is Output.YAML:
        import yaml  # noqa: PLC0415 - only this form needs it

        return yaml.safe_dump(value, sort_keys=False).rstrip("\n")
    return json.dumps(value, indent=2)
