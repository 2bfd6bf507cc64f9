"""A disk's usage history: one record per five minutes for four weeks, in a file of fixed size.

The file is a header and a ring of records; the time of a record determines its position. It is created at its full size, so that
records can be written on a full disk. Each record has a checksum, so that an incomplete one is ignored.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

STEP: Final = 300  # seconds
PLACES: Final = 28 * 24 * 3600 // STEP
UNKNOWN: Final = -1  # bytes appended, if the broker did not report them

_FIELDS: Final = struct.Struct("<IQQqq")
_SUM: Final = struct.Struct("<I")
SIZE: Final = _FIELDS.size + _SUM.size
FILE_SIZE: Final = SIZE * (PLACES + 1)


@dataclass(frozen=True)
class Sample:
    """One record.

    Attributes:
        number: number of its five-minute interval since the epoch.
        used, capacity: bytes at the end of the interval.
        append: bytes appended in the interval; UNKNOWN if unknown.
        moved: bytes added, or (negative) removed, with moved replicas.
    """

    number: int
    used: int
    capacity: int
    append: int = UNKNOWN
    moved: int = 0


def head(directory_id: str) -> bytes:
    """The file's header: format and directory id."""
    return f"spindle-history-1 {directory_id}".encode()[:SIZE].ljust(SIZE)


def offset(sample: Sample) -> int:
    """A sample's position in the file."""
    return SIZE * (1 + sample.number % PLACES)


def pack(sample: Sample) -> bytes:
    """Encode a sample."""
    fields = _FIELDS.pack(sample.number, sample.used, sample.capacity, sample.append, sample.moved)
    return fields + _SUM.pack(zlib.crc32(fields))


def unpack(data: bytes) -> Iterator[Sample]:
    """The valid records in a part of the ring."""
    for start in range(0, len(data) - SIZE + 1, SIZE):
        fields = data[start : start + _FIELDS.size]
        (check,) = _SUM.unpack_from(data, start + _FIELDS.size)
        sample = Sample(*_FIELDS.unpack(fields))
        if check == zlib.crc32(fields) and sample.number and sample.capacity:
            yield sample
