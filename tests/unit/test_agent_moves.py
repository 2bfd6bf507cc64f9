"""What the agent does next about moves, from what the broker shows; and how fast."""

from dataclasses import replace

from spindle.api.enums import DirMoveState, Pressure
from spindle.moves.rate_control import PERIOD, RateBounds
from spindle_agent.broker.client import Copy, LogDir
from spindle_agent.moves import decide, progress
from spindle_agent.moves.decide import AT_ONCE
from spindle_agent.moves.mover import MoveOrders, read_orders
from spindle_agent.moves.pace import Pace
from spindle_agent.moves.progress import ATTEMPTS, GIVE_UP, Move, Progress

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
    before = progress.remembered(
        {"moves": [{"topic": "t", "partition": 0, "fromDir": A, "toDir": B, "state": "Queued"}]}, 0
    )

    made = decide.decide([FIRST], before, dirs(at_a=(0,), copies={0: Copy(40, 6)}), 1)

    (found,) = made.progress.values()
    assert (found.state, found.size, found.copied, found.lag) == (DirMoveState.COPYING, 100, 40, 6)
    assert made.begin == ()


def test_what_has_arrived_is_done_whatever_was_known() -> None:
    known = {FIRST: Progress(state=DirMoveState.FAILED, message="no")}

    made = decide.decide([FIRST], known, dirs(at_b=(0,)), 0)

    assert states(made) == ["Done"]
    assert made.progress[FIRST].copied == 100


def test_what_is_no_longer_wanted_is_given_up_where_it_is_ours() -> None:
    known = {FIRST: Progress(state=DirMoveState.COPYING)}
    running = dirs(at_a=(0,), copies={0: Copy(1, 9)})

    made = decide.decide([], known, running, 0)

    assert made.cancel == {("t", 0): A}
    assert decide.decide([], {}, running, 0).cancel == {}, "nobody knows whose it is"
    assert decide.decide([], made.progress, dirs(at_a=(0,)), 0).progress == {}, "forgotten once it is gone"


def test_another_target_for_a_running_copy_waits_until_it_is_given_up() -> None:
    elsewhere = replace(FIRST, to_dir=C)
    known = {FIRST: Progress(state=DirMoveState.COPYING)}

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
    later = decide.decide([FIRST], made.progress, dirs(at_a=(0,)), 10 * GIVE_UP)
    assert later.begin == (), "whoever wants it says when it is tried again"
    assert decide.decide([], later.progress, dirs(at_a=(0,)), 10 * GIVE_UP).progress == {}
    assert decide.decide([FIRST], {}, dirs(at_a=(0,)), 10 * GIVE_UP).begin == (FIRST,)


def test_a_copy_that_comes_nearer_is_not_given_up() -> None:
    now = 0.0
    known: dict[Move, Progress] = {}
    for lag in range(50, 0, -1):
        made = decide.decide([FIRST], known, dirs(at_a=(0,), copies={0: Copy(40, lag)}), now)
        now, known = now + GIVE_UP / 2, dict(made.progress)
        assert states(made) == ["Copying"]


def test_refusals_are_tried_again_a_few_times() -> None:
    made, now = Progress(), 0.0
    for _ in range(ATTEMPTS - 1):
        made = progress.refused(made, "LogDirNotFound", now)
        assert made.state is DirMoveState.QUEUED
        assert decide.decide([FIRST], {FIRST: made}, dirs(at_a=(0,)), now).begin == ()
        now = made.not_before
        assert decide.decide([FIRST], {FIRST: made}, dirs(at_a=(0,)), now).begin == (FIRST,)

    assert progress.refused(made, "LogDirNotFound", now).state is DirMoveState.FAILED


def test_a_dir_that_the_broker_does_not_have_fails_at_once() -> None:
    made = decide.decide([replace(FIRST, to_dir="/d/z")], {}, dirs(at_a=(0,)), 0)

    assert states(made) == ["Failed"]


def test_a_replica_on_no_dir_waits() -> None:
    assert states(decide.decide([FIRST], {}, dirs(), 0)) == ["Queued"]


def test_a_copy_that_vanished_is_begun_again_after_a_pause() -> None:
    known = {FIRST: Progress(state=DirMoveState.COPYING)}

    made = decide.decide([FIRST], known, dirs(at_a=(0,)), 5)

    assert states(made) == ["Queued"]
    assert made.begin == ()
    assert decide.decide([FIRST], made.progress, dirs(at_a=(0,)), 60).begin == (FIRST,)


def test_what_the_status_says_is_read_back() -> None:
    known = {
        FIRST: Progress(state=DirMoveState.COPYING, size=100, copied=40, lag=3, nearer_at=7),
        SECOND: Progress(state=DirMoveState.FAILED, message="why", nearer_at=7),
    }

    assert progress.remembered({"moves": progress.entries([FIRST, SECOND], known)}, 7) == known


def sized(
    at_a: dict[int, int], *, used: tuple[int, int, int] = (0, 0, 0), copies: dict[int, Copy] | None = None
) -> list[LogDir]:
    """Three dirs of 1000 bytes with so much in use; partitions of ``t`` on a by size, copies of some to b."""
    homes = [{("t", index): size for index, size in at_a.items()}, {}, {}]
    futures = [{}, {("t", index): copy for index, copy in (copies or {}).items()}, {}]
    return [
        LogDir(path, 0, home, future, 1000, 1000 - filled)
        for path, home, future, filled in zip((A, B, C), homes, futures, used, strict=True)
    ]


def test_what_frees_the_fullest_dir_comes_first() -> None:
    from_b = Move("u", 0, B, A)
    board = [
        LogDir(A, 0, {("t", 0): 10, ("t", 1): 10}, {}, 1000, 300),
        LogDir(B, 0, {("u", 0): 10}, {}, 1000, 295),
        LogDir(C, 0, {}, {}, 1000, 900),
    ]
    first, second = (replace(move, to_dir=C) for move in (FIRST, SECOND))
    from_b = replace(from_b, to_dir=C)

    assert decide.decide([first, second, from_b], {}, board, 0).begin == (from_b, first)
    level = [board[0], replace(board[1], usable_bytes=300), board[2]]
    assert decide.decide([first, second, from_b], {}, level, 0).begin == (first, from_b), (
        "what leaves it counts"
    )


def test_nothing_begins_that_would_overfill_its_dir_with_all_that_is_on_its_way() -> None:
    board = sized({0: 300, 1: 300, 2: 200}, used=(800, 300, 0), copies={2: Copy(50, 9)})

    made = decide.decide([FIRST, SECOND, THIRD], {}, board, 0)
    assert made.begin == (FIRST,), "150 are still to come, and 300 more fit"
    tight = decide.decide([FIRST, SECOND, THIRD], {}, board, 0, lambda _: 700)
    assert tight.begin == ()
    assert states(tight) == ["Queued", "Queued", "Copying"]
    assert f"{B} would hold 750 of 1000 bytes" in tight.progress[FIRST].message
    after = decide.decide([FIRST, SECOND], tight.progress, sized({0: 300, 1: 300}), 1)
    assert after.progress[SECOND].message == ""


def test_a_copy_whose_dir_fills_is_given_up_before_the_dir_is_full() -> None:
    known = {FIRST: Progress(state=DirMoveState.COPYING)}
    near = decide.decide([FIRST], known, sized({0: 300}, used=(300, 900, 0), copies={0: Copy(260, 9)}), 0)
    made = decide.decide([FIRST], known, sized({0: 300}, used=(300, 930, 0), copies={0: Copy(260, 9)}), 0)

    assert states(near) == ["Copying"]
    assert states(made) == ["Failed"]
    assert made.cancel == {("t", 0): A}
    assert (
        made.progress[FIRST].message
        == f"Cancelled: {B} is too full; 40 bytes are left to copy, 70 of 1000 bytes are free."
    )


def test_a_copy_that_grows_no_faster_than_its_log_is_given_up() -> None:
    known: dict[Move, Progress] = {}
    for second in range(0, int(GIVE_UP) + 60, 30):
        board = sized({0: 100 + second}, copies={0: Copy(50 + second, 9)})
        known = dict(decide.decide([FIRST], known, board, second).progress)

    assert known[FIRST].state is DirMoveState.FAILED
    assert "no progress" in known[FIRST].message


def test_rate_and_end_are_those_of_the_last_half_minute() -> None:
    known: dict[Move, Progress] = {}
    for second in range(61):
        copied = second if second < 30 else 30 + (second - 30) * 10
        board = sized({0: 900}, copies={0: Copy(copied, 9)})
        known = dict(decide.decide([FIRST], known, board, second).progress)

    made = known[FIRST]
    assert made.rate == 10
    assert made.ends_at == 60 + 570 / 10
    assert len(made.samples) < 20
    (entry,) = progress.entries([FIRST], known, 0)
    assert (entry["bytesPerSecond"], entry["eta"]) == (10, "1970-01-01T00:01:57Z")


def test_no_rate_is_told_before_it_is_known() -> None:
    made = decide.decide([FIRST], {}, sized({0: 900}, copies={0: Copy(3, 9)}), 5).progress
    (entry,) = progress.entries([FIRST], made, 0)
    assert "bytesPerSecond" not in entry
    assert "eta" not in entry


def test_a_time_in_which_nobody_could_look_counts_for_nothing() -> None:
    board = dirs(at_a=(0,), copies={0: Copy(40, 6)})
    known = decide.decide([FIRST], {}, board, 0).progress

    made = decide.decide([FIRST], progress.excused(known, GIVE_UP), board, GIVE_UP + 1)

    assert states(made) == ["Copying"]


def test_the_dirs_that_copies_touch_are_told() -> None:
    assert decide.decide([], {}, dirs(at_a=(0,), copies={0: Copy(1, 1)}), 0).busy == {A, B}
    assert decide.decide([], {}, dirs(at_a=(0,)), 0).busy == frozenset()


def test_the_orders_are_read_from_the_spec() -> None:
    made = read_orders(
        {
            "moves": [{"topic": "t", "partition": 0, "fromDir": A, "toDir": B}],
            "throttleBytesPerSecond": 500,
            "throttleBytesPerSecondMin": 100,
            "thresholds": {"rejectMoves": 80, "free": {"rejectMoves": "1Ki"}},
        }
    )
    assert made == MoveOrders((FIRST,), RateBounds(100, 500), 80, 1024)
    assert (made.limit(10_000), made.limit(2_000)) == (8_000, 976)
    assert read_orders({}) == MoveOrders()
    assert MoveOrders().limit(1000) == 900


# --- how fast


def test_a_pace_begins_with_the_upper_bound_and_steps_once_a_period() -> None:
    pace, bounds, felt = Pace(), RateBounds(100, 1000), {A: Pressure.STRAINED}

    assert pace.next(bounds, felt, [A, B], 0) == 1000
    assert pace.next(bounds, felt, [A, B], PERIOD - 1) == 1000
    assert pace.next(bounds, felt, [A, B], PERIOD) == 500
    assert pace.felt is Pressure.STRAINED
    assert pace.next(bounds, felt, [A, B], PERIOD + 1) == 500
    assert pace.next(bounds, {}, [A, B], 2 * PERIOD) == 590


def test_a_pace_goes_on_where_another_agent_left_it_and_heeds_no_other_disk() -> None:
    pace, bounds = Pace(300), RateBounds(100, 1000)

    assert pace.next(bounds, {C: Pressure.STRAINED}, [A], 0) == 300
    assert pace.next(bounds, {C: Pressure.STRAINED}, [A], PERIOD) == 390
    assert pace.next(bounds, {C: Pressure.STRAINED}, [], 5 * PERIOD) == 390
    assert pace.next(RateBounds(100, 200), {}, [], 6 * PERIOD) == 200
    assert pace.next(None, {}, [A], 7 * PERIOD) is None
    pace.rests()
    assert pace.next(bounds, {}, [A], 8 * PERIOD) == 1000
