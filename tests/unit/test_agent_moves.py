"""What the agent does next about moves, from what the broker shows; and the throttle around them."""

from dataclasses import replace

import pytest

from spindle_agent.broker.link import Copy, LogDir
from spindle_agent.moves import decide, throttle
from spindle_agent.moves.decide import AT_ONCE, ATTEMPTS, GIVE_UP, REST, Move, Progress, State
from spindle_agent.moves.throttle import Record, Step

A, B, C = "/d/a/log", "/d/b/log", "/d/c/log"
FIRST, SECOND, THIRD = (Move("t", index, A, B) for index in range(3))


def dirs(
    at_a: tuple[int, ...] = (),
    at_b: tuple[int, ...] = (),
    copies: dict[int, Copy] | None = None,
    *,
    bad: int = 0,
) -> list[LogDir]:
    """Three dirs: partitions of ``t`` on a and b, copies of some to b, and an error code for c."""
    return [
        LogDir(A, 0, {("t", index): 100 for index in at_a}),
        LogDir(
            B,
            0,
            {("t", index): 100 for index in at_b},
            {("t", index): copy for index, copy in (copies or {}).items()},
        ),
        LogDir(C, bad),
    ]


def states(decision: decide.Decision) -> list[str]:
    return [each.state.value for each in decision.progress.values()]


def test_no_more_than_a_few_begin_in_the_order_asked_for() -> None:
    made = decide.decide([THIRD, FIRST, SECOND], {}, dirs(at_a=(0, 1, 2)), 0)

    assert made.begin == (THIRD, FIRST)
    assert len(made.begin) == AT_ONCE
    assert not made.cancel


def test_copies_of_anybody_count_as_running() -> None:
    made = decide.decide(
        [FIRST, SECOND], {}, dirs(at_a=(0, 1, 7, 8), copies={7: Copy(1, 1), 8: Copy(1, 1)}), 0
    )

    assert made.begin == ()
    assert not made.cancel, "they are not ours to give up"


def test_a_copy_that_another_agent_began_is_found_again() -> None:
    before = decide.remembered(
        {"moves": [{"topic": "t", "partition": 0, "fromDir": A, "toDir": B, "state": "Queued"}]}, 0
    )

    made = decide.decide([FIRST], before, dirs(at_a=(0,), copies={0: Copy(40, 6)}), 1)

    (progress,) = made.progress.values()
    assert (progress.state, progress.size, progress.copied, progress.lag) == (State.COPYING, 100, 40, 6)
    assert made.begin == ()


def test_what_has_arrived_is_done_whatever_was_known() -> None:
    known = {FIRST: Progress(state=State.FAILED, message="no")}

    made = decide.decide([FIRST], known, dirs(at_b=(0,)), 0)

    assert states(made) == ["Done"]
    assert made.progress[FIRST].copied == 100


def test_what_is_no_longer_wanted_is_given_up_where_it_is_ours() -> None:
    known = {FIRST: Progress(state=State.COPYING)}
    running = dirs(at_a=(0,), copies={0: Copy(1, 9)})

    made = decide.decide([], known, running, 0)

    assert made.cancel == {("t", 0): A}
    assert decide.decide([], {}, running, 0).cancel == {}, "nobody knows whose it is"
    assert decide.decide([], made.progress, dirs(at_a=(0,)), 0).progress == {}, "forgotten once it is gone"


def test_another_target_for_a_running_copy_waits_until_it_is_given_up() -> None:
    elsewhere = replace(FIRST, to_dir=C)
    known = {FIRST: Progress(state=State.COPYING)}

    made = decide.decide([elsewhere], known, dirs(at_a=(0,), copies={0: Copy(1, 9)}), 0)

    assert made.cancel == {("t", 0): A}
    assert made.begin == ()
    assert decide.decide([elsewhere], made.progress, dirs(at_a=(0,)), 0).begin == (elsewhere,)


def test_nothing_begins_while_a_dir_is_offline() -> None:
    made = decide.decide([FIRST], {}, dirs(at_a=(0,), bad=56), 0)

    assert made.begin == ()
    assert C in made.progress[FIRST].message
    assert states(made) == ["Queued"]


def test_a_copy_without_progress_is_given_up_with_a_reason() -> None:
    stuck = dirs(at_a=(0,), copies={0: Copy(40, 6)})
    first = decide.decide([FIRST], {}, stuck, 0)
    patient = decide.decide([FIRST], first.progress, stuck, GIVE_UP - 1)
    made = decide.decide([FIRST], patient.progress, stuck, GIVE_UP)

    assert states(patient) == ["Copying"]
    assert states(made) == ["Failed"]
    assert made.cancel == {("t", 0): A}
    assert "40 of 100 bytes" in made.progress[FIRST].message
    assert decide.decide([FIRST], made.progress, dirs(at_a=(0,)), GIVE_UP + 1).begin == ()
    later = decide.decide([FIRST], made.progress, dirs(at_a=(0,)), GIVE_UP + REST)
    assert later.begin == (FIRST,), "it is still wanted"


def test_a_copy_that_comes_nearer_is_not_given_up() -> None:
    now = 0.0
    known: dict[Move, Progress] = {}
    for lag in range(50, 0, -1):
        made = decide.decide([FIRST], known, dirs(at_a=(0,), copies={0: Copy(40, lag)}), now)
        now, known = now + GIVE_UP / 2, dict(made.progress)
        assert states(made) == ["Copying"]


def test_refusals_are_tried_again_a_few_times() -> None:
    progress, now = Progress(), 0.0
    for _ in range(ATTEMPTS - 1):
        progress = decide.refused(progress, "LogDirNotFound", now)
        assert progress.state is State.QUEUED
        assert decide.decide([FIRST], {FIRST: progress}, dirs(at_a=(0,)), now).begin == ()
        now = progress.not_before
        assert decide.decide([FIRST], {FIRST: progress}, dirs(at_a=(0,)), now).begin == (FIRST,)

    assert decide.refused(progress, "LogDirNotFound", now).state is State.FAILED


def test_a_dir_that_the_broker_does_not_have_fails_at_once() -> None:
    made = decide.decide([replace(FIRST, to_dir="/d/z")], {}, dirs(at_a=(0,)), 0)

    assert states(made) == ["Failed"]


def test_a_replica_on_no_dir_waits() -> None:
    assert states(decide.decide([FIRST], {}, dirs(), 0)) == ["Queued"]


def test_a_copy_that_vanished_is_begun_again_after_a_pause() -> None:
    known = {FIRST: Progress(state=State.COPYING)}

    made = decide.decide([FIRST], known, dirs(at_a=(0,)), 5)

    assert states(made) == ["Queued"]
    assert made.begin == ()
    assert decide.decide([FIRST], made.progress, dirs(at_a=(0,)), 60).begin == (FIRST,)


def test_what_the_status_says_is_read_back() -> None:
    known = {
        FIRST: Progress(state=State.COPYING, size=100, copied=40, lag=3, grown_at=7),
        SECOND: Progress(state=State.FAILED, message="why", grown_at=7, not_before=7 + REST),
    }

    assert decide.remembered({"moves": decide.entries([FIRST, SECOND], known)}, 7) == known


# --- the throttle


def test_the_value_before_is_on_record_before_anything_is_changed() -> None:
    first = throttle.next_step(500, moving=True, current="9", record=None, written=None)
    unwritten = throttle.next_step(500, moving=True, current="9", record=first.record, written=None)
    written = throttle.next_step(500, moving=True, current="9", record=first.record, written=first.record)
    done = throttle.next_step(500, moving=True, current="500", record=first.record, written=first.record)

    assert first == Step(Record("9", ("500",)))
    assert not unwritten.change
    assert not unwritten.ready
    assert (written.change, written.value, written.ready) == (True, "500", False)
    assert done == Step(first.record, ready=True)


@pytest.mark.parametrize("before", [None, "9"])
def test_what_is_still_ours_is_put_back(before: str | None) -> None:
    record = Record(before, ("400", "500"))

    step = throttle.next_step(500, moving=False, current="500", record=record, written=record)

    assert (step.change, step.value) == (True, before)
    assert throttle.next_step(500, moving=False, current=before, record=record, written=record) == Step(None)


def test_what_somebody_else_has_set_since_stays() -> None:
    record = Record(None, ("500",))

    while_moving = throttle.next_step(500, moving=True, current="7", record=record, written=record)
    after = throttle.next_step(500, moving=False, current="7", record=record, written=record)

    assert while_moving == Step(record, ready=True)
    assert after == Step(None)


def test_the_same_value_by_somebody_else_is_theirs() -> None:
    assert throttle.next_step(500, moving=True, current="500", record=None, written=None) == Step(
        None, ready=True
    )


def test_another_limit_is_on_record_first_too() -> None:
    record = Record("9", ("500",))

    step = throttle.next_step(600, moving=True, current="500", record=record, written=record)

    assert step == Step(Record("9", ("500", "600")))
    after = throttle.next_step(600, moving=True, current="500", record=step.record, written=step.record)
    assert (after.change, after.value) == (True, "600")


def test_without_a_limit_moves_need_not_wait() -> None:
    assert throttle.next_step(None, moving=True, current=None, record=None, written=None).ready
    record = Record(None, ("500",))
    step = throttle.next_step(None, moving=True, current="500", record=record, written=record)
    assert (step.change, step.value) == (True, None)


def test_the_record_is_read_back_from_the_status() -> None:
    for record in (Record(None, ("1",)), Record("2", ("3", "4"))):
        assert throttle.read({"throttle": record.entry()}) == record
    assert throttle.read({}) is None
