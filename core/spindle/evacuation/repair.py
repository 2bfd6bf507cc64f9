"""Drops a replica with a corrupt segment so that it is re-replicated from the others.

"No log dir removed with replicas on it" (`docs/safety.md`, rule 5) decides whether it may be dropped, "no format over the last copy" (rule 1) how
it is restored. Its files are never edited under a running broker, and it is not moved between dirs: that would copy the corruption, or stop at it.
"""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet

from spindle.evacuation.drop_replicas import ReplicaDrops, may_drop_replica
from spindle.evacuation.restore_replicas import place
from spindle.model.replica_index import Key, ReplicaIndex
from spindle.model.waiting import Waiting
from spindle.moves.journal import REPAIR, DroppedReplica


def repair(
    replica_index: ReplicaIndex,
    broker: int,
    key: Key,
    corrupt: Mapping[Key, AbstractSet[int]],
    sound: Mapping[Key, AbstractSet[int]],
    avoid: Collection[str] = (),
    incoming_limit: float = 0.9,
    down: AbstractSet[int] = frozenset(),
) -> ReplicaDrops:
    """Whether a replica may be dropped from its assignment so that it is re-replicated.

    Args:
        replica_index: the current state of Kafka.
        broker: the broker of the replica.
        key: topic and partition.
        corrupt: brokers with a corrupt replica of each partition, as far as known.
        sound: brokers whose replica of each partition was checked completely (all inactive segments) without a finding. A replica without a
            report is not sound: "unknown is not absent" (`docs/safety.md`, rule 8).
        avoid: paths of the broker's dirs that accept no replicas.
        incoming_limit: maximum usage after a move, as a share: "no overfull target" (`docs/safety.md`, rule 4).
        down: see `spindle.evacuation.drop_replicas.may_drop_replica`.
    """
    partition = replica_index.partitions.get(key)
    if partition is None or broker not in partition.replicas:
        return ReplicaDrops()
    held = _others_unsound(set(partition.replicas) - {broker}, broker, key, corrupt, sound)
    if held is not None:
        return held
    if (refusal := may_drop_replica(replica_index, broker, [key], down)) is not None:
        return _held_back(
            broker,
            key,
            "without it too few replicas are in sync, or one of them is being taken down, or the partition is being reassigned, or "
            "that is not known",
            refusal.unblocked_by,
        )
    size = replica_index.size(key)
    kept = [d for d in replica_index.dirs(broker) or () if d.path not in avoid]
    if place(kept, {key: size}, incoming_limit) is None:
        return _held_back(
            broker,
            key,
            "no disk of the broker has enough space to restore it",
            f"Free space on the disks of broker {broker}.",
        )
    return ReplicaDrops(
        (DroppedReplica(*key, broker=broker, bytes=size, before=partition.replicas, reason=REPAIR),)
    )


def _others_unsound(
    others: AbstractSet[int],
    broker: int,
    key: Key,
    corrupt: Mapping[Key, AbstractSet[int]],
    sound: Mapping[Key, AbstractSet[int]],
) -> ReplicaDrops | None:
    """Why the other replicas cannot stand in for this one; None if all of them are known to be sound."""
    if bad := others & corrupt.get(key, frozenset()):
        return _held_back(
            broker,
            key,
            f"the replica on broker {min(bad)} is corrupt too",
            "Compare the replicas and decide which one to keep: see docs/scrubbing.md.",
        )
    if unchecked := others - sound.get(key, frozenset()):
        return _held_back(
            broker,
            key,
            f"the replica on broker {min(unchecked)} has not been checked completely",
            "Nothing to do: Spindle continues when the agents have checked the other replicas, which they read before all others. "
            "Make sure that these agents are running.",
        )
    return None


def _held_back(broker: int, key: Key, why: str, unblocked_by: str) -> ReplicaDrops:
    name = f"{key[0]}-{key[1]}"
    return ReplicaDrops(
        refusal=Waiting.refused(
            rule=5,
            reason="RepairDeferred",
            message=f"The replica of {name} on broker {broker} has a corrupt segment, and Spindle does not re-replicate it now: {why}.",
            unblocked_by=unblocked_by,
            objects=(name,),
        )
    )
