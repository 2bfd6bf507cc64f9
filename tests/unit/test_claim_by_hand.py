"""A claim and its pod deleted by hand: the blank volume that the new claim gets is taken in, also where no agent looks."""

import pytest

from tests.model.failing import Failing
from tests.model.nodes import new_volume
from tests.unit.test_healing_plan import cluster, state_of, until, whole


@pytest.mark.parametrize("agent", ["reports", "never reported"])
def test_the_blank_volume_is_taken_in(agent: str) -> None:
    world = cluster(3)
    node = world.get("KafkaBroker", "demo-broker-0")["spec"]["node"]
    old = world.disk(0, "disk1").id
    if agent == "never reported":
        world.silent.add(node)
        for broker in world.all("KafkaBroker"):
            if broker["spec"]["node"] == node:
                broker["status"].pop("observed", None)
    _by_hand(world, node)
    until(world, lambda: _taken_in(world, old), 200)
    world.silent.clear()
    whole(world)


def test_where_the_agent_has_stopped_the_replicas_are_back_on_other_disks() -> None:
    """Its last report, that the disk was healthy, is about the disk before."""
    world = cluster(3)
    node = world.get("KafkaBroker", "demo-broker-0")["spec"]["node"]
    old = world.disk(0, "disk1").id
    world.silent.add(node)
    _by_hand(world, node)
    until(world, lambda: state_of(world, 0, "disk1") == "Evacuated", 120)
    until(world, lambda: all(len(s.isr) == 3 for s in world.kafkas.partitions.values()), 60)
    world.silent.clear()
    until(world, lambda: _taken_in(world, old), 100)
    whole(world)


def _taken_in(world: Failing, old: str | None) -> bool:
    disk = world.get("KafkaBroker", "demo-broker-0")["spec"]["disks"][1]
    return disk["directoryId"] != old and state_of(world, 0, "disk1") in ("Backfilling", "Active")


def _by_hand(world: Failing, node: str) -> None:
    """Both are deleted; the volume is lost with the claim, and another one is free on the node."""
    world.put(new_volume("spare", node, "local-disks", "/mnt/spare"))
    claim = world.get("PersistentVolumeClaim", "data-disk1-demo-0")
    volume = claim["spec"]["volumeName"]
    for obj in (claim, world.get("Pod", "demo-broker-0")):
        obj["metadata"]["deletionTimestamp"] = "now"
    until(world, lambda: world.objects.get(("PersistentVolumeClaim", "data-disk1-demo-0")) is not claim, 20)
    world.kafkas.volumes.pop(volume, None)


@pytest.mark.parametrize("provisioned", [False, True])
def test_a_claim_without_volume_that_no_pod_has_gets_one_on_its_node(provisioned: bool) -> None:
    """With WaitForFirstConsumer Kubernetes binds it to nothing: its disk is out of the pod, and a new one had no place to lie in."""
    world = cluster(3)
    node = world.get("KafkaBroker", "demo-broker-0")["spec"]["node"]
    world.disk(0, "disk1").state = "dead"
    until(world, lambda: state_of(world, 0, "disk1") == "Evacuated", 200)
    old = world.disk(0, "disk1").id
    claim = world.get("PersistentVolumeClaim", "data-disk1-demo-0")
    world.objects.pop(("PersistentVolume", claim["spec"].pop("volumeName")))
    claim["status"] = {"phase": "Pending"}
    if provisioned:
        claim["spec"]["storageClassName"] = "standard"
    else:
        world.put(new_volume("spare", node, "local-disks", "/mnt/spare"))
    until(world, lambda: _taken_in(world, old), 200)
    whole(world)
    assert world.objects.get(("Pod", "data-disk1-demo-0")) is None
