"""Output to the terminal.

Others, tenants included, write names, messages and statuses. All of these that are printed to a terminal pass through this module, which
removes control sequences (`spindle.api.printable`). JSON and YAML have escapes of their own.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from spindle.api.printable import printable

T = TypeVar("T")


class SafeConsole(Console):
    """A console on which only this program sets colours and line breaks."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As in rich, with every text made printable."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else printable(segment.text, lines=True)
            yield segment if text == segment.text else Segment(text, segment.style)


def say(text: str, *, err: bool = False) -> None:
    """Print text that may have several lines."""
    typer.echo(printable(text, lines=True), err=err)


def tell(line: str) -> None:
    """Print exactly one line."""
    typer.echo(printable(line))


def on_one_line(value: T) -> T:
    """A Kubernetes object with every text printable and on one line, so that no text can imitate a line of this program."""
    changed: Any = value
    if isinstance(value, str):
        changed = printable(value)
    elif hasattr(type(value), "model_fields"):  # a model of pydantic, which is imported only where models are
        fields = {name: on_one_line(getattr(value, name)) for name in type(changed).model_fields}
        changed = changed.model_copy(update=fields)
    elif isinstance(value, dict):
        changed = {on_one_line(key): on_one_line(each) for key, each in value.items()}
    elif isinstance(value, list | tuple):
        changed = type(value)(on_one_line(each) for each in value)
    result: T = changed
    return result
