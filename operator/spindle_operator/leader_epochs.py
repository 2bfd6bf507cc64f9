"""Asks a leader whether its logs have the epochs that it was elected with; see `spindle.moves.leader_epochs`."""

from collections.abc import Iterable
from typing import Any, Final

from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from spindle_operator.connection import Connection
from spindle_operator.list_offsets import LATEST, Key, list_offsets

_UNKNOWN: Final = -1  # an epoch, or the end of one (UNDEFINED_EPOCH_OFFSET)


def own_epochs(link: Connection, leader: int, keys: Iterable[Key]) -> dict[Key, bool]:
    """Whether the leader's log of each partition has its leader epoch; partitions that another broker leads by now are omitted.

    ListOffsets tells the epoch of the leader, and OffsetForLeaderEpoch where that epoch ends in its log: nowhere, if the log has only older ones
    (``LeaderEpochFileCache.endOffsetFor``).
    """
    told = list_offsets(link, leader, keys, LATEST)
    topics: dict[str, list[Any]] = {}
    of = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    for (topic, index), partition in told.items():
        epoch = partition.leader_epoch
        if epoch == _UNKNOWN:
            continue
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
