"""A replica with a corrupt segment is dropped and made anew from the others: rule 5 says whether it may leave, rule 1 how it comes back.

Its files are never edited under a live broker, and it is not moved between dirs: that would copy what is corrupt, or stop there.
"""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet

from spindle.cluster.waiting import Waiting
from spindle.healing.drop_replicas import ReplicaDrops, may_drop_replica
from spindle.healing.replica_index import Key, ReplicaIndex
from spindle.healing.restore_replicas import place
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
    """Whether a replica may leave its assignment to be made anew.

    Args:
        replica_index: what Kafka says now.
        broker: whose replica it is.
        key: topic and partition.
        corrupt: brokers with a corrupt replica of each partition, as far as is known.
        sound: brokers whose replica of each partition was checked, all that is at rest of it, with nothing found. That nothing is told
            of a replica says nothing of it (rule 8).
        avoid: paths of the broker's dirs that are to take nothing.
        incoming_limit: rule 4.
        down: see `spindle.healing.drop_replicas.may_drop_replica`.
    """
    partition = replica_index.partitions.get(key)
    if partition is None or broker not in partition.replicas:
        return ReplicaDrops()
    others = set(partition.replicas) - {broker}
    if bad := others & corrupt.get(key, frozenset()):
        return _held_back(
            broker,
            key,
            f"the replica on broker {min(bad)} is corrupt, too",
            "See docs/scrubbing.md: which of them has which records has to be looked at by a person.",
        )
    if unchecked := others - sound.get(key, frozenset()):
        return _held_back(
            broker,
            key,
            f"that the replica on broker {min(unchecked)} is sound is not known",
            "The agents of the other replicas' brokers live, and have checked these replicas; they are read before all else.",
        )
    if (refusal := may_drop_replica(replica_index, broker, [key], down)) is not None:
        return _held_back(
            broker,
            key,
            "without it too few replicas are in sync, or one of these is being taken down, or the partition is being moved, or that is not known",
            refusal.unblocked_by,
        )
    size = replica_index.size(key)
    kept = [d for d in replica_index.dirs(broker) or () if d.path not in avoid]
    if place(kept, {key: size}, incoming_limit) is None:
        return _held_back(
            broker, key, "no disk of the broker has room for it to come back to", "Free space on its disks."
        )
    return ReplicaDrops(
        (DroppedReplica(*key, broker=broker, bytes=size, before=partition.replicas, reason=REPAIR),)
    )


def _held_back(broker: int, key: Key, why: str, way_out: str) -> ReplicaDrops:
    name = f"{key[0]}-{key[1]}"
    return ReplicaDrops(
        refusal=Waiting.refused(
            rule=5,
            reason="RepairDeferred",
            message=f"The replica of {name} on broker {broker} has a corrupt segment and is not made anew now: {why}.",
            unblocked_by=way_out,
            objects=(name,),
        )
    )
