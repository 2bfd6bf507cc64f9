"""Sends messages through a topic and reads them back, to verify that a cluster accepts and returns data."""

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from spindle_cli.errors import ClientError
from spindle_cli.kafka_client import Access, consumer, producer
from spindle_cli.libraries import kafka

Say = Callable[[str], None]
_PATIENCE_S: Final = 60.0
_EVERY: Final = 2_500


@dataclass(frozen=True)
class Count:
    """Result of one run.

    Attributes:
        sent: acknowledged by every in-sync replica.
        read: number of distinct messages read back.
        strangers: messages read back that were altered, or whose number was never sent.
        send_seconds, read_seconds: how long sending and reading took.
    """

    sent: int
    read: int
    strangers: int
    send_seconds: float
    read_seconds: float


def send_and_read(access: Access, topic: str, messages: int, size: int, say: Say) -> Count:
    """Send numbered messages with acks=all, evenly over the topic's partitions, and read all of them back.

    Args:
        size: bytes of each message's value.

    Raises:
        ClientError: a message was rejected, or not all were read back in time.
    """
    run = uuid.uuid4().hex
    reader = consumer(access)
    try:
        partitions = [
            kafka.TopicPartition(topic, index) for index in sorted(reader.partitions_for_topic(topic) or ())
        ]
        # One by one: for several topics or partitions the client omits those whose leader it does not know yet.
        before = {each: reader.end_offsets([each])[each] for each in partitions}
        began = time.monotonic()
        _send(access, partitions, messages, size, run, say)
        sent_after = time.monotonic()
        reader.assign(partitions)
        for partition in partitions:
            reader.seek(partition, before[partition])
        read, strangers = _read(reader, messages, size, run, say)
        return Count(messages, len(read), strangers, sent_after - began, time.monotonic() - sent_after)
    except kafka.errors.KafkaError as error:
        raise ClientError(f"topic {topic}: {error or type(error).__name__}") from error
    finally:
        reader.close()


def value_of(number: int, size: int) -> bytes:
    """The value of one message: its number, then padding."""
    head = b"%d." % number
    return head + bytes((number + position) % 251 for position in range(max(0, size - len(head))))


def _send(
    access: Access, partitions: "list[kafka.TopicPartition]", messages: int, size: int, run: str, say: Say
) -> None:
    sender = producer(access)
    try:
        pending: list[Any] = []
        for number in range(messages):
            to = partitions[number % len(partitions)]
            value = value_of(number, size)
            pending.append(sender.send(to.topic, value=value, key=run.encode(), partition=to.partition))
            if len(pending) == _EVERY or number + 1 == messages:
                for answer in pending:
                    answer.get(timeout=_PATIENCE_S)  # raises the broker's error
                pending.clear()
                say(f"sent {number + 1:,} of {messages:,}, acknowledged by every in-sync replica")
    finally:
        sender.close(timeout=5)


def _read(reader: Any, messages: int, size: int, run: str, say: Say) -> tuple[set[int], int]:
    seen: set[int] = set()
    strangers = 0
    told = 0
    for record in _records(reader, lambda: len(seen) >= messages):
        if record.key != run.encode():
            continue  # written by another producer meanwhile
        number = _number(record.value)
        if number is None or number >= messages or record.value != value_of(number, size):
            strangers += 1
            continue
        seen.add(number)
        if len(seen) // _EVERY > told or len(seen) == messages:
            told = len(seen) // _EVERY
            say(f"read {len(seen):,} of {messages:,}")
    return seen, strangers


def _records(reader: Any, done: Callable[[], bool]) -> Iterator[Any]:
    """Records until enough have arrived, or none for too long."""
    quiet_until = time.monotonic() + _PATIENCE_S
    while not done() and time.monotonic() < quiet_until:
        for batch in reader.poll(timeout_ms=500, max_records=2_000).values():
            quiet_until = time.monotonic() + _PATIENCE_S
            yield from batch


def _number(value: bytes) -> int | None:
    head = value.split(b".", 1)[0]
    return int(head) if head.isdigit() else None
