"""Partitions without a leader whose only in-sync replica is on a broker that a user stopped."""

from tests.model.failing import Failing
from tests.model.kafka import path_of
from tests.unit.test_healing_plan import cluster, reasons, until

BROKER = "demo-broker-1"


def ask(world: Failing, *, stopped: bool) -> None:
    world.get("KafkaBroker", BROKER)["spec"].setdefault("maintenance", {})["stopped"] = stopped


def one_copy() -> Failing:
    """A topic whose only replica is on disk1 of broker 1."""
    world = cluster(3, partitions=0)
    world.kafkas.create("pay", 0, (1,), lambda _: path_of("disk1"))
    world.settle()
    return world


def test_a_partition_that_had_no_leader_when_its_broker_stopped_is_named_with_the_way_out() -> None:
    world = one_copy()
    world.disk(1, "disk1").state = "dead"
    ask(world, stopped=True)
    until(world, lambda: 1 not in world.kafkas.running, 60)
    world.disk(1, "disk1").state = "well"
    until(world, lambda: "StoppedBrokerNeeded" in reasons(world), 20)
    (wait,) = (w for w in world.cluster["status"]["waiting"] if w["reason"] == "StoppedBrokerNeeded")
    assert wait["object"] == f"KafkaBroker/{BROKER}"
    assert "1 partition has no leader without it: pay-0" in wait["message"]
    assert f"spindle broker start {BROKER}" in wait["unblockedBy"]
    ask(world, stopped=False)
    until(world, lambda: world.kafkas.partitions["pay", 0].leader == 1, 60)
    assert "StoppedBrokerNeeded" not in reasons(world)


def test_a_stopped_broker_that_no_partition_needs_is_not_named() -> None:
    world = cluster(3)
    ask(world, stopped=True)
    until(world, lambda: 1 not in world.kafkas.running, 60)
    world.settle()
    assert "StoppedBrokerNeeded" not in reasons(world)
