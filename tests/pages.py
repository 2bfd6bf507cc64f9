"""What pages of the manual ask a reader to type and to apply: command lines, and manifests or parts of them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES: Final = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "charts/spindle/README.md")),
    ROOT / "e2e/cluster/README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/reference").glob("*.md")),
)
# Kinds of parts of manifests, by their first key.
PARTS: Final = ("apiVersion", "spec", "brokerPools", "rules")
_FENCE: Final = re.compile(r"( *)```(\w*)")
_INLINE: Final = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_END: Final = re.compile(r"\s(?:\||>|&|&&)(?=\s|$)|\s#\s|\s{2,}(?=\S)")
# A word that stands for what the reader puts in its place, or for more of the same.
_PLACEHOLDER: Final = re.compile(r"\[.*\]|…")


@dataclass(frozen=True)
class Block:
    """A code block, fenced or indented.

    Attributes:
        place: the page and the number of its first line.
        language: as the fence says; empty if it says none.
        text: without the common indentation.
    """

    place: str
    language: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command line.

    Attributes:
        place: the page and the line.
        words: the program and its arguments.
        whole: it stands in a code block, so it can be run as it is. Within a sentence it may end early.
    """

    place: str
    words: tuple[str, ...]
    whole: bool


@cache
def blocks(page: Path) -> tuple[Block, ...]:
    """All code blocks of a page.

    Args:
        page: a file of Markdown.
    """
    return tuple(_blocks(page.read_text().splitlines(), str(page.relative_to(ROOT))))


def _blocks(lines: list[str], name: str) -> Iterator[Block]:
    at = 0
    while at < len(lines):
        start = at + 1
        if fence := _FENCE.match(lines[at]):
            at = start
            while not lines[at].lstrip().startswith("```"):
                at += 1
            language, inside = fence[2], lines[start:at]
            start += 1
        elif lines[at].startswith("    ") and (at == 0 or not lines[at - 1].strip()):
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            language, inside = "", lines[start - 1 : at]
            at -= 1
        else:
            at += 1
            continue
        at += 1
        least = min((len(line) - len(line.lstrip()) for line in inside if line.strip()), default=0)
        yield Block(f"{name}:{start}", language, "\n".join(line[least:] for line in inside).rstrip())


def commands(*programs: str) -> list[Command]:
    """All command lines of all pages that begin with one of these programs.

    Args:
        programs: names without a folder.
    """
    return [each for page in PAGES for each in _commands(page) if each.words[0] in programs]


@cache
def _commands(page: Path) -> tuple[Command, ...]:
    found = []
    for block in blocks(page):
        name, _, first = block.place.rpartition(":")
        # The other way stands behind the first: "this   # or: that".
        found += [
            Command(f"{name}:{number}", words, whole=True)
            for number, line in _joined(block.text, int(first))
            for part in line.removeprefix("$ ").split("# or: ")
            if (words := _words(part))
        ]
    name = str(page.relative_to(ROOT))
    found += [
        Command(f"{name}:{number}", words, whole=False)
        for number, line in enumerate(page.read_text().splitlines(), 1)
        for code in _INLINE.findall(line)
        if " " in code and (words := _words(code))
    ]
    return tuple(found)


def _joined(text: str, number: int) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; a line that ends with a backslash goes on with the next."""
    begun: tuple[int, str] | None = None
    for at, line in enumerate(text.splitlines(), number):
        first, before = begun or (at, "")
        begun = None
        if line.endswith("\\"):
            begun = first, f"{before}{line[:-1].strip()} "
        else:
            yield first, f"{before}{line.strip()}" if before else line


def _words(line: str) -> tuple[str, ...]:
    # A description begins after two spaces, and what follows a pipe or an ampersand is for the shell.
    end = _END.search(line)
    try:
        words = shlex.split(line[: end.start()] if end else line, comments=True)
    except ValueError:  # prose with an apostrophe
        return ()
    return tuple(word for word in words if not _PLACEHOLDER.fullmatch(word))


@dataclass(frozen=True)
class Manifest:
    """A manifest, or a part of one.

    Attributes:
        place: the page and the number of its first line.
        content: what it says.
        part: its first key, of ``PARTS``.
    """

    place: str
    content: dict[str, Any]
    part: str


def manifests() -> list[Manifest]:
    """All manifests and parts of manifests in code blocks of all pages."""
    found = []
    for page in PAGES:
        for block in blocks(page):
            if not _is_part(block):
                continue
            found += [
                Manifest(block.place, each, next(iter(each)))
                for each in yaml.safe_load_all(block.text)
                if each is not None
            ]
    return found


def other_yaml() -> list[str]:
    """Where a block is marked as YAML and is neither a manifest nor a part that a test knows, such as ``spec:`` of a KafkaCluster."""
    return [
        block.place
        for page in PAGES
        for block in blocks(page)
        if block.language in {"yaml", "yml"} and not _is_part(block)
    ]


def _is_part(block: Block) -> bool:
    return block.text.partition(":")[0] in PARTS


def whole_cluster(part: Manifest) -> dict[str, Any]:
    """A KafkaCluster with a part of a page: the smallest example with these fields instead of its own.

    Args:
        part: ``spec`` or ``brokerPools``.
    """
    cluster: dict[str, Any] = yaml.safe_load((ROOT / "examples/quickstart.yaml").read_text())
    spec = part.content["spec"] if part.part == "spec" else part.content
    pools = spec.get("brokerPools")
    base = cluster["spec"]["brokerPools"][0]
    cluster["spec"] |= spec
    cluster["spec"]["controllers"] = {"replicas": 3, "storage": {"size": "1Gi"}} | spec.get("controllers", {})
    if pools:
        cluster["spec"]["brokerPools"] = [base | pool for pool in pools]
    return cluster
