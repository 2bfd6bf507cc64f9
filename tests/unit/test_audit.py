from typing import Any

import pytest

from tools import audit

CLEAN = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}
SKIPPED = {"name": "c", "skip_reason": "Dependency not found on PyPI and could not be audited: c (4)"}


@pytest.mark.parametrize(
    ("told", "code"),
    [
        pytest.param([CLEAN], audit.CLEAN, id="all were looked up"),
        pytest.param([CLEAN, BAD, SKIPPED], audit.VULNERABLE, id="one is vulnerable"),
        pytest.param([CLEAN, SKIPPED], audit.UNKNOWN, id="one was left out"),
        pytest.param([], audit.UNKNOWN, id="nothing was looked at"),
    ],
)
def test_what_was_not_looked_up_is_no_pass(told: list[dict[str, Any]], code: int) -> None:
    assert audit.verdict({"dependencies": told}).code == code


def test_it_says_what_is_vulnerable_and_what_was_not_checked() -> None:
    lines = audit.verdict({"dependencies": [BAD, SKIPPED]}).lines
    assert lines[:2] == (
        "b 2: PYSEC-1, fixed in 3",
        "1 of 2 packages were looked up, vulnerable: 1",
    )
    assert lines[2] == "NOT CHECKED: c"
