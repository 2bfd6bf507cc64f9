"""Placement of new topics over any cluster: legal rows, even racks, an even topic, open dirs; and growth that leaves what is there."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.model.racks import even_counts
from spindle.topics.placement import BrokerRoom, DirRoom, Rooms, place
from spindle.topics.replica_choice import Grower, HeldReplica, choose_leaver
from tests.examples import examples


@st.composite
def clusters(draw: st.DrawFn) -> Rooms:
    racks = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    brokers: dict[int, BrokerRoom] = {}
    for number, size in enumerate(racks):
        for _ in range(size):
            node = len(brokers)
            dirs = [
                DirRoom(f"disk{i}", draw(st.floats(0, 80)), 100.0, 0.9, draw(st.integers(0, 50)))
                for i in range(draw(st.integers(1, 3)))
            ]
            held, led = draw(st.integers(0, 100)), draw(st.integers(0, 40))
            brokers[node] = BrokerRoom(node, f"rack{number}", dirs, held, led)
    return Rooms(brokers, draw(st.floats(0.001, 1.0)))


@settings(max_examples=examples(60), deadline=None)
@given(clusters(), st.integers(1, 24), st.integers(1, 4))
def test_each_row_is_even_over_racks_and_the_topic_over_brokers(
    rooms: Rooms, partitions: int, replicas: int
) -> None:
    replicas = min(replicas, len(rooms.brokers))
    racks = rooms.racks
    names = sorted({rack for rack in racks.values() if rack is not None})
    sizes = [sum(rack == name for rack in racks.values()) for name in names]
    least, most = even_counts(replicas, sizes)
    before = {each.id: each.replicas for each in rooms.brokers.values()}
    placed = place(rooms, partitions, replicas)
    assert len(placed.rows) == partitions
    for row in placed.rows:
        assert len(set(row)) == replicas
        held = Counter(racks[broker] for broker in row)
        for name, low, high in zip(names, least, most, strict=True):
            assert low <= held[name] <= high
    load = Counter(broker for row in placed.rows for broker in row)
    for name in names:
        within = [load[broker] for broker, rack in racks.items() if rack == name]
        assert max(within) - min(within) <= 1, "brokers of one rack hold as many of the topic"
    for broker, count in load.items():
        assert rooms.brokers[broker].replicas == before[broker] + count


@settings(max_examples=examples(60), deadline=None)
@given(clusters(), st.integers(1, 12), st.integers(1, 3))
def test_each_replica_has_one_dir_that_takes_it(rooms: Rooms, partitions: int, replicas: int) -> None:
    replicas = min(replicas, len(rooms.brokers))
    placed = place(rooms, partitions, replicas)
    assert len({(broker, index) for broker, index, _ in placed.dirs}) == len(placed.dirs)
    for broker, index, path in placed.dirs:
        assert broker in placed.rows[index]
        assert path in {each.path for each in rooms.brokers[broker].dirs}
    for room in rooms.brokers.values():
        for each in room.dirs:
            assert each.used <= each.limit * each.total + 1e-6 or each.used <= 80


@settings(max_examples=examples(40), deadline=None)
@given(clusters(), st.integers(1, 12), st.integers(1, 12), st.integers(1, 3))
def test_growth_numbers_on_and_evens_out(rooms: Rooms, first: int, more: int, replicas: int) -> None:
    replicas = min(replicas, len(rooms.brokers))
    before = place(rooms, first, replicas)
    added = place(rooms, more, replicas, before.rows)
    assert {index for _, index, _ in added.dirs} <= set(range(first, first + more))
    assert all(len(set(row)) == replicas for row in added.rows)
    if len(set(rooms.racks.values())) == 1:
        load = Counter(broker for row in (*before.rows, *added.rows) for broker in row)
        counts = [load[broker] for broker in rooms.brokers]
        assert max(counts) - min(counts) <= 1


def test_many_partitions_are_striped_and_even() -> None:
    rooms = Rooms({i: BrokerRoom(i, "abc"[i % 3], [DirRoom("d", 0.0, 1e12, 0.9)]) for i in range(60)}, 1.0)
    placed = place(rooms, 6000, 3)
    assert {each.replicas for each in rooms.brokers.values()} == {300}
    assert {each.leaders for each in rooms.brokers.values()} == {100}
    assert all(len({"abc"[b % 3] for b in row}) == 3 for row in placed.rows)


@settings(max_examples=examples(60), deadline=None)
@given(clusters(), st.integers(1, 12), st.integers(1, 3), st.integers(1, 3))
def test_added_replicas_are_even_over_racks_and_go_to_dirs_that_take_them(
    rooms: Rooms, partitions: int, replicas: int, more: int
) -> None:
    replicas = min(replicas, len(rooms.brokers))
    rows = [list(row) for row in place(rooms, partitions, replicas).rows]
    racks = {broker: rack or "" for broker, rack in rooms.racks.items()}
    grower, topic, dirs = (
        Grower(rooms, racks),
        Counter(b for row in rows for b in row),
        Counter[tuple[int, str]](),
    )
    for _ in range(more):
        for row in rows:
            room = {
                (b.id, d.path): d.limit * d.total - d.used for b in rooms.brokers.values() for d in b.dirs
            }
            chosen = grower.choose(row, 1.0, topic, dirs)
            without = set(racks.values()) - {racks[broker] for broker in row}
            if chosen is None:
                free = [b for b in racks if b not in row and (not without or racks[b] in without)]
                assert not any(left >= 1.0 for (broker, _), left in room.items() if broker in free)
                continue
            broker, _ = chosen
            assert broker not in row
            assert room[chosen] >= 1.0
            assert not without or racks[broker] in without
            row.append(broker)
    held = Counter(broker for row in rows for broker in row)
    assert all(topic[broker] == held[broker] for broker in racks)


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(
        st.builds(
            HeldReplica,
            broker=st.integers(0, 20),
            rack=st.sampled_from("abc"),
            in_sync=st.booleans(),
            unwanted=st.booleans(),
            fullness=st.floats(0, 1),
        ),
        min_size=1,
        max_size=6,
        unique_by=lambda each: each.broker,
    )
)
def test_what_leaves_costs_no_rack_that_could_be_kept(replicas: list[HeldReplica]) -> None:
    before = len({each.rack for each in replicas})
    while len(replicas) > 1:
        leaver = choose_leaver(replicas)
        order = [each.broker for each in replicas if each.broker != leaver]
        (gone,) = [each for each in replicas if each.broker == leaver]
        replicas = [each for each in replicas if each.broker != leaver]
        assert [each.broker for each in replicas] == order
        assert len({each.rack for each in replicas}) == min(before, len(replicas))
        before = min(before, len(replicas))
        if gone.in_sync:
            shared = Counter(each.rack for each in (*replicas, gone))
            assert all(each.in_sync or shared[each.rack] == 1 < max(shared.values()) for each in replicas)
