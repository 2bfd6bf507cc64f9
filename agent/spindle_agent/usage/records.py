"""What is kept of a disk's past: one record for five minutes, four weeks of them, in a file that never grows.

The file is a head and a ring of records; a record's place follows from its time. It is made once at its full size, so that
a disk that is full can still be written to, and each record carries a checksum: one that was cut short is no record.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

STEP: Final = 300  # seconds
PLACES: Final = 28 * 24 * 3600 // STEP
UNKNOWN: Final = -1  # bytes appended, while the broker did not say

_FIELDS: Final = struct.Struct("<IQQqq")
_SUM: Final = struct.Struct("<I")
SIZE: Final = _FIELDS.size + _SUM.size
FILE_SIZE: Final = SIZE * (PLACES + 1)


@dataclass(frozen=True)
class Sample:
    """One record.

    Attributes:
        number: of its five minutes since the epoch.
        used, capacity: bytes, at their end.
        append: bytes appended within them; UNKNOWN if that is not known.
        moved: bytes that came, or (negative) went, with replicas that were moved.
    """

    number: int
    used: int
    capacity: int
    append: int = UNKNOWN
    moved: int = 0


def head(directory_id: str) -> bytes:
    """The file's first bytes: what it is, and whose past."""
    return f"spindle-history-1 {directory_id}".encode()[:SIZE].ljust(SIZE)


def offset(sample: Sample) -> int:
    """Where a sample belongs in the file."""
    return SIZE * (1 + sample.number % PLACES)


def pack(sample: Sample) -> bytes:
    """A sample as it is written."""
    fields = _FIELDS.pack(sample.number, sample.used, sample.capacity, sample.append, sample.moved)
    return fields + _SUM.pack(zlib.crc32(fields))


def unpack(data: bytes) -> Iterator[Sample]:
    """The whole records in a piece of the ring."""
    for start in range(0, len(data) - SIZE + 1, SIZE):
        fields = data[start : start + _FIELDS.size]
        (check,) = _SUM.unpack_from(data, start + _FIELDS.size)
        sample = Sample(*_FIELDS.unpack(fields))
        if check == zlib.crc32(fields) and sample.number and sample.capacity:
            yield sample
