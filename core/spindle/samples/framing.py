"""The framing of a record: a magic number, a version, a checksum, and sections of bytes.

    offset  size  what
    0       4     the magic number ``SPDL``
    4       1     major version: readers of a different one cannot read the record
    5       1     minor version: incremented for additions that older readers may ignore
    6       2     number of sections
    8       4     CRC-32 of everything that follows
    12      4·n   length of each section; then zeros up to a multiple of 8
            …     the sections, each followed by zeros up to a multiple of 8

All numbers are unsigned and little-endian. Sections start at multiples of 8, as Arrow requires for its buffers.
"""

import struct
import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

MARK: Final = b"SPDL"
LARGEST: Final = 16 * 1024 * 1024  # bytes of a record; Spindle's agents write at most a sixteenth of that

_HEAD: Final = struct.Struct("<4sBBHI")
_SECTIONS: Final = 64


class Version(NamedTuple):
    """Version of a record. Readers accept every minor version of their major version."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class Poison(ValueError):  # noqa: N818 - a record is poison; nothing went wrong here
    """A record that is permanently unusable.

    Attributes:
        reason: CamelCase: ``Truncated``, ``NotASample``, ``UnknownVersion``, ``Damaged``, ``TooLarge``, ``Malformed``
            (it cannot be parsed) or ``Invalid`` (its contents are impossible).
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def seal(version: Version, sections: Sequence[bytes]) -> bytes:
    """Build a record from these sections.

    Raises:
        ValueError: there are too many.
    """
    if len(sections) > _SECTIONS:
        raise ValueError(f"a record has at most {_SECTIONS} sections, but {len(sections)} were given")
    lengths = struct.pack(f"<{len(sections)}I", *(len(section) for section in sections))
    filled = (section + b"\0" * (-len(section) % 8) for section in sections)
    body = b"".join((lengths, b"\0" * (-(_HEAD.size + len(lengths)) % 8), *filled))
    return _HEAD.pack(MARK, *version, len(sections), zlib.crc32(body)) + body


def unseal(value: bytes, major: int) -> tuple[Version, list[memoryview]]:
    """Read the version and the sections of a record.

    Args:
        value: the record.
        major: the version that the caller can read.

    Raises:
        Poison: it is not a record, or incomplete.
    """
    if len(value) > LARGEST:
        raise Poison("TooLarge", f"{len(value)} bytes; the limit for a sample is {LARGEST}")
    if value[: len(MARK)] != MARK[: len(value)] or not value:
        raise Poison("NotASample", f"{len(value)} bytes that do not start with {MARK.decode()}")
    if len(value) < _HEAD.size:
        raise Poison("Truncated", f"{len(value)} bytes; a sample's header alone has {_HEAD.size}")
    _, *numbers, count, check = _HEAD.unpack_from(value)
    version = Version(*numbers)
    if version.major != major:
        raise Poison(
            "UnknownVersion", f"a sample of version {version}; this reader supports versions {major}.x"
        )
    if count > _SECTIONS:
        raise Poison("Malformed", f"{count} sections; the limit for a sample is {_SECTIONS}")
    start = _HEAD.size + 4 * count
    if len(value) < start:
        raise Poison("Truncated", f"{len(value)} bytes; the lengths of its sections end at {start}")
    places = []
    for length in struct.unpack_from(f"<{count}I", value, _HEAD.size):
        start += -start % 8
        places.append((start, start + length))
        start += length
    whole = start + -start % 8
    if len(value) != whole:
        raise Poison(
            "Truncated" if len(value) < whole else "Malformed", f"{len(value)} bytes instead of {whole}"
        )
    view = memoryview(value)
    if zlib.crc32(view[_HEAD.size :]) != check:
        raise Poison("Damaged", "its checksum does not match")
    return version, [view[first:last] for first, last in places]
