"""What the generator does not check in the pages that it has built.

It checks links between pages and their anchors in Markdown. This reads the HTML: images and files are there, a link in HTML leads
somewhere, no page asks another server for anything, and no list or table is shown as text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_SOURCES: Final = {"img": "src", "script": "src", "iframe": "src", "source": "src", "link": "href"}
# A line that begins like an item, a row or a fence: Markdown that this generator reads in another way than others.
_NOT_READ: Final = re.compile(r"^\s*(- |\* |\d+\. |\||```|#+ )", re.MULTILINE)
_CANONICAL: Final = {"canonical", "prev", "next", "alternate"}


@dataclass
class _Page(HTMLParser):
    """One page.

    Attributes:
        anchors: what a fragment may name.
        links: targets of its links.
        sources: what the browser loads for it.
        texts: the text of each paragraph outside of code, as far as it has no other elements.
    """

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    _open: bool = False

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = {name: value or "" for name, value in attrs}
        self.anchors |= {of[name] for name in ("id", "name") if name in of}
        if tag == "a" and "href" in of:
            self.links.append(of["href"])
        elif (source := of.get(_SOURCES.get(tag, ""))) and of.get("rel") not in _CANONICAL:
            self.sources.append(source)
        if tag == "p":
            self.texts.append("")
        self._open = tag == "p" or (self._open and tag in {"a", "em", "strong", "code"})

    def handle_endtag(self, tag: str) -> None:
        if tag == "p":
            self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[-1] += data


def complaints(site: Path) -> list[str]:
    """What is wrong, one line each.

    Args:
        site: the folder that the generator has built.
    """
    pages = {}
    for file in sorted(site.resolve().rglob("*.html")):
        pages[file] = page = _Page()
        page.feed(file.read_text())
    found = [
        f"{file.relative_to(site.resolve())}: {each}"
        for file, page in pages.items()
        for each in _of(file, page, pages)
    ]
    return found + list(_styles(site))


def _of(file: Path, page: _Page, pages: dict[Path, _Page]) -> Iterator[str]:
    if file.name == "404.html":
        return  # a server shows it at any address, so its links are absolute
    for source in page.sources:
        parts = urlsplit(source)
        if parts.scheme or parts.netloc:
            yield f"loads {source}"
        elif not (file.parent / unquote(parts.path)).is_file():
            yield f"{source} is not there"
    yield from _links(file, page, pages)
    for text in page.texts:
        if line := _NOT_READ.search(text):
            yield f"not read as a list or table: {text[line.start() :].strip()[:80]}"


def _links(file: Path, page: _Page, pages: dict[Path, _Page]) -> Iterator[str]:
    for link in page.links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
        if not target.is_file():
            yield f"the link {link} leads nowhere"
        elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
            yield f"the anchor of {link} is not there"


def _styles(site: Path) -> Iterator[str]:
    for file in sorted(site.rglob("*.css")):
        for address in re.findall(r"url\(['\"]?(https?:[^'\")]+)", file.read_text()):
            yield f"{file.relative_to(site)}: loads {address}"
