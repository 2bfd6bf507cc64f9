"""Records of one broker: poison aside, nothing twice, clocks put right."""

import pytest

from spindle.samples.codec import encode
from spindle_rebalance.tidy import NAMED, CleanRecords, clean_records
from tests.unit.rebalance_samples import CLUSTER, at, disk, record, records, replica, sample


def clean(*rows: dict[str, object]) -> CleanRecords:
    return clean_records([records(rows)], CLUSTER)


def times(found: CleanRecords) -> list[int]:
    return [parts[0].at_ms for parts in found.moments]


def test_samples_come_out_by_time_whatever_order_they_came_in() -> None:
    found = clean(*(record(sample(at(step)), offset) for offset, step in enumerate((2, 0, 1))))

    assert times(found) == [at(0), at(1), at(2)]
    assert (found.records, found.poisoned, found.doubled, found.clock_records) == (3, 0, 0, 0)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param(None, "Empty", id="no value"),
        pytest.param(b"", "NotASample", id="empty"),
        pytest.param(b"{}", "NotASample", id="something else"),
        pytest.param(encode(sample(at(1)))[:-8], "Truncated", id="cut off"),
        pytest.param(encode(sample(at(1), broker=7)), "OtherBroker", id="another broker's"),
        pytest.param(encode(sample(at(1), cluster_id="B")), "OtherCluster", id="another cluster's"),
    ],
)
def test_poison_is_counted_and_named_and_the_rest_is_used(value: bytes | None, reason: str) -> None:
    found = clean(record(sample(at(0)), 4), record(value, 5), record(sample(at(2)), 6))

    assert times(found) == [at(0), at(2)]
    assert found.poisoned == 1
    assert (found.poison[0].partition, found.poison[0].offset) == (0, 5)
    assert found.poison[0].reason.startswith(f"{reason}: ")


def test_nothing_but_poison_is_no_sample_and_only_some_are_named() -> None:
    found = clean(*(record(b"junk", offset) for offset in range(100)))

    assert (found.moments, found.records, found.poisoned) == ([], 100, 100)
    assert [each.offset for each in found.poison] == list(range(NAMED))


def test_of_a_record_that_was_sent_twice_the_last_counts() -> None:
    found = clean(
        record(sample(at(0), [replica("t", 0, 5)]), 0),
        record(sample(at(0), [replica("t", 0, 6)]), 1),
        record(sample(at(1), [replica("t", 0, 7)]), 2),
    )

    assert found.doubled == 1
    assert [parts[0].sample.replicas.column("bytes").to_pylist() for parts in found.moments] == [[6], [7]]


def test_a_broker_that_two_agents_report_counts_once_per_interval() -> None:
    rows = [sample(at(step + late)) for step in range(10) for late in (0.0, 0.3)]
    found = clean(*(record(row, offset) for offset, row in enumerate(rows)))

    assert times(found) == [at(step) for step in range(10)]
    assert found.doubled == 10


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_off_by_an_hour_is_put_right_and_told(hours: int) -> None:
    rows = [record(sample(at(step) + hours * 3_600_000), step, stored_ms=at(step) + 200) for step in range(5)]
    found = clean(*rows)

    assert times(found) == [at(step) + 200 for step in range(5)]
    assert found.clock_records == 5
    assert found.clock_s == pytest.approx(hours * 3600 - 0.2)


def test_a_clock_that_was_put_right_meanwhile_is_corrected_only_before() -> None:
    wrong = [record(sample(at(step) + 3_600_000), step, stored_ms=at(step)) for step in range(3)]
    right = [record(sample(at(step)), step) for step in range(3, 6)]
    found = clean(*wrong, *right)

    assert times(found) == [at(step) for step in range(6)]
    assert found.clock_records == 3


def test_samples_that_were_kept_while_kafka_was_away_are_late_not_wrong() -> None:
    late = [record(sample(at(step)), step, stored_ms=at(11) + step) for step in range(12)]
    found = clean(*late)

    assert times(found) == [at(step) for step in range(12)]
    assert found.clock_records == 0


def test_a_backlog_whose_sending_was_interrupted_is_late_not_wrong() -> None:
    """Twenty of forty samples come in one go, the others an hour later, and then one by one."""
    first = [record(sample(at(step)), step, stored_ms=at(40) + step) for step in range(20)]
    second = [record(sample(at(step)), step, stored_ms=at(52) + step) for step in range(20, 53)]
    fresh = [record(sample(at(step)), step) for step in range(53, 56)]
    found = clean(*first, *second, *fresh)

    assert times(found) == [at(step) for step in range(56)]
    assert found.clock_records == 0
    assert clean(*first).clock_records == 0  # nothing says that the clock was off


@pytest.mark.parametrize("hours", [-1, 1])
def test_an_interrupted_backlog_of_a_wrong_clock_is_dated_by_what_came_after_it(hours: int) -> None:
    off = hours * 3_600_000
    kept = [record(sample(at(step) + off), step, stored_ms=at(40) + step) for step in range(10)]
    fresh = [record(sample(at(step) + off), step, stored_ms=at(step)) for step in range(41, 44)]
    found = clean(*kept, *fresh)

    assert times(found) == [at(step) for step in (*range(10), *range(41, 44))]
    assert found.clock_records == 13
    assert found.clock_s == hours * 3600


def test_samples_from_the_future_are_of_a_wrong_clock_whatever_came_after_them() -> None:
    rows = [record(sample(at(step) + 10 * 3_600_000), step, stored_ms=at(12) + step) for step in range(12)]

    assert clean(*rows).clock_records == 12


def test_parts_of_a_sample_come_together() -> None:
    first = sample(at(0), [replica("t", 0, 1)], [disk()], part=0, parts=2)
    second = sample(at(0), [replica("t", 1, 2)], part=1, parts=2)
    found = clean(record(second, 0), record(first, 1))

    assert [[each.sample.part for each in parts] for parts in found.moments] == [[0, 1]]
    assert found.rows == 2


def test_old_replicas_leave_what_they_were_appended_to_only() -> None:
    rows = [record(sample(at(step), [replica("t", 0, 1), replica("t", 1, 1)]), step) for step in range(2)]
    found = clean_records([records(rows)], CLUSTER, at(1))

    assert [parts[0].sample.replicas.num_rows for parts in found.moments] == [0, 2]
    assert [parts[0].appended for parts in found.moments] == [{"/d0": 20.0}, {"/d0": 20.0}]
