"""Whether brokers may leave, and when one may be stopped and unregistered for good (rules 3 and 5).

Each predicate answers None for yes, or a refusal that names what is in the way.
"""

from collections.abc import Collection, Mapping
from typing import Final

from spindle.cluster.view import KafkaView, Partition
from spindle.cluster.waiting import Waiting, counted, some
from spindle.healing.replica_index import Key, ReplicaIndex, names_of

# Settings that a cluster of fewer brokers could not keep: whoever makes a topic would be turned down.
_COPIES: Final = (
    "default.replication.factor",
    "min.insync.replicas",
    "offsets.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
)


def may_begin(
    replica_index: ReplicaIndex,
    leaving: Collection[int],
    racks: Mapping[int, str | None],
    config: Mapping[str, str] | None = None,
) -> Waiting | None:
    """Whether brokers may begin to leave, as far as copies and racks go; whether there is room is the planner's to say.

    Args:
        replica_index: what Kafka says now; brokers and partitions are known.
        leaving: brokers that are to go, those on their way included.
        racks: rack of each broker of the cluster, those that are to go included.
        config: what the user asks of all brokers.
    """
    rest = {broker: rack for broker, rack in racks.items() if broker not in leaving}
    too_many = [p for p in replica_index.partitions.values() if p.recorded_rf > len(rest)]
    if too_many:
        return _too_few_brokers(too_many, len(rest))
    asked = {k: v for k, v in (config or {}).items() if k in _COPIES and _whole(v) > len(rest)}
    if asked:
        return _config_needs_more(asked, len(rest))
    left = {rack for rack in rest.values() if rack}
    narrow = [
        p
        for p in replica_index.partitions.values()
        if not set(p.replicas).isdisjoint(leaving) and _racks(p, racks) > len(left)
    ]
    return _too_few_racks(narrow, racks, sorted(left)) if narrow else None


def may_go(view: KafkaView, broker: int, owed: Collection[Key] = ()) -> Waiting | None:
    """Rule 5: whether nothing needs a broker any more, so that it may be stopped for good and unregistered.

    Neither an assignment nor an ISR names it, it is not eligible to lead anything (KIP-966), nothing is on its way to it, and no dir of
    it shows a log. Kafka itself unregisters brokers that still have replicas, which then are nowhere.

    Args:
        view: what Kafka says now.
        broker: that is to go.
        owed: partitions that a move is to bring there.
    """
    replica_index = ReplicaIndex(view)
    if not replica_index.known:
        return Waiting.refused(
            rule=5,
            reason="KafkaUnknown",
            message=f"What stands on broker {broker} is not known: {view.error or 'brokers or partitions could not be read'}.",
            unblocked_by="Kafka answers again.",
        )
    standing = {
        key for key, p in replica_index.partitions.items() if broker in p.replicas or broker in p.isr
    } | frozenset(owed)
    shown = {
        key
        for log_dir in replica_index.dirs(broker) or ()
        if not log_dir.error
        for key in (*log_dir.replicas, *log_dir.futures)
    }
    if standing or shown:
        return _stands(replica_index, broker, standing | shown)
    unsure = sorted(p.name for p in replica_index.partitions.values() if p.elr is None)
    if unsure:
        return Waiting.refused(
            rule=5,
            reason="ElrUnknown",
            message=f"Kafka did not say which replicas may lead {counted(len(unsure), 'partition')}: {some(unsure)}.",
            unblocked_by="Kafka answers DescribeTopicPartitions for them.",
            objects=tuple(unsure),
        )
    eligible = sorted(p.name for p in replica_index.partitions.values() if broker in (p.elr or ()))
    if eligible:
        return Waiting.refused(
            rule=5,
            reason="EligibleLeaderReplicas",
            message=f"Broker {broker} may still have to lead {counted(len(eligible), 'partition')}: {some(eligible)}.",
            unblocked_by="Enough of their replicas are back in sync.",
            objects=tuple(eligible),
        )
    return None


def _racks(partition: Partition, racks: Mapping[int, str | None]) -> int:
    return len({rack for broker in partition.replicas if (rack := racks.get(broker))})


def _whole(text: str) -> int:
    return int(text) if text.strip().isdecimal() else 0


def _too_few_brokers(partitions: list[Partition], left: int) -> Waiting:
    most = max(p.recorded_rf for p in partitions)
    topics = sorted({p.topic for p in partitions if p.recorded_rf == most})
    return Waiting.refused(
        rule=5,
        reason="InsufficientBrokers",
        message=f"{counted(left, 'broker')} would be left, and {counted(len(topics), 'topic')} has {counted(most, 'replica')} of each "
        f"partition: {some(topics)}.",
        unblocked_by=f"Keep at least {most} brokers, or give these topics fewer replicas (kafka-reassign-partitions.sh).",
        objects=tuple(topics),
    )


def _config_needs_more(asked: Mapping[str, str], left: int) -> Waiting:
    named = [f"{key}={value}" for key, value in sorted(asked.items())]
    return Waiting.refused(
        rule=5,
        reason="ConfigNeedsMoreBrokers",
        message=f"{counted(left, 'broker')} would be left, and spec.config asks for more copies than that: {some(named)}.",
        unblocked_by="Lower these in spec.config first, or keep more brokers.",
        objects=tuple(named),
    )


def _too_few_racks(partitions: list[Partition], racks: Mapping[int, str | None], left: list[str]) -> Waiting:
    gone = sorted({rack for rack in racks.values() if rack and rack not in left})
    named = sorted(p.name for p in partitions)
    return Waiting.refused(
        rule=3,
        reason="InsufficientRacks",
        message=f"No broker would be left in {some(gone)}, and {counted(len(named), 'partition')} has replicas on more racks than the "
        f"{len(left)} that remain: {some(named)}.",
        unblocked_by=f"Keep a broker in {some(gone)}: let others go first (spec.maintenance.removeFirst of their KafkaBrokers), or more of them stay.",
        objects=tuple(named),
    )


def _stands(replica_index: ReplicaIndex, broker: int, keys: Collection[Key]) -> Waiting:
    size = sum(map(replica_index.size, keys)) / 1e9
    named = names_of(keys)
    return Waiting.refused(
        rule=5,
        reason="ReplicasOnBroker",
        message=f"Broker {broker} leaves: {counted(len(named), 'replica')} ({size:.1f} GB) on it, {some(named)}.",
        unblocked_by="They are moved to other brokers, which happens by itself. To keep the broker, raise replicas of its pool again.",
        objects=tuple(named),
    )
