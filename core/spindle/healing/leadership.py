"""Who is to lead what stands on a disk that serves, but badly, or on a broker that is to go down: another replica that is in sync.

A slow disk makes every producer wait that writes to a leader there; as a follower it only has to keep up. And what may fail at
any moment, or is about to end, does so more gently without leaders on it.
"""

from collections.abc import Collection
from collections.abc import Set as AbstractSet

from spindle.cluster.view import Partition
from spindle.healing.replica_index import Key, ReplicaIndex


def move_leadership(
    replica_index: ReplicaIndex,
    unwell: Collection[tuple[int, str]],
    unfit: AbstractSet[int],
    leaving: AbstractSet[int] = frozenset(),
) -> dict[Key, int | None]:
    """Who is to be the preferred leader of each partition on unwell disks and leaving brokers; None where it is to stay who it is.

    Whoever leads now goes on, if that is neither the unwell disk's broker nor a leaving one; else the first one in the order of the replicas that is
    in sync, stands on a live dir of a broker that is there, and is not unfit. Where there is no such replica nothing changes.

    Args:
        replica_index: what Kafka says now.
        unwell: (broker, path) of dirs that work, and are to lead nothing.
        unfit: brokers that take over nothing: those with any disk that is not well, and those that are going down.
        leaving: brokers that are to lead nothing at all, because they go down soon or are down.
    """
    if not replica_index.known:
        return {}
    on: dict[Key, set[int]] = {}
    for broker, path in unwell:
        for key in replica_index.on(broker, path) or ():
            on.setdefault(key, set()).add(broker)
    for broker in leaving:
        for held in replica_index.assigned.get(broker, ()):
            on.setdefault((held.topic, held.index), set()).add(broker)
    return {
        key: _leader(replica_index, partition, brokers, unfit | leaving)
        for key, brokers in on.items()
        if (partition := replica_index.partitions.get(key)) is not None
    }


def _leader(
    replica_index: ReplicaIndex, partition: Partition, unwell: AbstractSet[int], unfit: AbstractSet[int]
) -> int | None:
    preferred = partition.replicas[0]
    if not {preferred, partition.leader} & unwell:
        return None
    key = partition.topic, partition.index
    order = (partition.leader, *partition.replicas)
    return next(
        (
            b
            for b in order
            if b is not None
            and b in partition.isr
            and b not in unwell | unfit
            and b not in partition.adding
            and replica_index.holds(b, key)
        ),
        None,
    )
