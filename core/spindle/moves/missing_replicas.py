"""Partitions whose replicas Spindle dropped: their intended assignment, and whether another client has reassigned them since."""

from collections.abc import Mapping

from spindle.model.view import Partition
from spindle.moves.journal import DroppedReplica, Journal
from spindle.moves.kafka_index import PartitionKey


def meant(
    journal: Journal | None, partitions: Mapping[PartitionKey, Partition]
) -> dict[PartitionKey, tuple[int, ...]]:
    """The intended assignment of each partition from which Spindle temporarily dropped replicas.

    Several replicas may have been dropped one after the other, each from a smaller assignment: the largest one counts. A partition that
    another client has reassigned since is left out: that assignment is the intended one.

    Args:
        journal: None if it cannot be read.
        partitions: the current partitions; none if they could not be read.
    """
    others = taken_over(journal, partitions)
    found: dict[PartitionKey, tuple[int, ...]] = {}
    for entry in journal.dropped if journal is not None else ():
        if entry.key not in others:
            found[entry.key] = max(entry.before, found.get(entry.key, ()), key=len)
    return found


def taken_over(
    journal: Journal | None, partitions: Mapping[PartitionKey, Partition]
) -> frozenset[PartitionKey]:
    """Partitions with recorded dropped replicas that another client has reassigned since.

    Spindle itself only adds previously assigned brokers and the targets of its moves, and only removes recorded replicas and the sources of
    its moves.
    """
    if journal is None:
        return frozenset()
    left: dict[PartitionKey, set[int]] = {}
    before: dict[PartitionKey, set[int]] = {}
    for entry in journal.dropped:
        left.setdefault(entry.key, set()).add(entry.broker)
        before.setdefault(entry.key, set()).update(entry.before)
    ours = {key: set(brokers) for key, brokers in before.items()}
    stays = {key: brokers - left[key] for key, brokers in before.items()}
    for move in journal.moves:
        if move.key in ours:
            ours[move.key].add(move.target)
            stays[move.key].discard(-1 if move.source is None else move.source)
    return frozenset(
        key
        for key, known in ours.items()
        if (partition := partitions.get(key)) is not None
        and (set(partition.replicas) - known or stays[key] - set(partition.replicas))
    )


def put_right(partition: Partition, entry: DroppedReplica) -> bool:
    """Whether a partition that another client has reassigned has as many replicas as before the drop."""
    return not (partition.adding or partition.removing) and len(partition.replicas) >= len(entry.before)
