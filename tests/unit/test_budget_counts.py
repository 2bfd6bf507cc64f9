"""Whom the brokers' budget counts: a broker that never ran holds nobody's eviction up."""

from typing import Any

import pytest

from spindle.api import names
from spindle.model.actions import SetPodCondition
from spindle.model.state import read_state
from spindle.model.unavailable import counted_brokers
from spindle.model.view import Broker, KafkaView, Partition
from spindle.reconcile.plan import plan
from tests.model.store import ConflictError
from tests.model.world import World
from tests.unit.test_drains import close, drain, two_per_zone

BUDGET = names.broker_budget("demo")


def least(world: World) -> int:
    return int(world.get("PodDisruptionBudget", BUDGET)["spec"]["minAvailable"])


def ask_for(world: World, replicas: int) -> None:
    world.cluster["spec"]["brokerPools"][0]["replicas"] = replicas


def grown_without_node(zones: str = "abc") -> World:
    """Three brokers on as many nodes, and one is to come that has no place."""
    world = World.of(zones)
    world.settle()
    ask_for(world, 4)
    for _ in range(5):
        world.reconcile()
    return world


def test_a_broker_without_a_node_holds_up_no_drain() -> None:
    world = grown_without_node()
    assert [b["spec"]["id"] for b in world.all("KafkaBroker")] == [0, 1, 2]
    assert "InsufficientNodes" in {w["reason"] for w in world.cluster["status"]["waiting"]}
    assert least(world) == 2
    close(world, ["demo-broker-1"])
    drain(world, "demo-broker-1")
    with pytest.raises(ConflictError):
        drain(world, "demo-broker-0")


def test_a_broker_whose_pod_finds_no_place_holds_up_no_drain() -> None:
    world = World.of("abca")
    world.settle()
    ask_for(world, 4)
    while ("KafkaBroker", "demo-broker-3") not in world.objects:
        world.reconcile()
    node = world.get("Node", "node4")
    node["spec"]["unschedulable"] = True
    world.put(node)
    for _ in range(12):
        world.reconcile()
        world.breathe()
    assert world.get("Pod", "demo-broker-3")["status"].get("phase") in (None, "Pending")
    assert least(world) == 2
    drain(world, "demo-broker-2")


def test_a_broker_that_came_in_is_counted_before_it_is_ready() -> None:
    world = World.of("abca")
    world.settle()
    ask_for(world, 4)
    gates: set[str] = set()
    for _ in range(20):
        made = plan(world.snapshot(), world.now)
        gates = {a.pod for a in made.actions if isinstance(a, SetPodCondition) and a.status}
        if "demo-broker-3" in gates:
            break
        world.reconcile()
        world.breathe()
    assert "demo-broker-3" in gates
    assert least(world) == 3


def test_a_broker_that_is_away_is_counted() -> None:
    world = two_per_zone()
    drain(world, "demo-broker-0")
    close(world, ["demo-broker-0"])
    world.reconcile()
    assert least(world) == 5
    with pytest.raises(ConflictError):
        drain(world, "demo-broker-1")


@pytest.mark.parametrize(
    ("view", "counted"),
    [
        pytest.param({"error": "away"}, 4, id="Kafka does not answer"),
        pytest.param({"brokers": {0: None, 1: None, 2: None}}, 4, id="the partitions are not known"),
        pytest.param({"brokers": {0: None, 1: None, 2: None}, "partitions": ()}, 3, id="it never ran"),
        pytest.param({"brokers": dict.fromkeys(range(4)), "partitions": ()}, 4, id="it is registered"),
        pytest.param({"brokers": {0: None, 1: None, 2: None}, "partitions": (3, 0)}, 4, id="it holds a replica"),
        pytest.param({"brokers": dict.fromkeys(range(9)), "partitions": ()}, 4, id="strangers"),
    ],
)  # fmt: skip
def test_what_is_not_known_counts(view: dict[str, Any], counted: int) -> None:
    world = grown_without_node()
    told = dict(view)
    if told.get("brokers"):
        told["brokers"] = {i: Broker(id=i, rack=None, fenced=True) for i in told["brokers"]}
    if told.get("partitions"):
        replicas = told["partitions"]
        told["partitions"] = (Partition("t", 0, replicas[0], replicas, replicas),)
    state = read_state(world.snapshot(), world.now)
    snap = type(state.snap)(**{**state.snap.__dict__, "kafka": KafkaView(**told)})
    assert counted_brokers(read_state(snap, world.now)) == counted
