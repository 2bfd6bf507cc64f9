"""Brokers that run and are out of sync, although nothing else is known to be wrong with them."""

from typing import Any

import pytest

from spindle.api import names
from spindle.model.times import stamp
from tests.model.failing import Failing
from tests.unit.test_healing_plan import cluster, reasons, until

REASON = "BrokerOutOfSync"


def cut_off(world: Failing | None = None) -> Failing:
    """Three brokers; the controllers have just lost broker 2, whose process runs on."""
    world = world or cluster(3, partitions=6)
    world.reconcile()
    world.registered.discard(2)
    set_gate(world, "False")
    return world


def set_gate(world: Failing, status: str | None) -> None:
    """Set the readiness gate of broker 2's pod, or remove it."""
    pod = world.get("Pod", "demo-broker-2")
    others = [c for c in pod["status"]["conditions"] if c["type"] != names.READINESS_GATE]
    gate = {"type": names.READINESS_GATE, "status": status, "lastTransitionTime": stamp(world.now)}
    pod["status"]["conditions"] = [*others, gate] if status else others
    world.put(pod)


def lagging(*, leader: bool) -> Failing:
    """Kafka was just started on broker 2 and does not become ready, as its replicas are in no ISR."""
    world = cluster(3, partitions=6)
    set_gate(world, None)
    pod = world.get("Pod", "demo-broker-2")
    for entry in pod["status"]["containerStatuses"]:
        entry |= {"ready": False, "state": {"running": {"startedAt": stamp(world.now)}}}
    pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    world.put(pod)
    world.get("KafkaBroker", "demo-broker-2")["status"].pop("start", None)
    for state in world.kafkas.partitions.values():
        state.isr = tuple(b for b in state.isr if b != 2) if leader else ()
        state.leader = state.isr[0] if leader else None
    return world


def entries(world: Failing, later: float) -> list[dict[str, Any]]:
    """The entries about it after some time."""
    world.now += later
    world.reconcile()
    world.reconcile()
    return [w for w in world.cluster["status"]["waiting"] if w["reason"] == REASON]


@pytest.mark.parametrize(("later", "count"), [(200.0, 0), (400.0, 1)])
def test_a_broker_without_a_heartbeat_is_reported_after_five_minutes(later: float, count: int) -> None:
    found = entries(cut_off(), later)
    assert len(found) == count
    for entry in found:
        assert entry["object"] == "Pod/demo-broker-2"
        assert "no heartbeat" in entry["message"]
        assert "network policies" in entry["unblockedBy"]


def test_a_disk_that_waits_for_its_replacement_does_not_explain_it() -> None:
    world = cluster(3, partitions=6)
    world.disk(2, "disk1").state = "dead"
    until(world, lambda: "ReplacementNeeded" in reasons(world))
    world.settle()
    assert len(entries(cut_off(world), 400.0)) == 1


def test_a_broker_that_is_in_sync_again_is_not_reported_while_its_gate_is_not_written() -> None:
    world = cluster(3, partitions=6)
    set_gate(world, "False")
    world.cluster["spec"]["paused"] = True
    assert entries(world, 400.0) == []


@pytest.mark.parametrize(("later", "count"), [(200.0, 0), (400.0, 1)])
def test_a_broker_that_copies_nothing_since_its_start_is_reported(later: float, count: int) -> None:
    found = entries(lagging(leader=True), later)
    assert len(found) == count
    assert all("nodes of the other brokers" in entry["unblockedBy"] for entry in found)


def test_a_broker_is_not_blamed_for_partitions_without_a_leader() -> None:
    assert entries(lagging(leader=False), 400.0) == []


def test_a_placeholder_beside_the_disks_is_not_to_be_replaced() -> None:
    world = lagging(leader=True)
    process = world.kafkas.running[2]
    path = names.log_dir(names.PLACEHOLDER_DIR)
    process.dirs[path] = None
    process.offline.add(path)
    (found,) = entries(world, 400.0)
    assert names.PLACEHOLDER_DIR not in found["unblockedBy"]


def test_nothing_is_concluded_while_kafka_cannot_be_asked() -> None:
    world = cut_off()
    world.kafka_up = False
    assert entries(world, 400.0) == []
