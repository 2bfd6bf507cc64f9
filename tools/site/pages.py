"""The pages of the site: those of ``docs``, which can also be read as they are in the repository.

A link on the site leads to something on the site. So the files outside of ``docs`` that pages link to are part of it: Markdown and
manifests as pages, everything else as text. The order of the pages is in ``zensical.toml``.
"""

import os
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tools.site.markdown import outside_code, with_wide_lists, without_diagrams

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
CONFIG: Final = ROOT / "zensical.toml"
# Files from outside of docs/ are below this folder of the site.
_FILES: Final = "files"
_ALWAYS: Final = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "charts/spindle/README.md",
    "e2e/cluster/README.md",
)
_LINK: Final = re.compile(r"(?<=\]\()(?![a-z]+:)([^)#\s]+)((?:#[^)\s]*)?\))")


def prepare(into: Path) -> str:
    """Write all pages, and return the configuration with their navigation.

    Args:
        into: the folder, which is emptied before.
    """
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(DOCS, into)
    (into / "adr/README.md").write_text(_decisions())
    waiting = [DOCS / file.relative_to(into) for file in into.rglob("*.md")]
    waiting += [ROOT / name for name in _ALWAYS]
    waiting += sorted((ROOT / "examples").rglob("*.yaml"))
    seen = set(waiting)
    while waiting:
        file = waiting.pop()
        target = into / place(file)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = target.read_text() if target.is_file() else file.read_text()
        if file.suffix == ".md":
            text, linked = relink(text, file)
            text = with_wide_lists(without_diagrams(text))
            waiting += linked - seen
            seen |= linked
        elif file.suffix == ".yaml":
            text = _manifest(file, text)
        target.write_text(text)
    return _config(into)


def place(file: Path) -> Path:
    """Where a file of the repository is on the site.

    Args:
        file: an absolute path.
    """
    if file.is_relative_to(DOCS):
        return file.relative_to(DOCS)
    inside = Path(_FILES) / file.relative_to(ROOT)
    if file.suffix == ".md":
        return inside
    # Browsers show text and offer to save what they do not know.
    return inside.with_name(f"{inside.name}{'.md' if file.suffix == '.yaml' else '.txt'}")


def relink(text: str, page: Path) -> tuple[str, set[Path]]:
    """The text of a page with the links as they are on the site, and the files outside of ``docs`` that it links to.

    Args:
        text: Markdown.
        page: its file in the repository.
    """
    linked: set[Path] = set()
    own = place(page).parent

    def replace(found: re.Match[str]) -> str:
        file = Path(os.path.normpath(page.parent / found[1]))
        if file.is_dir():
            file = DOCS / "examples.md" if file == ROOT / "examples" else file / "README.md"
        if file.is_relative_to(DOCS):
            return f"{os.path.relpath(file.relative_to(DOCS), own)}{found[2]}"
        if not file.is_file():
            return found[0]  # the generator says that it leads nowhere
        linked.add(file)
        return f"{os.path.relpath(place(file), own)}{found[2]}"

    return outside_code(text, lambda line: _LINK.sub(replace, line)), linked


def pages_of(nav: list[Any]) -> Iterator[str]:
    """The paths that a navigation names, in its order.

    Args:
        nav: paths, or objects with one key, the title of a path or of a navigation.
    """
    for entry in nav:
        value = next(iter(entry.values())) if isinstance(entry, dict) else entry
        if isinstance(value, list):
            yield from pages_of(value)
        else:
            yield value


def expanded(nav: list[Any], pages: Path) -> list[Any]:
    """A navigation with the pages of each folder that it names.

    Args:
        nav: as in ``pages_of``.
        pages: the folder with all pages.
    """
    full: list[Any] = []
    for entry in nav:
        if isinstance(entry, dict):
            full += [
                {title: expanded(value, pages) if isinstance(value, list) else value}
                for title, value in entry.items()
            ]
        elif entry.endswith("/"):
            below = sorted(
                str(file.relative_to(pages))
                for file in (pages / entry).rglob("*.md")
                if file.name != "README.md"
            )
            index = [f"{entry}README.md"] if (pages / entry / "README.md").exists() else []
            full += index + below
        else:
            full.append(entry)
    return full


def _config(pages: Path) -> str:
    """The configuration for the generator: that of the repository with the whole navigation and folders relative to ``build``."""
    text = CONFIG.read_text()
    nav = expanded(tomllib.loads(text)["project"]["nav"], pages)
    head, rest = text.split("nav = [\n", 1)
    rest = rest.split("\n]\n", 1)[1]
    return f"{head.replace('build/', '')}nav = {_toml(nav)}\n{rest}"


def _toml(nav: list[Any]) -> str:
    return f"[{', '.join(_entry(each) for each in nav)}]"


def _entry(entry: Any) -> str:
    if isinstance(entry, str):
        return f'"{entry}"'
    ((title, value),) = entry.items()
    return f'{{ "{title}" = {_toml(value) if isinstance(value, list) else _entry(value)} }}'


def _decisions() -> str:
    """A page that lists the decisions, as the folder does for those who read it in the repository."""
    lines = ["# Decisions\n", "| | decision |", "| --- | --- |"]
    for file in sorted((DOCS / "adr").glob("[0-9]*.md")):
        number, title = file.read_text().split("\n", 1)[0].removeprefix("# ").split(". ", 1)
        lines.append(f"| {number} | [{title}]({file.name}) |")
    return "\n".join(lines) + "\n"


def _manifest(file: Path, text: str) -> str:
    """A page that shows a manifest."""
    name = file.relative_to(ROOT)
    return f"# {name}\n\n```yaml\n{text}```\n"
