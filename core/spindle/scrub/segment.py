"""One segment, checked as a whole."""

from spindle.scrub.batches import BatchWalk, Checksum, SegmentBounds
from spindle.scrub.indexes import Indexes
from spindle.scrub.segment_errors import SegmentError


class SegmentCheck:
    """Call ``feed`` with the log's bytes in order, then ask for the findings."""

    def __init__(
        self, bounds: SegmentBounds, offsets: bytes | None, times: bytes | None, crc32c: Checksum
    ) -> None:
        """Check the indexes by themselves.

        Args:
            bounds: limits that the segment must respect.
            offsets, times: contents of its ``.index`` and its ``.timeindex``; None for a missing one.
            crc32c: function that computes CRC-32C.
        """
        self._indexes = Indexes(bounds.base, bounds.size, offsets, times)
        self._walk = BatchWalk(bounds, crc32c, self._indexes)

    def feed(self, data: memoryview) -> None:
        """Process the next bytes of the log."""
        self._walk.feed(data)

    @property
    def batches(self) -> int:
        """Number of batches so far."""
        return self._walk.batches

    def finish(self) -> tuple[SegmentError, ...]:
        """All findings, after all bytes; those of the log come first."""
        self._walk.finish()
        if self._walk.whole:
            self._indexes.finish()
        return (*self._walk.finds, *self._indexes.finds)
