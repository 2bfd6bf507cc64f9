"""From a worker's reports to signals, a verdict and an entry of the status."""

import errno
from dataclasses import replace
from typing import Any

import pytest

from spindle.disks.findings import ProbeSettings
from spindle.disks.signals import Latency
from spindle.model import disk_facts
from spindle.model.disk_facts import Found
from spindle.model.disk_identity import Identity, MetaProperties
from spindle_agent.disk import Disk, WatchedDisk, coarse
from spindle_agent.options import Options, parse
from spindle_agent.places import slots_of, unwatched_of
from spindle_agent.probing import diskstats
from spindle_agent.probing.messages import (
    Began,
    Inspected,
    Probed,
    QuickChecked,
    Report,
    Watch,
    decode,
    encode,
)

ID, OTHER = "A" * 22, "B" * 22
UID = "3e2f6b1c-9f1a-4c57-8f1a-2b9d0c7f4e11"
FS, NEW_FS = "530f8455-460d-421d-bd7a-cacf03e904a3", "9cde6de4-6e63-4ec6-8775-537ce753e927"
SLOT = WatchedDisk(
    broker_id=3,
    name="disk1",
    directory_id=ID,
    path="/mnt/disks/one",
    log_dir="/d/disk1/log",
    fs_uuid=FS,
    mode="Active",
)
OURS = Found(
    mounted=True,
    fs_uuid=FS,
    source="/dev/sdb1",
    device="8:17",
    identity=Identity("cluster", 3, "disk1", ID),
    meta=MetaProperties("cluster", 3, ID),
)
WELL = QuickChecked(at=0, mounted=True, total_bytes=1000, used_bytes=123)
TUNING = ProbeSettings()


def disk(found: Found = OURS, slot: WatchedDisk = SLOT) -> Disk:
    """A disk of which a first round was well."""
    made = Disk(slot, 0.0)
    made.take(Inspected(at=0, found=found))
    made.take(WELL)
    made.take(Probed(at=0, seconds=0.001))
    made.assess(Latency(), 0.0, TUNING)
    return made


def entry(of: Disk, now: float = 0.0) -> dict[str, Any]:
    made = of.entry(Latency(), now)
    assert made is not None
    return made


def glance(at: float, **fields: Any) -> QuickChecked:
    return replace(WELL, at=at, **fields)


def test_a_check_of_a_healthy_disk_at_which_nothing_happens_waits_for_the_next_probe() -> None:
    made = disk()
    assert not made.take(glance(0.5))
    assert not made.take(glance(1.0, used_bytes=124)), "it is told in percent"
    for news in ({"used_bytes": 500}, {"errno": 5}, {"mounted": False}, {"readonly": True}, {"late": 1.5}):
        assert disk().take(glance(0.5, **news)), news
    assert made.take(glance(2.0)), "no probe has returned for two seconds"
    made = disk()
    assert made.take(Probed(at=1.0, seconds=0.001))
    made.take(Began(at=0.0))
    assert made.take(glance(0.5)), "a write is pending"


def test_a_healthy_disk_is_told_in_coarse_figures() -> None:
    told = disk().entry(Latency(own_ms=37.0), 0.0)

    assert told is not None
    assert told.pop("since").endswith("Z")
    assert told == {
        "name": "disk1",
        "verdict": "Healthy",
        "content": "ours",
        "fsUuid": FS,
        "device": "/dev/sdb1",
        "capacityBytes": 1000,
        "usedBytes": 120,
        "latencyMs": 20,
    }


def test_before_the_first_round_nothing_is_told() -> None:
    assert Disk(SLOT, 0.0).entry(Latency(), 0.0) is None
    assert not Disk(SLOT, 0.0).ready(1.0)
    assert Disk(SLOT, 0.0).ready(10.0), "a disk that hangs from the start must not hide the others"


def test_an_error_is_asked_for_again_at_once_and_then_believed() -> None:
    one = disk()
    one.take(glance(1.0, errno=errno.EIO))
    assert one.assess(Latency(), 1.0, TUNING)
    assert entry(one)["verdict"] == "Suspect"

    one.take(glance(1.05, errno=errno.EIO))
    one.assess(Latency(), 1.05, TUNING)
    assert (entry(one)["verdict"], entry(one)["reason"]) == ("Failed", "ProbeError")


def test_a_failed_write_counts_though_looking_goes_well() -> None:
    one = disk()
    for at in (2.0, 2.1):
        one.take(Probed(at=at, seconds=0, errno=errno.EIO, doing="fsync"))
        one.take(glance(at))
        one.assess(Latency(), at, TUNING)

    assert "fsync" in entry(one)["message"]


@pytest.mark.parametrize(
    ("report", "verdict", "reason"),
    [
        (glance(0, mounted=False), "Missing", "NotMounted"),
        (glance(0, readonly=True), "Failed", "ReadOnly"),
        (Probed(at=0, seconds=0, wrong=True), "Failed", "WrongData"),
        (Probed(at=0, seconds=0, errno=errno.ENOSPC, doing="write"), "Suspect", "Full"),
        (Probed(at=0, seconds=0, errno=errno.EACCES, doing="open"), "Suspect", "NotPermitted"),
    ],
)
def test_what_is_odd_comes_to_a_verdict(report: Any, verdict: str, reason: str) -> None:
    one = disk()
    for at in (1.0, 1.1):
        one.take(replace(report, at=at))
        one.assess(Latency(), at, TUNING)

    assert (entry(one)["verdict"], entry(one)["reason"]) == (verdict, reason)


def test_a_write_that_does_not_come_back_is_a_hung_disk_even_if_looking_goes_on() -> None:
    one = disk()
    one.take(Began(at=1.0))
    for second in range(1, 14):
        one.take(glance(second))
        one.assess(Latency(quiet=float(second)), float(second), TUNING)

    assert (entry(one)["verdict"], entry(one)["reason"]) == ("Failed", "IOHung")
    assert entry(one)["stalled"] is True
    assert (entry(one, 13.0)["pendingWrite"], entry(one, 13.0)["pendingSeconds"]) == (1000, 10)
    assert entry(one, 16.5)["pendingSeconds"] == 15, "it goes on growing for as long as this write is pending"
    assert one.pending(13.0) == 12.0
    one.take(Probed(at=13.5, seconds=12.5))
    one.assess(Latency(quiet=0.0), 13.5, TUNING)
    assert entry(one)["verdict"] == "Failed", "the verdict lasts"
    assert not {"stalled", "pendingWrite"} & entry(one).keys()
    one.started(13.0)
    assert one.pending(13.0) == 0.0


def test_a_worker_that_falls_silent_is_a_hung_disk() -> None:
    one = disk()
    for second in range(1, 14):
        one.assess(Latency(quiet=float(second)), float(second), TUNING)

    assert (entry(one)["verdict"], entry(one)["reason"]) == ("Failed", "IOHung")
    assert "a check has been pending" in entry(one)["message"]


def test_what_kafka_says_counts_for_a_disk_in_use() -> None:
    one = disk()
    one.kafka_error = 56
    one.assess(Latency(), 1.0, TUNING)

    assert (entry(one)["verdict"], entry(one)["reason"]) == ("Failed", "LogDirOffline")


@pytest.mark.parametrize(
    ("found", "content"),
    [
        (OURS, "ours"),
        (replace(OURS, meta=None, identity=None), "blank"),
        (replace(OURS, meta=None, identity=None, strangers=("holiday.jpg",)), "foreign"),
        (replace(OURS, identity=Identity("cluster", 3, "disk1", OTHER), meta=None), "foreign"),
        (replace(OURS, identity=Identity("other", 4, "disk0", OTHER), meta=None), "foreign"),
        (replace(OURS, fs_uuid=NEW_FS), "foreign"),
        (replace(OURS, error="Input/output error"), "unknown"),
        (replace(OURS, readonly=True, writable=False), "ours"),
    ],
)
def test_whose_disk_it_is(found: Found, content: str) -> None:
    assert entry(disk(found))["content"] == content


def test_a_blank_disk_in_a_slot_that_waits_for_one_is_well() -> None:
    slot = replace(SLOT, fs_uuid=None, mode=disk_facts.ABSENT)
    blank = replace(OURS, identity=None, meta=None, fs_uuid=NEW_FS)
    told = entry(disk(blank, slot))

    assert (told["verdict"], told["content"], told["fsUuid"]) == ("Healthy", "blank", NEW_FS)


def test_what_was_said_before_a_restart_is_not_taken_back_by_it() -> None:
    one = Disk(SLOT, 100.0)
    one.resume(
        {
            "verdict": "Failed",
            "reason": "ProbeError",
            "message": "It said no.",
            "since": "2026-01-01T00:00:00Z",
        },
        100.0,
    )
    one.take(Inspected(at=100, found=OURS))
    one.take(glance(100.0))
    one.take(Probed(at=100, seconds=0))
    one.assess(Latency(), 100.0, TUNING)

    assert entry(one)["verdict"] == "Failed", "well for a moment is not well"
    assert entry(one)["since"] == "2026-01-01T00:00:00Z"
    for second in range(101, 140):
        one.take(glance(second))
        one.take(Probed(at=second, seconds=0))
        one.assess(Latency(), float(second), TUNING)
    assert entry(one)["verdict"] == "Healthy"


def test_messages_come_through_as_they_were() -> None:
    messages: list[Watch | Report] = [
        Watch(path="/p", cluster_id="cluster", node_id=1, disk="disk0", directory_id=ID, interval=5.0),
        Inspected(at=1.0, found=replace(OURS, strangers=("a", "b"), pending=OURS.identity)),
        WELL,
        Began(at=2.0),
        Probed(at=3.0, seconds=0.5, errno=5, doing="read"),
    ]

    assert [decode(encode(message)) for message in messages] == messages
    for nonsense in (b"", b"[]", b'["Nobody",{}]', b'["Began",{}]'):
        with pytest.raises(ValueError):
            decode(nonsense)


# --- what is on record


def options(*arguments: str) -> Options:
    return parse(["--node=here", *arguments])


def test_disks_outside_the_roots_are_left_out() -> None:
    told = {"a": "/mnt/disks/a", "b": "/mnt/disksful/b", "c": "/mnt/disks/../other", "d": "/mnt/disks"}
    obj = {
        "spec": {"id": 1, "disks": [{"name": name, "directoryId": ID} for name in (*told, "e")]},
        "status": {"disks": [{"name": name, "path": path} for name, path in told.items()]},
    }

    (slot,) = slots_of(obj, options("--disk-root=/mnt/disks/", "--host-prefix=/host"))
    assert (slot.name, slot.path, slot.root) == ("a", "/host/mnt/disks/a", "/host/mnt/disks")
    assert slot.log_dir == "/var/lib/kafka/disks/a/log"
    assert slots_of(obj, options()) == []


def csi_broker(uid: str = UID, **volume: str) -> dict[str, Any]:
    status = {"name": "a", "pv": "pvc-1.x", "volumeType": "csi"} | volume
    return {
        "spec": {"id": 1, "disks": [{"name": "a", "directoryId": ID}], "scrub": {}, "ballastBytes": 7},
        "status": {"disks": [status], "podUid": uid},
    }


def test_a_volume_that_is_not_local_is_where_the_kubelet_mounts_it() -> None:
    seeing = options("--kubelet-pods=/var/lib/kubelet/pods/", "--host-prefix=/host")
    (slot,) = slots_of(csi_broker(), seeing)

    assert slot.path == f"/host/var/lib/kubelet/pods/{UID}/volumes/kubernetes.io~csi/pvc-1.x/mount"
    assert slot.watch(1.0).beneath == slot.root == "/host/var/lib/kubelet/pods"
    assert slot.ballast == 7
    assert slot.scrub is None, "a scrub would keep the kubelet from unmounting it"
    assert unwatched_of(csi_broker(), seeing) == {}
    assert SLOT.watch(1.0).beneath == "", "the path of a local volume is the administrator's"


@pytest.mark.parametrize(
    ("obj", "arguments", "why"),
    [
        (csi_broker(), [], "agent.kubeletPods=true"),
        (csi_broker(""), ["--kubelet-pods=/p"], "no pod"),
        (csi_broker("../x"), ["--kubelet-pods=/p"], "none that Kubernetes gives"),
        (csi_broker(pv=".."), ["--kubelet-pods=/p"], "none that Kubernetes gives"),
        (csi_broker(pv="a/../../b"), ["--kubelet-pods=/p"], "none that Kubernetes gives"),
        (csi_broker(volumeType="flexVolume"), ["--kubelet-pods=/p"], "this type (flexVolume)"),
        (csi_broker(path="/srv/a"), ["--disk-root=/mnt/disks"], "agent.diskRoots: /mnt/disks"),
    ],
)
def test_what_cannot_be_looked_at_has_a_reason(obj: dict[str, Any], arguments: list[str], why: str) -> None:
    assert slots_of(obj, options(*arguments)) == []
    assert why in unwatched_of(obj, options(*arguments))["a"]


def test_a_disk_without_a_volume_needs_no_reason() -> None:
    obj = {"spec": {"id": 1, "disks": [{"name": "a", "directoryId": ID}]}}
    assert slots_of(obj, options("--kubelet-pods=/p")) == []
    assert unwatched_of(obj, options("--kubelet-pods=/p")) == {}


IN_POD = replace(SLOT, in_pod=True)


@pytest.mark.parametrize(
    ("unseen", "why"), [({"mounted": False}, "has not mounted"), ({"readable": False}, "may not open")]
)
def test_a_volume_that_is_not_mounted_for_its_pod_is_neither_dead_nor_healed(
    unseen: dict[str, bool], why: str
) -> None:
    one = disk(slot=IN_POD)
    assert one.unwatched == ""
    for at in (2.0, 2.5, 60.0):
        one.take(glance(at, **unseen))
        assert not one.assess(Latency(), at, TUNING)
        assert one.entry(Latency(), at) is None
        assert why in one.unwatched
    for at in (61.0, 61.5):
        one.take(glance(at, errno=errno.EIO))
        one.assess(Latency(), at, TUNING)
    assert entry(one)["verdict"] == "Failed"
    for at in range(62, 200):
        one.take(glance(float(at), **unseen))
        one.assess(Latency(), float(at), TUNING)
    one.take(glance(200.0))
    one.take(Probed(at=200.0, seconds=0.001))
    one.assess(Latency(), 200.0, TUNING)
    assert entry(one, 200.0)["verdict"] == "Failed", "it must be seen healthy for a while first"


def test_brokers_have_their_names_in_kubernetes() -> None:
    assert options().host_of("ns", "demo", 2) == "demo-broker-2.demo-brokers.ns.svc"
    assert options("--broker-host={cluster}.{namespace}.{id}").host_of("ns", "demo", 2) == "demo.ns.2"


def test_options_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in {
        "NODE_NAME": "n1",
        "POD_NAMESPACE": "agents",
        "SPINDLE_DISK_ROOTS": "/a,/b/",
        "SPINDLE_NAMESPACES": "x,y",
        "KUBERNETES_SERVICE_HOST": "fd00::1",
        "KUBERNETES_SERVICE_PORT": "6443",
    }.items():
        monkeypatch.setenv(key, value)
    made = parse([])

    assert (made.node, made.own_namespace, made.roots) == ("n1", "agents", ("/a", "/b"))
    assert made.namespaces == ("x", "y")
    assert made.api_server == "https://[fd00::1]:6443"


# --- figures


@pytest.mark.parametrize(
    ("value", "told"), [(None, None), (0.2, 0), (1, 1), (4.9, 2), (5, 5), (99, 50), (100, 100), (4999, 2000)]
)
def test_latency_is_told_in_coarse_steps(value: float | None, told: int | None) -> None:
    assert coarse(value) == told


def test_latency_is_what_the_last_seconds_took() -> None:
    line = (
        "   8      17 sdb1 {reads} 0 0 {read_ms} {writes} 0 0 {write_ms} 0 9 9 0 0 0 0 {flushes} {flush_ms}\n"
    )

    def counters(**figures: int) -> dict[str, diskstats.Counters]:
        zero = dict.fromkeys(("reads", "read_ms", "writes", "write_ms", "flushes", "flush_ms"), 0)
        return diskstats.parse(line.format(**zero | figures) + "   7 0 short\n")

    seen = diskstats.Latencies()
    assert seen.of("8:17") is None
    seen.add(0, counters(writes=1000, write_ms=1), ["8:17", "8:99"])
    seen.add(2, counters(writes=1001, write_ms=2), ["8:17"])
    assert seen.of("8:17") is None, "one request says nothing"
    seen.add(4, counters(writes=1004, write_ms=101, flushes=1, flush_ms=100), ["8:17"])
    assert seen.of("8:17") == 40.0
    assert seen.of("8:99") is None
    for at in range(6, 20, 2):
        seen.add(at, counters(writes=1004 + at, write_ms=101 + 2 * at, flushes=1, flush_ms=100), ["8:17"])
    assert seen.of("8:17") == 2.0, "what is long past no longer counts"
    old = diskstats.parse("8 17 sdb1 10 0 0 20 10 0 0 20 0 9 9\n8 18 sdb2 1 0 0 0 0 0 0 0 0 0 0 0\n")
    assert old["8:17"] == diskstats.Counters(20, 40, 10)


def test_how_long_a_device_has_finished_no_write() -> None:
    seen = diskstats.Latencies()
    assert seen.quiet("8:17") is None
    for at, writes, reads in ((0, 5, 0), (2, 5, 9), (4, 6, 9), (6, 6, 20), (30, 6, 90)):
        seen.add(at, {"8:17": diskstats.Counters(writes + reads, 0, writes)}, ["8:17"])
        assert seen.quiet("8:17") == {0: 0, 2: 2, 4: 0, 6: 2, 30: 26}[at]
    assert seen.quiet("8:99") is None
    assert seen.quiet(None) is None
    seen.add(32, {}, ["8:17"])
    assert seen.quiet("8:17") is None


@pytest.mark.parametrize("another", [False, True], ids=["the same volume", "another volume"])
def test_at_another_path_nothing_is_known_before_the_first_look(another: bool) -> None:
    """The pod has another UID, and perhaps another volume, which does not answer: the former one is not taken for it."""
    made = disk()
    there = replace(SLOT, path="/pods/two/mount", root="/pods", in_pod=True)
    made.changed(replace(there, directory_id=OTHER, fs_uuid=None) if another else there)
    made.started(10.0)
    for now in (10.1, 15.0, 20.0):
        made.assess(Latency(), now, TUNING)
    told = entry(made, 20.0)
    assert (told["verdict"], told["reason"], told["content"]) == ("Suspect", "NotAnswering", "unknown")
    assert made.device is None
