"""Where replicas of disks that fill go, and which is given up where they can go nowhere."""

from collections.abc import Mapping
from types import FunctionType

import pytest

from spindle.evacuation.after_moves import after_moves
from spindle.evacuation.backfill import plan_backfill
from spindle.model.replica_index import ReplicaIndex
from spindle.model.view import Broker, KafkaView, LogDir, Partition
from spindle.moves.journal import Move
from spindle.planner.search import _Search
from spindle.planner.walks import Walks
from spindle.thresholds.drop_for_space import drop_for_space
from spindle.thresholds.offload import OffloadPlan, plan_offload

CAPACITY = 1000
Layout = Mapping[int, list[dict[str, int]]]  # broker → dirs → partition "t-0" → bytes


def path(number: int) -> str:
    return f"/d{number}"


def view_of(layout: Layout, *, min_isr: int = 2) -> KafkaView:
    held: dict[tuple[str, int], list[int]] = {}
    brokers = {}
    for broker, dirs in layout.items():
        shown = []
        for number, logs in enumerate(dirs):
            replicas = {
                (name.rpartition("-")[0], int(name.rpartition("-")[2])): size for name, size in logs.items()
            }
            for key in replicas:
                held.setdefault(key, []).append(broker)
            shown.append(LogDir(path(number), 0, CAPACITY, CAPACITY - sum(logs.values()), replicas=replicas))
        brokers[broker] = Broker(broker, f"r{broker}", fenced=False, log_dirs=tuple(shown))
    partitions = tuple(
        Partition(*key, who[0], tuple(who), tuple(who), elr=()) for key, who in sorted(held.items())
    )
    return KafkaView(
        brokers=brokers, partitions=partitions, min_isr={key[0]: min_isr for key in held}, settings={}
    )


def rooms(layout: Layout, room: int = 800) -> dict[tuple[int, str], int]:
    return {(broker, path(n)): room for broker, dirs in layout.items() for n in range(len(dirs))}


def relieved(layout: Layout, full: set[tuple[int, str]], under_way: tuple[Move, ...] = ()) -> OffloadPlan:
    room = rooms(layout) | dict.fromkeys(full, 750)
    return plan_offload(view_of(layout), full, room, under_way, agents=layout.keys())


def after(layout: Layout, moves: tuple[Move, ...]) -> KafkaView:
    return after_moves(view_of(layout), moves)


def logs_on(view: KafkaView, broker: int, number: int) -> int:
    assert view.brokers is not None
    return sum((view.brokers[broker].log_dirs or ())[number].replicas.values())


def test_to_another_disk_of_the_same_broker_first() -> None:
    layout: Layout = {b: [{f"t-{10 * b + n}": 85 for n in range(10)}, {}] for b in range(3)}
    found = relieved(layout, {(0, path(0))})
    assert found.moves
    assert all(move.within and move.target == 0 for move in found.moves)
    assert len(found.moves) == 2, "no more than what is too much"
    assert not found.stuck
    assert logs_on(after(layout, found.moves), 0, 0) <= 750


def test_across_brokers_where_a_broker_is_full_as_a_whole() -> None:
    layout: Layout = {
        0: [{f"t-{n}": 85 for n in range(10)}, {f"t-{n}": 79 for n in range(10, 20)}],
        1: [{}, {}],
        2: [{}, {}],
    }
    found = relieved(layout, {(0, path(0))})
    assert found.moves
    assert not any(move.within for move in found.moves)
    assert logs_on(after(layout, found.moves), 0, 0) <= 750


def test_what_is_under_way_is_not_taken_twice() -> None:
    layout: Layout = {0: [{f"t-{n}": 85 for n in range(10)}, {}], 1: [{}, {}]}
    first = relieved(layout, {(0, path(0))}).moves
    again = relieved(layout, {(0, path(0))}, first)
    assert not again.moves
    assert not again.stuck


def test_a_full_cluster_is_stuck_and_says_so() -> None:
    layout: Layout = {b: [{f"t-{10 * b + n}": 81 for n in range(10)}] for b in range(3)}
    full = {(b, path(0)) for b in range(3)}
    found = relieved(layout, full)
    assert not found.moves
    assert found.stuck == full


def test_room_that_others_have_taken_is_no_room() -> None:
    layout: Layout = {0: [{f"t-{n}": 80 for n in range(10)}, {}], 1: [{}, {}]}
    room = {(0, path(0)): 750, (0, path(1)): 0, (1, path(0)): 800, (1, path(1)): 800}
    found = plan_offload(view_of(layout), {(0, path(0))}, room, agents={0, 1})
    assert found.moves
    assert {move.target for move in found.moves} == {1}


def test_without_an_agent_nothing_moves_between_disks() -> None:
    layout: Layout = {0: [{f"t-{n}": 85 for n in range(10)}, {}]}
    found = plan_offload(view_of(layout), {(0, path(0))}, rooms(layout) | {(0, path(0)): 750})
    assert not found.moves
    assert found.stuck


THREE = {b: [{"a-0": 300, "b-0": 200, "c-0": 100}] for b in range(3)}


def test_the_smallest_replica_that_is_enough_is_shed() -> None:
    found = drop_for_space(ReplicaIndex(view_of(THREE)), 0, path(0), 150)
    assert [(s.topic, s.broker, s.before, s.reason) for s in found.shrunk] == [("b", 0, (0, 1, 2), "shed")]
    assert [s.topic for s in drop_for_space(ReplicaIndex(view_of(THREE)), 0, path(0), 900).shrunk] == ["a"]


def test_nothing_is_shed_while_a_broker_of_the_others_is_taken_down() -> None:
    held = drop_for_space(ReplicaIndex(view_of(THREE)), 0, path(0), 150, down={1})
    assert not held.shrunk
    assert held.refusal is not None
    assert held.refusal.reason == "InsufficientInSyncReplicas"


def test_nothing_is_shed_below_the_minimum_or_two_copies() -> None:
    short = drop_for_space(ReplicaIndex(view_of(THREE, min_isr=3)), 0, path(0), 150)
    assert not short.shrunk
    assert short.refusal is not None
    assert short.refusal.reason == "InsufficientInSyncReplicas"
    two = {b: [{"a-0": 300}] for b in range(2)}
    alone = drop_for_space(ReplicaIndex(view_of(two, min_isr=1)), 0, path(0), 150)
    assert not alone.shrunk
    assert alone.refusal is not None
    assert alone.refusal.reason == "NoReplicaToDrop"


def test_what_is_in_motion_is_not_shed() -> None:
    found = drop_for_space(ReplicaIndex(view_of(THREE)), 0, path(0), 150, moving={("b", 0)})
    assert [s.topic for s in found.shrunk] == ["a"]


@pytest.mark.parametrize(
    "what", [pytest.param(Walks.run, id="walks"), pytest.param(_Search.widen, id="wide beams")]
)
def test_what_is_planned_in_each_pass_is_not_thought_over_for_seconds(
    what: FunctionType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError(
            "this takes a second of a core, and sizes differ in each pass, so nothing is remembered"
        )

    monkeypatch.setattr(Walks if what is Walks.run else _Search, what.__name__, refuse)
    tight: Layout = {b: [{f"t-{10 * b + n}": 85 for n in range(10)}] for b in range(3)}
    assert relieved(tight, {(0, path(0))}).stuck == {(0, path(0))}
    layout: Layout = {b: [{f"t-{10 * b + n}": 85 for n in range(10)}, {}] for b in range(3)}
    assert logs_on(after(layout, relieved(layout, {(0, path(0))}).moves), 0, 0) <= 750
    uneven: Layout = {
        0: [{"a-0": 300, "a-1": 260, "a-2": 110}, {}],
        1: [{"a-0": 300, "a-1": 260, "a-2": 110}],
    }
    assert plan_backfill(view_of(uneven, min_isr=1), [(0, path(1))])
