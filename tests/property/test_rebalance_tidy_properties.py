"""Whatever comes in whatever order: each record is used, counted as doubled, or poison; and times rise as intervals do."""

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spindle_rebalance.tidy import CleanRecords, clean_records
from tests.unit.rebalance_samples import CLUSTER, INTERVAL, at, record, records, replica, sample

_HOUR_MS = 3_600_000


@st.composite
def sent(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Records of one broker as Kafka has them: some twice, some off the clock, some late, some junk."""
    rows = []
    for offset in range(draw(st.integers(0, 25))):
        step = draw(st.integers(0, 12)) + draw(st.sampled_from([0.0, 0.0, 0.1, 0.5, 0.9]))
        if draw(st.integers(0, 9)) == 0:
            rows.append(record(draw(st.binary(max_size=20)), offset))
            continue
        off = draw(st.sampled_from([0, 0, 0, _HOUR_MS, -_HOUR_MS]))
        late = draw(st.sampled_from([0, 0, 200, 2 * _HOUR_MS]))
        part = draw(st.integers(0, 1))
        one = sample(at(step) + off, [replica("t", part, 1)], part=part, parts=2)
        rows.append(record(one, offset, stored_ms=at(step) + late))
    return rows


def clean(rows: list[dict[str, Any]], cut: int) -> CleanRecords:
    return clean_records([records(rows[:cut]), records(rows[cut:])], CLUSTER)


@given(sent(), st.randoms(use_true_random=False), st.integers(0, 25))
def test_nothing_is_lost_and_order_does_not_matter(rows: list[dict[str, Any]], random: Any, cut: int) -> None:
    found = clean(rows, len(rows))
    used = sum(map(len, found.moments))

    assert found.records == len(rows) == used + found.doubled + found.poisoned
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert clean(shuffled, cut).moments == found.moments


@given(sent())
def test_times_rise_by_more_than_half_of_an_interval(rows: list[dict[str, Any]]) -> None:
    times = [parts[0].at_ms for parts in clean(rows, 0).moments]

    assert all(later - earlier >= 0.6 * INTERVAL * 1000 for earlier, later in pairwise(times))
