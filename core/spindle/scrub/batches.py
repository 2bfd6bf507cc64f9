"""The batches of one segment, checked while its bytes come by.

Formats: Kafka's ``DefaultRecordBatch`` (magic 2: big-endian, CRC-32C over everything from the attributes on) and, for logs that have
outlived upgrades, ``LegacyRecord`` (magic 0 and 1: CRC-32 over everything from the magic on).
"""

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from spindle.scrub.segment_errors import LOG, SegmentError, SegmentErrorKind

Checksum = Callable[[memoryview, int], int]
"""CRC-32C of some bytes, going on from that of the bytes before them (0 at the beginning)."""

MOST_FINDS: Final = 16  # of one segment: more of them say nothing new

_V2: Final = struct.Struct(">qiibIhiqqqhii")  # base offset … count of records, 61 bytes
_COMMON: Final = struct.Struct(">qiIb")  # of magic 0 and 1: offset, size, CRC, magic
_TIMESTAMP: Final = struct.Struct(">q")
_EPOCH: Final = struct.Struct(">i")
SHORT: Final = 17  # bytes after which the magic is known in every format
_LEGACY_HEAD: Final = 26  # the smallest message of magic 0, and all that is looked at of one of magic 1
_BEFORE_LENGTH: Final = 12  # bytes that a batch's length does not count
_CRC_FROM: Final = 21
_LEGACY_CRC_FROM: Final = 16
_LEAST: Final = {0: 14, 1: 22}
_NO_TIMESTAMP: Final = -1
_NO_EPOCH: Final = -1
_RELATIVE: Final = 2**31 - 1  # the largest distance from a segment's base that an index can hold


@dataclass(frozen=True)
class SegmentBounds:
    """What a segment's batches have to keep to.

    Attributes:
        base: the segment's base offset, which its files are named after.
        end: base offset of the next segment.
        size: bytes of the log file.
        epoch_before, epoch_after: leader epochs of the first batches of the segments before and after it; None where there is none.
    """

    base: int
    end: int
    size: int
    epoch_before: int | None = None
    epoch_after: int | None = None


def epoch_of(head: bytes) -> int | None:
    """Leader epoch of the batch that begins with these bytes (17 or more); None if it has none, or if they are no batch."""
    if len(head) < SHORT or head[16] != 2:
        return None
    epoch = int(_EPOCH.unpack_from(head, 12)[0])
    return epoch if epoch > _NO_EPOCH else None


class BatchListener(Protocol):
    """Who wants to know of batches, as the indexes do."""

    position: float
    """Batches that begin here or later are of interest,"""
    offset: float
    """and those that end here or later."""

    def batch(self, position: int, base: int, last: int, max_timestamp: int, *, whole: bool) -> None:
        """A batch that begins at ``position`` and has offsets from ``base`` to ``last``; ``whole`` if none of them is missing."""


class BatchWalk:
    """One pass over a log file. ``feed`` it all bytes in order, in pieces of any size, then ``finish``.

    A batch whose checksum is wrong is stepped over by its length; where a header makes no sense the walk ends, since nobody knows
    where the next batch begins.
    """

    def __init__(self, bounds: SegmentBounds, crc32c: Checksum, listener: BatchListener) -> None:
        self._bounds = bounds
        self._crc32c = crc32c
        self._listener = listener
        self._position = 0  # where the batch at hand, or the next one, begins
        self._head = bytearray()  # the first bytes of a batch that lies across two pieces
        self._left = 0  # bytes of the batch at hand that are still to come
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
        """Whether the walk got to the end of the file."""
        return not self.broken

    def feed(self, data: memoryview) -> None:
        """The next bytes of the file."""
        at, end = 0, len(data)
        while at < end and not self.broken:
            if self._left:
                at += self._go_on(data[at:])
            elif self._head or end - at < _V2.size:
                at += self._gather(data[at:])
            else:
                at += self._begin(data[at:])

    def finish(self) -> None:
        """The file has ended."""
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

    # A batch in pieces

    def _gather(self, data: memoryview) -> int:
        """Collect as much of a header as it takes to judge it; returns the bytes taken."""
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
                f"checksum {self._sum:08x}, {self._wanted:08x} in its header",
                offset=self._base,
            )
        elif self._odd:  # under a right checksum: so it was written
            self._find(SegmentErrorKind.LENGTH, self._odd, offset=self._base)
        self._position += self._total
        self._odd = ""

    # Headers

    def _begin(self, data: memoryview) -> int:
        """A header, and whatever comes after it; returns the bytes taken."""
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
            self._odd = f"{count} records, the last of them {delta} after the first"
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
            self._stop(SegmentErrorKind.ZEROED, "zeros where a batch should begin")
            return len(data)
        total = size + _BEFORE_LENGTH
        if size < _LEAST[magic]:
            self._stop(SegmentErrorKind.LENGTH, f"length {size} with magic {magic}")
            return len(data)
        if not self._fits(total):
            return len(data)
        # A message that wraps others carries the last one's offset, and nothing tells the first one's.
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
            self._stop(SegmentErrorKind.TRUNCATED, f"a batch of {total} bytes, the file ends after {left}")
        return total <= left

    def _order(self, base: int, last: int) -> None:
        bounds = self._bounds
        if last >= bounds.end or last - bounds.base > _RELATIVE:
            what = f"offset {last}, but the next segment begins with {bounds.end}"
            self._find(SegmentErrorKind.OFFSET, what, offset=base)
            return
        if base <= self._last:
            after = (
                f"after {self._last}"
                if base >= bounds.base
                else f"in the segment that begins with {bounds.base}"
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

    # Finds

    def _stop(self, kind: SegmentErrorKind, message: str) -> None:
        self._find(kind, message)
        self.broken = True

    def _find(
        self, kind: SegmentErrorKind, message: str, position: int | None = None, offset: int | None = None
    ) -> None:
        if len(self.finds) < MOST_FINDS:
            at = self._position if position is None else position
            self.finds.append(SegmentError(kind, LOG, at, offset, message))
