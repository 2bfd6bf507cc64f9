"""The operator's metrics of a KafkaCluster, from passes on the model cluster."""

from collections import Counter
from dataclasses import replace
from typing import Any

from spindle.metrics import table
from spindle.metrics.cluster import MetricSample, cluster_samples, urgencies
from spindle.metrics.table import Metric
from spindle.model.agents import Agent
from spindle.model.snapshot import ClusterSnapshot
from spindle.model.view import Broker, KafkaView, LogDir, Partition, Quorum, Voter
from spindle.reconcile.plan import ReconcilePlan, plan
from tests.model.failing import Failing
from tests.unit.test_healing_plan import cluster, state_of, until

DEMO = ("team-a", "demo")


def samples(world: Failing, **snapshot: Any) -> list[MetricSample]:
    seen = replace(world.snapshot(), **snapshot)
    return cluster_samples(seen, plan(seen, world.now))


def of(found: list[MetricSample], metric: Metric) -> dict[tuple[str, ...], float]:
    """Labels without namespace and cluster → value."""
    return {sample.labels[2:]: sample.value for sample in found if sample.metric is metric}


def test_a_settled_cluster() -> None:
    world = cluster()
    found = samples(world)
    namespace = world.cluster["metadata"]["namespace"]
    assert {sample.labels[:2] for sample in found} == {(namespace, "demo")}
    assert all(len(sample.labels) == len(sample.metric.labels) for sample in found)
    assert len({(sample.metric.name, sample.labels) for sample in found}) == len(found)
    assert of(found, table.PAUSED) == {(): 0}
    assert of(found, table.PARTITIONS) == {(): 6}
    assert of(found, table.OFFLINE_PARTITIONS) == {(): 0}
    assert of(found, table.UNDER_MIN_ISR) == {(): 0}
    assert of(found, table.CONTROLLERS) == {(): 3}
    assert of(found, table.VOTER_CAUGHT_UP) == {(f"demo-controller-{i}",): 1 for i in range(3)}
    assert of(found, table.WAITING) == {}
    assert of(found, table.CONDITION)["DisksHealthy", "True", "AllHealthy"] == 1
    disks = [(f"demo-broker-{b}", f"disk{d}") for b in range(3) for d in range(2)]
    assert of(found, table.DISK_STATE) == {(*disk, "Active"): 1 for disk in disks}
    assert of(found, table.DISK_LEVEL) == {(*disk, "Normal"): 1 for disk in disks}
    assert of(found, table.DISK_REPLICAS) == dict.fromkeys(disks, 3)
    assert set(of(found, table.DISK_CAPACITY)) == set(of(found, table.DISK_USED)) == set(disks)
    assert of(found, table.AGENT_UP) == {}  # no agents are installed


def test_the_info_of_a_disk_says_where_it_is() -> None:
    world = cluster()
    broker = world.get("KafkaBroker", "demo-broker-1")
    broker["status"]["observed"] = {"disks": [{"name": "disk0", "device": "/dev/nvme1n1"}]}
    world.put(broker)
    (info,) = [key for key in of(samples(world), table.DISK_INFO) if key[:2] == ("demo-broker-1", "disk0")]
    named = dict(zip(table.DISK_INFO.labels, (*DEMO, *info), strict=True))
    assert named["rack"] == broker["spec"]["rack"]
    assert named["node"] == broker["spec"]["node"]
    assert named["device"] == "/dev/nvme1n1"
    assert named["persistentvolumeclaim"] == "data-disk0-demo-1"
    assert (
        named["persistentvolume"]
        == world.get("PersistentVolumeClaim", "data-disk0-demo-1")["spec"]["volumeName"]
    )
    assert named["pod"] == "demo-broker-1"


def test_a_dead_disk_counts_the_replicas_that_cannot_be_read() -> None:
    world = cluster()
    view = world.snapshot().kafka
    assert view.brokers is not None
    broker = view.brokers[0]
    assert broker.log_dirs is not None
    dead = tuple(LogDir(each.path, error=56) if "disk1" in each.path else each for each in broker.log_dirs)
    found = samples(world, kafka=replace(view, brokers={**view.brokers, 0: replace(broker, log_dirs=dead)}))
    assert of(found, table.DISK_REPLICAS)["demo-broker-0", "disk1"] == 3
    assert of(found, table.DISK_REPLICAS)["demo-broker-0", "disk0"] == 3
    assert ("demo-broker-0", "disk1") not in of(found, table.DISK_REPLICA_BYTES)
    assert ("demo-broker-0", "disk0") in of(found, table.DISK_REPLICA_BYTES)


def test_the_state_of_a_disk_that_failed_and_what_waits_because_of_it() -> None:
    world = cluster()
    world.disk(0, "disk1").state = "dead"
    until(world, lambda: state_of(world, 0, "disk1") == "Evacuated")
    found = samples(world)
    states = {key[2] for key in of(found, table.DISK_STATE) if key[:2] == ("demo-broker-0", "disk1")}
    assert states == {"Evacuated"}
    assert {(*key[:2], *key[3:]) for key in of(found, table.WAITING)} == {
        ("demo-broker-0", "disk1", "KafkaBroker/demo-broker-0/disk1", "ReplacementNeeded", "ticket")
    }


def test_a_disk_that_its_broker_runs_without_keeps_its_device_until_it_is_another_disk() -> None:
    world = cluster()
    device = device_of(world, "disk1")
    assert device.startswith("/dev/")
    world.disk(0, "disk1").state = "dead"
    until(world, lambda: state_of(world, 0, "disk1") == "Evacuated")
    assert device_of(world, "disk1") == device
    other = world.get("KafkaBroker", "demo-broker-0")
    for disk in other["status"]["disks"]:
        disk["directoryId"] = "AAAAAAAAAAAAAAAAAAAAAA"
    world.put(other)
    assert device_of(world, "disk1") == ""


def device_of(world: Failing, disk: str) -> str:
    (labels,) = [key for key in of(samples(world), table.DISK_INFO) if key[:2] == ("demo-broker-0", disk)]
    return dict(zip(table.DISK_INFO.labels, (*DEMO, *labels), strict=True))["device"]


def test_what_kafka_does_not_report_is_absent_and_not_zero() -> None:
    world = cluster()
    found = samples(world, kafka=KafkaView(error="not reachable"))
    for metric in (
        table.PARTITIONS,
        table.OFFLINE_PARTITIONS,
        table.UNDER_MIN_ISR,
        table.VOTER_CAUGHT_UP,
        table.DISK_REPLICAS,
    ):
        assert of(found, metric) == {}, metric.name
    assert of(found, table.CONTROLLERS) == {(): 3}
    assert len(of(found, table.DISK_INFO)) == 6


def test_faults_of_partitions_and_voters() -> None:
    world = cluster()
    view = world.snapshot().kafka
    assert view.partitions is not None
    first, second, *rest = view.partitions
    broken = (
        replace(first, leader=None, isr=()),
        replace(second, isr=second.isr[:1]),
        *rest,
    )
    quorum = Quorum(
        9000, (Voter(9000, "A" * 22, caught_up=True, lag=0), Voter(9001, "B" * 22, caught_up=False, lag=300))
    )
    found = samples(
        world,
        kafka=replace(view, partitions=broken, quorum=quorum, min_isr={first.topic: 2}),
    )
    assert of(found, table.OFFLINE_PARTITIONS) == {(): 1}
    assert of(found, table.UNDER_MIN_ISR) == {(): 2}
    assert of(found, table.VOTER_CAUGHT_UP) == {("demo-controller-0",): 1, ("demo-controller-1",): 0}
    assert of(found, table.VOTER_LAG) == {("demo-controller-0",): 0, ("demo-controller-1",): 300}


def test_paused_and_maintenance_are_there_to_mute_alerts() -> None:
    world = cluster()
    broker = world.get("KafkaBroker", "demo-broker-2")
    broker["spec"]["maintenance"] = {"stopped": True}
    world.put(broker)
    world.cluster["spec"]["paused"] = True
    found = samples(world)
    assert of(found, table.PAUSED) == {(): 1}
    assert of(found, table.MAINTENANCE) == {
        ("demo-broker-0",): 0,
        ("demo-broker-1",): 0,
        ("demo-broker-2",): 1,
    }


def test_agents_that_are_alive_silent_or_not_known_yet() -> None:
    world = cluster()
    nodes = {b: world.get("KafkaBroker", b)["spec"]["node"] for b in (f"demo-broker-{i}" for i in range(3))}
    agents = {
        nodes["demo-broker-0"]: Agent(age=3.0),
        nodes["demo-broker-1"]: Agent(age=90.0, unchanged=90.0),
        nodes["demo-broker-2"]: Agent(),
    }
    found = samples(world, agent_namespace="agents", agents=agents)
    up = of(found, table.AGENT_UP)
    assert up == {
        ("demo-broker-0", nodes["demo-broker-0"]): 1,
        ("demo-broker-1", nodes["demo-broker-1"]): 0,
    }
    unread = samples(world, agent_namespace="agents", unknown=frozenset({"leases"}))
    assert of(unread, table.AGENT_UP) == {}


def test_every_reason_has_an_urgency() -> None:
    assert set(urgencies().values()) == {"page", "ticket", "none"}
    assert urgencies()["ReplacementNeeded"] == "ticket"


def thousand_brokers(disks: int = 12) -> tuple[ClusterSnapshot, ReconcilePlan]:
    """1,000 settled brokers with 12 disks each, and one replica of 12,000 partitions on each disk."""
    count = 1000
    brokers = tuple(_broker(i, disks) for i in range(count))
    partitions = tuple(
        Partition("t", p, p % count, tuple((p + k) % count for k in range(3)), (p % count,))
        for p in range(count * disks)
    )
    held: dict[int, list[tuple[str, int]]] = {}
    for partition in partitions:
        for broker in partition.replicas:
            held.setdefault(broker, []).append(("t", partition.index))
    view = KafkaView(
        brokers={
            i: Broker(
                i,
                "a",
                log_dirs=tuple(
                    LogDir(
                        f"/var/lib/kafka/disks/disk{d}/log",
                        total_bytes=10**13,
                        usable_bytes=10**12,
                        replicas=dict.fromkeys(held[i][d::disks], 10**9),
                    )
                    for d in range(disks)
                ),
            )
            for i in range(count)
        },
        partitions=partitions,
        min_isr={"t": 1},
        quorum=Quorum(9000, tuple(Voter(9000 + i, "A" * 22, caught_up=True, lag=0) for i in range(5))),
    )
    obj = {"metadata": {"name": "demo", "namespace": "team-a"}, "spec": {"controllers": {"replicas": 5}}}
    nodes = {f"node{i}": Agent(age=1.0) for i in range(count)}
    snapshot = ClusterSnapshot(
        obj, "image", b"", brokers=brokers, kafka=view, agent_namespace="agents", agents=nodes
    )
    rows = [{"type": f"C{i}", "status": "True", "reason": "R"} for i in range(9)]
    statuses = {broker["metadata"]["name"]: broker["status"] for broker in brokers}
    return snapshot, ReconcilePlan(status={"conditions": rows}, broker_statuses=statuses)


def _broker(index: int, disks: int) -> dict[str, Any]:
    entry = {
        "state": "Active",
        "since": "2026-01-01T00:00:00Z",
        "usage": {"level": "Normal"},
        "pv": "pv",
        "device": "/dev/sda",
    }
    return {
        "metadata": {"name": f"demo-broker-{index}", "namespace": "team-a", "uid": str(index)},
        "spec": {
            "id": index,
            "pool": "main",
            "rack": "a",
            "node": f"node{index}",
            "disks": [{"name": f"disk{d}", "claim": f"data-disk{d}-demo-{index}"} for d in range(disks)],
        },
        "status": {
            "state": "Running",
            "start": {"seconds": 12, "kind": "Clean"},
            "disks": [{"name": f"disk{d}", **entry} for d in range(disks)],
        },
    }


def test_series_of_a_thousand_brokers_are_counted() -> None:
    """docs/reference/metrics.md states these figures."""
    found = cluster_samples(*thousand_brokers())
    counts = Counter(sample.metric.name for sample in found)
    for_each_disk = [name for name, count in counts.items() if count == 12_000]
    for_each_broker = [name for name, count in counts.items() if count == 1000]
    assert (len(for_each_disk), len(for_each_broker)) == (8, 5)
    assert len(found) == 8 * 12_000 + 5 * 1000 + 26
