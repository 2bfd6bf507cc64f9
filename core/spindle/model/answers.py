"""Parts of the view from Kafka's error-free responses. The responses may come from any client; only their fields are read."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from sys import intern
from typing import Any

from spindle.model.replica_sizes import ReplicaSizes
from spindle.model.view import LogDir, Partition


def read_partition(
    topic: str, partition: Any, moving: Mapping[tuple[str, int], tuple[tuple[int, ...], tuple[int, ...]]]
) -> Partition:
    """One partition of a DescribeTopicPartitions response. An ELR of null is unknown, an empty one is empty."""
    adding, removing = moving.get((topic, partition.partition_index), ((), ()))
    elr = partition.eligible_leader_replicas
    replicas, isr = (
        tuple(map(_held_once, nodes)) for nodes in (partition.replica_nodes, partition.isr_nodes)
    )
    return Partition(
        topic=topic,
        index=partition.partition_index,
        leader=_held_once(partition.leader_id) if partition.leader_id >= 0 else None,
        replicas=replicas,
        isr=replicas if isr == replicas else isr,  # held once
        elr=None if elr is None else tuple(elr),
        adding=adding,
        removing=removing,
    )


def with_reassignments(
    partitions: Iterable[Partition], moving: Mapping[tuple[str, int], tuple[tuple[int, ...], tuple[int, ...]]]
) -> Iterator[Partition]:
    """Partitions that were read without their reassignments: key → replicas that are added, replicas that are removed."""
    for each in partitions:
        adding, removing = moving.get((each.topic, each.index), ((), ()))
        yield replace(each, adding=adding, removing=removing) if adding or removing else each


def read_log_dir(result: Any) -> LogDir:
    """The entry of one dir in a DescribeLogDirs response."""
    replicas: dict[tuple[str, int], int] = {}
    futures: dict[tuple[str, int], int] = {}
    for topic in result.topics:
        name = intern(topic.name)  # as it is named by every broker that has a replica
        for partition in topic.partitions:
            kind = futures if partition.is_future_key else replicas
            kind[name, partition.partition_index] = max(0, partition.partition_size)
    total, usable = _size(result.total_bytes), _size(result.usable_bytes)
    return LogDir(
        path=result.log_dir,
        error=result.error_code,
        total_bytes=total,
        # No more than there is: a false value must not make the status of the disk invalid.
        usable_bytes=usable if usable is None or total is None else min(usable, total),
        cordoned=bool(result.is_cordoned),
        replicas=ReplicaSizes.of(replicas),
        futures=ReplicaSizes.of(futures),
    )


@lru_cache(8192)
def _held_once(broker: int) -> int:
    """The same object for each partition: with a million replicas, those of their own would take a hundred megabytes."""
    return broker


def _size(value: int | None) -> int | None:
    return None if value is None or value < 0 else value
