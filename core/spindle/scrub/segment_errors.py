"""Kinds of corruption of a segment."""

from dataclasses import dataclass
from enum import StrEnum


class SegmentErrorKind(StrEnum):
    """Kinds, as named in the status and in metrics."""

    CRC = "Crc"  # a batch's checksum does not match its bytes
    MAGIC = "Magic"  # not a format of batches that Kafka ever had
    LENGTH = "Length"  # a batch's length, or its number of records, is invalid
    ZEROED = "Zeroed"  # zeros where a batch should start
    TRUNCATED = "Truncated"  # the file ends inside a batch
    OFFSET = "Offset"  # offsets are not ascending, or are outside the segment
    EPOCH = "Epoch"  # leader epochs are not ascending
    INDEX = "Index"  # an index is missing, or does not match the log
    UNREADABLE = "Unreadable"  # the disk returns an error instead of the bytes


LOG = "log"
OFFSETS = "index"
TIMES = "timeindex"


@dataclass(frozen=True)
class SegmentError:
    """One finding.

    Attributes:
        file: extension of the segment's file: ``log``, ``index`` or ``timeindex``.
        position: position in that file at which it starts.
        offset: first offset of the batch if it is known, else None.
        message: a clause for the user.
    """

    kind: SegmentErrorKind
    file: str
    position: int
    offset: int | None
    message: str
