"""A pod that finds no node: what is said, and that doing it leads on."""

import re
from typing import Any

from spindle.model.actions import Evict
from tests.model.world import World

BROKERS = (0, 1, 2)


def sharing(**spec: Any) -> World:
    """Three brokers, whose volumes are on one node because they may share it."""
    pool = {
        "name": "main",
        "replicas": len(BROKERS),
        "disks": {"count": 1, "size": "100Gi", "storageClass": "local-disks"},
    }
    world = World.of("a", disks=7, brokerPools=[pool], scheduling={"sharedNodes": True}, **spec)
    world.settle()
    assert world.running("broker") == [*BROKERS]
    return world


def share(world: World, shared: bool) -> None:
    world.cluster["spec"]["scheduling"] = {"sharedNodes": shared}


def delete(world: World, *brokers: int) -> None:
    for broker in brokers:
        del world.objects["Pod", f"demo-broker-{broker}"]
    world.settle()


def entry(world: World, broker: int) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = [w for w in world.cluster["status"]["waiting"] if w["object"] == f"Pod/demo-broker-{broker}"]
    return found


def apart(world: World, broker: int) -> bool:
    return "podAntiAffinity" in world.get("Pod", f"demo-broker-{broker}")["spec"].get("affinity", {})


def test_a_node_of_two_brokers_is_named_and_another_node_is_not_asked_for() -> None:
    world = sharing()
    share(world, shared=False)
    delete(world, 0)
    found = entry(world, 0)
    assert found["reason"] == "NodeInUse"
    assert "only on node node1" in found["message"]
    assert "demo-broker-1, demo-broker-2" in found["message"]
    assert "spec.scheduling.sharedNodes" in found["unblockedBy"]
    assert "delete" not in found["unblockedBy"]
    # It does not help.
    world.add_node("node2", "zone-a", 7)
    world.settle()
    assert entry(world, 0) == found


def test_sharing_the_node_again_brings_the_broker_back() -> None:
    world = sharing()
    share(world, shared=False)
    delete(world, 0)
    assert apart(world, 0)
    share(world, shared=True)
    (evicted,) = [action for action in world.reconcile().actions if isinstance(action, Evict)]
    assert (evicted.pod, evicted.reason) == ("demo-broker-0", "SchedulingChanged")
    world.settle()
    assert world.running("broker") == [*BROKERS]
    assert not any(apart(world, broker) for broker in BROKERS)


def test_a_pod_that_was_created_with_a_node_of_its_own_is_named_and_goes_too() -> None:
    world = sharing()
    share(world, shared=False)
    delete(world, *BROKERS)
    (first,) = world.running("broker")
    waits = [broker for broker in BROKERS if broker != first]
    assert {entry(world, broker)["reason"] for broker in waits} == {"NodeInUse"}
    share(world, shared=True)
    world.settle()
    assert world.running("broker") == [first]
    way_out = entry(world, waits[0])["unblockedBy"]
    assert "sharedNodes" not in way_out
    assert re.findall(r"`kubectl delete pod (\S+)`", way_out) == [f"demo-broker-{first}"]
    delete(world, first)
    assert world.running("broker") == [*BROKERS]


def test_a_broker_with_volumes_needs_their_node() -> None:
    world = sharing()
    node = world.get("Node", "node1")
    node["spec"]["unschedulable"] = True
    delete(world, 0)
    assert "Make node node1 schedulable" in entry(world, 0)["unblockedBy"]
    del world.objects["Node", "node1"]
    world.reconcile()
    assert "Bring node node1 back" in entry(world, 0)["unblockedBy"]


def test_a_new_broker_gets_a_node_or_a_pod_that_keeps_its_node_to_itself_is_recreated() -> None:
    pool = {
        "name": "main",
        "replicas": 3,
        "disks": {"count": 1, "size": "100Gi", "storageClass": "local-disks"},
    }
    world = World.of("abc", disks=7, brokerPools=[pool])
    world.settle()
    share(world, shared=True)
    world.cluster["spec"]["brokerPools"][0]["replicas"] = 4
    world.settle()
    zone = world.get("KafkaBroker", "demo-broker-3")["spec"]["rack"]
    there = next(i for i in BROKERS if world.get("KafkaBroker", f"demo-broker-{i}")["spec"]["rack"] == zone)
    way_out = entry(world, 3)["unblockedBy"]
    assert f"until it is recreated: demo-broker-{there}." in way_out
    delete(world, there)
    assert world.running("broker") == [0, 1, 2, 3]
