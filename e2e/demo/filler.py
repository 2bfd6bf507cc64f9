"""Fills a topic with more data in some partitions than in others; runs in a pod of the demo.

    python3 filler.py TOPIC PARTITIONS MEGABYTES

It creates the topic, if it does not exist, with two replicas of each partition.

Kafka spreads a topic's partitions over log dirs by count, not by size. A partition gets more data, the more of its
replicas are in the first log dir of their broker. Data of earlier runs counts.
"""

import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

_CREDENTIALS: Final = "/etc/spindle/credentials/"
_RECORD: Final = 100_000  # bytes
_AT_ONCE: Final = 40  # records that are sent before their acknowledgements are waited for
_ATTEMPTS: Final = 20
_TOLD_EVERY: Final = 3.0  # seconds

Dirs = Mapping[int, Mapping[str, Iterable[int]]]


def weights(partitions: Iterable[int], dirs: Dirs) -> dict[int, int]:
    """Relative amount of data for each partition.

    Args:
        partitions: of the topic.
        dirs: broker → log dir → the topic's partitions there.
    """
    first = [set(there[min(there)]) for there in dirs.values() if there]
    return {p: 5 ** sum(p in each for each in first) for p in partitions}


def plan(megabytes: int, weight: Mapping[int, int], ends: Mapping[int, int]) -> list[int]:
    """Partitions in the order in which they get a record each; all of them grow in parallel.

    Args:
        megabytes: target size of all partitions together.
        weight: of each partition.
        ends: number of records that each holds already.
    """
    total = sum(weight.values())
    wanted = {p: round(megabytes * 1_000_000 / _RECORD * w / total) for p, w in weight.items()}
    return [
        p
        for _, p in sorted(
            ((n + 0.5) / wanted[p], p) for p in weight for n in range(ends.get(p, 0), wanted[p])
        )
    ]


def write(producer: Any, topic: str, value: bytes, partitions: Sequence[int], pause: float = 1.0) -> None:
    """Write a record to each of these partitions, and wait until all are acknowledged.

    A write to a disk that dies may end with an error that the client does not repeat, such as UNKNOWN_SERVER_ERROR. It is repeated here.

    Raises:
        KafkaError: the last attempt failed, too.
    """
    for left in reversed(range(_ATTEMPTS)):
        failed = []
        for partition, sent in [(p, producer.send(topic, value, partition=p)) for p in partitions]:
            try:
                sent.get(timeout=60)
            except KafkaError:
                if not left:
                    raise
                failed.append(partition)
        if not failed:
            return
        print(f"{len(failed)} records were not acknowledged and are written again", flush=True)
        partitions = failed
        time.sleep(pause)  # noqa: TID251 - the program of a pod


def main(topic: str, count: int, megabytes: int) -> None:
    """Fill it, and print the progress."""
    access = {
        "bootstrap_servers": os.environ["BOOTSTRAP"],
        "security_protocol": "SSL",
        "ssl_cafile": _CREDENTIALS + "ca.crt",
        "ssl_certfile": _CREDENTIALS + "tls.crt",
        "ssl_keyfile": _CREDENTIALS + "tls.key",
    }
    admin = KafkaAdminClient(**access)
    if topic not in admin.list_topics():
        wanted = {
            "num_partitions": count,
            "replication_factor": 2,
            "configs": {"min.insync.replicas": "1"},
        }
        admin.create_topics({topic: wanted}, wait_for_metadata=True)
    consumer = KafkaConsumer(**access)
    partitions = sorted(consumer.partitions_for_topic(topic))
    # One by one: for several partitions the client omits those whose leader it does not know yet.
    ends = {p: consumer.end_offsets([TopicPartition(topic, p)])[TopicPartition(topic, p)] for p in partitions}
    consumer.close()
    order = plan(megabytes, weights(partitions, _dirs(admin, topic)), ends)
    producer = KafkaProducer(
        **access, acks="all", linger_ms=5, batch_size=4 * _RECORD, max_request_size=8 * _RECORD
    )
    value = os.urandom(_RECORD)  # random, so that nothing can compress it
    began = told = time.monotonic()
    before = megabytes - len(order) * _RECORD // 1_000_000
    for start in range(0, len(order), _AT_ONCE):
        part = order[start : start + _AT_ONCE]
        write(producer, topic, value, part)
        if time.monotonic() - told >= _TOLD_EVERY or start + _AT_ONCE >= len(order):
            told = time.monotonic()
            done = before + (start + len(part)) * _RECORD // 1_000_000
            print(
                f"{told - began:5.0f} s  {done} of {megabytes} MB, acknowledged by every replica", flush=True
            )
    producer.close()
    print(f"{megabytes} MB are in topic {topic}.", flush=True)


def _dirs(admin: Any, topic: str) -> dict[int, dict[str, list[int]]]:
    found: dict[int, dict[str, list[int]]] = {}
    for broker in [each["broker_id"] for each in admin.describe_cluster()["brokers"]]:
        (answer,) = admin.describe_log_dirs(brokers=[broker])
        found[broker] = {
            each["log_dir"]: [
                p["partition_index"] for t in each["topics"] if t["name"] == topic for p in t["partitions"]
            ]
            for each in answer["log_dirs"]
        }
    return found


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
