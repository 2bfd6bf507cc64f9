"""Rule 5's way out where no other broker can take a replica: it leaves the assignment until its broker is whole again.

Seen live: with min ISR 2, ISR {0} and ELR {2}, shrinking to [0] and growing back let a half-filled replica be elected
from the ELR. Hence a replica may leave only where the in-sync replicas without this broker are as many as the topic's
min.insync.replicas, only if everything on the disk can leave, and only if the way back fits.
"""

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from spindle.cluster.reassigned import how_to_cancel, never_in_sync
from spindle.cluster.view import KafkaView, LogDir, Partition
from spindle.cluster.waiting import Waiting, counted, some
from spindle.healing.replica_index import Key, ReplicaIndex, names_of
from spindle.healing.restore_replicas import place
from spindle.moves.journal import DroppedReplica

INSUFFICIENT_IN_SYNC: Final = "InsufficientInSyncReplicas"


@dataclass(frozen=True)
class ReplicaDrops:
    """What leaves its assignment, all of a disk or nothing of it."""

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
    """Decide whether all that stands on a broker's dead disks may leave its assignments.

    Args:
        replica_index: what Kafka says now.
        broker: whose disks they are.
        leaving: all replicas that stand there.
        without: paths of the dirs that will be gone.
        pending: what has left this broker before and is not back yet; the way back must have room for it, too.
        incoming_limit: rule 4.
        down: see `may_drop_replica`.
        instead: the dirs that the broker will have, where it comes back with others; None if it goes on with the rest of its own.
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
        return ReplicaDrops(refusal=_no_way_back(broker, leaving))
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
    """Rule 5 for every replica that is to leave; one that may not holds all of them.

    Args:
        replica_index: what Kafka says now.
        broker: whose replicas they are.
        leaving: which.
        down: brokers that are down or being taken down. They do not count as in sync, though Kafka may show them so yet: taking a broker
            down and a replica off another in one pass would leave a partition one less than either question allowed for.
    """
    min_isr: Mapping[str, int] = replica_index.view.min_isr or {}
    if not replica_index.known or replica_index.view.min_isr is None:
        return _refusal(
            "KafkaUnknown",
            f"Which replicas are in sync is not known: {replica_index.view.error or 'not everything could be read'}.",
            "Kafka can be asked again.",
            leaving,
        )
    moving = [k for k in leaving if _moving(replica_index.partitions.get(k))]
    if moving:
        return _being_reassigned(replica_index, broker, sorted(moving))
    short = [k for k in leaving if not _enough(replica_index, broker, k, min_isr.get(k[0]), down)]
    if short:
        return _refusal(
            INSUFFICIENT_IN_SYNC,
            f"{counted(len(short), 'partition')} on the dead disk of broker {broker} cannot leave it, because without this "
            f"broker fewer replicas are in sync than min.insync.replicas asks for, or the others are not all in sync, or are being taken down: "
            f"{some(names_of(short))}.",
            _way_out(replica_index, broker, short),
            short,
        )
    return None


def without_dropped(view: KafkaView, dropped: Collection[DroppedReplica]) -> KafkaView:
    """What Kafka will say when these replicas have left their assignments."""
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
    """Rule 5: replicas leave a dead disk only where their broker can restart without it right after that."""
    return replace(
        refusal,
        rule=5,
        message=f"The replicas on the dead disk of broker {broker} leave their assignments only when the broker can restart right after that, "
        f"to have them on its other disks. {refusal.message}",
    )


def _way_out(replica_index: ReplicaIndex, broker: int, short: Collection[Key]) -> str:
    """Another broker helps only where an in-sync replica is left that it can copy."""
    alone = [key for key in short if not replica_index.copies(key, broker)]
    if not alone:
        return "Their other replicas are back in sync; or add a broker that can take the replicas."
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
        f" It never ends for {some(stuck)}: Kafka waits until the replica on that disk is in sync."
        if stuck
        else ""
    )
    return _refusal(
        "ReassignmentInProgress",
        f"Of the dead disk of broker {broker} {counted(len(moving), 'partition')} {'is' if len(moving) == 1 else 'are'} being reassigned: "
        f"{some(names_of(moving))}.{endless}",
        how_to_cancel(known),
        moving,
    )


def _enough(
    replica_index: ReplicaIndex, broker: int, key: Key, min_isr: int | None, down: AbstractSet[int]
) -> bool:
    """Whether the rest is wholly in sync, on live dirs, and as large as the minimum; never the last copy."""
    partition = replica_index.partitions[key]
    rest = set(partition.replicas) - {broker}
    return (
        min_isr is not None
        and len(rest) >= max(1, min_isr)
        and rest <= set(partition.isr) - down
        and all(replica_index.holds(b, key) for b in rest)
    )


def _no_way_back(broker: int, leaving: Collection[Key]) -> Waiting:
    return Waiting.refused(
        rule=4,
        reason="InsufficientSpaceOnBroker",
        message=f"The other disks of broker {broker} have no room for {counted(len(leaving), 'replica')} of its dead disk, so "
        f"they cannot leave it for a while: {some(names_of(leaving))}.",
        unblocked_by="Replace the disk, free space on the broker's other disks, or add a broker that can take the replicas.",
        objects=tuple(names_of(leaving)),
    )


def _refusal(reason: str, message: str, way_out: str, keys: Collection[Key]) -> Waiting:
    return Waiting.refused(
        rule=5, reason=reason, message=message, unblocked_by=way_out, objects=tuple(names_of(keys))
    )
