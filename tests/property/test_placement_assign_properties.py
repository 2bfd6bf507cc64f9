"""KIP-36 invariants on any cluster: racks inside each partition, then brokers over all, as even as can be."""

from collections import Counter
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.model.racks import even_counts
from spindle.planner.assign import assign


@st.composite
def clusters(draw: st.DrawFn, most: int = 12) -> tuple[dict[int, str | None], int]:
    n = draw(st.integers(1, most))
    ids = draw(st.lists(st.integers(0, 1000), min_size=n, max_size=n, unique=True))
    racked = draw(st.booleans())
    brokers = {b: f"r{draw(st.integers(0, 4))}" if racked else None for b in ids}
    return brokers, draw(st.integers(1, n))


@given(clusters(), st.integers(1, 40), st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_every_partition_is_spread_as_evenly_as_its_racks_allow(
    cluster: tuple[dict[int, str | None], int], partitions: int, start: int, shift: int, first: int
) -> None:
    brokers, rf = cluster
    sizes = Counter(brokers.values())
    names = sorted(sizes, key=str)
    least, most = even_counts(rf, [sizes[r] for r in names])
    rows = assign(brokers, partitions, rf, start, shift, first=first)
    assert len(rows) == partitions
    for row in rows:
        assert len(set(row)) == rf
        count = Counter(brokers[b] for b in row)
        assert all(lo <= count[r] <= hi for r, lo, hi in zip(names, least, most, strict=True))
    assert rows == assign(dict(reversed(brokers.items())), partitions, rf, start, shift, first=first)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 30), st.data())
def test_brokers_differ_by_at_most_one_with_racks_of_one_size(
    racks: int, per_rack: int, partitions: int, data: st.DataObject
) -> None:
    brokers: dict[int, str | None] = {b: f"r{b % racks}" for b in range(racks * per_rack)}
    rf = data.draw(st.integers(1, len(brokers)))
    load = Counter(b for row in assign(brokers, partitions, rf, data.draw(st.integers(0, 9))) for b in row)
    loads = [load[b] for b in brokers]
    assert max(loads) - min(loads) <= 1


@settings(max_examples=60)
@given(clusters(most=5), st.integers(1, 4))
def test_no_other_assignment_is_more_even(
    cluster: tuple[dict[int, str | None], int], partitions: int
) -> None:
    """By brute force: the load vector is the least one under the rack rule, in sum of squares."""
    brokers, rf = cluster
    ids = sorted(brokers)
    sizes = Counter(brokers.values())
    names = sorted(sizes, key=str)
    least, most = even_counts(rf, [sizes[r] for r in names])

    def even(chosen: tuple[int, ...]) -> bool:
        count = Counter(brokers[b] for b, bit in zip(ids, chosen, strict=True) if bit)
        return all(lo <= count[r] <= hi for r, lo, hi in zip(names, least, most, strict=True))

    sets = [c for c in product((0, 1), repeat=len(ids)) if sum(c) == rf and even(c)]
    loads = {tuple(0 for _ in ids)}
    for _ in range(partitions):
        loads = {tuple(x + y for x, y in zip(load, c, strict=True)) for load in loads for c in sets}
    best = min(sum(x * x for x in load) for load in loads)
    got = Counter(b for row in assign(brokers, partitions, rf) for b in row)
    assert sum(x * x for x in got.values()) == best
