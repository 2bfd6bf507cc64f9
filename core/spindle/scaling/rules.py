"""Whether brokers may be scaled in, and when one may be stopped and unregistered permanently.

The safety rules are "no rack lost" and "no log dir removed with replicas on it" (docs/safety.md). Each predicate returns None for yes, or a
refusal that names the obstacle.
"""

from collections.abc import Collection, Mapping
from typing import Final

from spindle.model.replica_index import Key, ReplicaIndex, names_of
from spindle.model.view import KafkaView, Partition
from spindle.model.waiting import Waiting, counted, some

# Settings that a cluster with fewer brokers could not satisfy: the creation of topics would fail.
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
    """Whether a scale-in may start, as far as replicas and racks are concerned; the planner decides whether there is enough space.

    Args:
        replica_index: the current state of Kafka; brokers and partitions must be known.
        leaving: brokers to remove, including those whose removal has started.
        racks: rack of each broker of the cluster, including those to remove.
        config: the user's broker configuration (spec.config).
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
    """Whether nothing needs a broker any more, so that it may be stopped permanently and unregistered: None for yes.

    See "no log dir removed with replicas on it" in docs/safety.md. No assignment, ISR or ELR (KIP-966) names the broker, nothing is being
    moved to it, and none of its dirs shows a log. Kafka itself would unregister a broker that still has replicas, and these would be lost.

    Args:
        view: the current state of Kafka.
        broker: the broker to remove.
        owed: partitions that are being moved to it.
    """
    replica_index = ReplicaIndex(view)
    if not replica_index.known:
        return Waiting.refused(
            rule=5,
            reason="KafkaUnknown",
            message=f"Spindle does not know which replicas are on broker {broker}: {view.error or 'brokers or partitions could not be read'}.",
            unblocked_by="Nothing to do: Spindle continues when Kafka answers again.",
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
            message=f"Kafka did not report the eligible leader replicas (ELR) of {counted(len(unsure), 'partition')}: {some(unsure)}.",
            unblocked_by="Nothing to do: Spindle continues when Kafka answers DescribeTopicPartitions for them.",
            objects=tuple(unsure),
        )
    eligible = sorted(p.name for p in replica_index.partitions.values() if broker in (p.elr or ()))
    if eligible:
        return Waiting.refused(
            rule=5,
            reason="EligibleLeaderReplicas",
            message=f"Broker {broker} is still an eligible leader replica (ELR) of {counted(len(eligible), 'partition')}: {some(eligible)}.",
            unblocked_by="Nothing to do: Spindle continues when enough replicas of these partitions are back in sync.",
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
        message=f"{counted(left, 'broker')} would be left, but {counted(len(topics), 'topic')} {'has' if len(topics) == 1 else 'have'} "
        f"{counted(most, 'replica')} per partition: {some(topics)}.",
        unblocked_by=f"Keep at least {counted(most, 'broker')}, or reduce the replication factor of these topics (kafka-reassign-partitions.sh).",
        objects=tuple(topics),
    )


def _config_needs_more(asked: Mapping[str, str], left: int) -> Waiting:
    named = [f"{key}={value}" for key, value in sorted(asked.items())]
    return Waiting.refused(
        rule=5,
        reason="ConfigNeedsMoreBrokers",
        message=f"{counted(left, 'broker')} would be left, but spec.config requires more replicas than that: {some(named)}.",
        unblocked_by="Lower these settings in spec.config first, or keep more brokers.",
        objects=tuple(named),
    )


def _too_few_racks(partitions: list[Partition], racks: Mapping[int, str | None], left: list[str]) -> Waiting:
    gone = sorted({rack for rack in racks.values() if rack and rack not in left})
    named = sorted(p.name for p in partitions)
    return Waiting.refused(
        rule=3,
        reason="InsufficientRacks",
        message=f"No broker would be left in {some(gone)}, but {counted(len(named), 'partition')} {'has' if len(named) == 1 else 'have'} "
        f"replicas on more racks than the {len(left)} that would remain: {some(named)}.",
        unblocked_by=f"Keep a broker in {some(gone)}: set spec.maintenance.removeFirst of KafkaBrokers in other racks, or raise replicas of the pool.",
        objects=tuple(named),
    )


def _stands(replica_index: ReplicaIndex, broker: int, keys: Collection[Key]) -> Waiting:
    size = sum(map(replica_index.size, keys)) / 1e9
    named = names_of(keys)
    return Waiting.refused(
        rule=5,
        reason="ReplicasOnBroker",
        message=f"Broker {broker} is being scaled in, but {counted(len(named), 'replica')} ({size:.1f} GB) "
        f"{'is' if len(named) == 1 else 'are'} still on it: {some(named)}.",
        unblocked_by="Nothing to do: Spindle moves the replicas to other brokers. To keep the broker, raise replicas of its pool again.",
        objects=tuple(named),
    )
