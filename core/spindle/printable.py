"""Text that others wrote, as it may be shown: on a terminal some characters move the cursor, change colours, write to the clipboard or turn the line around."""

import unicodedata
from collections.abc import Mapping
from typing import Any, Final

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_SPACES: Final = "\t\n"


def printable(text: str, *, lines: bool = False) -> str:
    """The text without anything that steers a terminal, with as many characters.

    Controls (C0, C1, DEL), formats (of direction and of no width), separators of lines and paragraphs, lone surrogates and what Unicode
    gives no meaning become a replacement character; tabs and ends of lines a space.

    Args:
        text: anything.
        lines: leave tabs and ends of lines as they are.
    """
    if text.isprintable():
        return text
    return "".join(each if _is_shown(each) else _instead(each, lines=lines) for each in text)


def printables(value: Any) -> Any:
    """JSON with every text in it printable, on one line; keys stay as they are."""
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
