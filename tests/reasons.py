"""Reasons to wait that the code writes out: the manual and the simulated person know each of them."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def reasons() -> set[str]:
    """Those in calls of `Waiting` and `Waiting.refused`, of all of core."""
    return {
        reason for path in (ROOT / "core").rglob("*.py") for reason in _reasons(ast.parse(path.read_text()))
    }


def _reasons(tree: ast.AST) -> Iterator[str]:
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        found: list[ast.expr] = []
        called = ast.unparse(call.func)
        if called == "Waiting":
            found = call.args[2:3]
        elif called == "Waiting.refused":
            found = [each.value for each in call.keywords if each.arg == "reason"]
        yield from (
            each.value for each in found if isinstance(each, ast.Constant) and isinstance(each.value, str)
        )
