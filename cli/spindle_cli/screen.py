"""The way to the terminal.

Names, messages and statuses are written by others, tenants among them. Whatever of them goes to a terminal goes through here, and loses what
would steer it (`spindle.printable`). JSON and YAML have escapes of their own.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

import typer
from pydantic import BaseModel
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from spindle.printable import printable

T = TypeVar("T")


class SafeConsole(Console):
    """A console whose colours and lines are those of the program alone."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich has it, with every text printable."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else printable(segment.text, lines=True)
            yield segment if text == segment.text else Segment(text, segment.style)


def say(text: str, *, err: bool = False) -> None:
    """Print text that has lines of its own."""
    typer.echo(printable(text, lines=True), err=err)


def tell(line: str) -> None:
    """Print one line, and no more than one."""
    typer.echo(printable(line))


def on_one_line(value: T) -> T:
    """An object of Kubernetes with every text in it printable, and on one line, so that none looks like a line of ours."""
    changed: Any = value
    if isinstance(value, str):
        changed = printable(value)
    elif isinstance(value, BaseModel):
        fields = {name: on_one_line(getattr(value, name)) for name in type(value).model_fields}
        changed = value.model_copy(update=fields)
    elif isinstance(value, dict):
        changed = {on_one_line(key): on_one_line(each) for key, each in value.items()}
    elif isinstance(value, list | tuple):
        changed = type(value)(on_one_line(each) for each in value)
    result: T = changed
    return result
