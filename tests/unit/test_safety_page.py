"""``docs/safety.md`` names functions, files and tests that exist, and every number that code and pages quote."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/safety.md"
RULES = range(1, 18)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+)\)")


def _sections() -> dict[int, str]:
    """Each rule's part of the page."""
    parts = re.split(r'^<a id="rule-(\d+)"></a>$', PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(map(int, parts[1::2]), parts[2::2], strict=True))


def _functions(text: str) -> Iterator[tuple[str, Path]]:
    """Functions that a text names, with the files that it links them to."""
    for shown, target in _LINK.findall(text):
        if shown.startswith("`spindle"):
            yield shown.strip("`"), (PAGE.parent / target).resolve()


def _found(name: str) -> Any:
    """What a dotted name stands for."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def _defined(file: Path) -> set[str]:
    """Tests in a file, those in classes included."""
    nodes = ast.walk(ast.parse(file.read_text()))
    return {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}


def _names() -> dict[int, str]:
    """The table at the top of the page."""
    rows = re.findall(r"^\| (\d+) \| \[([^\]]+)\]\(#rule-\1\) \|$", PAGE.read_text(), re.MULTILINE)
    return {int(number): name for number, name in rows}


def test_every_rule_has_a_part_and_a_line_in_the_table() -> None:
    headings = {number: text.split("\n\n## ", 1)[1].split("\n", 1)[0] for number, text in _sections().items()}
    assert list(headings) == list(RULES)
    assert _names() == headings


@pytest.mark.parametrize("rule", RULES)
def test_its_functions_are_where_the_page_says(rule: int) -> None:
    named = list(_functions(_sections()[rule]))
    assert named
    for name, file in named:
        found = inspect.unwrap(_function(name))
        assert Path(inspect.getsourcefile(found) or "") == file, name


def _function(name: str) -> Any:
    found = _found(name)
    return found.fget if isinstance(found, property) else found


@pytest.mark.parametrize("rule", RULES)
def test_its_proofs_exist(rule: int) -> None:
    proofs = [line for line in _sections()[rule].splitlines() if line.startswith("| ") and "](" in line]
    assert proofs
    for line in proofs:
        files = [(PAGE.parent / target).resolve() for _, target in _LINK.findall(line)]
        assert [file for file in files if not file.exists()] == []
        there = {name for file in files if file.suffix == ".py" for name in _defined(file)}
        assert set(re.findall(r"`(test_\w+)`", line)) - there == set()


def test_refusals_quote_rules_of_the_page() -> None:
    quoted = {
        keyword.value.value
        for path in (ROOT / "core").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "Waiting.refused"
        for keyword in call.keywords
        if keyword.arg == "rule" and isinstance(keyword.value, ast.Constant)
    } - {None}
    assert quoted
    assert quoted <= set(RULES)


def test_pages_cite_a_rule_by_its_name_and_link_to_it() -> None:
    """A reader does not know the numbers: the text of a link is the rule's name, and no page gives a number alone."""
    names = _names()
    pages = [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "e2e").rglob("*.md"),
    ]
    numbers, other = [], []
    for page in pages:
        if page == PAGE:
            continue
        text = page.read_text()
        where = str(page.relative_to(ROOT))
        numbers += [f"{where}: {found[0]}" for found in re.finditer(r"\b[Rr]ules? \d+\b", text)]
        other += [
            f"{where}: [{shown}] is not {names[int(n)]!r}"
            for shown, n in re.findall(r"\[([^\]]+)\]\([^)]*safety\.md#rule-(\d+)\)", text)
            if shown.replace("`", "").lower() != names[int(n)].lower()
        ]

    assert numbers == []
    assert other == []
