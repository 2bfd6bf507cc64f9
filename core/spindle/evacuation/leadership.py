"""Which broker leads partitions on a degraded disk, or on a broker that is about to go down: another in-sync replica.

A slow disk delays every producer that writes to a leader there; a follower only has to keep up. And a disk that may fail, or a broker that
is about to stop, disturbs clients less if it leads nothing.
"""

from collections.abc import Collection
from collections.abc import Set as AbstractSet

from spindle.model.replica_index import Key, ReplicaIndex
from spindle.model.view import Partition


def move_leadership(
    replica_index: ReplicaIndex,
    unwell: Collection[tuple[int, str]],
    unfit: AbstractSet[int],
    leaving: AbstractSet[int] = frozenset(),
) -> dict[Key, int | None]:
    """The preferred leader of each partition on degraded disks and leaving brokers; None where it does not change.

    The current leader stays, if it is neither on a degraded disk nor leaving; otherwise the first replica in order that is
    in sync, on a live dir of a live broker, and not unfit. If there is none, nothing changes.

    Args:
        replica_index: the current state of Kafka.
        unwell: (broker, path) of dirs that work but should lead nothing.
        unfit: brokers that take over nothing: those with any unhealthy disk, and those that are going down.
        leaving: brokers that should lead nothing at all, because they are about to go down or are down.
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
    # Only a false broker describes a partition without replicas.
    if not {*partition.replicas[:1], partition.leader} & unwell:
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
