"""Markdown as the generator reads it."""

import re
from collections.abc import Callable
from typing import Final

_FENCE: Final = re.compile(r" *(```|~~~)")
_DIAGRAM: Final = re.compile(r"^```mermaid\n.*?^```\n+", re.MULTILINE | re.DOTALL)
_ITEM: Final = re.compile(r"( *)((?:[-*+]|\d+[.)]) +)\S")
_WIDTH: Final = 4


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change all lines outside of fenced code blocks.

    Args:
        text: Markdown.
        change: gets a line with its end, and returns what replaces it.
    """
    fenced = False
    lines = []
    for line in text.splitlines(keepends=True):
        if _FENCE.match(line):
            fenced = not fenced
        lines.append(line if fenced else change(line))
    return "".join(lines)


def without_diagrams(text: str) -> str:
    """The text without blocks of Mermaid: what draws them would come from another server.

    Args:
        text: Markdown.
    """
    return _DIAGRAM.sub("", text)


def with_wide_lists(text: str) -> str:
    """What belongs to an item of a list is indented by four characters for each level, and items with paragraphs are apart.

    CommonMark asks only for as many as the item's marker has: two or three. The generator takes such lines for lines after the list, and
    an item directly after a paragraph of the item before for a line of that paragraph.

    Args:
        text: Markdown as CommonMark defines it.
    """
    fenced = False
    # How far the content of each open item is indented in the text.
    items: list[int] = []
    after_text = False  # the line before is text, not an empty line or the end of a fence
    paragraphs = False  # an item of this list has an empty line in it
    lines = []
    for line in text.splitlines():
        if not line.strip():
            lines.append("")
            after_text = False
            paragraphs = paragraphs or bool(items)
            continue
        indent = len(line) - len(line.lstrip(" "))
        fence = _FENCE.match(line)
        found = None if fenced else _ITEM.match(line)
        in_list = bool(items)
        # A line of a paragraph continues it wherever it begins.
        if not fenced and (found or not after_text):
            while items and indent < items[-1]:
                items.pop()
        if not items and not found:
            paragraphs = False
        if found and after_text and (paragraphs or not in_list):
            lines.append("")
        base = items[-1] if items else 0
        lines.append(" " * (_WIDTH * len(items) + max(0, indent - base)) + line.lstrip(" "))
        if fence:
            fenced = not fenced
        elif found and indent - base < _WIDTH:
            items.append(indent + len(found[2]))
        after_text = not fenced and not fence
    return "".join(f"{line}\n" for line in lines)
