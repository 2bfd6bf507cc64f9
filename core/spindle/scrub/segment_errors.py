"""What can be wrong with a segment."""

from dataclasses import dataclass
from enum import StrEnum


class SegmentErrorKind(StrEnum):
    """One word for each, as the status and the metrics have them."""

    CRC = "Crc"  # a batch's checksum does not fit its bytes
    MAGIC = "Magic"  # no format of a batch that Kafka ever had
    LENGTH = "Length"  # a batch's length, or the count of its records, makes no sense
    ZEROED = "Zeroed"  # zeros where a batch should begin
    TRUNCATED = "Truncated"  # the file ends within a batch
    OFFSET = "Offset"  # offsets do not ascend, or lie outside the segment
    EPOCH = "Epoch"  # leader epochs do not ascend
    INDEX = "Index"  # an index is missing, or holds what the log does not
    UNREADABLE = "Unreadable"  # the disk does not give the bytes


LOG = "log"
OFFSETS = "index"
TIMES = "timeindex"


@dataclass(frozen=True)
class SegmentError:
    """One thing that is wrong.

    Attributes:
        file: extension of the segment's file that it is in: ``log``, ``index`` or ``timeindex``.
        position: byte in that file at which it begins.
        offset: first offset of the batch, where one can be told; else None.
        message: a clause for people.
    """

    kind: SegmentErrorKind
    file: str
    position: int
    offset: int | None
    message: str
