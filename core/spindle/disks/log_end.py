"""Where a replica's log ends, read from its files: this compares two copies of a replica without relying on clocks.

Formats: Kafka's ``DefaultRecordBatch`` (magic 2, big-endian), ``OffsetIndex``, ``LeaderEpochCheckpointFile``, ``PartitionMetadataFile``.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

Read = Callable[[int, int], bytes]
"""Bytes of a file: position, how many."""

NO_EPOCH: Final = -1

_BATCH: Final = struct.Struct(
    ">qiibIhi"
)  # base offset, length, leader epoch, magic, CRC, attributes, last offset delta
_BEFORE_LENGTH: Final = 12  # bytes that a batch's length does not include
_LEAST: Final = 61 - _BEFORE_LENGTH  # length of a batch without records
_MAGIC: Final = 2
_ENTRY: Final = struct.Struct(">ii")  # of an offset index: relative offset, position
_MOST_BATCHES: Final = 200_000  # limit of batches read for one log; with an index only the last few are read


@dataclass(frozen=True)
class LogEnd:
    """The end of a copy of a replica's log.

    Of two copies with the same topic id, the one with the higher leader epoch is more recent; within the same epoch both are parts of what one
    leader wrote, and the longer one includes the other.

    Attributes:
        topic_id: of the topic that the log was created for.
        epoch: leader epoch of its last batch, or the last one in its checkpoint if that is higher; `NO_EPOCH` for none.
        offset: log end offset.
    """

    topic_id: str
    epoch: int
    offset: int


def last_batch(read: Read, size: int, base: int, start: int) -> tuple[int, int] | None:
    """Leader epoch of a segment's last complete batch, and the offset after it.

    Args:
        read: bytes of the segment's log file.
        size: of that file.
        base: the segment's base offset.
        start: position of a batch; 0, or the result of `last_entry`.

    Returns:
        (`NO_EPOCH`, ``base``) for a segment without batches; None if no batch of magic 2 starts at ``start``, or there are too many.
    """
    epoch, end, at = NO_EPOCH, base, start
    for _ in range(_MOST_BATCHES):
        if at >= size:
            return epoch, end
        head = read(at, _BATCH.size)
        if len(head) < _BATCH.size:
            break
        first, length, of, magic, _, _, last = _BATCH.unpack(head)
        whole = magic == _MAGIC and length >= _LEAST and at + _BEFORE_LENGTH + length <= size
        if not whole or first < end or last < 0:
            break  # a truncated write, or preallocated space
        epoch, end, at = of, first + last + 1, at + _BEFORE_LENGTH + length
    else:
        return None
    return (epoch, end) if at > start else None


def last_entry(read: Read, size: int) -> int:
    """Position of the last batch in an offset index; 0 if it has none. After its entries, an index in use is filled with zeros."""
    low, high = 0, size // _ENTRY.size
    found = 0
    while low < high:
        middle = (low + high) // 2
        entry = read(middle * _ENTRY.size, _ENTRY.size)
        position = _ENTRY.unpack(entry)[1] if len(entry) == _ENTRY.size else 0
        if position > 0:
            found, low = position, middle + 1
        else:
            high = middle
    return found


def last_epoch(text: str | None) -> int:
    """The last leader epoch of a ``leader-epoch-checkpoint``; `NO_EPOCH` for none, or for a corrupt file."""
    lines = (text or "").split("\n")
    epochs = [line.split(" ")[0] for line in lines[2:] if line]
    known = [int(epoch) for epoch in epochs if epoch.isascii() and epoch.isdecimal() and len(epoch) < 11]
    return max(known, default=NO_EPOCH)


def topic_id(text: str | None) -> str | None:
    """The topic id in a ``partition.metadata``; None if there is none."""
    for line in (text or "").split("\n"):
        key, _, value = line.partition(":")
        if key == "topic_id" and value.strip():
            return value.strip()
    return None
