"""A segment's two indexes: in order by themselves, and pointing at what is in the log.

``.index``: entries of 8 bytes, offset relative to the segment's base and position in the log (``OffsetIndex``). A position is that of a
batch; the offset is the last one of that batch, or of another that was appended together with it. ``.timeindex``: entries of 12 bytes,
time and relative offset (``TimeIndex``): the largest time so far, and an offset of the batch that has it.
"""

import struct
from typing import Final

from spindle.scrub.segment_errors import OFFSETS, TIMES, SegmentError, SegmentErrorKind

OFFSET_ENTRY: Final = 8
TIME_ENTRY: Final = 12

_OFFSETS: Final = struct.Struct(">ii")
_TIMES: Final = struct.Struct(">qi")
_NEVER: Final = float("inf")
_MOST: Final = 4  # finds of one index: more of them say nothing new


class Indexes:
    """Both indexes, compared with the batches that a walk over the log tells of (a `batches.Listener`)."""

    def __init__(self, base: int, size: int, offsets: bytes | None, times: bytes | None) -> None:
        """Check what can be told without the log.

        Args:
            base: base offset of the segment.
            size: bytes of its log.
            offsets, times: what the files hold; None for one that is not there.
        """
        self.finds: list[SegmentError] = []
        # Of a segment of 1 GB they have some hundred thousand entries: they stay as they lie on the disk, 8 and 12 bytes each.
        self._base = base
        self._offsets, self._times = offsets or b"", times or b""
        self._count_offsets = self._check_offsets(base, size, offsets)
        self._count_times = self._check_times(base, size, times)
        self._next_offset = self._next_time = 0
        self._open: tuple[int, int] | None = (
            None  # number and offset of an entry that a batch is still to answer to
        )
        self.position: float = 0
        self.offset: float = 0
        self._look_out()

    def batch(self, position: int, base: int, last: int, max_timestamp: int, *, whole: bool) -> None:
        """A batch of the log, in order."""
        while (
            self._next_offset < self._count_offsets
            and (entry := self._offset_entry(self._next_offset))[1] <= position
        ):
            self._settle_open()
            offset, points_to = entry
            if points_to < position:
                self._find(
                    OFFSETS, self._next_offset, offset, f"points to {points_to}, where no batch begins"
                )
            elif offset < base:
                self._find(
                    OFFSETS,
                    self._next_offset,
                    offset,
                    f"points to a later batch than that of offset {offset}",
                )
            else:
                self._open = self._next_offset, offset
            self._next_offset += 1
        if self._open is not None and base <= self._open[1] <= last:
            number, offset = self._open
            if whole and offset != last:
                self._find(OFFSETS, number, offset, f"offset {offset}, but its batch ends with {last}")
            self._open = None
        while self._next_time < self._count_times and (entry := self._time_entry(self._next_time))[1] <= last:
            time, offset = entry
            if offset < base:
                self._find(TIMES, self._next_time, offset, f"offset {offset}, which the log does not have")
            elif time != max_timestamp:
                self._find(
                    TIMES, self._next_time, offset, f"time {time}, but offset {offset} has {max_timestamp}"
                )
            self._next_time += 1
        self._look_out()

    def finish(self) -> None:
        """The log has ended, and was read to its end: what is left points to nothing."""
        self._settle_open()
        if self._next_offset < self._count_offsets:
            offset, position = self._offset_entry(self._next_offset)
            self._find(OFFSETS, self._next_offset, offset, f"points to {position}, where no batch begins")
        if self._next_time < self._count_times:
            offset = self._time_entry(self._next_time)[1]
            self._find(TIMES, self._next_time, offset, f"offset {offset}, which the log does not have")

    def _settle_open(self) -> None:
        if self._open is not None:
            number, offset = self._open
            self._find(OFFSETS, number, offset, f"offset {offset}, which the log does not have there")
            self._open = None

    def _look_out(self) -> None:
        more, later = self._next_offset < self._count_offsets, self._next_time < self._count_times
        self.position = self._offset_entry(self._next_offset)[1] if more else _NEVER
        time = self._time_entry(self._next_time)[1] if later else _NEVER
        self.offset = min(time, self._open[1] if self._open is not None else _NEVER)

    def _offset_entry(self, number: int) -> tuple[int, int]:
        """Offset and position."""
        offset, position = _OFFSETS.unpack_from(self._offsets, number * OFFSET_ENTRY)
        return self._base + offset, position

    def _time_entry(self, number: int) -> tuple[int, int]:
        """Time and offset."""
        time, offset = _TIMES.unpack_from(self._times, number * TIME_ENTRY)
        return time, self._base + offset

    # Without the log

    def _check_offsets(self, base: int, size: int, data: bytes | None) -> int:
        """How many entries there are before the first that cannot be."""
        if not self._there(OFFSETS, data, OFFSET_ENTRY, size):
            return 0
        count, before = 0, (-1, -1)
        for number, entry in enumerate(_OFFSETS.iter_unpack(data or b"")):
            if entry[0] <= before[0] or entry[1] <= before[1] or entry[1] >= size:
                self._find(
                    OFFSETS,
                    number,
                    base + entry[0],
                    f"{_pair(entry)} after {_pair(before)}, in a log of {size} bytes",
                )
                break
            count, before = number + 1, entry
        return count

    def _check_times(self, base: int, size: int, data: bytes | None) -> int:
        if not self._there(TIMES, data, TIME_ENTRY, size):
            return 0
        count, before = 0, (-1, -1)
        for number, entry in enumerate(_TIMES.iter_unpack(data or b"")):
            if entry[0] <= before[0] or entry[1] < max(0, before[1]):
                self._find(TIMES, number, base + entry[1], f"{_pair(entry)} after {_pair(before)}")
                break
            count, before = number + 1, entry
        return count

    def _there(self, file: str, data: bytes | None, entry: int, size: int) -> bool:
        if data is None:
            if size:
                self.finds.append(SegmentError(SegmentErrorKind.INDEX, file, 0, None, "the file is missing"))
            return False
        if len(data) % entry:
            at = len(data) // entry * entry
            self.finds.append(
                SegmentError(
                    SegmentErrorKind.INDEX,
                    file,
                    at,
                    None,
                    f"{len(data)} bytes are no whole number of entries of {entry}",
                )
            )
            return False
        return True

    def _find(self, file: str, number: int, offset: int, message: str) -> None:
        entry = OFFSET_ENTRY if file == OFFSETS else TIME_ENTRY
        if sum(find.file == file for find in self.finds) < _MOST:
            self.finds.append(
                SegmentError(
                    SegmentErrorKind.INDEX, file, number * entry, offset, f"entry {number}: {message}"
                )
            )


def _pair(entry: tuple[int, int]) -> str:
    return f"({entry[0]}, {entry[1]})"
