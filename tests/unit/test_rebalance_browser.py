"""The report as a browser shows it. Skipped only where there is no browser."""

from pathlib import Path

import pytest

from e2e.browser import browser, shown
from tests.unit.balance_samples import skewed
from tests.unit.test_rebalance_report import findings, page

PROGRAM = browser() or ""

pytestmark = pytest.mark.skipif(not PROGRAM, reason="there is no browser")


def test_no_request_leaves_the_page_in_a_browser(tmp_path: Path) -> None:
    dom, asked = shown(PROGRAM, page(skewed(), findings()), tmp_path)

    assert "ns/demo: Proposed" in dom
    assert "<svg" in dom
    assert (tmp_path / "page.png").stat().st_size > 20_000
    assert asked == []


def test_a_page_that_asks_for_something_would_be_seen(tmp_path: Path) -> None:
    _, asked = shown(PROGRAM, '<!doctype html><img src="/picture.png">', tmp_path)

    assert any(each.endswith("/picture.png") for each in asked)
