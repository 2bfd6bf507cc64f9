"""Makes text from other sources safe to print: some characters move a terminal's cursor, change colours, write to the clipboard or reverse the line."""

import unicodedata
from collections.abc import Mapping
from typing import Any, Final

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_SPACES: Final = "\t\n"


def printable(text: str, *, lines: bool = False) -> str:
    """The text without terminal control characters; its length does not change.

    Control characters (C0, C1, DEL), format characters (direction, zero width), line and paragraph separators, lone surrogates and unassigned
    characters become a replacement character; tabs and line ends become a space.

    Args:
        text: any text.
        lines: keep tabs and line ends.
    """
    if text.isprintable():
        return text
    return "".join(each if _is_shown(each) else _instead(each, lines=lines) for each in text)


def printables(value: Any) -> Any:
    """JSON on one line in which every value is printable; keys are not changed."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {key: printables(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [printables(each) for each in value]
    return value


def _is_shown(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"


def _instead(character: str, *, lines: bool) -> str:
    if character in _SPACES:
        return character if lines else " "
    return REPLACEMENT
