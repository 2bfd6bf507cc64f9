"""When a move may start: rules 1, 3, 4, 5, 6 and 10 of `docs/safety.md`, and consideration for under-replicated partitions.

Each predicate returns None for yes, or a refusal that says what would unblock it.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from spindle.model.racks import PlacementError, count_racks, move_keeps_racks, rack_of, wanted_racks
from spindle.model.reassigned import how_to_cancel, never_in_sync
from spindle.model.view import LogDir, Partition
from spindle.model.waiting import Waiting, some
from spindle.moves.journal import Move
from spindle.moves.kafka_index import Incoming, KafkaIndex, PartitionKey
from spindle.moves.limits import Limits
from spindle.moves.settings import told

_NO_EMPTY_REPLICA: Final = 1
_RACKS: Final = 3
_ROOM: Final = 4
_WAY_BACK: Final = 5
_HELPS: Final = 6


def may_add(move: Move, partition: Partition) -> Waiting | None:
    """No replica is added on a broker that is in the partition's ISR or ELR: "no format over the last copy" (`docs/safety.md`, rule 1)."""
    if partition.elr is None:
        return Waiting.refused(
            rule=_NO_EMPTY_REPLICA,
            reason="ElrUnknown",
            message=f"Kafka did not report the eligible leader replicas (ELR) of {move.name}.",
            unblocked_by="Spindle continues when Kafka answers DescribeTopicPartitions for it.",
            objects=(move.name,),
        )
    if move.target not in partition.isr and move.target not in partition.elr:
        return None
    return Waiting.refused(
        rule=_NO_EMPTY_REPLICA,
        reason="EmptyReplicaMayLead",
        message=f"Broker {move.target} is still in the ISR or ELR of {move.name}; an empty replica there "
        "could become the leader.",
        unblocked_by="Wait until another replica is leader and in sync; the broker then leaves the ELR.",
        objects=(move.name,),
    )


def has_leader(move: Move, partition: Partition) -> Waiting | None:
    """A partition without a leader has no replica to copy from: "no conflicting move" (`docs/safety.md`, rule 6)."""
    if partition.leader is not None:
        return None
    return Waiting.refused(
        rule=_HELPS,
        reason="NoLeader",
        message=f"{move.name} has no leader to copy from.",
        unblocked_by="Bring back a broker or disk with an in-sync or eligible replica.",
        objects=(move.name,),
    )


def comes_back(move: Move, given_up: Collection[tuple[str, int, int]]) -> Waiting | None:
    """A dropped replica is restored as an additional replica, never in place of another one.

    See "no log dir removed with replicas on it" (`docs/safety.md`, rule 5). The record of the drop ends with a replica on that broker; if that
    replica had replaced another one, the partition would stay one replica short.

    Args:
        move: between brokers.
        given_up: (topic, partition, broker) of each replica that was dropped and is not restored yet.
    """
    if move.source is None or (*move.key, move.target) not in given_up:
        return None
    return Waiting.refused(
        rule=_WAY_BACK,
        reason="ReplicaReturning",
        message=f"{move.name} was dropped from broker {move.target} and will be restored there as an additional replica; a move to that broker from "
        f"broker {move.source} would leave the partition one replica short.",
        unblocked_by=f"Nothing to do: Spindle continues when it is restored on broker {move.target}.",
        objects=(move.name,),
    )


def throttle_known(look: KafkaIndex, move: Move) -> Waiting | None:
    """A value that is not known can be neither recorded nor restored: "every changed setting can be restored" (`docs/safety.md`, rule 10)."""
    unknown = [
        f"{kind} {name}"
        for kind, name in (("topic", move.topic), ("broker", str(move.target)))
        if told(look.view, kind, name) is None
    ]
    if not unknown:
        return None
    return Waiting.refused(
        rule=10,
        reason="SettingsUnknown",
        message=f"The throttle of {move.name} cannot be set: the configuration of {some(unknown)} is unknown, so it could not be restored.",
        unblocked_by="Spindle continues when Kafka answers DescribeConfigs for it.",
        objects=(move.name,),
    )


def keeps_racks(
    look: KafkaIndex, move: Move, partition: Partition, limits: Limits, incoming: Incoming
) -> Waiting | None:
    """The live replicas stay on as many racks as now, and on as many as possible: "no rack lost" (`docs/safety.md`, rule 3)."""
    try:
        racks = rack_of({b: broker.rack for b, broker in look.brokers.items()})
    except PlacementError as error:
        return Waiting.refused(
            rule=_RACKS,
            reason="MixedRacks",
            message=f"It is unknown whether {move.name} keeps its racks: {error}.",
            unblocked_by="Give every broker a rack, or give none of them one.",
            objects=(move.name,),
        )
    live = {b for b in partition.replicas if b not in partition.adding and look.live(b, partition)}
    staying = live - {move.source}
    now, after = count_racks(live, racks), count_racks(staying | {move.target}, racks)
    wanted = wanted_racks(partition.recorded_rf, len({racks[b] for b in racks if look.up(b)}))
    best = after
    if move.source is not None and after < wanted:
        # Only if a disk in a better rack has space for it: otherwise nothing could ever leave a dead disk.
        size = look.size(move.key, move.bytes)
        best = max(
            (
                count_racks(staying | {b}, racks)
                for b in look.brokers
                if b not in partition.replicas and _takes(look, b, size, limits, incoming)
            ),
            default=after,
        )
    if move_keeps_racks(now, after, best, wanted):
        return None
    return Waiting.refused(
        rule=_RACKS,
        reason="WouldReduceRackSpread",
        message=f"With a replica on broker {move.target}, {move.name} would be on {after} racks; it is on {now}, and {best} are possible.",
        unblocked_by="Spindle chooses another target as soon as a disk in another rack has space. If none has, free space there, or add a "
        "broker or a disk.",
        objects=(move.name,),
    )


def takes(look: KafkaIndex, move: Move) -> Waiting | None:
    """Whether the chosen dir can accept a replica at all: its broker is up, the dir is online and not cordoned."""
    if not look.up(move.target):
        return Waiting.refused(
            rule=None,
            reason="TargetUnavailable",
            message=f"Broker {move.target}, the target of {move.name}, does not answer.",
            unblocked_by="Nothing to do: Spindle continues when the broker is back, or chooses another target.",
            objects=(move.name,),
        )
    chosen = look.dir(move.target, move.to_dir)
    if chosen is None or not look.open(move.target, chosen):
        why = (
            "not a log dir of its broker"
            if chosen is None
            else "offline"
            if chosen.error
            else "cordoned or bad"
        )
        return Waiting.refused(
            rule=_HELPS,
            reason="TargetUnusable",
            message=f"{move.name} cannot move to {move.to_dir} of broker {move.target}: the log dir is {why}.",
            unblocked_by="Nothing to do: Spindle continues when the log dir accepts replicas again, or chooses another one.",
            objects=(move.name,),
        )
    return None


def has_room(
    look: KafkaIndex, move: Move, limits: Limits, incoming: Incoming, *, counted: bool = False
) -> Waiting | None:
    """The chosen dir stays below the limit with this move and all moves in progress: "no overfull target" (`docs/safety.md`, rule 4).

    ``counted``: the move is already one of those in progress.
    """
    chosen = look.dir(move.target, move.to_dir)
    size = look.size(move.key, move.bytes)
    under_way = incoming.to(move.target, move.to_dir)
    more = under_way if counted else under_way + size
    ceiling = limits.ceiling(move.target, move.to_dir)
    if chosen is not None and fits(chosen, more, ceiling):
        return None
    if chosen is None or chosen.total_bytes is None or chosen.usable_bytes is None:
        message = f"The usage of {move.to_dir} of broker {move.target} is unknown."
    else:
        message = (
            f"{move.name} ({size} bytes) would fill {move.to_dir} of broker {move.target} above {ceiling:.0%}: "
            f"{chosen.total_bytes - chosen.usable_bytes} of {chosen.total_bytes} bytes are used, and {under_way} more are being moved to it."
        )
    return Waiting.refused(
        rule=_ROOM,
        reason="TargetDiskFull",
        message=message,
        unblocked_by="Free space on the target; otherwise Spindle chooses another one.",
        objects=(move.name,),
    )


def wherever_it_lands(look: KafkaIndex, move: Move, limits: Limits, incoming: Incoming) -> Waiting | None:
    """Like `has_room` for a replica whose dir cannot be chosen: every dir that Kafka may choose on the target must have space.

    For moves that are not `Move.placeable`. Kafka chooses the uncordoned online dir with the fewest logs.
    """
    for log_dir in look.dirs(move.target):
        if log_dir.error or log_dir.cordoned:
            continue
        there = replace(move, to_dir=log_dir.path)
        if refusal := takes(look, there) or has_room(look, there, limits, incoming):
            return Waiting.refused(
                rule=_ROOM,
                reason="LogDirNotSelectable",
                message=f"The name of topic {move.topic} is too long for AlterReplicaLogDirs, so broker {move.target} itself chooses a log dir "
                f"for partition {move.partition}, and not every one of them can take it. {refusal.message}",
                unblocked_by="Free space on every uncordoned log dir of that broker; otherwise Spindle chooses another broker.",
                objects=(move.name,),
            )
    return None


def may_choose_dir(move: Move) -> Waiting | None:
    """A move between dirs of one broker needs AlterReplicaLogDirs, which rejects very long topic names."""
    if move.placeable:
        return None
    return Waiting.refused(
        rule=_HELPS,
        reason="TopicNameTooLong",
        message=f"Kafka cannot move a replica of {move.name} between the log dirs of a broker: the name of its topic is too long for AlterReplicaLogDirs.",
        unblocked_by="Add a broker, so that Spindle can move the replica there if it must leave its disk; reassign the partition to another broker "
        "(kafka-reassign-partitions.sh); or copy the topic to one with a shorter name.",
        objects=(move.name,),
    )


def target_filling(move: Move, log_dir: LogDir, limits: Limits, incoming: Incoming) -> Waiting | None:
    """Whether a dir becomes too full during a copy: the remaining bytes would take half of the space that is kept free of moves."""
    if log_dir.total_bytes is None or log_dir.usable_bytes is None:
        return None
    under_way = incoming.to(move.target, log_dir.path)
    if fits(log_dir, under_way, (1 + limits.ceiling(move.target, log_dir.path)) / 2):
        return None
    return Waiting.refused(
        rule=_ROOM,
        reason="TargetDiskFilling",
        message=f"{log_dir.path} of broker {move.target} is filling up while {move.name} is copied to it: {log_dir.usable_bytes} of "
        f"{log_dir.total_bytes} bytes are free, and {under_way} more are being moved to it. Spindle cancels the move.",
        unblocked_by="Free space on the target; otherwise Spindle chooses another one.",
        objects=(move.name,),
    )


def fits(log_dir: LogDir, more: int, limit: float) -> bool:
    """Whether a dir stays at or below this share of its capacity with so many more bytes; False if its usage is not known."""
    if log_dir.total_bytes is None or log_dir.usable_bytes is None:
        return False
    return log_dir.total_bytes - log_dir.usable_bytes + more <= limit * log_dir.total_bytes


def undisturbed(look: KafkaIndex, move: Move, partition: Partition) -> Waiting | None:
    """No other client reassigns the partition, and none of its replicas is being moved: "no conflicting move" (`docs/safety.md`, rule 6).

    For partitions that are not in the journal.
    """
    copying = look.future_anywhere(partition)
    if not (partition.adding or partition.removing or copying is not None):
        return None
    what = (
        f"broker {copying} copies its replica between log dirs"
        if copying is not None
        else f"it is being reassigned (adding {list(partition.adding)}, removing {list(partition.removing)})"
    )
    key = (partition.topic, partition.index)
    stuck = never_in_sync(partition, lambda broker: _is_lost(look, broker, key))
    endless = (
        f" That cannot complete, because it needs the replica on broker {some([str(b) for b in stuck])} in sync, which is on a dead disk."
        if stuck
        else ""
    )
    return Waiting.refused(
        rule=_HELPS,
        reason="ExternalReassignment",
        message=f"Another client is moving {move.name}: {what}.{endless}",
        unblocked_by="Wait until that completes, or cancel it."
        if copying is not None
        else how_to_cancel([partition]),
        objects=(move.name,),
    )


def _is_lost(look: KafkaIndex, broker: int, key: PartitionKey) -> bool:
    """Whether a broker that answers has an offline dir and shows the replica on no live one, or shows it on a bad dir."""
    stands = look.standing(broker, key)
    if stands is not None:
        return (broker, stands.path) in look.bad
    return bool(look.offline(broker))


def moves_within(look: KafkaIndex, move: Move) -> Waiting | None:
    """With an offline dir, a broker rejects every move between its dirs: "no conflicting move" (`docs/safety.md`, rule 6)."""
    offline = look.offline(move.target)
    if not offline:
        return None
    return Waiting.refused(
        rule=_HELPS,
        reason="BlockedByOfflineLogDir",
        message=f"Broker {move.target} moves no replica between its log dirs while one of them is offline: {some(offline)}.",
        unblocked_by="Nothing to do: Spindle restarts the broker without that log dir, or with a replaced one.",
        objects=(move.name,),
    )


def enough_copies(
    look: KafkaIndex, move: Move, partition: Partition, *, begun: bool = False
) -> Waiting | None:
    """No move of an under-replicated partition, unless the move repairs it.

    A move repairs it if it adds a replica, or replaces one that is not in sync. Any other move does not start at or
    below min.insync.replicas, and is cancelled below it (``begun``), to leave the leader's bandwidth to the replicas that catch up.
    """
    if move.source is None or move.source not in partition.isr:
        return None
    minimum = (look.view.min_isr or {}).get(move.topic)
    if minimum is None:
        if begun:
            return None
        return Waiting.refused(
            rule=None,
            reason="MinIsrUnknown",
            message=f"min.insync.replicas of {move.name} is unknown.",
            unblocked_by="Spindle continues when Kafka answers DescribeConfigs for the topic.",
            objects=(move.name,),
        )
    in_sync, copies = len(set(partition.isr) - set(partition.adding)), partition.recorded_rf
    if in_sync >= copies or in_sync > minimum or (begun and in_sync == minimum):
        return None
    return Waiting.refused(
        rule=None,
        reason="UnderReplicated",
        message=f"{move.name} has {in_sync} of {copies} replicas in sync; min.insync.replicas is {minimum}.",
        unblocked_by="Wait until its other replicas are in sync.",
        objects=(move.name,),
    )


def _takes(look: KafkaIndex, broker: int, size: int, limits: Limits, incoming: Incoming) -> bool:
    """Whether any dir of a broker has space for so many bytes."""
    return look.up(broker) and any(
        look.open(broker, d) and fits(d, incoming.to(broker, d.path) + size, limits.ceiling(broker, d.path))
        for d in look.dirs(broker)
    )
