"""What each action requires of the facts behind it, and the judgements about a cache."""

import re
from pathlib import Path

import pytest

from spindle.model import actions
from spindle.model.actions import Action, Evict
from spindle.model.freshness import TABLE, FactsRead, too_old
from spindle.model.watched import (
    COMPARED_SECONDS,
    answers,
    differences,
    missed,
    reaches,
    resumes,
)

EVICT = Evict(pod="p", uid="u", resource_version="1")


def every_action() -> list[type[Action]]:
    found = [each for each in vars(actions).values() if isinstance(each, type) and issubclass(each, Action)]
    return [each for each in found if each is not Action]


def test_every_action_has_an_entry_and_every_entry_an_action() -> None:
    assert set(TABLE) == set(every_action())


@pytest.mark.parametrize("kind", every_action(), ids=lambda kind: kind.__name__)
def test_no_action_is_decided_by_a_cache(kind: type[Action]) -> None:
    action = object.__new__(kind)
    assert too_old(action, FactsRead(listed=False, at=100.0), 100.0) is not None
    assert too_old(action, FactsRead(listed=True, at=100.0), 100.0) is None
    assert too_old(action, FactsRead(listed=True, at=100.0), 100.0 + TABLE[kind].seconds + 1) is not None


# What changes the cluster, and so needs the youngest facts, though no rule names it.
WITHOUT_A_RULE = {actions.RaiseFeatures}
# Not of single actions: unknown facts permit none of them, and what waits is told.
OF_ALL_ACTIONS = {8, 17}
YOUNGEST = TABLE[Evict].seconds


def test_whatever_a_rule_decides_needs_the_youngest_facts_and_nothing_else_does() -> None:
    strict = {kind for kind, needed in TABLE.items() if needed.seconds <= YOUNGEST}
    assert {kind for kind, needed in TABLE.items() if needed.rules} | WITHOUT_A_RULE == strict


def test_every_rule_decides_about_some_action() -> None:
    assert {rule for needed in TABLE.values() for rule in needed.rules} | OF_ALL_ACTIONS == set(range(1, 18))


def test_the_page_has_the_table() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/safety.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([\d, ]*) \| (\d+) s \|$", page, re.MULTILINE)
    strict = {kind: needed for kind, needed in TABLE.items() if needed.seconds <= YOUNGEST}
    assert rows == [
        (kind.__name__, ", ".join(map(str, needed.rules)), f"{needed.seconds:g}")
        for kind, needed in strict.items()
    ]


def test_an_action_without_an_entry_is_refused() -> None:
    class Other(Action):
        pass

    assert "no entry" in str(too_old(Other(), FactsRead(listed=True, at=0.0), 0.0))


def test_what_is_older_than_its_rule_permits_is_refused_with_its_age() -> None:
    assert too_old(EVICT, FactsRead(listed=True, at=0.0), TABLE[Evict].seconds) is None
    assert "201 s ago" in str(too_old(EVICT, FactsRead(listed=True, at=0.0), 201.0))


A, B, C = ("ns", "a"), ("ns", "b"), ("ns", "c")


def test_differences_are_new_gone_and_changed() -> None:
    assert differences({A: "1", B: "1"}, {B: "2", C: "1"}) == {A, B, C}
    assert differences({A: "1"}, {A: "1"}) == frozenset()


def test_only_what_the_watch_did_not_report_is_missed() -> None:
    before, listed = {A: "1", B: "1"}, {A: "2", C: "1"}
    assert missed(before, {A: "2", C: "1"}, listed) == frozenset()  # it reported all
    assert missed(before, {A: "3", C: "1"}, listed) == frozenset()  # and one change more
    assert missed(before, before, listed) == {A, B, C}
    assert missed(before, {A: "2", B: "1"}, listed) == {B, C}


@pytest.mark.parametrize(
    ("live", "silent", "known"),
    [(True, 0.0, True), (True, 90.0, True), (True, 91.0, False), (False, 0.0, False)],
)
def test_a_watch_that_is_silent_or_broken_proves_nothing(live: bool, silent: float, known: bool) -> None:
    assert answers(live=live, heard=100.0, compared=100.0, now=100.0 + silent) is known


def test_a_cache_that_is_not_compared_any_more_proves_nothing() -> None:
    now = 100.0 + COMPARED_SECONDS
    assert answers(live=True, heard=now, compared=100.0, now=now)
    assert not answers(live=True, heard=now + 1, compared=100.0, now=now + 1)


@pytest.mark.parametrize(
    ("held", "now_at", "silent", "on"),
    [
        pytest.param("50", "60", 0.0, True, id="it has more"),
        pytest.param("50", "50", 0.0, True, id="nothing happened"),
        pytest.param("50", "49", 0.0, False, id="restored from a backup"),
        pytest.param("50", "9", 0.0, False, id="compared as numbers"),
        pytest.param("50", "", 0.0, False, id="it does not say"),
        pytest.param("", "60", 0.0, False, id="nothing was read"),
        pytest.param("50", "60", 90.0, True, id="a short silence"),
        pytest.param("50", "60", 91.0, False, id="a long silence"),
    ],
)
def test_a_watch_goes_on_only_on_the_same_history(held: str, now_at: str, silent: float, on: bool) -> None:
    assert resumes(held=held, now_at=now_at, heard=100.0, now=100.0 + silent) is on


def test_a_version_that_is_older_than_what_is_known_is_not_enough() -> None:
    assert reaches("12", 12)
    assert reaches("100", 12)
    assert not reaches("9", 12)
    assert not reaches("", 0)
    assert not reaches("x1", 0)
