"""Asks a leader whether its logs have the epochs that it was elected with; see `spindle.moves.leader_epochs`."""

from collections.abc import Iterable
from typing import Any, Final

from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest

from spindle_operator.connection import Connection

_LATEST: Final = -1  # timestamp of ListOffsets
_UNKNOWN: Final = -1  # an epoch, or the end of one (UNDEFINED_EPOCH_OFFSET)

Key = tuple[str, int]


def own_epochs(link: Connection, leader: int, keys: Iterable[Key]) -> dict[Key, bool]:
    """Whether the leader's log of each partition has its leader epoch; partitions that another broker leads by now are omitted.

    ListOffsets tells the epoch of the leader, and OffsetForLeaderEpoch where that epoch ends in its log: nowhere, if the log has only older ones
    (``LeaderEpochFileCache.endOffsetFor``).
    """
    epochs = _epochs(link, leader, keys)
    topics: dict[str, list[Any]] = {}
    of = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    for (topic, index), epoch in epochs.items():
        asked = of.OffsetForLeaderPartition(partition=index, current_leader_epoch=epoch, leader_epoch=epoch)
        topics.setdefault(topic, []).append(asked)
    if not topics:
        return {}
    wanted = [of(topic=name, partitions=asked) for name, asked in topics.items()]
    answer = link.send(OffsetForLeaderEpochRequest(replica_id=-1, topics=wanted), leader)
    return {
        (topic.topic, p.partition): p.end_offset != _UNKNOWN
        for topic in answer.topics
        for p in topic.partitions
        if not p.error_code
    }


def _epochs(link: Connection, leader: int, keys: Iterable[Key]) -> dict[Key, int]:
    topics: dict[str, list[Any]] = {}
    of = ListOffsetsRequest.ListOffsetsTopic
    for topic, index in keys:
        asked = of.ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=_LATEST)
        topics.setdefault(topic, []).append(asked)
    wanted = [of(name=name, partitions=asked) for name, asked in topics.items()]
    answer = link.send(ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=wanted), leader)
    return {
        (topic.name, p.partition_index): p.leader_epoch
        for topic in answer.topics
        for p in topic.partitions
        if not p.error_code and p.leader_epoch != _UNKNOWN
    }
