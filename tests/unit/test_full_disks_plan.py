"""Disks that are full to the last byte: what is told of them, and the way out."""

import pytest

from spindle.api import names
from tests.model.dynamic_config import crash
from tests.model.world import World

POD = names.pod_name("demo", 0)


def world_of(*reasons: str) -> World:
    """A broker with two disks whose Kafka ends again and again; its agent says this of each disk."""
    world = World.of()
    world.settle()
    crash(world, POD)
    broker = world.get("KafkaBroker", "demo-broker-0")
    broker["status"]["observed"] = {
        "disks": [
            {"name": f"disk{i}", "verdict": "Suspect" if reason else "Healthy", "reason": reason}
            for i, reason in enumerate(reasons)
        ]
    }
    world.put(broker)
    world.reconcile()
    return world


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        pytest.param(("Full", "Full"), "DisksFull", id="all-full"),
        pytest.param(("Full", "OfflineFull"), "DisksFull", id="all-full-one-known-to-kafka"),
        pytest.param(("Full", ""), "KafkaCrashed", id="one-has-room"),
        pytest.param(("Full",), "KafkaCrashed", id="of-one-nobody-knows"),
    ],
)
def test_a_kafka_that_ends_because_its_disks_are_full_asks_for_space(
    said: tuple[str, ...], reason: str
) -> None:
    told = [
        w
        for w in world_of(*said).cluster["status"]["waiting"]
        if w["object"] == f"Pod/{POD}" and w["action"] == "StartPod"
    ]

    assert [w["reason"] for w in told] == [reason]
    if reason == "DisksFull":
        assert "disk0, disk1" in told[0]["message"]
        assert "Invalid value" in told[0]["message"]
        assert "Free space" in told[0]["unblockedBy"]
