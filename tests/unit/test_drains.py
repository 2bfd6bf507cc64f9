"""Drains: who may be evicted beside whom, and that the budgets say so."""

from typing import Any

import pytest

from spindle.api import names
from spindle.model.restart_verdict import RestartVerdict
from spindle.model.view import Partition
from spindle.model.waiting import Waiting
from spindle.rollout.drains import Drain, DrainCandidate, next_to_drain
from tests.model.store import ConflictError
from tests.model.world import World

_NO = RestartVerdict(Waiting.refused(rule=2, reason="WouldBeUnderMinIsr", message="no", unblocked_by="time"))


def yes(_node: int, _others: frozenset[int]) -> RestartVerdict:
    return RestartVerdict()


def resident(node_id: int, **facts: Any) -> DrainCandidate:
    return DrainCandidate(node_id=node_id, rack="abc"[node_id % 3], **facts)


def test_a_closed_node_alone_opens_nothing() -> None:
    assert next_to_drain([resident(0, closed=True), resident(3, closed=True), resident(1)], yes) == Drain()


def test_beside_a_drained_broker_go_those_on_closed_nodes_of_its_rack() -> None:
    residents = [
        resident(0, closed=True, whole=False, there=False),
        resident(3, closed=True),
        resident(6),
        resident(1, closed=True),
    ]
    assert next_to_drain(residents, yes) == Drain("a", away=(0,), go=(3,), later=(1,))


def test_each_is_asked_about_with_those_before_it() -> None:
    asked: list[tuple[int, frozenset[int]]] = []

    def ask(node: int, others: frozenset[int]) -> RestartVerdict:
        asked.append((node, others))
        return _NO if node == 3 else RestartVerdict()

    residents = [resident(0, closed=True, whole=False, there=False)]
    residents += [resident(i, closed=True) for i in (9, 3, 6)]
    drain = next_to_drain(residents, ask)
    assert asked == [(3, frozenset()), (6, frozenset()), (9, frozenset({6}))]
    assert drain.go == (6, 9)
    assert drain.refused == {3: _NO.refusal}


@pytest.mark.parametrize(
    "other", [{"closed": True, "whole": False, "there": False}, {"taken": True}, {"open": True}]
)
def test_nobody_goes_while_another_rack_lacks_one(other: dict[str, Any]) -> None:
    residents = [
        resident(0, closed=True, whole=False, there=False),
        resident(3, closed=True),
        resident(1, **other),
    ]
    assert next_to_drain(residents, yes).go == ()


def test_without_racks_it_stays_one_at_a_time() -> None:
    residents = [
        DrainCandidate(node_id=0, closed=True, whole=False, there=False),
        DrainCandidate(node_id=1, closed=True),
    ]
    assert next_to_drain(residents, yes) == Drain(later=(1,))


# -- whole passes ------------------------------------------------------------------------------------------------------


def two_per_zone() -> World:
    pool = {
        "name": "main",
        "replicas": 6,
        "disks": {"count": 2, "size": "100Gi", "storageClass": "local-disks"},
    }
    world = World.of(zones="abcabc", brokerPools=[pool])
    world.settle()
    return world


def in_zone(world: World, zone: str) -> list[str]:
    return [b["metadata"]["name"] for b in world.all("KafkaBroker") if b["spec"]["rack"] == f"zone-{zone}"]


def ids(pods: list[str]) -> tuple[int, ...]:
    return tuple(int(pod.rsplit("-", 1)[-1]) for pod in pods)


def close(world: World, pods: list[str], *, closed: bool = True) -> None:
    for pod in pods:
        node = world.get("Node", world.get("KafkaBroker", pod)["spec"]["node"])
        node["spec"]["unschedulable"] = closed
        world.put(node)


def drain(world: World, pod: str) -> None:
    """What the API server does with somebody's eviction, and the scheduler with the successor: its node is closed."""
    live = world.get("Pod", pod)
    world._in_budget(live)
    del world.objects["Pod", pod]


def budget_of(world: World, pod: str) -> str:
    return str(world.get("Pod", pod)["metadata"]["labels"][names.LABEL_BUDGET])


def passes(world: World, count: int = 4) -> None:
    """Passes without a scheduler, so that nothing starts on a closed node."""
    for _ in range(count):
        world.reconcile()


def test_a_zone_is_drained_and_the_others_may_lose_none() -> None:
    world = two_per_zone()
    first, second = in_zone(world, "a")
    other, third = in_zone(world, "b")[0], in_zone(world, "c")[0]
    world.partitions = (
        Partition("orders", 0, *_replicas(first, other, third)),
        Partition("orders", 1, *_replicas(second, other, third)),
    )
    close(world, [first, second, other])
    passes(world)
    with pytest.raises(ConflictError):
        drain_after(world, first, second)
    passes(world)
    assert budget_of(world, second) == "demo-brokers-draining"
    assert {w["reason"] for w in world.cluster["status"]["waiting"]} >= {"EvictionDeferred"}
    for pod in (other, third):
        with pytest.raises(ConflictError):
            drain(world, pod)
    drain(world, second)
    passes(world)
    for pod in (other, third):
        with pytest.raises(ConflictError):
            drain(world, pod)


def drain_after(world: World, first: str, second: str) -> None:
    """The second one at once after the first: nobody has looked at Kafka in between."""
    drain(world, first)
    drain(world, second)


def _replicas(*pods: str) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    brokers = ids(list(pods))
    return brokers[0], brokers, brokers


def test_brokers_of_a_zone_that_share_a_partition_go_one_by_one() -> None:
    world = two_per_zone()
    first, second = in_zone(world, "a")
    third = in_zone(world, "b")[0]
    close(world, [first, second])
    world.partitions = (Partition("orders", 0, *_replicas(first, second, third)),)
    passes(world)
    drain(world, first)
    _lose(world, first)
    passes(world)
    assert budget_of(world, second) == "demo-brokers"
    assert {w["reason"] for w in world.cluster["status"]["waiting"]} >= {"WouldBeUnderMinIsr"}
    with pytest.raises(ConflictError):
        drain(world, second)


def _lose(world: World, pod: str) -> None:
    """Kafka takes a broker out of its ISRs."""
    (gone,) = ids([pod])
    world.partitions = tuple(
        Partition(
            p.topic,
            p.index,
            next(i for i in p.isr if i != gone),
            p.replicas,
            tuple(i for i in p.isr if i != gone),
        )
        for p in world.partitions
    )


def test_a_roll_does_not_take_from_another_rack_what_a_drain_may_take() -> None:
    world = two_per_zone()
    first, second = in_zone(world, "a")
    other = in_zone(world, "b")[0]
    third = in_zone(world, "c")[0]
    close(world, [first, second])
    world.partitions = (Partition("orders", 0, *_replicas(second, other, third)),)
    passes(world)
    drain(world, first)
    passes(world)
    assert budget_of(world, second) == "demo-brokers-draining"
    world.get("KafkaBroker", other)["spec"].setdefault("maintenance", {})["stopped"] = True
    passes(world)
    assert not world.cluster["status"].get("takingDown")
    assert {w["reason"] for w in world.cluster["status"]["waiting"]} >= {"WouldBeUnderMinIsr"}


def test_back_on_open_nodes_they_are_counted_as_before() -> None:
    world = two_per_zone()
    pods = in_zone(world, "a")
    close(world, pods)
    passes(world)
    drain(world, pods[0])
    passes(world)
    assert budget_of(world, pods[1]) == "demo-brokers-draining"
    close(world, pods, closed=False)
    world.settle()
    assert {budget_of(world, pod) for pod in pods} == {"demo-brokers"}
    assert not world.reconcile().actions
