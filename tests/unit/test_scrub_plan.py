"""Which segment is next, how far a disk is, and what is believed."""

import zlib
from collections.abc import Callable

import pytest

from spindle.api.enums import SegmentErrorKind
from spindle.scrub.catalog import Segment
from spindle.scrub.confirmation import AGAIN_AFTER, CONFIRM_AFTER, Confirmations, SegmentPlace
from spindle.scrub.rate import BLOCK, Bucket, piece
from spindle.scrub.schedule import (
    SETTLED,
    Figures,
    Known,
    Run,
    due,
    figures,
    forget,
    record,
    sound,
    unchecked,
)
from spindle.scrub.segment_errors import SegmentError
from spindle.scrub.state_file import ScrubState, parse, render

DAY = 86400.0
NOW = 1_000 * DAY
LONG_AGO = 0.0
FIND = SegmentError(SegmentErrorKind.CRC, "log", 61, 9, "checksum")
OTHER = SegmentError(SegmentErrorKind.CRC, "log", 999, 12, "checksum")
PLACE = SegmentPlace("t-0", 0)
FILES = ((1, 2, 3), (4, 5, 6), ())


def known(base: int, written: float = NOW - DAY, folder: str = "t-0", size: int = 100) -> Known:
    return Known(folder, Segment(base, base + 10), size, written)


def test_what_was_never_checked_is_due_once_it_is_settled() -> None:
    fresh, settled = known(0, NOW - SETTLED + 1), known(10, NOW - SETTLED)
    assert due([fresh, settled], {}, NOW, 30) == [settled]


def test_the_one_that_waits_longest_comes_first() -> None:
    runs = {"t-0": (Run(0, 10, NOW - 40 * DAY),)}
    checked_long_ago, new, old = known(0, NOW - 99 * DAY), known(10), known(0, NOW - 90 * DAY, "u-1")
    assert due([checked_long_ago, new, old], runs, NOW, 30) == [old, checked_long_ago, new]
    assert due([checked_long_ago], {"t-0": (Run(0, 10, NOW - 20 * DAY),)}, NOW, 30) == []


def test_what_was_written_since_it_was_checked_is_due_and_what_is_in_doubt_can_be_made_so() -> None:
    runs = {"t-0": (Run(0, 20, NOW - 2 * DAY),)}
    kept, anew = known(0, NOW - 3 * DAY), known(10, NOW - DAY)
    assert due([kept, anew], runs, NOW, 30) == [anew]
    assert figures([kept, anew], runs, NOW, 30).checked == 100
    assert unchecked((Run(0, 20, 1.0), Run(20, 30, 2.0)), 10) == (Run(20, 30, 2.0),)


def test_a_clock_that_was_set_back_makes_due_what_was_checked_in_the_future() -> None:
    assert due([known(0)], {"t-0": (Run(0, 10, NOW + DAY),)}, NOW, 30) == [known(0)]


def test_neighbours_that_were_checked_together_are_one_entry() -> None:
    runs: tuple[Run, ...] = ()
    for base in (0, 10, 20):
        runs = record(runs, Segment(base, base + 10), NOW + base, 30, LONG_AGO)
    assert runs == (Run(0, 30, NOW),)
    assert record(runs, Segment(40, 50), NOW, 30, LONG_AGO) == (Run(0, 30, NOW), Run(40, 50, NOW))
    assert record(runs, Segment(10, 20), NOW + 20 * DAY, 30, LONG_AGO) == (
        Run(0, 10, NOW),
        Run(10, 20, NOW + 20 * DAY),
        Run(20, 30, NOW),
    )


def test_a_segment_that_was_rolled_after_its_neighbour_was_checked_is_not_read_again_and_again() -> None:
    old, rolled = known(0, NOW - DAY), known(10, NOW + 60)
    runs = record((), old.segment, NOW, 30, old.written)
    assert due([old, rolled], {"t-0": runs}, NOW + 600, 30) == [rolled]
    runs = record(runs, rolled.segment, NOW + 600, 30, rolled.written)
    assert due([old, rolled], {"t-0": runs}, NOW + 601, 30) == []
    assert figures([old, rolled], {"t-0": runs}, NOW + 601, 30).checked == 200
    # When both are checked again, they are one entry.
    for each in (old, rolled):
        runs = record(runs, each.segment, NOW + 31 * DAY + each.segment.base, 30, each.written)
    assert runs == (Run(0, 20, NOW + 31 * DAY),)


def test_what_has_gone_from_the_disk_is_forgotten() -> None:
    runs = {"t-0": (Run(0, 10, 1.0), Run(10, 20, 2.0)), "u-0": (Run(0, 10, 1.0),)}
    assert forget(runs, [known(10)]) == {"t-0": (Run(10, 20, 2.0),)}


def test_figures_say_how_much_is_checked_and_who_waits_longest() -> None:
    runs = {"t-0": (Run(0, 10, NOW - DAY), Run(10, 20, NOW - 31 * DAY))}
    segments = [
        known(0, NOW - 99 * DAY),
        known(10, NOW - 99 * DAY, size=50),
        known(20, NOW - 2 * DAY, size=50),
    ]
    assert figures(segments, runs, NOW, 30) == Figures(3, 200, 100, NOW - 31 * DAY)
    assert figures([], {}, NOW, 30) == Figures()


def test_a_replica_is_sound_when_all_of_it_that_is_at_rest_was_checked() -> None:
    runs = {"t-0": (Run(0, 10, NOW - DAY / 2),)}
    read, fresh, waiting = known(0), known(10, NOW - SETTLED + 1), known(10, NOW - SETTLED)
    assert sound("t-0", [read, fresh, known(0, folder="u-0")], NOW, runs, NOW, 30)
    assert sound("t-0", [read, fresh], NOW, runs, NOW + 10, 30)  # it came to rest since one looked
    assert not sound("t-0", [read, fresh], NOW + 10, runs, NOW + 10, 30)
    assert not sound("t-0", [read, waiting], NOW, runs, NOW, 30)
    assert not sound("t-0", [fresh], NOW, runs, NOW, 30)
    assert not sound("t-0", [], NOW, runs, NOW, 30)
    assert not sound("t-0", [read], NOW, runs, NOW + 31 * DAY, 30)


# Believing


def test_a_find_is_believed_after_a_second_look_a_while_later() -> None:
    doubts = Confirmations()
    assert not doubts.saw(PLACE, FILES, [FIND, OTHER], NOW)
    assert [doubts.about(folder) for folder in (PLACE.folder, "u-0")] == [True, False]
    assert doubts.due(NOW + 1) == []
    assert doubts.due(NOW + CONFIRM_AFTER) == [PLACE]
    assert not doubts.saw(PLACE, FILES, [FIND], NOW + 1)
    assert not doubts.troubles
    assert doubts.saw(PLACE, FILES, [FIND], NOW + CONFIRM_AFTER)
    assert [(each.finds, each.since) for each in doubts.troubles] == [((FIND,), NOW)]


def test_other_files_under_the_same_names_begin_anew() -> None:
    doubts = Confirmations()
    doubts.saw(PLACE, FILES, [FIND], NOW)
    assert not doubts.saw(PLACE, ((9, 9, 9), (), ()), [FIND], NOW + CONFIRM_AFTER)
    assert doubts.troubles == ()


def test_a_different_find_each_time_is_none() -> None:
    doubts = Confirmations()
    doubts.saw(PLACE, FILES, [FIND], NOW)
    assert not doubts.saw(PLACE, FILES, [OTHER], NOW + CONFIRM_AFTER)
    assert doubts.troubles == ()


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda doubts: doubts.gone(PLACE), id="gone"),
        pytest.param(lambda doubts: doubts.saw(PLACE, FILES, [], NOW + 99), id="well"),
        pytest.param(lambda doubts: doubts.saw(PLACE, ((7,), (), ()), [FIND], NOW + 99), id="other files"),
    ],
)
def test_what_is_believed_goes_with_its_segment_or_when_it_is_well_again(
    end: Callable[[Confirmations], bool],
) -> None:
    doubts = Confirmations()
    doubts.saw(PLACE, FILES, [FIND], NOW)
    doubts.saw(PLACE, FILES, [FIND], NOW + CONFIRM_AFTER)
    assert doubts.touched(PLACE, ((7,), (), ()))
    assert not doubts.touched(PLACE, FILES)
    assert doubts.due(NOW + CONFIRM_AFTER + AGAIN_AFTER) == [PLACE]
    assert end(doubts)
    assert doubts.troubles == ()


def test_what_is_kept_on_the_disk_comes_back_and_is_looked_for_again() -> None:
    doubts = Confirmations()
    doubts.saw(PLACE, FILES, [FIND], NOW)
    doubts.saw(PLACE, FILES, [FIND], NOW + CONFIRM_AFTER)
    runs = {"t-0": (Run(0, 10, NOW),)}
    memory = parse(render("dir", runs, doubts.troubles), "dir")
    assert memory.runs == runs
    again = Confirmations()
    again.recall(memory.troubles)
    assert [(t.place, t.identity, t.finds, t.since) for t in again.troubles] == [(PLACE, FILES, (FIND,), NOW)]
    assert again.due(NOW) == [PLACE]


def test_what_was_suspected_before_a_restart_is_believed_after_the_second_look_no_sooner() -> None:
    doubts = Confirmations()
    doubts.saw(PLACE, FILES, [FIND], NOW)
    assert not doubts.settled(PLACE)
    again = Confirmations()
    again.recall((), parse(render("dir", {}, (), doubts.suspects), "dir").suspects)
    assert again.due(NOW + 1) == []
    assert not again.saw(PLACE, FILES, [FIND], NOW + 1)
    assert again.due(NOW + CONFIRM_AFTER) == [PLACE]
    assert again.saw(PLACE, FILES, [FIND], NOW + CONFIRM_AFTER)
    assert again.troubles[0].since == NOW
    assert again.settled(PLACE)


def test_a_clock_that_was_set_back_begins_a_suspicion_anew() -> None:
    doubts = Confirmations()
    doubts.saw(PLACE, FILES, [FIND], NOW)
    assert not doubts.saw(PLACE, FILES, [FIND], NOW - DAY)
    assert doubts.due(NOW - DAY + 1) == []
    assert doubts.saw(PLACE, FILES, [FIND], NOW - DAY + CONFIRM_AFTER)


def test_a_memory_from_before_suspicions_were_kept_is_read() -> None:
    body = b'{"runs":{"t-0":[[0,10,5]]},"troubles":[]}'
    data = f"spindle-scrub-1 dir {zlib.crc32(body):08x}\n".encode() + body
    assert parse(data, "dir") == ScrubState({"t-0": (Run(0, 10, 5.0),)})


# The pace


def test_reads_are_whole_blocks_and_several_a_second() -> None:
    for rate in (1, 500_000, 10_000_000, 10**10):
        assert piece(rate) % BLOCK == 0
        assert 64 * 1024 <= piece(rate) <= 1 << 20


def test_a_pause_is_not_made_up_for_by_a_burst() -> None:
    bucket = Bucket(1000, 0.0)
    assert bucket.take(1000, 0.0) == 1.0
    assert bucket.take(3000, 100.0) == 2.0  # a second's worth was saved, of all that time
