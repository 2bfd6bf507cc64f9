"""Reads a page of partitions of which only the topics that changed are decoded.

A broker that stops changes some partitions on every page, and most topics of none. So a page that differs from the one before is not read anew: where
its topics are is known from when it was decoded, a topic with the same bytes keeps its value, and the others are decoded together, as a shorter page.

Where a topic ends follows from what it says; a page that does not fit, for example because it has fields that Spindle does not know, is decoded as a whole each time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Generic, TypeVar

from kafka.errors import KafkaProtocolError

from spindle_operator.raw_answers import RawAnswer

_VERSION: Final = 0  # of DescribeTopicPartitionsResponse; there is no other so far
_COUNT: Final = 4  # first byte of the number of topics: after the throttle time
_BEFORE_NAME: Final = 2  # a topic's error code
# Fixed parts: error code, whether it is internal, authorized operations, tags; of a partition error code, index, leader, epoch, tags.
_OF_TOPIC: Final = 2 + 1 + 4 + 1
_OF_PARTITION: Final = 2 + 4 + 4 + 4 + 1
_NUMBER: Final = 4
_UUID: Final = 16

_T = TypeVar("_T")


@dataclass(frozen=True)
class _Topic(Generic[_T]):
    """A topic of a page.

    Attributes:
        head: its name and its id, as they are encoded.
        length: bytes.
        digest: SHA-256 of them.
        value: what it was read as.
    """

    head: bytes
    length: int
    digest: bytes
    value: _T


@dataclass(frozen=True)
class PageLayout(Generic[_T]):
    """The topics of a page, one behind the other."""

    topics: tuple[_Topic[_T], ...]


def read_page(
    answer: RawAnswer, before: PageLayout[_T] | None, read: Callable[[Any], _T]
) -> tuple[list[_T], Any, PageLayout[_T] | None]:
    """The topics of a page as values, where the next page begins, and what helps to read this page the next time.

    Args:
        answer: a DescribeTopicPartitions response.
        before: of the page's last response; None for the first.
        read: the value of one topic; what it raises is raised.
    """
    if before is not None and answer.version == _VERSION:
        found = _read_changed(answer, before, read)
        if found is not None:
            layout, cursor = found
            return [topic.value for topic in layout.topics], cursor, layout
    page = answer.decode()
    values = [read(topic) for topic in page.topics]
    return values, page.next_cursor, _find_layout(answer, page, values)


def _read_changed(
    answer: RawAnswer, before: PageLayout[_T], read: Callable[[Any], _T]
) -> tuple[PageLayout[_T], Any] | None:
    """The page, of which the other topics are as before; None if it has others, or cannot be split."""
    body, known = answer.body, before.topics
    at = _COUNT + len(_varint(len(known) + 1))
    if body[_COUNT:at] != _varint(len(known) + 1):
        return None
    changed: dict[int, bytes] = {}
    for number, topic in enumerate(known):
        end = at + topic.length
        if sha256(body[at:end]).digest() != topic.digest:
            if not body.startswith(topic.head, at + _BEFORE_NAME):
                return None
            last = number + 1 == len(known)
            # Of the last topic, what follows on the page is cut off when its length is known.
            end = len(body) if last else body.find(known[number + 1].head, at + _BEFORE_NAME) - _BEFORE_NAME
            if end <= at:
                return None
            changed[number] = body[at:end]
        at = end
    shorter = body[:_COUNT] + _varint(len(changed) + 1) + b"".join(changed.values()) + body[at:]
    try:
        page = RawAnswer(answer.kind, shorter).decode()
    except KafkaProtocolError:
        return None
    topics = list(known)
    for (number, piece), decoded in zip(changed.items(), page.topics, strict=True):
        if decoded.partitions is None:  # Kafka sends none like this
            return None
        length = _length(decoded)
        # The last topic may be longer by fields that are not known: then what follows it does not begin there.
        last = number + 1 == len(known)
        fits = _follows(answer, piece[length:], page.next_cursor) if last else len(piece) == length
        if _head(decoded) != known[number].head or not fits:
            return None
        topics[number] = _Topic(known[number].head, length, sha256(piece[:length]).digest(), read(decoded))
    return PageLayout(tuple(topics)), page.next_cursor


def _find_layout(answer: RawAnswer, page: Any, values: Sequence[_T]) -> PageLayout[_T] | None:
    """Where the topics of a decoded page are; None if their lengths do not add up to it."""
    if answer.version != _VERSION:
        return None
    body, topics = answer.body, []
    at = _COUNT + len(_varint(len(page.topics) + 1))
    for topic, value in zip(page.topics, values, strict=True):
        head, length = _head(topic), _length(topic)
        if not body.startswith(head, at + _BEFORE_NAME):
            return None
        topics.append(_Topic(head, length, sha256(body[at : at + length]).digest(), value))
        at += length
    return PageLayout(tuple(topics)) if _follows(answer, body[at:], page.next_cursor) else None


def _follows(answer: RawAnswer, rest: bytes, cursor: Any) -> bool:
    """Whether this is what follows the topics of a page with this cursor."""
    try:
        page = RawAnswer(answer.kind, answer.body[:_COUNT] + _varint(1) + rest).decode()
    except KafkaProtocolError:
        return False
    return bool(page.next_cursor == cursor)


def _head(topic: Any) -> bytes:
    # The library decodes an id of zeros, as that of a topic with an error, as None.
    topic_id = bytes(_UUID) if topic.topic_id is None else bytes(topic.topic_id.bytes)
    if topic.name is None:
        return _varint(0) + topic_id
    name = topic.name.encode()
    return bytes(_varint(len(name) + 1) + name) + topic_id


def _length(topic: Any) -> int:
    """Bytes of a topic without tagged fields."""
    partitions = topic.partitions or ()  # null takes one byte, as an empty list does
    return (
        _OF_TOPIC
        + len(_head(topic))
        + len(_varint(len(partitions) + 1))
        + sum(
            _OF_PARTITION
            + _numbers(one.replica_nodes)
            + _numbers(one.isr_nodes)
            + _numbers(one.eligible_leader_replicas)
            + _numbers(one.last_known_elr)
            + _numbers(one.offline_replicas)
            for one in partitions
        )
    )


def _numbers(numbers: Sequence[int] | None) -> int:
    """Bytes of an array of int32, or of none."""
    return 1 if numbers is None else len(_varint(len(numbers) + 1)) + _NUMBER * len(numbers)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
