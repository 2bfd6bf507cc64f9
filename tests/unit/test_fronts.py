"""Programs import of a package of the core only the modules that the package names in ``FRONT``; of `spindle.api`, which describes the resources, all."""

import ast
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = sorted(path.parent.name for path in (ROOT / "core/spindle").glob("*/__init__.py"))
PROGRAMS = ("operator", "agent", "rebalance", "cli")


@cache
def imported() -> frozenset[tuple[str, str, str]]:
    """Package, module, and the file that imports it."""
    return frozenset(_imported())


def _imported() -> Iterator[tuple[str, str, str]]:
    for program in PROGRAMS:
        for path in sorted((ROOT / program).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                for module in _modules(node):
                    _, package, *rest = module.split(".")
                    if rest:
                        yield package, rest[0], str(path.relative_to(ROOT))


def _modules(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
        names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    else:
        return
    for name in names:
        path = ROOT / "core" / Path(*name.split("."))
        if name.startswith("spindle.") and (path.with_suffix(".py").is_file() or path.is_dir()):
            yield name


def front(package: str) -> tuple[str, ...]:
    return tuple(getattr(import_module(f"spindle.{package}"), "FRONT", ()))


def test_programs_import_only_fronts() -> None:
    found = {each for each in imported() if each[0] != "api" and each[1] not in front(each[0])}
    assert not found, "add the module to FRONT in its package's __init__.py, or use one that is there"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_front_names_only_what_a_program_imports(package: str) -> None:
    used = {module for each, module, _ in imported() if each == package}
    assert set(front(package)) <= used
    assert list(front(package)) == sorted(front(package))
