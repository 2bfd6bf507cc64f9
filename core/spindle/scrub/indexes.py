"""A segment's two indexes: sorted, and consistent with the log.

``.index``: entries of 8 bytes, offset relative to the segment's base and position in the log (``OffsetIndex``). The position is that of a
batch; the offset is the last one of that batch, or of another batch that was appended together with it. ``.timeindex``: entries of 12 bytes,
timestamp and relative offset (``TimeIndex``): the largest timestamp so far, and an offset of the batch that has it.
"""

import struct
from typing import Final

from spindle.api.enums import SegmentErrorKind
from spindle.scrub.segment_errors import OFFSETS, TIMES, SegmentError

OFFSET_ENTRY: Final = 8
TIME_ENTRY: Final = 12

_OFFSETS: Final = struct.Struct(">ii")
_TIMES: Final = struct.Struct(">qi")
_NEVER: Final = float("inf")
_MOST: Final = 4  # per index; more findings add no information


class Indexes:
    """Both indexes, compared with the batches that a pass over the log reports (a `batches.Listener`)."""

    def __init__(self, base: int, size: int, offsets: bytes | None, times: bytes | None) -> None:
        """Check what can be checked without the log.

        Args:
            base: base offset of the segment.
            size: bytes of its log.
            offsets, times: contents of the files; None for a missing one.
        """
        self.finds: list[SegmentError] = []
        # For a segment of 1 GB they have some hundred thousand entries, so they stay in the format of the files, 8 and 12 bytes each.
        self._base = base
        self._offsets, self._times = offsets or b"", times or b""
        self._count_offsets = self._check_offsets(base, size, offsets)
        self._count_times = self._check_times(base, size, times)
        self._next_offset = self._next_time = 0
        self._open: tuple[int, int] | None = (
            None  # number and offset of an entry that is not confirmed by a batch yet
        )
        self.position: float = 0
        self.offset: float = 0
        self._look_out()

    def batch(self, position: int, base: int, last: int, max_timestamp: int, *, whole: bool) -> None:
        """Compare the next batch of the log, in order."""
        while (
            self._next_offset < self._count_offsets
            and (entry := self._offset_entry(self._next_offset))[1] <= position
        ):
            self._settle_open()
            offset, points_to = entry
            if points_to < position:
                self._find(
                    OFFSETS, self._next_offset, offset, f"points to {points_to}, where no batch starts"
                )
            elif offset < base:
                self._find(
                    OFFSETS,
                    self._next_offset,
                    offset,
                    f"points to a batch after that of offset {offset}",
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
                self._find(TIMES, self._next_time, offset, f"offset {offset}, which is not in the log")
            elif time != max_timestamp:
                self._find(
                    TIMES,
                    self._next_time,
                    offset,
                    f"timestamp {time}, but offset {offset} has {max_timestamp}",
                )
            self._next_time += 1
        self._look_out()

    def finish(self) -> None:
        """Called when the log was read to its end: the remaining entries point to nothing."""
        self._settle_open()
        if self._next_offset < self._count_offsets:
            offset, position = self._offset_entry(self._next_offset)
            self._find(OFFSETS, self._next_offset, offset, f"points to {position}, where no batch starts")
        if self._next_time < self._count_times:
            offset = self._time_entry(self._next_time)[1]
            self._find(TIMES, self._next_time, offset, f"offset {offset}, which is not in the log")

    def _settle_open(self) -> None:
        if self._open is not None:
            number, offset = self._open
            self._find(OFFSETS, number, offset, f"offset {offset}, which is not there in the log")
            self._open = None

    def _look_out(self) -> None:
        more, later = self._next_offset < self._count_offsets, self._next_time < self._count_times
        self.position = self._offset_entry(self._next_offset)[1] if more else _NEVER
        time = self._time_entry(self._next_time)[1] if later else _NEVER
        self.offset = min(time, self._open[1] if self._open is not None else _NEVER)

    def _offset_entry(self, number: int) -> tuple[int, int]:
        """Offset and position of an entry."""
        offset, position = _OFFSETS.unpack_from(self._offsets, number * OFFSET_ENTRY)
        return self._base + offset, position

    def _time_entry(self, number: int) -> tuple[int, int]:
        """Timestamp and offset of an entry."""
        time, offset = _TIMES.unpack_from(self._times, number * TIME_ENTRY)
        return time, self._base + offset

    # Checks without the log

    def _check_offsets(self, base: int, size: int, data: bytes | None) -> int:
        """Number of entries before the first invalid one."""
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
                    f"{len(data)} bytes are not a multiple of the entry size {entry}",
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
