"""Preflight and the start script on real disks, without Kafka: what may be used, formatted, left out, refused."""

import contextlib
import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spindle.model.ids import uuid_from_entropy
from spindle.model.node_inputs import PLACEHOLDER
from tests.kafka.cluster import Cluster
from tests.kafka.node import Node, PreflightRefusedError, wait_for

OTHER_ID = uuid_from_entropy(b"another cluster's id", "other")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "cluster", brokers=1, disks=2)
    try:
        yield made
    finally:
        made.down()


@pytest.fixture
def node(cluster: Cluster) -> Node:
    """A broker whose pod was just made; its disks are blank."""
    broker = cluster.brokers[0]
    broker.new_pod()
    return broker


@pytest.fixture
def used(node: Node) -> Node:
    """A broker in a new pod whose disks were formatted for the one before."""
    node.clear_blank()
    node.preflight()
    node.new_pod()
    return node


def meta(node: Node, disk: str) -> Path:
    return Path(node.log_dir(disk), "meta.properties")


def rewrite(node: Node, disk: str, **changes: object) -> None:
    """Make a disk say that it is another one."""
    path = node.mount(disk) / "spindle.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def refusal(node: Node) -> str:
    with pytest.raises(PreflightRefusedError) as refused:
        node.preflight()
    text = str(refused.value)
    assert "To resolve:" in text
    return text


def start_refusal(node: Node) -> str:
    node.start()
    assert node.wait_end() == 1
    return (node.base / "termination").read_text()


def test_the_agents_own_probe_is_left_alone(used: Node) -> None:
    """It looks at the same disks at the same time, and would take other bytes for a disk that lies."""
    probe = used.mount("disk0") / ".spindle-probe"
    probe.write_bytes(b"what the agent has just written")
    used.preflight()
    assert probe.read_bytes() == b"what the agent has just written"
    assert not (used.mount("disk0") / ".spindle-preflight").exists()


def test_blank_disk_waits_for_its_clearance_and_is_formatted_once(node: Node) -> None:
    seen = node.inspect()
    assert [seen[name]["state"] for name in ("disk0", "disk1")] == ["blank", "blank"]
    process = node.preflight_process()
    assert process.stdout is not None
    try:
        assert "disk0 is blank" in process.stdout.readline()
        node.clear("disk0", "11111111-2222-3333-4444-555555555555")  # another file system
        node.clear("disk0", seen["disk0"]["fsUuid"], nonce="of-an-earlier-pod")  # the answer to another look
        node.clear("disk1", seen["disk1"]["fsUuid"])
        wait_for("disk1 formatted", meta(node, "disk1").exists, 10)
        assert not meta(node, "disk0").exists()
        assert process.poll() is None
        node.clear("disk0", seen["disk0"]["fsUuid"])
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.communicate()
    assert node.slots["disk0"].directory_id in meta(node, "disk0").read_text()

    # Emptied behind our back: the clearance is still there, but it was used.
    for entry in node.mount("disk0").iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    with pytest.raises(subprocess.TimeoutExpired):
        node.preflight(seconds=2)
    assert not meta(node, "disk0").exists()


def test_waiting_ends_at_once_when_the_pod_is_deleted(node: Node) -> None:
    node.inspect()
    process = node.preflight_process()
    assert process.stdout is not None
    assert "is blank" in process.stdout.readline()
    process.terminate()
    assert process.wait(5) == 128 + signal.SIGTERM
    process.communicate()


def test_formatted_disks_are_used_as_they_are(used: Node) -> None:
    before = meta(used, "disk0").read_text()
    assert {disk["state"] for disk in used.inspect().values()} == {"ours"}
    used.preflight()
    assert meta(used, "disk0").read_text() == before
    properties = (Path(used.layout.handover_dir) / "server.properties").read_text()
    assert properties.endswith(f"log.dirs={used.log_dir('disk0')},{used.log_dir('disk1')}\n")


def test_report_tells_what_is_behind_a_disk(used: Node) -> None:
    entry = used.inspect()["disk0"]
    assert entry["fsType"] == "xfs"
    assert entry["mount"].startswith("/dev/loop")
    assert entry["device"].startswith("7:")
    assert 250e6 < entry["totalBytes"] < 340e6
    blkid = subprocess.run(
        ["blkid", "-o", "value", "-s", "UUID", used.slots["disk0"].disk.image],  # type: ignore[union-attr]
        capture_output=True,
        text=True,
        check=True,
    )
    assert entry["fsUuid"] == blkid.stdout.strip()


def test_missing_disk_leaves_an_empty_folder_that_is_refused(used: Node) -> None:
    used.slots["disk0"].disk.unmount()  # type: ignore[union-attr]
    assert used.inspect()["disk0"]["state"] == "not-mounted"
    assert "disk0 is not mounted" in refusal(used)
    assert list(used.mount("disk0").iterdir()) == []


def test_folder_of_the_node_is_taken_where_the_cluster_allows_it(cluster: Cluster, node: Node) -> None:
    node.slots["disk0"].disk.unmount()  # type: ignore[union-attr]
    node.cluster = replace(cluster.inputs, shared_filesystem=True)
    node.write_inputs()
    assert node.inspect()["disk0"]["state"] == "blank"
    node.clear_blank()
    node.preflight()
    assert meta(node, "disk0").exists()
    shutil.rmtree(node.mount("disk0") / "log")
    (node.mount("disk0") / "spindle.json").unlink()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param({"clusterId": OTHER_ID}, f"another cluster, {OTHER_ID}", id="cluster"),
        pytest.param({"nodeId": 7}, "another node, 7", id="node"),
        pytest.param({"directoryId": OTHER_ID}, f"another directory id, {OTHER_ID}", id="retired"),
    ],
)
def test_foreign_disk_is_refused(used: Node, change: dict[str, object], says: str) -> None:
    rewrite(used, "disk0", **change)
    assert used.inspect()["disk0"]["state"] == "foreign"
    assert says in refusal(used)
    assert used.slots["disk0"].directory_id in meta(used, "disk0").read_text()


def test_disks_swapped_within_a_broker_are_refused(used: Node) -> None:
    swap(used)
    assert "another disk of this node, disk1" in refusal(used)


def test_meta_properties_of_another_node_is_refused(used: Node) -> None:
    path = meta(used, "disk0")
    path.write_text(path.read_text().replace("node.id=0", "node.id=3"))
    assert "meta.properties names another node, 3" in refusal(used)


def test_copy_on_another_file_system_is_refused(used: Node) -> None:
    used.slots["disk0"].fs_uuid = "11111111-2222-3333-4444-555555555555"
    used.write_annotations()
    assert "may lack records" in refusal(used)


def test_somebodys_data_is_refused(node: Node) -> None:
    (node.mount("disk1") / "photos").mkdir()
    assert "contains data (photos)" in refusal(node)


def test_disk_that_lost_its_meta_properties_is_refused_even_with_a_clearance(used: Node) -> None:
    meta(used, "disk0").unlink()
    used.clear("disk0", used.inspect()["disk0"]["fsUuid"])
    assert "meta.properties is missing" in refusal(used)
    assert not meta(used, "disk0").exists()


def test_dead_and_readonly_disks_do_not_keep_kafka_from_starting(used: Node) -> None:
    used.slots["disk0"].disk.die()  # type: ignore[union-attr]
    used.slots["disk1"].disk.remount("ro")  # type: ignore[union-attr]
    seen = used.inspect()
    assert [seen[name]["state"] for name in ("disk0", "disk1")] == ["dead", "readonly"]
    used.preflight()


def test_blank_disk_that_is_read_only_is_refused(node: Node) -> None:
    node.slots["disk0"].disk.remount("ro")  # type: ignore[union-attr]
    assert "disk0 is mounted read-only" in refusal(node)


def test_full_disk_is_used(used: Node) -> None:
    filler = used.mount("disk0") / "log" / "filler-0"
    filler.mkdir()
    with (filler / "data").open("wb", buffering=0) as file:
        for size in (2**20, 4096, 512):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)
    used.preflight()


def test_placeholder_stands_where_a_disk_is_left_out(used: Node) -> None:
    slot = used.slots["disk1"]
    slot.disk.unmount()  # type: ignore[union-attr]
    slot.mode = PLACEHOLDER
    used.new_pod()
    used.preflight()
    assert used.mount("disk1").is_file()
    assert used.inspect()["disk1"]["state"] == "placeholder"


def test_an_empty_disk_that_is_to_leave_keeps_kafka_from_starting_until_it_is_wanted(used: Node) -> None:
    used.leaving = "disk1"
    used.write_annotations()
    assert used.inspect()["disk1"]["replicas"] == 0
    process = used.preflight_process()
    assert process.stdout is not None
    try:
        assert "disk1 holds no replicas" in process.stdout.readline()
        assert process.poll() is None
        used.leaving = ""
        used.write_annotations()
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_disk_that_is_to_leave_is_used_if_a_replica_stands_on_it(used: Node) -> None:
    (Path(used.log_dir("disk1")) / "made-in-between-0").mkdir()
    used.leaving = "disk1"
    used.write_annotations()
    assert used.inspect()["disk1"]["replicas"] == 1
    used.preflight()
    properties = (Path(used.layout.handover_dir) / "server.properties").read_text()
    assert properties.endswith(f"log.dirs={used.log_dir('disk0')},{used.log_dir('disk1')}\n")


def test_container_restart_with_swapped_disks_is_refused_by_the_start_script(used: Node) -> None:
    used.preflight()
    swap(used)
    assert "is not the expected disk" in start_refusal(used)


def test_container_restart_without_the_mount_is_refused_by_the_start_script(used: Node) -> None:
    used.preflight()
    used.slots["disk0"].disk.unmount()  # type: ignore[union-attr]
    assert "is no longer mounted" in start_refusal(used)


def test_container_restart_with_an_emptied_disk_is_refused_by_the_start_script(used: Node) -> None:
    used.preflight()
    meta(used, "disk0").unlink()
    assert "has no readable meta.properties" in start_refusal(used)


def test_interrupted_birth_of_a_controller_resumes(cluster: Cluster) -> None:
    controller = cluster.controller
    controller.new_pod()
    controller.clear_blank()
    controller.preflight()
    assert (controller.mount("metadata") / "spindle.json.pending").exists()
    # The tool was killed in the middle, and the pod is made anew: no second clearance is needed.
    (controller.mount("metadata") / "log" / "__cluster_metadata-0").mkdir(parents=True)
    controller.new_pod()
    controller.preflight()
    assert (Path(controller.layout.handover_dir) / "format.args").exists()


def test_controller_that_lost_its_log_is_refused(cluster: Cluster) -> None:
    controller = cluster.controller
    controller.new_pod()
    controller.clear_blank()
    controller.preflight()
    root = controller.mount("metadata")
    (root / "spindle.json.pending").rename(root / "spindle.json")
    controller.new_pod()
    assert "meta.properties is missing" in refusal(controller)


def swap(node: Node) -> None:
    first, second = node.slots["disk0"].disk, node.slots["disk1"].disk
    assert first is not None
    assert second is not None
    first.unmount()
    second.unmount()
    first.mount(node.mount("disk1"))
    second.mount(node.mount("disk0"))
