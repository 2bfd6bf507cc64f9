"""Brokers that run and are out of sync, although nothing else is known to be wrong with them."""

from typing import Any

import pytest

from spindle.api import names
from spindle.model.times import stamp
from tests.model.failing import Failing
from tests.unit.test_healing_plan import cluster

REASON = "BrokerOutOfSync"


def cut_off() -> Failing:
    """Three brokers; the controllers have just lost broker 2, whose process runs on."""
    world = cluster(3, partitions=6)
    world.reconcile()
    world.registered.discard(2)
    pod = world.get("Pod", "demo-broker-2")
    others = [c for c in pod["status"]["conditions"] if c["type"] != names.READINESS_GATE]
    gate = {"type": names.READINESS_GATE, "status": "False", "lastTransitionTime": stamp(world.now)}
    pod["status"]["conditions"] = [*others, gate]
    world.put(pod)
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


def test_nothing_is_concluded_while_kafka_cannot_be_asked() -> None:
    world = cut_off()
    world.kafka_up = False
    assert entries(world, 400.0) == []
