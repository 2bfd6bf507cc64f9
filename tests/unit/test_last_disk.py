"""The last disk that a broker can run with, when it is to leave."""

import pytest

from tests.model.failing import Failing


def world_of(*, dead: bool, disks: int) -> Failing:
    """Broker 0 has one disk that it can run with, which a person wants empty."""
    pool = {
        "name": "main",
        "replicas": 3,
        "disks": {"count": disks, "size": "100Gi", "storageClass": "local-disks"},
    }
    world = Failing.of("abc", brokerPools=[pool])
    world.settle(80)
    last = f"disk{disks - 1}"
    if dead:
        world.disk(0, "disk0").state = "dead"
        world.settle(80)
    world.get("KafkaBroker", "demo-broker-0")["spec"].setdefault("maintenance", {})["disks"] = [
        {"name": last, "desiredState": "Drained"}
    ]
    world.settle(80)
    return world


@pytest.mark.parametrize(
    ("dead", "disks", "way"),
    [
        pytest.param(True, 2, "Put a new disk into the slot of disk0", id="another-slot-waits-for-a-disk"),
        pytest.param(False, 1, "Give this broker another disk", id="the-only-slot"),
    ],
)
def test_the_entry_names_where_a_new_disk_goes_and_not_the_disk_in_use(
    *, dead: bool, disks: int, way: str
) -> None:
    world = world_of(dead=dead, disks=disks)

    (told,) = [w for w in world.cluster["status"]["waiting"] if w["reason"] == "LastDisk"]
    assert way in told["unblockedBy"]
