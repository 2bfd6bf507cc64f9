"""The life of a disk, step by step and as a table."""

from dataclasses import replace

import pytest

from spindle.api.enums import DiskState
from spindle.disks.health import Health
from spindle.disks.lifecycle import MEANINGS, TRANSITIONS, TRIGGERS, DiskFacts, initial, step
from spindle.model import disk_facts
from tools.disk_life import disk_life_page

S = DiskState
WELL = Health(verdict="Healthy", since=0.0, fresh=True)
BAD = Health(verdict="Failed", reason="ProbeError", since=0.0, fresh=True)
STALE = replace(BAD, fresh=False)
USED = DiskFacts(health=WELL, online=True, empty=False, out=False)
OUT = DiskFacts(health=BAD, mode=disk_facts.ABSENT, empty=True, out=True)


def life(state: DiskState, *seen: DiskFacts) -> list[str]:
    """Reasons of the transitions, as far as each look leads."""
    said = []
    for each in seen:
        while (row := step(state, each)) is not None:
            said.append(row.reason)
            state = row.target
    return [*said, state.value]


def test_a_disk_fails_and_is_replaced() -> None:
    failed = replace(USED, health=BAD, online=False)
    emptying = replace(failed, may_empty=True)
    new = replace(OUT, health=WELL, new_disk=True)
    assert life(
        S.ACTIVE,
        USED,
        failed,
        emptying,
        replace(emptying, empty=True),
        OUT,
        replace(OUT, health=WELL),
        new,
        replace(new, mode=disk_facts.ACTIVE, new_disk=False),
        USED,
        replace(USED, backfilled=True),
    ) == [
        "DiskFailed",
        "EvacuationStarted",
        "DiskEvacuated",
        "DiskReplaced",
        "BackfillStarted",
        "BackfillCompleted",
        "Active",
    ]


def test_a_disk_that_is_well_again_goes_on() -> None:
    failed = replace(USED, health=BAD, online=False)
    placeholder = replace(failed, mode=disk_facts.PLACEHOLDER, health=WELL)
    assert life(S.ACTIVE, failed, placeholder, USED) == ["DiskFailed", "DiskRecovered", "Active"]


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(replace(USED, health=STALE), id="silent-agent"),
        pytest.param(replace(USED, health=Health(verdict="Unknown", since=0.0)), id="nobody-knows"),
        pytest.param(replace(USED, health=replace(WELL, verdict="Suspect")), id="suspect"),
        pytest.param(replace(USED, health=Health(verdict="Slow", since=0.0)), id="slow-of-old"),
    ],
)
def test_what_is_not_sure_changes_nothing(seen: DiskFacts) -> None:
    assert step(S.ACTIVE, seen) is None


@pytest.mark.parametrize(
    ("health", "mode", "after"),
    [
        pytest.param(BAD, disk_facts.ACTIVE, "Failed", id="dead"),
        pytest.param(
            replace(BAD, verdict="Missing"), disk_facts.ACTIVE, "Provisioning", id="not-mounted-yet"
        ),
        pytest.param(
            replace(BAD, verdict="Swapped"), disk_facts.ACTIVE, "Provisioning", id="not-the-right-one"
        ),
        pytest.param(replace(BAD, verdict="Missing"), disk_facts.PLACEHOLDER, "Failed", id="taken-out"),
        pytest.param(STALE, disk_facts.ACTIVE, "Provisioning", id="not-sure"),
    ],
)
def test_a_new_disk_fails_only_if_it_answers_badly(health: Health, mode: str, after: str) -> None:
    assert life(S.PROVISIONING, DiskFacts(health=health, mode=mode, online=False))[-1] == after


def test_not_emptied_while_that_is_not_allowed() -> None:
    assert step(S.FAILED, replace(USED, health=BAD, online=False)) is None


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(replace(OUT, empty=None), id="not-known-whether-empty"),
        pytest.param(replace(OUT, out=None), id="not-known-whether-out"),
        pytest.param(replace(OUT, mode=disk_facts.PLACEHOLDER), id="still-owed-a-place"),
        pytest.param(replace(OUT, empty=False), id="not-empty"),
    ],
)
@pytest.mark.parametrize("state", [S.EVACUATING, S.DRAINING])
def test_not_safe_to_pull_before_it_surely_is(state: DiskState, seen: DiskFacts) -> None:
    row = step(state, seen)
    assert row is None or row.target not in (S.EVACUATED, S.DRAINED)


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        pytest.param(replace(USED, cordon_requested=True), "CordonRequested", id="wished"),
        pytest.param(replace(USED, backfilling=True), "DiskUsageHigh", id="filling"),
        pytest.param(replace(USED, health=replace(WELL, verdict="Slow")), "DiskSlow", id="slow"),
    ],
)
def test_cordoned_as_long_as_there_is_a_cause(cause: DiskFacts, reason: str) -> None:
    assert life(S.ACTIVE, cause, cause, USED) == [reason, "Uncordoned", "Active"]


def test_drained_by_wish_and_taken_back() -> None:
    wished = replace(USED, drain_requested=True)
    away = replace(OUT, health=WELL, drain_requested=True)
    back = replace(OUT, health=WELL)
    assert life(S.ACTIVE, wished, away, back, USED, replace(USED, backfilled=True)) == [
        "DrainRequested",
        "DiskDrained",
        "DrainCancelled",
        "BackfillCompleted",
        "Active",
    ]


def test_an_added_disk_joins_and_is_filled() -> None:
    waiting = DiskFacts(health=WELL, mode=disk_facts.ABSENT, added=True, empty=True, out=True)
    joined = replace(USED, added=True)
    assert life(S.PROVISIONING, waiting, joined, replace(USED, backfilled=True)) == [
        "BackfillStarted",
        "BackfillCompleted",
        "Active",
    ]


def test_an_added_disk_that_no_pod_has_yet_does_not_fail() -> None:
    waiting = DiskFacts(health=BAD, mode=disk_facts.ABSENT, added=True, empty=True, out=True)
    assert initial(waiting) is S.PROVISIONING
    assert life(S.PROVISIONING, waiting) == ["Provisioning"]
    assert life(S.PROVISIONING, replace(waiting, mode=disk_facts.ACTIVE)) == ["DiskFailed", "Failed"]


def test_a_disk_that_dies_while_it_is_drained_ends_drained() -> None:
    wished = replace(USED, drain_requested=True)
    dying = replace(wished, health=BAD, online=False, may_empty=True)
    assert life(S.ACTIVE, wished, dying, replace(OUT, drain_requested=True)) == [
        "DrainRequested",
        "DiskFailed",
        "EvacuationStarted",
        "DiskEvacuated",
        "DiskDrained",
        "Drained",
    ]


def test_a_disk_that_leaves_the_spec_is_removed_last() -> None:
    leaving = replace(USED, removing=True)
    away = replace(OUT, health=WELL, removing=True)
    assert life(S.CORDONED, leaving, away, replace(away, released=True)) == [
        "DiskRemovalStarted",
        "DiskDrained",
        "DiskRemoved",
        "Removed",
    ]


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        pytest.param(USED, S.ACTIVE, id="in-use"),
        pytest.param(replace(USED, online=False), S.PROVISIONING, id="not-yet"),
        pytest.param(replace(USED, online=None), S.PROVISIONING, id="not-known"),
        pytest.param(replace(OUT, mode=disk_facts.PLACEHOLDER), S.FAILED, id="placeholder"),
        pytest.param(OUT, S.EVACUATED, id="absent"),
        pytest.param(replace(OUT, drain_requested=True), S.DRAINED, id="absent-by-wish"),
    ],
)
def test_a_lost_status_is_found_again(seen: DiskFacts, state: DiskState) -> None:
    assert initial(seen) is state


def test_the_table_is_whole() -> None:
    assert set(MEANINGS) == set(S)
    assert {row.trigger for row in TRANSITIONS} == set(TRIGGERS)
    assert all(row.source is not row.target for row in TRANSITIONS)
    assert len({(row.source, row.trigger) for row in TRANSITIONS}) == len(TRANSITIONS)
    assert all(row.reason.isalnum() and row.sentence.endswith((".", "pull.")) for row in TRANSITIONS)


def test_every_state_is_reached_and_only_a_removed_disk_has_no_future() -> None:
    after = {state: {row.target for row in TRANSITIONS if row.source is state} for state in S}

    def reached(state: DiskState) -> set[DiskState]:
        found, open_ = {state}, [state]
        while open_:
            for target in after[open_.pop()] - found:
                found.add(target)
                open_.append(target)
        return found

    assert reached(S.PROVISIONING) == set(S)
    assert [state for state in S if not after[state]] == [S.REMOVED]
    for state in set(S) - {S.REMOVED}:
        assert {S.ACTIVE, S.REMOVED} <= reached(state), state


def test_every_row_is_in_the_manual() -> None:
    page = disk_life_page()
    for row in TRANSITIONS:
        assert f"| `{row.source}` | {row.trigger} | `{row.target}` | `{row.reason}` |" in page
        arrows = [
            line for line in page.splitlines() if line.startswith(f"    {row.source} --> {row.target}: ")
        ]
        assert len(arrows) == 1
        assert row.trigger in arrows[0]
