"""Records into a topic of a real Kafka, each of them for certain."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from kafka import KafkaProducer

from tests.kafka.cluster import Cluster

_AT_ONCE: Final = 1000  # records: the client gives up what has waited for longer than two minutes

Record = tuple[int, int, bytes]
"""Broker, the time that Kafka is told (ms since 1970), value."""


def publish(cluster: Cluster, topic: str, partitions: int, records: Iterator[Record]) -> int:
    """Publish records as agents do: by their broker's key, each broker's to one partition.

    Returns:
        How many.

    Raises:
        RuntimeError: not all of them were stored.
    """
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap(), **cluster.ssl(), acks="all", linger_ms=50, batch_size=1_000_000
    )
    count = 0
    try:
        while sent := [
            producer.send(
                topic, value, str(broker).encode(), partition=broker % partitions, timestamp_ms=stored_ms
            )
            for broker, stored_ms, value in islice(records, _AT_ONCE)
        ]:
            producer.flush(timeout=120)
            lost = [each.exception for each in sent if not each.succeeded()]
            if lost:
                raise RuntimeError(
                    f"{len(lost)} of {len(sent)} records were not stored, after {count} that were: {lost[0]}"
                )
            count += len(sent)
    finally:
        producer.close(timeout=30)
    return count
