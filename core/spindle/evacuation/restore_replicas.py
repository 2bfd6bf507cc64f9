"""Restores dropped replicas on chosen dirs of their own broker; the choice is never left to Kafka.

Kafka itself would create each new log on the dir with the fewest logs, which puts all of them on one disk.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from spindle.model.replica_index import Key, ReplicaIndex, names_of
from spindle.model.view import KafkaView, LogDir
from spindle.model.waiting import Waiting, counted, some
from spindle.moves.journal import RESTORE, DroppedReplica, Move


@dataclass(frozen=True)
class ReplicaRestores:
    """Moves that restore replicas, and why some have to wait."""

    moves: tuple[Move, ...] = ()
    refusals: tuple[tuple[int, Waiting], ...] = ()


def place(
    dirs: Sequence[LogDir], sizes: Mapping[Key, int], incoming_limit: float = 0.9
) -> dict[Key, str] | None:
    """Spread logs over dirs: the largest first, each to the dir that is least full with it. None if they do not fit.

    Args:
        dirs: candidate dirs; one that is in error, cordoned or of unknown size accepts none.
        sizes: bytes of each log.
        incoming_limit: no dir may become fuller than this share: "no overfull target" (`docs/safety.md`, rule 4).
    """
    room: dict[str, tuple[float, float]] = {
        d.path: (float(d.total_bytes - d.usable_bytes), float(d.total_bytes))
        for d in dirs
        if not d.error and not d.cordoned and d.total_bytes and d.usable_bytes is not None
    }
    chosen: dict[Key, str] = {}
    for key in sorted(sizes, key=lambda k: (-sizes[k], k)):
        fills = {path: (used + sizes[key]) / total for path, (used, total) in room.items()}
        path = min(fills, key=lambda p: (fills[p], p), default=None)
        if path is None or fills[path] > incoming_limit:
            return None
        used, total = room[path]
        room[path] = used + sizes[key], total
        chosen[key] = path
    return chosen


def restore_replicas(
    view: KafkaView,
    dropped: Sequence[DroppedReplica],
    incoming_limit: float = 0.9,
    avoid: Collection[tuple[int, str]] = (),
) -> ReplicaRestores:
    """Moves that restore each broker's dropped replicas, as far as it can host them now.

    ``avoid``: (broker, path) of dirs that accept no replicas although Kafka would allow it.
    """
    replica_index = ReplicaIndex(view)
    if not replica_index.known:
        return ReplicaRestores()
    moves: list[Move] = []
    refusals: list[tuple[int, Waiting]] = []
    for broker in sorted({entry.broker for entry in dropped}):
        sizes = {
            key: max(entry.bytes, replica_index.size(key))
            for entry in dropped
            if entry.broker == broker
            and (key := entry.key) in replica_index.partitions
            and broker not in replica_index.partitions[key].replicas
        }
        if not sizes:
            continue
        if (refusal := _cannot_take(replica_index, broker, sizes)) is not None:
            refusals.append((broker, refusal))
            continue
        dirs = [d for d in replica_index.dirs(broker) or () if (broker, d.path) not in avoid]
        chosen = place(dirs, sizes, incoming_limit)
        if chosen is None:
            refusals.append((broker, _no_room(broker, sizes)))
            continue
        ready = [key for key in sizes if may_add(replica_index, broker, key)]
        moves += [
            Move(*key, source=None, from_dir=None, target=broker, to_dir=chosen[key], bytes=sizes[key],
                 reason=RESTORE)
            for key in sorted(ready, key=lambda k: (replica_index.copies(k, broker), k))
        ]  # fmt: skip
    return ReplicaRestores(tuple(moves), tuple(refusals))


def may_add(replica_index: ReplicaIndex, broker: int, key: Key) -> bool:
    """Whether an empty replica may be created on a broker: not where the broker may lead the partition.

    See "no format over the last copy" (`docs/safety.md`, rule 1).
    """
    partition = replica_index.partitions[key]
    return partition.elr is not None and broker not in partition.isr and broker not in partition.elr


def _cannot_take(replica_index: ReplicaIndex, broker: int, keys: Collection[Key]) -> Waiting | None:
    """Kafka creates no log on a broker that has an offline dir."""
    known = replica_index.brokers.get(broker)
    dirs = replica_index.dirs(broker)
    if known is not None and not known.fenced and dirs and not any(d.error for d in dirs):
        return None
    why = "still has an offline log dir" if dirs and any(d.error for d in dirs) else "is not available"
    return Waiting.refused(
        rule=6,
        reason="RestartPending",
        message=f"{counted(len(keys), 'replica')} {'was' if len(keys) == 1 else 'were'} dropped from broker {broker} with its dead disk and cannot be "
        f"restored on its other disks yet, because the broker {why}: {some(names_of(keys))}.",
        unblocked_by=f"Nothing to do: Spindle continues when broker {broker} has restarted without the disk.",
        objects=tuple(names_of(keys)),
    )


def _no_room(broker: int, keys: Collection[Key]) -> Waiting:
    return Waiting.refused(
        rule=4,
        reason="InsufficientSpaceToRestore",
        message=f"The disks of broker {broker} have no space to restore {counted(len(keys), 'replica')} that "
        f"{'was' if len(keys) == 1 else 'were'} dropped from it: {some(names_of(keys))}.",
        unblocked_by=f"Insert a new disk into the slot of the dead one, or free space on the disks of broker {broker}.",
        objects=tuple(names_of(keys)),
    )
