"""Drops a replica from a full disk where no move helps, if at least two replicas stay ("no log dir removed with replicas on it", docs/safety.md).

This is the only way to stop a follower from writing to a full disk. The replica is recorded and restored when there is space.
"""

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from spindle.evacuation.drop_replicas import may_drop_replica
from spindle.model.replica_index import Key, ReplicaIndex
from spindle.model.waiting import Waiting
from spindle.moves.journal import DROP_FOR_SPACE, DroppedReplica

_LEAST_COPIES: Final = 2


@dataclass(frozen=True)
class ReplicaDrop:
    """The replica that is dropped from a disk now; or why none may be."""

    shrunk: tuple[DroppedReplica, ...] = ()
    refusal: Waiting | None = None


def drop_for_space(
    replica_index: ReplicaIndex,
    broker: int,
    path: str,
    need: int,
    moving: Collection[Key] = (),
    down: AbstractSet[int] = frozenset(),
) -> ReplicaDrop:
    """Choose the smallest replica that is large enough, else the largest; one at a time.

    Args:
        replica_index: the current state of Kafka.
        broker, path: the disk.
        need: bytes to free on it.
        moving: partitions that are being moved; they are not touched.
        down: see `spindle.evacuation.drop_replicas.may_drop_replica`.
    """
    found = next((d for d in replica_index.dirs(broker) or () if d.path == path and not d.error), None)
    if found is None or need <= 0:
        return ReplicaDrop()
    candidates = sorted(
        (key for key in found.replicas if key not in moving and found.replicas[key] > 0),
        key=lambda k: (found.replicas[k] < need, abs(found.replicas[k] - need), k),
    )
    refusal = None
    for key in candidates:
        if (
            len(set(replica_index.partitions[key].replicas) - {broker}) < _LEAST_COPIES
            if key in replica_index.partitions
            else True
        ):
            continue
        refused = may_drop_replica(replica_index, broker, [key], down)
        if refused is None:
            partition = replica_index.partitions[key]
            size = max(replica_index.size(key), found.replicas[key])
            return ReplicaDrop(
                (
                    DroppedReplica(
                        *key, broker=broker, bytes=size, before=partition.replicas, reason=DROP_FOR_SPACE
                    ),
                )
            )
        refusal = refusal or refused
    return ReplicaDrop(refusal=refusal or _no_replica_to_drop(broker, path))


def _no_replica_to_drop(broker: int, path: str) -> Waiting:
    return Waiting.refused(
        rule=5,
        reason="NoReplicaToDrop",
        message=f"Spindle cannot drop a replica from {path} of broker {broker}: no partition on it has two other replicas.",
        unblocked_by="Add a disk or a broker, or delete data.",
    )
