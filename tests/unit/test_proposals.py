"""The life of a proposal: every state, every refusal, windows and approval."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.api.engine import Window
from spindle.api.enums import ProposalPhase
from spindle.api.policy import Rebalance
from spindle.proposals.approval import approval, seconds_needed
from spindle.proposals.duration import allowed, carried_out, too_long
from spindle.proposals.lifecycle import TRANSITIONS, TRIGGERS, ProposalFacts, ProposalProblem, next_step
from spindle.proposals.move_states import read_move_states
from spindle.proposals.proposal import read_proposal
from spindle.proposals.windows import WindowState, window_state
from tests.unit.proposal_samples import D0, D1, HASH, in_journal, move, rebalance

TROUBLE = ProposalProblem("DiskFailureHasPriority", "1 disk failed.", "It is evacuated.")
CLOSED = WindowState(open=False, at=100.0)


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("facts", "phase", "reason"),
    [
        pytest.param(
            ProposalFacts(phase=ProposalPhase.PROPOSED),
            "Proposed",
            "ApprovalRequired",
            id="nobody approved it",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.PROPOSED, approved_by="person"),
            "Executing",
            "Executing",
            id="a person approves",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.PROPOSED, approved_by="rule"),
            "Executing",
            "Executing",
            id="a rule approves",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.PROPOSED, approved_by="person", window=CLOSED),
            "Approved",
            "MaintenanceWindowClosed",
            id="approved, and not yet begun",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.PROPOSED, approved_by="person", expired=True),
            "Expired",
            "Expired",
            id="approved late",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.APPROVED, approved_by="person", expired=True),
            "Expired",
            "Expired",
            id="never begun",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.APPROVED, approved_by="person", newer="other"),
            "Superseded",
            "Superseded",
            id="a newer one",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.APPROVED),
            "Proposed",
            "ApprovalRequired",
            id="approval taken back",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.APPROVED, approved_by="person", executing="other"),
            "Approved",
            "AnotherProposalExecuting",
            id="another one is finished first",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.APPROVED, approved_by="person", obstacle=TROUBLE),
            "Approved",
            "DiskFailureHasPriority",
            id="a disk failed before",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.APPROVED, approved_by="person", window=CLOSED),
            "Approved",
            "MaintenanceWindowClosed",
            id="no window",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.APPROVED, approved_by="person"),
            "Executing",
            "Executing",
            id="nothing is in its way",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.PROPOSED, stop=True),
            "Stopped",
            "StoppedByUser",
            id="stopped before",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.PROPOSED, problem="spec.moves: nonsense"),
            "Failed",
            "InvalidProposal",
            id="nonsense",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.EXECUTING, approved_by="person", waiting=1),
            "Executing",
            "Executing",
            id="goes on",
        ),
        pytest.param(
            ProposalFacts(
                phase=ProposalPhase.EXECUTING, approved_by="person", waiting=1, expired=True, newer="other"
            ),
            "Executing",
            "Executing",
            id="what was begun in time is finished",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.EXECUTING, approved_by="person", waiting=1, stop=True),
            "Stopped",
            "StoppedByUser",
            id="stopped",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.EXECUTING, began_by="person", waiting=1),
            "Stopped",
            "ApprovalWithdrawn",
            id="approval withdrawn",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.EXECUTING, began_by="rule", waiting=1),
            "Executing",
            "Executing",
            id="approved by a rule that was taken back",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.EXECUTING, approved_by="person", waiting=1, obstacle=TROUBLE),
            "Executing",
            "DiskFailureHasPriority",
            id="a disk fails, and may be well again",
        ),
        pytest.param(
            ProposalFacts(
                phase=ProposalPhase.EXECUTING,
                approved_by="person",
                waiting=1,
                obstacle=replace(TROUBLE, lasts=True),
            ),
            "Stopped",
            "DiskFailureHasPriority",
            id="a disk is being emptied",
        ),
        pytest.param(
            ProposalFacts(
                phase=ProposalPhase.EXECUTING,
                approved_by="person",
                waiting=1,
                obstacle=TROUBLE,
                troubled=1800.0,
            ),
            "Stopped",
            "DiskFailureHasPriority",
            id="a trouble that lasts",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.EXECUTING, approved_by="person", waiting=1, window=CLOSED),
            "Executing",
            "MaintenanceWindowClosed",
            id="the window closes",
        ),
        pytest.param(
            ProposalFacts(
                phase=ProposalPhase.EXECUTING, approved_by="rule", waiting=1, moving=1, too_long="x"
            ),
            "Executing",
            "MaxDurationExceeded",
            id="its time is over, and something is in motion",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.EXECUTING, approved_by="rule", waiting=1, done=1, too_long="x"),
            "Stopped",
            "MaxDurationExceeded",
            id="its time is over",
        ),
        pytest.param(
            ProposalFacts(
                phase=ProposalPhase.EXECUTING, approved_by="rule", leading=1, moving=1, too_long="x"
            ),
            "Executing",
            "Executing",
            id="its time is over when all of it has begun",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.EXECUTING, approved_by="person", done=2, dropped=1),
            "Done",
            "Done",
            id="done",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.EXECUTING, approved_by="person", done=2, obstacle=TROUBLE),
            "Done",
            "Done",
            id="done in spite of trouble",
        ),
        pytest.param(
            ProposalFacts(phase=ProposalPhase.EXECUTING, approved_by="person", dropped=3),
            "Failed",
            "NoMovesLeft",
            id="nothing of it held",
        ),
    ],
)
def test_each_step_of_the_life(facts: ProposalFacts, phase: str, reason: str) -> None:
    found = next_step(facts)

    assert (found.phase, found.reason) == (phase, reason)
    assert found.message


@pytest.mark.parametrize("phase", [each for each in ProposalPhase if each.over])
def test_what_is_over_stays_over(phase: ProposalPhase) -> None:
    facts = ProposalFacts(phase=phase, approved_by="person", stop=True, expired=True, waiting=3, problem="x")

    assert next_step(facts).phase is phase


@given(st.lists(st.sampled_from(".>+-"), max_size=30), st.integers(0, 20), st.booleans())
def test_what_is_told_of_moves_adds_up_to_all_of_them(marks: list[str], leading: int, stop: bool) -> None:
    facts = ProposalFacts(
        phase=ProposalPhase.EXECUTING,
        approved_by="person",
        stop=stop,
        waiting=marks.count(".") + 1,  # one at least, so that it is not over
        moving=marks.count(">"),
        done=marks.count("+"),
        dropped=marks.count("-"),
        leading=leading,
    )
    said = next_step(facts).message

    told = {what: int(n) for n, what in re.findall(r"(\d+)(?: moves?)? (done|dropped|not done)", said)}
    assert sum(told.values()) == len(marks) + 1, said
    assert ("not yet led" in said) == bool(leading)


def test_leaders_that_are_waited_for_are_no_moves() -> None:
    facts = ProposalFacts(phase=ProposalPhase.EXECUTING, approved_by="person", waiting=8, done=10, leading=4)

    assert next_step(facts).message == "10 moves done, 8 not done, 4 partitions not yet led as planned."
    assert (
        next_step(replace(facts, waiting=0, done=18)).message
        == "18 moves done, 4 partitions not yet led as planned."
    )


def window(start: str, minutes: int) -> Window:
    return Window(start=start, duration_minutes=minutes)


@pytest.mark.parametrize(
    ("windows", "now", "wanted"),
    [
        pytest.param([], "2026-09-21T12:00", WindowState(open=True), id="none: always"),
        pytest.param(
            [window("0 22 * * *", 120)],
            "2026-09-21T22:00",
            WindowState(open=True, at=at("2026-09-22T00:00")),
            id="begins",
        ),
        pytest.param(
            [window("0 22 * * *", 120)],
            "2026-09-21T23:59",
            WindowState(open=True, at=at("2026-09-22T00:00")),
            id="last minute",
        ),
        pytest.param(
            [window("0 22 * * *", 120)],
            "2026-09-22T00:00",
            WindowState(open=False, at=at("2026-09-22T22:00")),
            id="over",
        ),
        pytest.param(
            [window("0 22 * * 1-5", 600)],
            "2026-09-26T07:00",  # Saturday morning
            WindowState(open=True, at=at("2026-09-26T08:00")),
            id="over midnight into a day of its own",
        ),
        pytest.param(
            [window("0 1 * * *", 60), window("@daily", 120)],
            "2026-09-21T01:30",
            WindowState(open=True, at=at("2026-09-21T02:00")),
            id="the longest that is open",
        ),
    ],
)
def test_windows(windows: list[Window], now: str, wanted: WindowState) -> None:
    assert window_state(windows, at(now)) == wanted


@pytest.mark.parametrize("start", ["61 * * * *", "0 22 31 2 *"])
def test_a_window_that_is_no_time_never_opens_and_says_so(start: str) -> None:
    found = window_state([window(start, 60)], at("2026-09-21T12:00"))

    assert not found.open
    assert "spec.rebalance.windows[0].start" in found.problem
    assert start in found.problem


MOVES = (
    move(0, (0, D0), (2, D1), size=600),
    move(1, (1, D0), (2, D1), size=300),
    move(2, (1, D0), (1, D1), size=500),
)


@pytest.mark.parametrize(
    ("rules", "spec", "by", "says"),
    [
        pytest.param({}, {}, None, "", id="manual, not approved"),
        pytest.param({}, {"approved": HASH}, "person", "", id="by its hash"),
        pytest.param({}, {"approved": "f" * 16}, None, "is not the hash", id="by another hash"),
        pytest.param({"approval": "auto"}, {}, "rule", "", id="auto without bounds"),
        pytest.param({"approval": "auto", "maxBytes": "2Mi"}, {}, "rule", "", id="within maxBytes"),
        pytest.param(
            {"approval": "auto", "maxDurationMinutes": 1},
            {},
            None,
            "takes at least 2 minutes",
            id="takes too long",
        ),
        pytest.param(
            {"approval": "auto", "maxDurationMinutes": 1}, {"approved": HASH}, "person", "", id="a person may"
        ),
    ],
)
def test_who_approves(rules: dict[str, Any], spec: dict[str, Any], by: str | None, says: str) -> None:
    found = approval(read_proposal(rebalance(*MOVES, **spec)), Rebalance.model_validate(rules), 10)

    assert found.by == by
    assert says in found.why_not
    assert bool(found.why_not) == bool(says)


def test_what_costs_more_than_the_rules_allow_is_left_to_a_person() -> None:
    big = rebalance(move(0, (0, D0), (2, D1), size=3 * 2**20), cost={"bytesInter": 1, "moves": 1})
    found = approval(
        read_proposal(big), Rebalance.model_validate({"approval": "auto", "maxBytes": "2Mi"}), 10
    )

    assert found.by is None
    assert "maxBytes (2Mi)" in found.why_not


def test_the_busiest_broker_says_how_long_it_takes() -> None:
    moves = [in_journal(each) for each in MOVES]

    assert seconds_needed(moves, 10) == 90.0
    assert seconds_needed([], 10) == 0.0


@pytest.mark.parametrize(
    ("written", "going", "wanted"),
    [
        pytest.param(980.0, True, 120.0, id="goes on"),
        pytest.param(980.0, False, 100.0, id="no window was open"),
        pytest.param(600.0, True, 100.0, id="nobody looked"),
        pytest.param(None, True, 100.0, id="never written"),
        pytest.param(1100.0, True, 100.0, id="by a clock that is ahead"),
    ],
)
def test_only_time_in_which_it_could_go_on_counts(written: float | None, going: bool, wanted: float) -> None:
    assert carried_out(100.0, written, 1000.0, going=going) == wanted


@pytest.mark.parametrize(
    ("minutes", "rate", "by", "wanted"),
    [
        pytest.param(None, 10, "rule", None, id="no limit"),
        pytest.param(2, 10, "rule", 120.0, id="by rule"),
        pytest.param(2, 10, "person", 120.0, id="a person expected it to keep the limit"),
        pytest.param(1, 10, "person", None, id="a person knew that it takes longer"),
        pytest.param(1, 10, "rule", 60.0, id="the rate fell after the rules approved it"),
    ],
)
def test_how_long_it_may_take(minutes: int | None, rate: int, by: str, wanted: float | None) -> None:
    rules = Rebalance.model_validate({"maxDurationMinutes": minutes} if minutes else {})

    assert allowed(read_proposal(rebalance(*MOVES)), rules, rate, by) == wanted  # 90 s at this rate


def test_time_is_over_when_the_limit_is_reached_and_it_names_the_field() -> None:
    assert too_long(119.0, 120.0) == too_long(1e9, None) == ""
    assert "5 minutes, longer than spec.rebalance.maxDurationMinutes (2)" in too_long(300.0, 120.0)


def test_letters_that_are_missing_or_strange_are_looked_at_again() -> None:
    assert read_move_states("+-?", 5) == ("+", "-", ".", ".", ".")
    assert read_move_states("+++++", 2) == ("+", "+")


def test_an_object_that_is_not_understood_says_where() -> None:
    raw = rebalance()
    raw["spec"]["moves"] = [{"topic": "t"}]
    found = read_proposal(raw)

    assert found.spec is None
    assert found.problem.startswith("spec.moves.0.partition")
    assert (
        next_step(replace(ProposalFacts(phase=ProposalPhase.PROPOSED), problem=found.problem)).phase
        is ProposalPhase.FAILED
    )


def test_the_table_uses_every_trigger_and_only_finished_phases_have_no_row() -> None:
    after = {
        phase: {row.target for row in TRANSITIONS if phase in row.sources} - {phase}
        for phase in ProposalPhase
    }

    assert {row.trigger for row in TRANSITIONS} == set(TRIGGERS)
    assert all((not after[phase]) == phase.over for phase in ProposalPhase)
    assert after[ProposalPhase.EXECUTING] == {ProposalPhase.DONE, ProposalPhase.STOPPED, ProposalPhase.FAILED}
    assert set(ProposalPhase) == {ProposalPhase.PROPOSED}.union(*after.values())
