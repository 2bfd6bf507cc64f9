"""ListOffsets: the first or next offsets of partitions, and the leader epochs that come with them."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from kafka.protocol.consumer import ListOffsetsRequest

from spindle_operator.connection import Connection

EARLIEST: Final = -2  # special timestamps
LATEST: Final = -1

Key = tuple[str, int]


def list_offsets(
    link: Connection, leader: int, keys: Iterable[Key], when: int, timeout_ms: int = 0
) -> dict[Key, Any]:
    """The answer for each partition, with ``offset`` and ``leader_epoch``; partitions without a result are omitted.

    Args:
        leader: the broker that leads them.
        when: `EARLIEST` or `LATEST`.
        timeout_ms: for reads of remote storage.

    Raises:
        KafkaError, OSError, RuntimeError: the broker was not asked, or did not answer.
    """
    of = ListOffsetsRequest.ListOffsetsTopic
    topics: dict[str, list[Any]] = defaultdict(list)
    for topic, index in keys:
        asked = of.ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=when)
        topics[topic].append(asked)
    wanted = [of(name=name, partitions=asked) for name, asked in topics.items()]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=wanted, timeout_ms=timeout_ms)
    return {
        (topic.name, p.partition_index): p
        for topic in link.send(request, leader).topics
        for p in topic.partitions
        if not p.error_code
    }
