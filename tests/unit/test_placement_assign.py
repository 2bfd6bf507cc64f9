"""KIP-36: the vectors of Kafka's own tests, and the ways in which an assignment is refused."""

import pytest

from spindle.model.racks import PlacementError, alternate, even_counts, move_keeps_racks, rack_of
from spindle.planner.assign import assign

SIX = {0: "r1", 1: "r3", 2: "r3", 3: "r2", 4: "r2", 5: "r1"}


def test_brokers_alternate_over_racks() -> None:
    assert alternate(SIX) == [0, 3, 1, 5, 4, 2]
    assert alternate({b: r for b, r in SIX.items() if b != 5}) == [0, 3, 1, 4, 2]


@pytest.mark.parametrize(
    ("brokers", "partitions", "rf", "want"),
    [
        pytest.param(
            SIX, 7, 3,
            [[0, 3, 1], [3, 1, 5], [1, 5, 4], [5, 4, 2], [4, 2, 0], [2, 0, 3], [0, 4, 2]],
            id="rack-aware-seven-by-three",
        ),
        pytest.param({0: "r1", 1: "r2", 2: "r2"}, 3, 2, [[0, 1], [1, 0], [2, 0]], id="uneven-racks"),
        pytest.param(
            dict.fromkeys(range(5)), 10, 3,
            [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0], [4, 0, 1], [0, 2, 3], [1, 3, 4], [2, 4, 0], [3, 0, 1], [4, 1, 2]],
            id="without-racks",
        ),
    ],
)  # fmt: skip
def test_vectors(brokers: dict[int, str | None], partitions: int, rf: int, want: list[list[int]]) -> None:
    assert assign(brokers, partitions, rf, start=0, shift=0) == want


def test_expansion_goes_on_where_the_topic_ends() -> None:
    brokers = {6: "r1", 7: "r2", 8: "r2", 9: "r3", 10: "r3", 11: "r1"}
    more = assign(brokers, 13, 2, start=0, shift=0, first=12)
    assert len(more) == 13
    assert all(len({brokers[b] for b in row}) == 2 for row in more)
    assert more[0][0] == alternate(brokers)[0]  # partition 12 of 6 brokers: the ring's beginning again


def test_any_start_and_any_ids() -> None:
    brokers = {100 + 7 * i: f"z{i % 3}" for i in range(9)}
    rows = assign(brokers, 9, 3, start=5, shift=4)
    assert rows[0][0] == alternate(brokers)[5]
    assert all(len({brokers[b] for b in row}) == 3 for row in rows)


@pytest.mark.parametrize(
    ("brokers", "partitions", "rf", "words"),
    [
        pytest.param({0: "a", 1: None}, 1, 1, "1 of 2 brokers have no rack (broker 1)", id="mixed"),
        pytest.param(
            {0: None, 1: None}, 1, 3, "cannot be reached because only 2 broker(s)", id="too-many-replicas"
        ),
        pytest.param({0: None}, 1, 0, "the replication factor must be positive", id="no-replica"),
        pytest.param({0: None}, 1, -1, "Invalid replication factor -1", id="negative"),
        pytest.param({0: None}, 0, 1, "Invalid number of partitions 0", id="no-partition"),
        pytest.param({}, 1, 1, "only 0 broker(s)", id="no-broker"),
    ],
)
def test_refusals(brokers: dict[int, str | None], partitions: int, rf: int, words: str) -> None:
    with pytest.raises(PlacementError) as caught:
        assign(brokers, partitions, rf)
    assert words in str(caught.value)


def test_even_counts_fill_small_racks_first() -> None:
    assert even_counts(5, [1, 3, 3]) == ([1, 2, 2], [1, 2, 2])
    assert even_counts(2, [2, 2, 2]) == ([0, 0, 0], [1, 1, 1])
    assert even_counts(4, [1, 1, 4]) == ([1, 1, 2], [1, 1, 2])
    assert even_counts(1, [3]) == ([1], [1])


def test_rack_rules_of_a_move() -> None:
    assert rack_of({1: None, 2: None}) == {1: "", 2: ""}
    assert move_keeps_racks(now=3, after=3, best=3, wanted=3)
    assert not move_keeps_racks(now=3, after=2, best=3, wanted=3)
    assert not move_keeps_racks(now=2, after=2, best=3, wanted=3)  # a third rack could have been had
    assert move_keeps_racks(now=2, after=2, best=2, wanted=3)


def test_large_uneven_assignment_is_quick() -> None:
    brokers = {b: f"r{0 if b < 50 else b % 7}" for b in range(100)}
    rows = assign(brokers, 2000, 3)
    assert all(len({brokers[b] for b in row}) == 3 for row in rows)
