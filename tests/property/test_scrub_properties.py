"""Any log that is as Kafka writes it has no finds; any single bit that is not, is found."""

import struct
from dataclasses import replace

import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.api.enums import SegmentErrorKind
from spindle.scrub.batches import SegmentBounds
from spindle.scrub.catalog import Segment
from spindle.scrub.confirmation import Confirmations, SegmentPlace
from spindle.scrub.rate import BURST, Bucket
from spindle.scrub.schedule import checked_at, record
from spindle.scrub.segment import SegmentCheck
from spindle.scrub.segment_errors import SegmentError
from spindle.scrub.state_file import parse, render
from tests.unit.scrub_logs import Log, log

VALUES = st.lists(st.binary(max_size=400), min_size=1, max_size=6)
BATCHES = st.lists(VALUES, min_size=1, max_size=12)


@st.composite
def logs(draw: st.DrawFn, least: int = 1) -> Log:
    batches = draw(BATCHES.filter(lambda b: len(b) >= least))
    epochs = sorted(draw(st.lists(st.integers(0, 5), min_size=len(batches), max_size=len(batches))))
    made = log(
        batches,
        base=draw(st.integers(0, 2**40)),
        epochs=epochs,
        interval=draw(st.sampled_from([0, 200, 4096])),
        codec=draw(st.sampled_from([0, 1])),
    )
    return replace(made, epoch_before=epochs[0], epoch_after=epochs[-1])


@given(logs(), st.integers(1, 2000))
def test_nothing_is_found_in_a_log_as_kafka_writes_it(good: Log, piece: int) -> None:
    assert good.check(piece=piece) == ()


@st.composite
def steady(draw: st.DrawFn) -> Log:
    """All of one epoch: with several, an epoch that is wrong may still be in order."""
    made = log(draw(BATCHES), base=draw(st.integers(0, 2**40)), epochs=None)
    return replace(made, epoch_before=0, epoch_after=0)


@settings(max_examples=300)
@given(steady(), st.data(), st.integers(1, 2000))
def test_any_flipped_bit_of_a_log_is_found(good: Log, data: st.DataObject, piece: int) -> None:
    bit = data.draw(st.integers(0, 8 * len(good.data) - 1))
    changed = bytearray(good.data)
    changed[bit // 8] ^= 1 << bit % 8
    assert good.check(bytes(changed), piece=piece) != ()


@given(logs(), st.data())
def test_a_tail_that_is_missing_is_found_unless_it_is_whole_batches_that_no_index_knows(
    good: Log, data: st.DataObject
) -> None:
    size = data.draw(st.integers(1, len(good.data) - 1))
    found = good.check(good.data[:size])
    assert found or size in good.starts
    # The time index always knows the last batches: the times of these logs rise.
    assert found


@given(logs(), st.data())
def test_zeros_in_place_of_bytes_are_found(good: Log, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(good.data) - 1))
    size = data.draw(st.integers(64, 4096))
    changed = bytearray(good.data)
    piece = changed[at : at + size]
    changed[at : at + size] = bytes(len(piece))
    if bytes(changed) != good.data:
        only_epochs = good.epoch_before != good.epoch_after and _same_but_for_epochs(good, bytes(changed))
        assert good.check(bytes(changed)) != () or only_epochs


def _same_but_for_epochs(good: Log, changed: bytes) -> bool:
    masked, other = bytearray(good.data), bytearray(changed)
    for start in good.starts:
        masked[start + 12 : start + 16] = other[start + 12 : start + 16] = bytes(4)
    return masked == other


@given(logs(), st.data())
def test_an_index_with_garbage_in_it_never_breaks_the_check(good: Log, data: st.DataObject) -> None:
    garbage = data.draw(st.binary(max_size=200))
    good.check(offsets=garbage)
    good.check(times=garbage)


@given(st.binary(max_size=3000), st.integers(1, 500))
def test_garbage_in_place_of_a_log_is_found_and_breaks_nothing(garbage: bytes, piece: int) -> None:
    check = SegmentCheck(SegmentBounds(0, 10, len(garbage)), b"", b"", crc32c.crc32c)
    for at in range(0, len(garbage), piece):
        check.feed(memoryview(garbage)[at : at + piece])
    found = check.finish()
    assert bool(found) == bool(garbage)


# What was checked when


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0, 50), st.floats(0.1, 100)), max_size=60))
def test_what_is_on_record_as_checked_was_checked_no_later_than_it_says(
    marks: list[tuple[int, float, float]],
) -> None:
    runs: tuple[object, ...] = ()
    last: dict[int, tuple[float, float]] = {}
    now = 1e9
    for number, hours, at_rest in marks:
        now += hours * 3600
        written = now - at_rest * 3600
        runs = record(runs, Segment(10 * number, 10 * number + 10), now, 30, written)  # type: ignore[arg-type]
        last[number] = now, written
    for number in range(31):
        told = checked_at(runs, 10 * number)  # type: ignore[arg-type]
        if number in last:
            assert told is not None
            checked, written = last[number]
            assert written <= told <= checked
            assert checked - told <= 30 * 86400 / 48 + 1
        else:
            assert told is None
    assert len(runs) <= len(last)


@given(st.integers(1, 10**9), st.lists(st.tuples(st.integers(1, 2**20), st.floats(0, 0.01)), max_size=200))
def test_whoever_waits_as_told_reads_no_faster_than_the_rate(
    rate: int, reads: list[tuple[int, float]]
) -> None:
    bucket, now, total = Bucket(rate, 0.0), 0.0, 0
    for size, took in reads:
        now += took
        now += bucket.take(size, now)
        total += size
    assert total <= rate * (now + BURST) + 1 + 1e-6 * total


# What is believed

PLACE = SegmentPlace("t-0", 0)
FINDS = st.lists(
    st.builds(
        SegmentError,
        st.sampled_from(list(SegmentErrorKind)),
        st.just("log"),
        st.integers(0, 2),
        st.none(),
        st.just("x"),
    ),
    max_size=2,
    unique_by=lambda find: (find.kind, find.position),
)


@given(st.lists(st.tuples(st.integers(0, 2), FINDS, st.floats(0, 60)), max_size=30))
def test_nothing_is_believed_that_was_not_seen_twice_in_the_same_files(
    looks: list[tuple[int, list[SegmentError], float]],
) -> None:
    doubts, now = Confirmations(), 0.0
    seen: list[tuple[float, int, list[SegmentError]]] = []
    for inode, finds, pause in looks:
        now += pause
        doubts.saw(PLACE, ((inode,),), finds, now)
        seen.append((now, inode, finds))
        for trouble in doubts.troubles:
            for find in trouble.finds:
                times = [at for at, i, f in seen if ((i,),) == trouble.identity and find in f]
                assert max(times) - min(times) >= 30.0
    if looks and not looks[-1][1]:
        assert doubts.troubles == ()


@given(st.binary(max_size=300))
def test_a_memory_that_is_no_more_as_it_was_written_is_forgotten(garbage: bytes) -> None:
    good = render("dir", {"t-0": record((), Segment(0, 5), 7.0, 30, 0.0)}, ())
    assert parse(good, "dir").runs
    assert parse(good, "other") == parse(b"", "dir") == parse(garbage, "dir")
    for at in range(0, len(good), 7):
        assert not parse(good[:at] + struct.pack("B", good[at] ^ 1) + good[at + 1 :], "dir").runs
