"""The operator's metrics of one KafkaCluster, from what a pass observed and decided."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from spindle.api import names
from spindle.metrics import table
from spindle.metrics.table import Metric
from spindle.model import maintenance, objects
from spindle.model.events import ReconcilePlan
from spindle.model.partition_faults import partition_faults
from spindle.model.replica_index import ReplicaIndex
from spindle.model.snapshot import ClusterSnapshot, SnapshotObject
from spindle.model.times import seconds
from spindle.model.topic_states import STATES, topic_states
from spindle.model.view import LogDir
from spindle.reasons import all_reasons

_OF_A_BROKER: Final = ("Pod", "KafkaBroker")


class MetricSample(NamedTuple):
    """One series.

    Attributes:
        labels: values in the order of the metric's labels.
    """

    metric: Metric
    labels: tuple[str, ...]
    value: float


def cluster_samples(snapshot: ClusterSnapshot, decided: ReconcilePlan) -> list[MetricSample]:
    """Every gauge of one KafkaCluster. What is not known has no sample.

    Args:
        snapshot: the observation of the pass.
        decided: what the pass decided; its statuses are newer than those of the snapshot.
    """
    meta = snapshot.cluster["metadata"]
    cluster = (str(meta["namespace"]), str(meta["name"]))
    brokers = {objects.name(broker): broker for broker in snapshot.brokers}
    index = ReplicaIndex(snapshot.kafka)
    found = [
        *_of_cluster(cluster, snapshot.cluster, decided),
        *_waiting(cluster, decided.status, frozenset(brokers)),
        *_of_kafka(cluster, snapshot),
        *_rebalances(cluster, decided),
        *_managed(cluster, snapshot, decided),
        *_topics(cluster, snapshot, index),
    ]
    for name, broker in sorted(brokers.items()):
        status = decided.broker_statuses.get(name) or broker.get("status") or {}
        key = (*cluster, name)
        found += _of_broker(key, broker, status, snapshot)
        found += _of_disks(key, broker, status, index)
    return found


def _of_cluster(
    cluster: tuple[str, str], obj: SnapshotObject, decided: ReconcilePlan
) -> Iterator[MetricSample]:
    spec, status = obj.get("spec") or {}, decided.status
    release = (status.get("clusterId"), status.get("version"), status.get("metadataVersion"))
    yield MetricSample(table.CLUSTER_INFO, (*cluster, *(str(each or "") for each in release)), 1)
    yield MetricSample(table.PAUSED, cluster, float(bool(spec.get("paused"))))
    if (wanted := (spec.get("controllers") or {}).get("replicas")) is not None:
        yield MetricSample(table.CONTROLLERS, cluster, float(wanted))
    for row in status.get("conditions") or ():
        labels = (str(row["type"]), str(row["status"]), str(row.get("reason") or ""))
        yield MetricSample(table.CONDITION, (*cluster, *labels), 1)


def _waiting(
    cluster: tuple[str, str], status: Mapping[str, Any], brokers: frozenset[str]
) -> Iterator[MetricSample]:
    urgency = urgencies()
    for entry in status.get("waiting") or ():
        action, thing, reason = (str(entry.get(key) or "") for key in ("action", "object", "reason"))
        kind, _, rest = thing.partition("/")
        broker, _, disk = rest.partition("/")
        if kind not in _OF_A_BROKER or broker not in brokers:
            broker = disk = ""
        labels = (*cluster, broker, disk, action, thing, reason, urgency.get(reason, "ticket"))
        yield MetricSample(table.WAITING, labels, 1)


@cache
def urgencies() -> Mapping[str, str]:
    """Reason → ``page``, ``ticket`` or ``none``."""
    return {reason.name: reason.alert for reason in all_reasons()}


def _of_kafka(cluster: tuple[str, str], snapshot: ClusterSnapshot) -> Iterator[MetricSample]:
    view = snapshot.kafka
    if view.partitions is not None:
        yield MetricSample(table.PARTITIONS, cluster, len(view.partitions))
    if (faults := partition_faults(view)) is not None:
        yield MetricSample(table.OFFLINE_PARTITIONS, cluster, len(faults.offline))
        yield MetricSample(table.UNDER_MIN_ISR, cluster, len(faults.under_min_isr))
    for voter in view.quorum.voters if view.quorum is not None else ():
        labels = (*cluster, names.pod_name(cluster[1], voter.id))
        if voter.caught_up is not None:
            yield MetricSample(table.VOTER_CAUGHT_UP, labels, float(voter.caught_up))
        if voter.lag is not None:
            yield MetricSample(table.VOTER_LAG, labels, voter.lag)


def _rebalances(cluster: tuple[str, str], decided: ReconcilePlan) -> Iterator[MetricSample]:
    open_ones = decided.rebalance_statuses.values()
    phases: dict[str, int] = {}
    for status in open_ones:
        phase = str(status.get("phase"))
        phases[phase] = phases.get(phase, 0) + 1
    for phase, count in phases.items():
        yield MetricSample(table.REBALANCES, (*cluster, phase), count)
    yield MetricSample(table.REBALANCED, cluster, sum(int(each.get("movedBytes") or 0) for each in open_ones))


def _managed(
    cluster: tuple[str, str], snapshot: ClusterSnapshot, decided: ReconcilePlan
) -> Iterator[MetricSample]:
    """The KafkaTopics; nothing while they cannot be listed."""
    if snapshot.topics and "kafkatopics" not in snapshot.unknown:
        counts = topic_states(snapshot.topics, decided.topic_statuses)
        for each in STATES:
            yield MetricSample(table.TOPICS, (*cluster, each), counts[each])


def _topics(
    cluster: tuple[str, str], snapshot: ClusterSnapshot, index: ReplicaIndex
) -> Iterator[MetricSample]:
    """Sizes of the topics of ``spec.metrics.topics``."""
    asked = frozenset(((snapshot.cluster.get("spec") or {}).get("metrics") or {}).get("topics") or ())
    if not asked or not index.known:
        return
    sizes = dict[str, float]()
    unknown = set[str]()
    for partition in snapshot.kafka.partitions or ():
        if partition.topic in asked:
            key = (partition.topic, partition.index)
            for broker in partition.replicas:
                if (dirs := index.dirs(broker)) is None:
                    unknown.add(partition.topic)
                size = sum(each.replicas.get(key, 0) for each in dirs or () if not each.error)
                sizes[partition.topic] = sizes.get(partition.topic, 0) + size
    for topic in sorted(sizes.keys() - unknown):
        yield MetricSample(table.TOPIC_BYTES, (*cluster, topic), sizes[topic])


def _of_broker(
    key: tuple[str, str, str],
    broker: SnapshotObject,
    status: Mapping[str, Any],
    snapshot: ClusterSnapshot,
) -> Iterator[MetricSample]:
    spec = broker["spec"]
    node = str(spec.get("node") or "")
    place = (str(spec.get("id", "")), str(spec.get("pool") or ""), str(spec.get("rack") or ""), node)
    yield MetricSample(table.BROKER_INFO, (*key, *place, key[2]), 1)
    yield MetricSample(table.MAINTENANCE, key, float(maintenance.stopped(broker)))
    if status.get("state"):
        yield MetricSample(table.BROKER_STATE, (*key, str(status["state"])), 1)
    if node and (up := _agent_up(snapshot, node)) is not None:
        yield MetricSample(table.AGENT_UP, (*key, node), float(up))
    start = status.get("start") or {}
    if "seconds" in start:
        yield MetricSample(table.START, (*key, str(start.get("kind") or "Unknown")), start["seconds"])
    elif "logsLeft" in start:
        yield MetricSample(table.LOADING, key, start["logsLeft"])


def _agent_up(snapshot: ClusterSnapshot, node: str) -> bool | None:
    """Whether the agent of a node renews its Lease; None if that is not known, or if there are no agents."""
    if not snapshot.agent_namespace or "leases" in snapshot.unknown:
        return None
    agent = snapshot.agents.get(node)
    if agent is None:
        return False
    return True if agent.alive else False if agent.silent else None


def _of_disks(
    key: tuple[str, str, str],
    broker: SnapshotObject,
    status: Mapping[str, Any],
    index: ReplicaIndex,
) -> Iterator[MetricSample]:
    spec = broker["spec"]
    told = {disk.get("name"): disk for disk in status.get("disks") or ()}
    observed = ((broker.get("status") or {}).get("observed") or {}).get("disks") or ()
    devices = {disk.get("name"): disk.get("device") for disk in observed}
    broker_id = int(spec["id"])
    dirs = {each.path: each for each in index.dirs(broker_id) or ()}
    for disk in spec.get("disks") or ():
        name = disk["name"]
        entry, labels = told.get(name) or {}, (*key, name)
        place = (
            spec.get("rack"),
            spec.get("node"),
            devices.get(name) or entry.get("device"),
            disk.get("claim"),
            entry.get("pv") or disk.get("pv"),
            key[2],  # the pod has the broker's name
        )
        yield MetricSample(table.DISK_INFO, (*labels, *(str(each or "") for each in place)), 1)
        yield from _state_of_disk(labels, entry)
        log_dir = dirs.get(names.log_dir(name))
        yield from _usage(labels, entry, log_dir)
        if log_dir is not None and not log_dir.error:
            others = sum(key not in log_dir.replicas for key in log_dir.futures)
            yield MetricSample(table.DISK_REPLICAS, labels, len(log_dir.replicas) + others)
            yield MetricSample(table.DISK_REPLICA_BYTES, labels, log_dir.log_bytes)
        elif (lost := index.lost(broker_id)) is not None:
            yield MetricSample(table.DISK_REPLICAS, labels, len(lost))


def _state_of_disk(labels: tuple[str, ...], entry: Mapping[str, Any]) -> Iterator[MetricSample]:
    if entry.get("state"):
        yield MetricSample(table.DISK_STATE, (*labels, str(entry["state"])), 1)
    if (since := seconds(entry.get("since"))) is not None:
        yield MetricSample(table.DISK_STATE_SINCE, labels, since)
    if level := (entry.get("usage") or {}).get("level"):
        yield MetricSample(table.DISK_LEVEL, (*labels, str(level)), 1)


def _usage(
    labels: tuple[str, ...], entry: Mapping[str, Any], log_dir: LogDir | None
) -> Iterator[MetricSample]:
    """Sizes of the file system: those of Kafka, and otherwise those in the status, which are rounded to 1 %."""
    capacity, used = entry.get("capacityBytes"), entry.get("usedBytes")
    if log_dir is not None and log_dir.total_bytes and log_dir.usable_bytes is not None:
        capacity, used = log_dir.total_bytes, log_dir.total_bytes - log_dir.usable_bytes
    if capacity:
        yield MetricSample(table.DISK_CAPACITY, labels, capacity)
        yield MetricSample(table.DISK_USED, labels, used or 0)
