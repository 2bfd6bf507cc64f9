"""The option ``--context``, which may stand before or after a command's name."""

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from spindle_cli.copied import Typed

INTERRUPTED: Final = 130  # exit code, as for a program that Ctrl-C ends
_NAME: Final = "--context"


def shared(
    context: Annotated[
        str | None,
        typer.Option(
            _NAME, help="Context of the kubeconfig, also after the command; default: its current one."
        ),
    ] = None,
) -> None:
    """Inspect and operate Kafka clusters that run on Kubernetes."""
    Typed.context = context


def context_first(arguments: Sequence[str]) -> list[str]:
    """The command line with ``--context NAME`` in front, where the program's own options stand; after ``--`` nothing is an option."""
    first, rest = [], list(arguments)
    end = rest.index("--") if "--" in rest else len(rest)
    at = 0
    while at < end:
        length = 2 if rest[at] == _NAME else 1 if rest[at].startswith(f"{_NAME}=") else 0
        if length:
            first += rest[at : at + length]
            del rest[at : at + length]
            end -= length
        else:
            at += 1
    return [*first, *rest]
