"""What the tasks of a run read: every record once, and all records of a broker in one task if they are in one partition."""

from hypothesis import given
from hypothesis import strategies as st

from spindle_rebalance.pieces import pieces

_RANGES = st.dictionaries(
    st.integers(0, 20),
    st.tuples(st.integers(0, 10**9), st.integers(0, 10**6)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    max_size=12,
)


@given(_RANGES, st.integers(1, 64))
def test_each_range_is_whole_in_all_shares_of_one_group(
    ranges: dict[int, tuple[int, int]], cores: int
) -> None:
    found = pieces(ranges, cores)

    groups: dict[tuple[int, ...], list[int]] = {}
    for each in found:
        assert all(ranges[place] == mine for place, mine in each.ranges.items())
        groups.setdefault(tuple(each.ranges), []).append(each.share)
        assert each.shares == len([other for other in found if other.ranges == each.ranges])
    assert sorted(place for group in groups for place in group) == sorted(
        place for place, (first, end) in ranges.items() if end > first
    )
    assert all(sorted(shares) == list(range(len(shares))) for shares in groups.values())


def test_few_records_are_one_task() -> None:
    (only,) = pieces(dict.fromkeys(range(12), (0, 40)), 2)

    assert len(only.ranges) == 12


def test_many_records_are_a_task_for_each_partition() -> None:
    assert len(pieces(dict.fromkeys(range(12), (0, 24000)), 2)) == 6
    assert len(pieces(dict.fromkeys(range(12), (0, 24000)), 4)) == 12


def test_more_cores_than_partitions_share_them() -> None:
    found = pieces(dict.fromkeys(range(12), (0, 24000)), 20)

    assert len(found) == 24
    assert {each.shares for each in found} == {2}


def test_nothing_to_read_is_no_task() -> None:
    assert pieces({}, 2) == []
    assert pieces({0: (5, 5)}, 2) == []
