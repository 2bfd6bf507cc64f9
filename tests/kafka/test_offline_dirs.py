"""A broker starts without the disks that it has to do without, and a disk that comes back causes no duplicate."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from spindle.model.node_inputs import ACTIVE, PLACEHOLDER
from tests.kafka.cluster import Cluster
from tests.kafka.node import wait_for

STORAGE_ERROR = 56


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=1, disks=4)
    made.up()
    return made


def test_placeholder_dead_and_readonly_disks_are_offline_dirs(cluster: Cluster) -> None:
    broker = cluster.brokers[0]
    cluster.make_topic("spread", [[0]] * 8)
    for partition in range(8):
        cluster.produce("spread", partition, [b"one"])
    # A broker that stops before the controller knows where its replicas lie makes them anew, on whatever dir is left.
    queued = "kafka_server_assignmentsmanager_queuedreplicatodirassignments"
    wait_for("all dirs on record", lambda: broker.metric(queued) == 0)
    cluster.forget_admin()
    broker.stop()
    _, left_out, dead, readonly = (broker.slots[name] for name in sorted(broker.slots))
    for slot in (left_out, dead, readonly):
        assert slot.disk is not None
    left_out.disk.unmount()  # type: ignore[union-attr]
    left_out.mode = PLACEHOLDER
    broker.new_pod()
    dead.disk.die()  # type: ignore[union-attr]
    readonly.disk.remount("ro")  # type: ignore[union-attr]
    broker.preflight()
    broker.start()
    broker.wait_ready()
    said = cluster.log_dirs(0)
    errors = {Path(path).parent.name: entry["error_code"] for path, entry in said.items()}
    assert errors == {
        "disk0": 0,
        "disk1": STORAGE_ERROR,
        "disk2": STORAGE_ERROR,
        "disk3": STORAGE_ERROR,
    }
    assert broker.metric("kafka_log_logmanager_offlinelogdirectorycount") == 3


def test_disks_that_are_well_again_come_back_and_a_second_copy_steps_aside(
    cluster: Cluster, tmp_path: Path
) -> None:
    broker = cluster.brokers[0]
    cluster.forget_admin()
    broker.stop()
    for name in ("disk2", "disk3"):
        broker.slots[name].disk.unmount()  # type: ignore[union-attr]
    broker.slots["disk1"].mode = ACTIVE
    broker.new_pod()
    broker.preflight()
    broker.start()
    broker.wait_ready()
    partitions = {
        partition["partition_index"]: Path(path).parent.name
        for path, entry in cluster.log_dirs(0).items()
        for topic in entry["topics"]
        if topic["name"] == "spread"
        for partition in topic["partitions"]
    }
    assert len(partitions) == 8
    assert set(partitions.values()) == {"disk0", "disk1", "disk2", "disk3"}

    # What a disk looks like that failed, was evacuated within the broker, and came back: an old copy of a partition. The node's clock was
    # a quarter of an hour ahead when it failed, so that all on it looks later than what was written since.
    index, current = next((p, disk) for p, disk in partitions.items() if disk != "disk3")
    source = Path(broker.log_dir(current), f"spread-{index}")
    old = tmp_path / source.name
    shutil.copytree(source, old)
    for partition in partitions:
        cluster.produce("spread", partition, [b"two"])
    cluster.forget_admin()
    broker.stop()
    target = Path(broker.log_dir("disk3"), source.name)
    shutil.copytree(old, target)
    ahead = time.time() + 900
    for folder in (Path(broker.log_dir("disk3")), target):
        for path in folder.iterdir():
            os.utime(path, (ahead, ahead))
    broker.new_pod()
    broker.preflight()
    assert source.is_dir()
    assert not target.exists()
    (aside,) = target.parent.glob("*-stray")
    broker.start()
    broker.wait_ready()
    assert wait_for("the partition", lambda: cluster.isr("spread").get(index)) == [0]
    assert aside.exists()
    ends = {
        partition["partition_index"]: partition["partition_size"]
        for entry in cluster.log_dirs(0).values()
        for topic in entry["topics"]
        if topic["name"] == "spread"
        for partition in topic["partitions"]
    }
    assert ends[index] > 0
