"""When a move may begin: rules 1, 3, 4, 5 and 6 of the safety rules, and care for partitions that are short of copies.

Each predicate answers None for yes, or a refusal that says what would unblock it.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from spindle.cluster.reassigned import how_to_cancel, never_in_sync
from spindle.cluster.view import LogDir, Partition
from spindle.cluster.waiting import Waiting, some
from spindle.moves.journal import Move
from spindle.moves.kafka_index import Incoming, KafkaIndex, PartitionKey
from spindle.moves.limits import Limits
from spindle.moves.settings import dynamic_settings
from spindle.placement.racks import PlacementError, count_racks, move_keeps_racks, rack_of, wanted_racks

_NO_EMPTY_REPLICA: Final = 1
_RACKS: Final = 3
_ROOM: Final = 4
_WAY_BACK: Final = 5
_HELPS: Final = 6


def may_add(move: Move, partition: Partition) -> Waiting | None:
    """Rule 1: no replica is added on a broker that is in the partition's ISR or ELR."""
    if partition.elr is None:
        return Waiting.refused(
            rule=_NO_EMPTY_REPLICA,
            reason="ElrUnknown",
            message=f"Kafka did not report which replicas of {move.name} are eligible leaders.",
            unblocked_by="Spindle continues when Kafka answers DescribeTopicPartitions for it.",
            objects=(move.name,),
        )
    if move.target not in partition.isr and move.target not in partition.elr:
        return None
    return Waiting.refused(
        rule=_NO_EMPTY_REPLICA,
        reason="EmptyReplicaMayLead",
        message=f"Broker {move.target} is still in the ISR or among the eligible leaders of {move.name}; an empty replica there "
        "could become leader.",
        unblocked_by="Wait until another replica is leader and in sync; that ends the eligibility.",
        objects=(move.name,),
    )


def has_leader(move: Move, partition: Partition) -> Waiting | None:
    """Rule 6: a partition without a leader has nobody to copy from."""
    if partition.leader is not None:
        return None
    return Waiting.refused(
        rule=_HELPS,
        reason="NoLeader",
        message=f"{move.name} has no leader to copy from.",
        unblocked_by="Bring back a broker or disk with an eligible leader.",
        objects=(move.name,),
    )


def comes_back(move: Move, dropped: Collection[tuple[str, int, int]]) -> Waiting | None:
    """Rule 5: what a broker gave up for a while comes back as one more copy, never in the place of another one.

    The way back ends with a copy on that broker; had it taken another one's place, the partition would stay one short.

    Args:
        move: between brokers.
        dropped: (topic, partition, broker) of each replica that left its assignment and is not back yet.
    """
    if move.source is None or (*move.key, move.target) not in dropped:
        return None
    return Waiting.refused(
        rule=_WAY_BACK,
        reason="ReplicaReturning",
        message=f"{move.name} was dropped from broker {move.target} and is going to be restored there as an additional replica; a move there from "
        f"broker {move.source} would leave it one replica short.",
        unblocked_by=f"Nothing to do: Spindle continues when it is restored on broker {move.target}.",
        objects=(move.name,),
    )


def throttle_known(look: KafkaIndex, move: Move) -> Waiting | None:
    """Rule 10: what is not known can be neither recorded nor put back."""
    unknown = [
        f"{kind} {name}"
        for kind, name in (("topic", move.topic), ("broker", str(move.target)))
        if dynamic_settings(look.view, kind, name) is None
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
    """Rule 3: the live replicas stand on no fewer racks than now, nor on fewer than they could."""
    try:
        racks = rack_of({b: broker.rack for b, broker in look.brokers.items()})
    except PlacementError as error:
        return Waiting.refused(
            rule=_RACKS,
            reason="MixedRacks",
            message=f"It is unknown whether {move.name} keeps its racks: {error}.",
            unblocked_by="Give every broker a rack, or none.",
            objects=(move.name,),
        )
    live = {b for b in partition.replicas if b not in partition.adding and look.live(b, partition)}
    staying = live - {move.source}
    now, after = count_racks(live, racks), count_racks(staying | {move.target}, racks)
    wanted = wanted_racks(partition.recorded_rf, len({racks[b] for b in racks if look.up(b)}))
    best = after
    if move.source is not None and after < wanted:
        # Only where a better rack has room for it: else nothing could ever leave a dead disk.
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
        unblocked_by="Spindle chooses another target as soon as a disk in another rack has room. If none has: free space there, or add a "
        "broker or a disk.",
        objects=(move.name,),
    )


def takes(look: KafkaIndex, move: Move) -> Waiting | None:
    """Whether the chosen dir can take a replica at all: its broker is up, the dir is online and not cordoned."""
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
    """Rule 4: with this move and all that are in flight, the chosen dir stays below the incoming limit.

    ``counted``: the move is among those in flight already.
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
            f"{chosen.total_bytes - chosen.usable_bytes} of {chosen.total_bytes} bytes are used, {under_way} are being moved to it."
        )
    return Waiting.refused(
        rule=_ROOM,
        reason="TargetDiskFull",
        message=message,
        unblocked_by="Free space on the target; otherwise Spindle chooses another one.",
        objects=(move.name,),
    )


def wherever_it_lands(look: KafkaIndex, move: Move, limits: Limits, incoming: Incoming) -> Waiting | None:
    """Rule 4 for a replica whose dir cannot be chosen: every dir that Kafka may choose on the target has to be able to take it.

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
                unblocked_by="Make room on every uncordoned log dir of that broker; otherwise Spindle chooses another one.",
                objects=(move.name,),
            )
    return None


def may_choose_dir(move: Move) -> Waiting | None:
    """Rule 6: a move between dirs of one broker needs AlterReplicaLogDirs, which refuses very long topic names."""
    if move.placeable:
        return None
    return Waiting.refused(
        rule=_HELPS,
        reason="TopicNameTooLong",
        message=f"Kafka cannot move a replica of {move.name} between the log dirs of a broker: the name of its topic is too long for AlterReplicaLogDirs.",
        unblocked_by="Add a broker, to which Spindle moves it if it has to leave its disk; or reassign the partition to another broker "
        "(kafka-reassign-partitions.sh), or copy the topic to one with a shorter name.",
        objects=(move.name,),
    )


def target_filling(move: Move, log_dir: LogDir, limits: Limits, incoming: Incoming) -> Waiting | None:
    """Whether a dir fills under a copy that is under way: what is still to come would take half of what is kept free of moves."""
    if log_dir.total_bytes is None or log_dir.usable_bytes is None:
        return None
    under_way = incoming.to(move.target, log_dir.path)
    if fits(log_dir, under_way, (1 + limits.ceiling(move.target, log_dir.path)) / 2):
        return None
    return Waiting.refused(
        rule=_ROOM,
        reason="TargetDiskFilling",
        message=f"{log_dir.path} of broker {move.target} is filling up while {move.name} is copied to it: {log_dir.usable_bytes} of "
        f"{log_dir.total_bytes} bytes are free, {under_way} are being moved to it. Spindle cancels the move.",
        unblocked_by="Free space on the target; otherwise Spindle chooses another one.",
        objects=(move.name,),
    )


def fits(log_dir: LogDir, more: int, limit: float) -> bool:
    """Whether so many bytes more leave a dir at or below this share of its capacity; no if its use is not known."""
    if log_dir.total_bytes is None or log_dir.usable_bytes is None:
        return False
    return log_dir.total_bytes - log_dir.usable_bytes + more <= limit * log_dir.total_bytes


def undisturbed(look: KafkaIndex, move: Move, partition: Partition) -> Waiting | None:
    """Rule 6 about the partition: nobody else reassigns it, and none of its replicas is in motion.

    To be asked of partitions that are not in the journal.
    """
    copying = look.future_anywhere(partition)
    if not (partition.adding or partition.removing or copying is not None):
        return None
    what = (
        f"broker {copying} copies it between its dirs"
        if copying is not None
        else f"it is being reassigned (adding {list(partition.adding)}, removing {list(partition.removing)})"
    )
    key = (partition.topic, partition.index)
    stuck = never_in_sync(partition, lambda broker: _is_lost(look, broker, key))
    endless = (
        f" It never completes: it needs the replica on broker {some([str(b) for b in stuck])} in sync, which is on a dead disk."
        if stuck
        else ""
    )
    return Waiting.refused(
        rule=_HELPS,
        reason="ExternalReassignment",
        message=f"Somebody else is moving {move.name}: {what}.{endless}",
        unblocked_by="Wait until that completes, or cancel it."
        if copying is not None
        else how_to_cancel([partition]),
        objects=(move.name,),
    )


def _is_lost(look: KafkaIndex, broker: int, key: PartitionKey) -> bool:
    """Whether a broker that answers has a dir that is offline, or is to be emptied as a bad one, and no live one shows the replica."""
    stands = look.standing(broker, key)
    if stands is not None:
        return (broker, stands.path) in look.bad
    return bool(look.offline(broker))


def moves_within(look: KafkaIndex, move: Move) -> Waiting | None:
    """Rule 6 about the broker: with an offline dir it refuses every move between its own dirs."""
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
    """Keep away from partitions that are short of copies, unless the move is the cure.

    The cure is a replica that is added, or one that replaces a replica which is not in sync. Anything else does not begin at or
    below the minimum ISR, and is cancelled below it (``begun``): the leader's bandwidth belongs to those that catch up.
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
    """Whether some dir of a broker could take so many bytes."""
    return look.up(broker) and any(
        look.open(broker, d) and fits(d, incoming.to(broker, d.path) + size, limits.ceiling(broker, d.path))
        for d in look.dirs(broker)
    )
