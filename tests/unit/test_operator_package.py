"""The folder ``operator`` must stay no package."""

import operator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_standard_librarys_operator_is_not_shadowed() -> None:
    # With operator/__init__.py, whatever runs from the checkout imports our folder for the standard library's module.
    assert not (ROOT / "operator" / "__init__.py").exists()
    assert operator.eq(1, 1)
