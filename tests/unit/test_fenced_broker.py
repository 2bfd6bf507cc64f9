"""A broker that runs and that Kafka has shut out for good."""

import pytest

from spindle.api import names
from spindle.evacuation.fenced_broker import PATIENCE
from spindle.model.actions import Evict
from spindle.model.times import stamp
from tests.model.failing import Failing
from tests.unit.test_healing_plan import cluster, until, whole

NAME = "demo-broker-1"


def shut_out(world: Failing, *, ready: str = "True", seconds: float = PATIENCE) -> None:
    """The controllers hear nothing of the broker; its process and Kafka's own probe are as they were."""
    world.kafkas.stop(1)
    since = stamp(world.now - seconds)
    pod = world.get("Pod", NAME)
    pod["status"]["conditions"] = [
        {"type": "ContainersReady", "status": ready, "lastTransitionTime": stamp(world.now - 3600)},
        {"type": names.READINESS_GATE, "status": "False", "lastTransitionTime": since},
    ]
    world.put(pod)


def uid(world: Failing) -> str:
    return str(world.get("Pod", NAME)["metadata"]["uid"])


def test_it_is_restarted() -> None:
    world = cluster(3)
    before = uid(world)
    shut_out(world)
    plans = until(world, lambda: ("Pod", NAME) in world.objects and uid(world) != before)
    taken = [act for made in plans for act in made.actions if isinstance(act, Evict)]
    assert [(act.pod, act.reason) for act in taken] == [(NAME, "Fenced")]
    assert "the controllers have fenced it for more than 3 minutes" in taken[0].message
    whole(world)


@pytest.mark.parametrize(
    ("ready", "seconds"),
    [
        pytest.param("True", PATIENCE - 60, id="not for long"),
        pytest.param("False", 10 * PATIENCE, id="it still starts"),
    ],
)
def test_it_is_given_its_time(ready: str, seconds: float) -> None:
    world = cluster(3)
    before = uid(world)
    shut_out(world, ready=ready, seconds=seconds)
    for _ in range(3):
        world.reconcile()
    assert uid(world) == before


def test_with_all_of_them_shut_out_it_is_not_the_brokers() -> None:
    world = cluster(3)
    before = uid(world)
    shut_out(world)
    for broker in (0, 2):
        world.kafkas.stop(broker)
    for _ in range(3):
        world.reconcile()
    assert uid(world) == before


def node_is(world: Failing, status: str, seconds: float = 10 * PATIENCE) -> None:
    """The condition Ready of the broker's node, and for how long."""
    node = world.get("Node", world.get("Pod", NAME)["spec"]["nodeName"])
    node["status"]["conditions"] = [
        {"type": "Ready", "status": status, "lastTransitionTime": stamp(world.now - seconds)}
    ]


def evictions(world: Failing) -> list[str]:
    return [a.pod for _ in range(3) for a in world.reconcile().actions if isinstance(a, Evict)]


@pytest.mark.parametrize("status", ["Unknown", "False"])
def test_one_whose_node_is_off_is_left_to_its_node(status: str) -> None:
    """What its pod reports is from the time before; its eviction could not end, and would stop every rolling restart."""
    world = cluster(3)
    shut_out(world, seconds=10 * PATIENCE)
    node_is(world, status)
    assert evictions(world) == []
    assert not world.cluster["status"].get("takingDown")
    waits = world.cluster["status"]["waiting"]
    assert f"Pod/{NAME}" in [w["object"] for w in waits if w["reason"] == "NodeNotReady"]


def test_after_its_node_is_back_it_has_its_time() -> None:
    world = cluster(3)
    shut_out(world, seconds=10 * PATIENCE)
    node_is(world, "True", PATIENCE - 60)
    assert evictions(world) == []
    node_is(world, "True", PATIENCE + 60)
    assert evictions(world) == [NAME]


def test_without_a_list_of_the_nodes_nothing_is_concluded() -> None:
    world = cluster(3)
    shut_out(world, seconds=10 * PATIENCE)
    world.unknown = frozenset({"nodes"})
    del world.objects["Node", world.get("Pod", NAME)["spec"]["nodeName"]]
    assert evictions(world) == []
