"""The batches of one segment, checked while its bytes are read.

Formats: Kafka's ``DefaultRecordBatch`` (magic 2: big-endian, CRC-32C over everything from the attributes on) and, for logs that are older than
magic 2, ``LegacyRecord`` (magic 0 and 1: CRC-32 over everything from the magic on).
"""

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from spindle.api.enums import SegmentErrorKind
from spindle.scrub.segment_errors import LOG, SegmentError

Checksum = Callable[[memoryview, int], int]
"""CRC-32C of some bytes, continued from that of the bytes before them (0 at the start)."""

MOST_FINDS: Final = 16  # per segment; more findings add no information

_V2: Final = struct.Struct(">qiibIhiqqqhii")  # base offset … count of records, 61 bytes
_COMMON: Final = struct.Struct(">qiIb")  # of magic 0 and 1: offset, size, CRC, magic
_TIMESTAMP: Final = struct.Struct(">q")
_EPOCH: Final = struct.Struct(">i")
SHORT: Final = 17  # bytes after which the magic is known in every format
_LEGACY_HEAD: Final = 26  # the smallest message of magic 0, and the part of a magic 1 message that is checked
_BEFORE_LENGTH: Final = 12  # bytes that a batch's length does not include
_CRC_FROM: Final = 21
_LEGACY_CRC_FROM: Final = 16
_LEAST: Final = {0: 14, 1: 22}
_NO_TIMESTAMP: Final = -1
_NO_EPOCH: Final = -1
_RELATIVE: Final = 2**31 - 1  # the largest distance from a segment's base offset that an index can represent


@dataclass(frozen=True)
class SegmentBounds:
    """Limits that a segment's batches must respect.

    Attributes:
        base: the segment's base offset, after which its files are named.
        end: base offset of the next segment.
        size: bytes of the log file.
        epoch_before, epoch_after: leader epochs of the first batches of the previous and the next segment; None if there is none.
    """

    base: int
    end: int
    size: int
    epoch_before: int | None = None
    epoch_after: int | None = None


def epoch_of(head: bytes) -> int | None:
    """Leader epoch of the batch that starts with these bytes (17 or more); None if it has none, or if they are not a batch."""
    if len(head) < SHORT or head[16] != 2:
        return None
    epoch = int(_EPOCH.unpack_from(head, 12)[0])
    return epoch if epoch > _NO_EPOCH else None


class BatchListener(Protocol):
    """A consumer of batches, such as the indexes."""

    position: float
    """Batches that start at this position or later are needed,"""
    offset: float
    """and batches that end at this offset or later."""

    def batch(self, position: int, base: int, last: int, max_timestamp: int, *, whole: bool) -> None:
        """Called for a batch that starts at ``position`` and has the offsets ``base`` to ``last``; ``whole`` if none of them is missing."""


class BatchWalk:
    """One pass over a log file: call ``feed`` with all bytes in order, in pieces of any size, then ``finish``.

    A batch with a wrong checksum is skipped by its length; at an invalid header the pass ends, because the start of the next batch is not
    known.
    """

    def __init__(self, bounds: SegmentBounds, crc32c: Checksum, listener: BatchListener) -> None:
        self._bounds = bounds
        self._crc32c = crc32c
        self._listener = listener
        self._position = 0  # start of the current batch, or of the next one
        self._head = bytearray()  # the first bytes of a batch that spans two pieces
        self._left = 0  # remaining bytes of the current batch
        self._sum = 0
        self._wanted = 0
        self._total = 0
        self._legacy = False
        self._odd = ""
        self._base = 0
        self._last = bounds.base - 1
        self._epoch = _NO_EPOCH if bounds.epoch_before is None else bounds.epoch_before
        self._epoch_at = 0
        self.batches = 0
        self.broken = False
        self.finds: list[SegmentError] = []

    @property
    def whole(self) -> bool:
        """Whether the pass reached the end of the file."""
        return not self.broken

    def feed(self, data: memoryview) -> None:
        """Process the next bytes of the file."""
        at, end = 0, len(data)
        while at < end and not self.broken:
            if self._left:
                at += self._go_on(data[at:])
            elif self._head or end - at < _V2.size:
                at += self._gather(data[at:])
            else:
                at += self._begin(data[at:])

    def finish(self) -> None:
        """Called at the end of the file."""
        if self.broken:
            return
        if self._left or self._head:
            short = self._bounds.size - self._position
            self._stop(SegmentErrorKind.TRUNCATED, f"the file ends {short} bytes into a batch")
        after = self._bounds.epoch_after
        if after is not None and self._epoch > after >= 0:
            self._find(
                SegmentErrorKind.EPOCH,
                f"leader epoch {self._epoch}, but the next segment begins with {after}",
                self._epoch_at,
            )

    # Batches that span pieces

    def _gather(self, data: memoryview) -> int:
        """Collect the bytes of a header that are needed to check it; returns the number of bytes taken."""
        need = SHORT
        if len(self._head) >= SHORT:
            need = _V2.size if self._head[16] >= 2 else _LEGACY_HEAD
        taken = data[: need - len(self._head)]
        self._head += taken
        if len(self._head) == need and need > SHORT:
            head, self._head = self._head, bytearray()
            self._begin(memoryview(bytes(head)))
        return len(taken)

    def _go_on(self, data: memoryview) -> int:
        piece = data[: self._left]
        self._sum = zlib.crc32(piece, self._sum) if self._legacy else self._crc32c(piece, self._sum)
        self._left -= len(piece)
        if not self._left:
            self._end()
        return len(piece)

    def _end(self) -> None:
        if self._sum != self._wanted:
            self._find(
                SegmentErrorKind.CRC,
                f"checksum {self._sum:08x}, but {self._wanted:08x} in its header",
                offset=self._base,
            )
        elif self._odd:  # with a valid checksum, so it was written like this
            self._find(SegmentErrorKind.LENGTH, self._odd, offset=self._base)
        self._position += self._total
        self._odd = ""

    # Headers

    def _begin(self, data: memoryview) -> int:
        """Check a header and start on what follows it; returns the number of bytes taken."""
        if data[16] < 2:
            return self._begin_legacy(data)
        base, length, epoch, magic, crc, _, delta, _, max_timestamp, _, _, _, count = _V2.unpack_from(data)
        if magic != 2:
            self._stop(SegmentErrorKind.MAGIC, f"magic {magic}")
            return len(data)
        total = length + _BEFORE_LENGTH
        if total < _V2.size:
            self._stop(SegmentErrorKind.LENGTH, f"length {length}")
            return len(data)
        if not self._fits(total):
            return len(data)
        if delta < 0 or not 0 <= count <= delta + 1:
            self._odd = f"{count} records, but the last one is {delta} after the first"
        else:
            self._order(base, base + delta)
            self._tell(base, base + delta, max_timestamp, whole=count == delta + 1)
        self._rise(epoch, base)
        piece = data[_CRC_FROM:total]
        self._sum = self._crc32c(piece, 0)
        return self._started(base, crc, total, len(data), legacy=False)

    def _begin_legacy(self, data: memoryview) -> int:
        offset, size, crc, magic = _COMMON.unpack_from(data)
        if not (offset or size or crc or magic):
            self._stop(SegmentErrorKind.ZEROED, "zeros where a batch should start")
            return len(data)
        total = size + _BEFORE_LENGTH
        if size < _LEAST[magic]:
            self._stop(SegmentErrorKind.LENGTH, f"length {size} with magic {magic}")
            return len(data)
        if not self._fits(total):
            return len(data)
        # A wrapper message has the last offset of its messages; the first one is unknown.
        self._order(offset, offset)
        timestamp = _TIMESTAMP.unpack_from(data, 18)[0] if magic else _NO_TIMESTAMP
        self._tell(offset, offset, timestamp, whole=False)
        self._sum = zlib.crc32(data[_LEGACY_CRC_FROM:total])
        return self._started(offset, crc, total, len(data), legacy=True)

    def _started(self, base: int, crc: int, total: int, there: int, *, legacy: bool) -> int:
        self._base, self._wanted, self._total, self._legacy = base, crc, total, legacy
        self.batches += 1
        taken = min(total, there)
        self._left = total - taken
        if not self._left:
            self._end()
        return taken

    def _fits(self, total: int) -> bool:
        left = self._bounds.size - self._position
        if total > left:
            self._stop(
                SegmentErrorKind.TRUNCATED, f"a batch of {total} bytes, but the file ends after {left}"
            )
        return total <= left

    def _order(self, base: int, last: int) -> None:
        bounds = self._bounds
        if last >= bounds.end or last - bounds.base > _RELATIVE:
            what = f"offset {last}, but the next segment starts with {bounds.end}"
            self._find(SegmentErrorKind.OFFSET, what, offset=base)
            return
        if base <= self._last:
            after = (
                f"after {self._last}"
                if base >= bounds.base
                else f"in the segment that starts with {bounds.base}"
            )
            self._find(SegmentErrorKind.OFFSET, f"offset {base} {after}", offset=base)
        self._last = last

    def _rise(self, epoch: int, base: int) -> None:
        if epoch < _NO_EPOCH or 0 <= epoch < self._epoch:
            self._find(SegmentErrorKind.EPOCH, f"leader epoch {epoch} after {self._epoch}", offset=base)
        if epoch not in (self._epoch, _NO_EPOCH):
            self._epoch, self._epoch_at = epoch, self._position

    def _tell(self, base: int, last: int, max_timestamp: int, *, whole: bool) -> None:
        listener = self._listener
        if self._position >= listener.position or last >= listener.offset:
            listener.batch(self._position, base, last, max_timestamp, whole=whole)

    # Findings

    def _stop(self, kind: SegmentErrorKind, message: str) -> None:
        self._find(kind, message)
        self.broken = True

    def _find(
        self, kind: SegmentErrorKind, message: str, position: int | None = None, offset: int | None = None
    ) -> None:
        if len(self.finds) < MOST_FINDS:
            at = self._position if position is None else position
            self.finds.append(SegmentError(kind, LOG, at, offset, message))
