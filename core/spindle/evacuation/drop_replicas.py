"""Drops replicas from their assignments where no other broker can take them, until their broker can host them again.

Part of "no log dir removed with replicas on it" (`docs/safety.md`, rule 5). Observed in Kafka: with min ISR 2, ISR {0} and ELR {2}, dropping
to [0] and restoring let an incomplete replica be elected from the ELR. So a replica may be dropped only where the in-sync replicas without this
broker are at least the topic's min.insync.replicas, only if everything on the disk can be dropped, and only if it can be restored.
"""

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from spindle.evacuation.restore_replicas import place
from spindle.model.reassigned import how_to_cancel, never_in_sync
from spindle.model.replica_index import Key, ReplicaIndex, names_of
from spindle.model.view import KafkaView, LogDir, Partition
from spindle.model.waiting import Waiting, counted, some
from spindle.moves.journal import DroppedReplica

INSUFFICIENT_IN_SYNC: Final = "InsufficientInSyncReplicas"


@dataclass(frozen=True)
class ReplicaDrops:
    """The replicas to drop: all of a disk or none."""

    shrunk: tuple[DroppedReplica, ...] = ()
    refusal: Waiting | None = None


def drop_replicas(
    replica_index: ReplicaIndex,
    broker: int,
    leaving: Collection[Key],
    without: Collection[str],
    pending: Sequence[DroppedReplica] = (),
    incoming_limit: float = 0.9,
    down: AbstractSet[int] = frozenset(),
    instead: Sequence[LogDir] | None = None,
) -> ReplicaDrops:
    """Decide whether all replicas on a broker's dead disks may be dropped from their assignments.

    Args:
        replica_index: the current state of Kafka.
        broker: the broker with these disks.
        leaving: all replicas on them.
        without: paths of the dirs that will be removed.
        pending: replicas that were dropped from this broker before and are not restored yet; there must be space for them, too.
        incoming_limit: maximum usage after a move, as a share: "no overfull target" (`docs/safety.md`, rule 4).
        down: see `may_drop_replica`.
        instead: the dirs that the broker will have, if it returns with other disks; None if it continues with its remaining ones.
    """
    if not leaving:
        return ReplicaDrops()
    if (refusal := may_drop_replica(replica_index, broker, leaving, down)) is not None:
        return ReplicaDrops(refusal=refusal)
    sizes = {key: replica_index.size(key) for key in leaving}
    before = {s.key: s.bytes for s in pending if s.broker == broker}
    kept = (
        instead
        if instead is not None
        else [d for d in replica_index.dirs(broker) or () if d.path not in without]
    )
    if place(kept, {**before, **sizes}, incoming_limit) is None:
        return ReplicaDrops(refusal=_cannot_restore(broker, leaving))
    return ReplicaDrops(
        tuple(
            DroppedReplica(
                *key, broker=broker, bytes=sizes[key], before=replica_index.partitions[key].replicas
            )
            for key in sorted(leaving, key=lambda k: (replica_index.copies(k, broker), k))
        )
    )


def may_drop_replica(
    replica_index: ReplicaIndex, broker: int, leaving: Collection[Key], down: AbstractSet[int] = frozenset()
) -> Waiting | None:
    """Whether every one of these replicas may be dropped; one that may not holds back all of them.

    See "no log dir removed with replicas on it" (`docs/safety.md`, rule 5).

    Args:
        replica_index: the current state of Kafka.
        broker: the broker of the replicas.
        leaving: the replicas.
        down: brokers that are down or being taken down. They do not count as in sync, although Kafka may still report them so: taking a broker
            down and dropping a replica from another one in the same pass would leave a partition with one replica less than either check allowed.
    """
    min_isr: Mapping[str, int] = replica_index.view.min_isr or {}
    if not replica_index.known or replica_index.view.min_isr is None:
        return _refusal(
            "KafkaUnknown",
            f"Spindle does not know which replicas are in sync: {replica_index.view.error or 'not everything could be read'}.",
            "Nothing to do: Spindle continues when it can query Kafka again.",
            leaving,
        )
    moving = [k for k in leaving if _moving(replica_index.partitions.get(k))]
    if moving:
        return _being_reassigned(replica_index, broker, sorted(moving))
    short = [k for k in leaving if not _enough(replica_index, broker, k, min_isr.get(k[0]), down)]
    if short:
        return _refusal(
            INSUFFICIENT_IN_SYNC,
            f"{counted(len(short), 'replica')} on the dead disk of broker {broker} cannot be dropped, because the other replicas are fewer than "
            f"min.insync.replicas, are not all in sync, or are on a broker that is being taken down: {some(names_of(short))}.",
            _way_out(replica_index, broker, short),
            short,
        )
    return None


def without_dropped(view: KafkaView, dropped: Collection[DroppedReplica]) -> KafkaView:
    """The state of Kafka after these replicas have been dropped."""
    left: dict[Key, set[int]] = {}
    for entry in dropped:
        left.setdefault(entry.key, set()).add(entry.broker)
    return replace(
        view,
        partitions=tuple(
            replace(
                p,
                replicas=tuple(b for b in p.replicas if b not in gone),
                isr=tuple(b for b in p.isr if b not in gone),
            )
            if (gone := left.get((p.topic, p.index)))
            else p
            for p in view.partitions or ()
        ),
    )


def not_spared(broker: int, refusal: Waiting) -> Waiting:
    """The refusal for a broker that cannot restart yet.

    Replicas on a dead disk are dropped only if their broker can restart without the disk right after that: "no log dir removed with replicas on
    it" (`docs/safety.md`, rule 5).
    """
    return replace(
        refusal,
        rule=5,
        message=f"Spindle drops the replicas on the dead disk of broker {broker} from their assignments only when the broker can restart right after "
        f"that and host them on its other disks. {refusal.message}",
    )


def _way_out(replica_index: ReplicaIndex, broker: int, short: Collection[Key]) -> str:
    """Another broker helps only where an in-sync replica is left that it can copy."""
    alone = [key for key in short if not replica_index.copies(key, broker)]
    if not alone:
        return "Bring the other replicas of these partitions back in sync, or add a broker that can take the replicas."
    return (
        f"Bring the disk back, or a broker that has another in-sync replica of {some(names_of(alone))}. If they are lost for good, accept the loss "
        "as the condition DataAtRisk says."
    )


def _moving(partition: Partition | None) -> bool:
    return partition is None or bool(partition.adding or partition.removing)


def _being_reassigned(replica_index: ReplicaIndex, broker: int, moving: Sequence[Key]) -> Waiting:
    known = [p for key in moving if (p := replica_index.partitions.get(key)) is not None]
    stuck = [p.name for p in known if never_in_sync(p, lambda b: b == broker)]
    endless = (
        f" The reassignment of {some(stuck)} cannot complete: Kafka waits until the replica on that disk is in sync."
        if stuck
        else ""
    )
    return _refusal(
        "ReassignmentInProgress",
        f"{counted(len(moving), 'partition')} with a replica on the dead disk of broker {broker} {'is' if len(moving) == 1 else 'are'} being "
        f"reassigned: {some(names_of(moving))}.{endless}",
        how_to_cancel(known),
        moving,
    )


def _enough(
    replica_index: ReplicaIndex, broker: int, key: Key, min_isr: int | None, down: AbstractSet[int]
) -> bool:
    """Whether all other replicas are in sync, on live dirs, and at least min.insync.replicas; never for the last copy."""
    partition = replica_index.partitions[key]
    rest = set(partition.replicas) - {broker}
    return (
        min_isr is not None
        and len(rest) >= max(1, min_isr)
        and rest <= set(partition.isr) - down
        and all(replica_index.holds(b, key) for b in rest)
    )


def _cannot_restore(broker: int, leaving: Collection[Key]) -> Waiting:
    return Waiting.refused(
        rule=4,
        reason="InsufficientSpaceOnBroker",
        message=f"The other disks of broker {broker} have no space for {counted(len(leaving), 'replica')} of its dead disk, so Spindle does not "
        f"drop {'it' if len(leaving) == 1 else 'them'}: {some(names_of(leaving))}.",
        unblocked_by="Replace the disk, free space on the broker's other disks, or add a broker that can take the replicas.",
        objects=tuple(names_of(leaving)),
    )


def _refusal(reason: str, message: str, unblocked_by: str, keys: Collection[Key]) -> Waiting:
    return Waiting.refused(
        rule=5, reason=reason, message=message, unblocked_by=unblocked_by, objects=tuple(names_of(keys))
    )
