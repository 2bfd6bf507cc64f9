"""Each fault does what it says, as seen from a pod, from Kubernetes and from the node."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster import versions
from e2e.cluster.apiserver import KubectlError
from e2e.cluster.disks import Rack
from e2e.cluster.layout import KAFKA_IMAGE, SPINDLE_IMAGE
from e2e.cluster.state import Options
from e2e.cluster.system import CommandError, run
from e2e.cluster.testbed import Testbed
from e2e.cluster.waiting import wait_for

pytestmark = pytest.mark.e2e

MOUNT = "/mnt/disks/disk{}"


@pytest.fixture(scope="module")
def up(bed: Testbed) -> Iterator[Testbed]:
    bed.up(Options(nodes=2, zones=2, disks=3, disk_size=1 << 30))
    yield bed
    bed.down()


def write(bed: Testbed, node: int, disk: int, seconds: float = 30) -> float:
    """Write a block to a disk and sync it; how long that took, in seconds."""
    began = time.monotonic()
    bed.node(node).run(
        *("dd", "if=/dev/zero", f"of={MOUNT.format(disk)}/probe", "bs=4k", "count=1", "conv=fsync"),
        seconds=seconds,
    )
    return time.monotonic() - began


def pod(name: str, node: str, claim: str | None = None) -> list[dict[str, Any]]:
    mounts = [{"name": "disk", "mountPath": "/disk"}] if claim else []
    volumes = [{"name": "disk", "persistentVolumeClaim": {"claimName": claim}}] if claim else []
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {
                "name": "main",
                "image": KAFKA_IMAGE.format(version=versions.KAFKA),
                "command": ["sleep", "infinity"],
                "securityContext": {"runAsUser": 0},
                "volumeMounts": mounts,
            }
        ],
        "volumes": volumes,
    }
    made: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    ]
    if claim:
        wanted: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "storageClassName": "local-disks"}
        wanted |= {"resources": {"requests": {"storage": "1Gi"}}}
        made.append(
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": claim}, "spec": wanted}
        )
    return made


def run_pod(bed: Testbed, name: str, node: str, claim: str | None = None) -> None:
    # Its namespace's service account may be younger than a second.
    wait_for("service account", lambda: bed.kubectl("get", "sa", "default", check=False), seconds=30)
    bed.apply(*pod(name, node, claim))
    bed.kubectl("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=90s")


def test_the_cluster_is_as_described(up: Testbed) -> None:
    zones = {
        node["metadata"]["name"]: node["metadata"]["labels"]["topology.kubernetes.io/zone"]
        for node in up.get("nodes")["items"]
    }
    assert zones == {"node1": "zone-a", "node2": "zone-b"}
    volumes = up.get("persistentvolume")["items"]
    classes = sorted(volume["spec"]["storageClassName"] for volume in volumes)
    assert classes == ["local-disks"] * 6 + ["standard"] * 2
    machine = sum(int(node["status"]["allocatable"]["memory"][:-2]) for node in up.get("nodes")["items"])
    total = int(run("sh", "-c", "grep MemTotal /proc/meminfo").split()[1])
    assert machine < total, "what the nodes offer together is there"


def test_images_are_there_and_nothing_else_can_be_pulled(up: Testbed) -> None:
    listed = up.node(1).run("ctr", "--namespace=k8s.io", "images", "ls", "-q").split()
    assert {SPINDLE_IMAGE, KAFKA_IMAGE.format(version=versions.KAFKA)} <= set(listed)


def test_pods_reach_each_other_by_name_and_tests_reach_pods(up: Testbed) -> None:
    run_pod(up, "talker", "node1")
    address = up.get("pod", "talker")["status"]["podIP"]
    run(*up.inside("getent", "hosts", f"{address.replace('.', '-')}.default.pod.cluster.local"))
    up.kubectl("exec", "talker", "--", "getent", "hosts", "kubernetes.default.svc.cluster.local")
    # A service's own address works from there too.
    run(*up.inside("timeout", "5", "bash", "-c", "exec 3<>/dev/tcp/10.96.0.1/443"))


def test_a_failed_disk_gives_io_errors_until_healed(up: Testbed) -> None:
    write(up, 1, 0)
    up.disk_fail(1, 0)
    with pytest.raises(CommandError, match="Input/output error"):
        write(up, 1, 0)
    write(up, 1, 1)  # the others are well
    assert "disk0 DEAD" in "\n".join(up.status())
    up.disk_heal(1, 0)
    write(up, 1, 0)
    assert "probe" in up.node(1).run("ls", MOUNT.format(0))


def test_a_failed_disk_is_healed_although_a_pod_holds_it(up: Testbed) -> None:
    run_pod(up, "holder", "node1", "held")
    volume = up.get("pvc", "held")["spec"]["volumeName"]
    node, slot = up.disk_of(volume)
    up.kubectl("exec", "holder", "--", "sh", "-c", "echo kept > /disk/word; sync")
    up.disk_fail(node, slot)
    with pytest.raises(KubectlError, match="Input/output error"):
        up.kubectl("exec", "holder", "--", "cat", "/disk/word")
    up.disk_heal(node, slot)
    assert up.node(node).run("cat", f"/mnt/disks/{slot}/word") == "kept\n"
    up.kubectl("delete", "pod", "holder")
    up.apply(pod("holder", "node1", "held")[0])
    up.kubectl("wait", "pod/holder", "--for=condition=Ready", "--timeout=90s")
    assert up.kubectl("exec", "holder", "--", "cat", "/disk/word") == "kept\n"
    up.kubectl("delete", "pod", "holder")


def test_a_swapped_disk_is_blank_and_another_one(up: Testbed) -> None:
    write(up, 2, 0)
    before = up.node(2).run("findmnt", "--noheadings", "--output=UUID", MOUNT.format(0))
    up.disk_swap(2, 0)
    assert up.node(2).run("ls", MOUNT.format(0)) == ""
    assert up.node(2).run("findmnt", "--noheadings", "--output=UUID", MOUNT.format(0)) != before


def test_a_swapped_disk_that_was_kept_comes_back_with_its_data(up: Testbed) -> None:
    write(up, 2, 2)
    up.disk_fail(2, 2)
    up.disk_swap(2, 2, keep=True)
    assert up.node(2).run("ls", MOUNT.format(2)) == ""
    up.disk_put(2, 2, serial=1)
    write(up, 2, 2)
    assert up.disk_pull(2, 2).serial == 1
    with pytest.raises(CommandError):
        up.node(2).run("mountpoint", "--quiet", MOUNT.format(2))
    up.disk_put(2, 2)
    assert up.node(2).run("ls", MOUNT.format(2)) == "probe\n"


def test_a_swapped_disk_may_be_a_new_volume(up: Testbed) -> None:
    new = up.disk_swap(2, 1, new_volume=True)
    assert up.get("persistentvolume", new.volume)["spec"]["local"]["path"] == new.mount
    up.node(2).run("findmnt", new.mount)
    with pytest.raises(CommandError):
        up.node(2).run("ls", MOUNT.format(1))


def test_a_full_disk(up: Testbed) -> None:
    up.disk_fill(1, 1, 100)
    with pytest.raises(CommandError, match="No space left"):
        up.node(1).run("dd", "if=/dev/zero", f"of={MOUNT.format(1)}/more", "bs=1M", "count=8", "conv=fsync")
    up.disk_heal(1, 1)
    write(up, 1, 1)


def test_a_slow_disk_is_slow_for_everyone_and_in_the_kernels_statistics(up: Testbed) -> None:
    node = up.node(1)
    loop = (
        node.run("findmnt", "--noheadings", "--output=SOURCE", MOUNT.format(2)).strip().removeprefix("/dev/")
    )

    def spent() -> int:
        """Milliseconds that the kernel saw writes to the disk take."""
        fields = node.run("cat", f"/sys/block/{loop}/stat").split()
        return int(fields[7])

    up.disk_slow(1, 2, 300)
    before = spent()
    assert write(up, 1, 2) >= 0.3
    assert spent() - before >= 300
    up.disk_heal(1, 2)
    assert write(up, 1, 2) < 0.3


def test_a_hung_disk_answers_when_healed(up: Testbed) -> None:
    up.disk_hang(1, 2)
    with pytest.raises(CommandError, match="not done after"):
        write(up, 1, 2, seconds=2)
    assert "disk2 HANG" in "\n".join(up.status())
    up.disk_heal(1, 2)
    write(up, 1, 2)


def test_a_frozen_disk_answers_when_healed(up: Testbed) -> None:
    up.disk_freeze(1, 2)
    with pytest.raises(CommandError, match="not done after"):
        write(up, 1, 2, seconds=2)
    up.disk_heal(1, 2)
    write(up, 1, 2)


def test_a_disk_that_answers_with_errors(up: Testbed) -> None:
    up.disk_error(1, 2)
    with pytest.raises(CommandError, match="Input/output error"):
        write(up, 1, 2)
    up.disk_heal(1, 2)
    write(up, 1, 2)


def test_power_off_and_on_keeps_disks_and_changes_the_boot_id(up: Testbed) -> None:
    def boot_id() -> str:
        return str(up.get("node", "node2")["status"]["nodeInfo"]["bootID"])

    write(up, 2, 0)
    before = boot_id()
    up.disk_hang(2, 2)  # neither must keep the node from dying
    up.disk_freeze(2, 0)
    up.node_off(2)
    assert not up.node(2).is_on()
    assert not up.node(2).loops()
    up.node_off(2)  # off is off
    up.kubectl("wait", "node/node2", "--for=condition=Ready=Unknown", "--timeout=60s")
    up.node_on(2)
    assert boot_id() != before
    assert up.node(2).run("ls", MOUNT.format(0)) == "probe\n"
    write(up, 2, 2)


def test_power_off_may_lose_what_was_not_synced(up: Testbed) -> None:
    write(up, 2, 0)
    up.node(2).run("sh", "-c", f"echo soon gone > {MOUNT.format(0)}/unsynced")
    up.node_off(2, lose_unsynced=True)
    up.node_on(2)
    there = up.node(2).run(
        "sh", "-c", f"cd {MOUNT.format(0)} && cat probe | wc -c; cat unsynced 2>/dev/null || true"
    )
    assert there.strip() == "4096"


def reaches(bed: Testbed, one: int, other: int) -> bool:
    """Whether the one node's packets reach the other's kubelet, and the answers come back."""
    probe = f"exec 3<>/dev/tcp/{bed.node(other).layout.address}/10250"
    try:
        bed.node(one).run("timeout", "1", "bash", "-c", probe, seconds=10)
    except CommandError:
        return False
    return True


def test_a_pulled_cable(up: Testbed) -> None:
    assert reaches(up, 1, 2)
    up.link_down(1)
    assert not reaches(up, 2, 1)
    up.kubectl("wait", "node/node1", "--for=condition=Ready=Unknown", "--timeout=60s")
    up.link_up(1)
    assert reaches(up, 2, 1)
    up.kubectl("wait", "node/node1", "--for=condition=Ready", "--timeout=60s")


def test_a_partition_cuts_two_nodes_and_no_other_way(up: Testbed) -> None:
    up.partition(1, 2)
    assert not reaches(up, 1, 2)
    up.node(1).run("timeout", "1", "bash", "-c", "exec 3<>/dev/tcp/10.55.0.1/6443")
    up.heal_partitions()
    assert reaches(up, 1, 2)
    up.heal_partitions()  # nothing to heal is no error


def test_reset_gives_blank_disks_and_free_volumes(up: Testbed) -> None:
    up.kubectl("delete", "pvc", "--all", "--wait=true")
    write(up, 1, 0)
    up.disks_reset()
    for node in up.nodes():
        for disk in Rack(node.layout).all():
            assert node.run("ls", disk.mount) == ""
    up.disks_reset("ext4")
    write(up, 1, 0)
    up.disk_read_only(1, 0)
    with pytest.raises(CommandError, match="Read-only file system"):
        write(up, 1, 0)
    up.disk_heal(1, 0)
    write(up, 1, 0)
    up.disks_reset("xfs")
    phases = {volume["status"]["phase"] for volume in up.get("persistentvolume")["items"]}
    assert phases <= {"Available", "Pending"}


def test_new_code_reaches_running_nodes(up: Testbed) -> None:
    up.load_images()
    spec = {
        "containers": [{"name": "main", "image": SPINDLE_IMAGE, "command": ["spindle-operator", "--help"]}]
    }
    up.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "ours"},
            "spec": {**spec, "restartPolicy": "Never"},
        }
    )
    wait_for(
        "the pod's end",
        lambda: up.get("pod", "ours")["status"]["phase"] in {"Succeeded", "Failed"},
        seconds=60,
        every=0.5,
    )
    assert up.get("pod", "ours")["status"]["phase"] == "Succeeded", up.kubectl("logs", "ours")
