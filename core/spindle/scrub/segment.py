"""One segment, checked as a whole."""

from spindle.scrub.batches import BatchWalk, Checksum, SegmentBounds
from spindle.scrub.indexes import Indexes
from spindle.scrub.segment_errors import SegmentError


class SegmentCheck:
    """Feed it the log's bytes in order, then ask for the finds."""

    def __init__(
        self, bounds: SegmentBounds, offsets: bytes | None, times: bytes | None, crc32c: Checksum
    ) -> None:
        """Check the indexes by themselves.

        Args:
            bounds: what the segment has to keep to.
            offsets, times: what its ``.index`` and its ``.timeindex`` hold; None for one that is not there.
            crc32c: how checksums are made.
        """
        self._indexes = Indexes(bounds.base, bounds.size, offsets, times)
        self._walk = BatchWalk(bounds, crc32c, self._indexes)

    def feed(self, data: memoryview) -> None:
        """The next bytes of the log."""
        self._walk.feed(data)

    @property
    def batches(self) -> int:
        """Batches that were seen."""
        return self._walk.batches

    def finish(self) -> tuple[SegmentError, ...]:
        """All finds, once all bytes were fed; those of the log come first."""
        self._walk.finish()
        if self._walk.whole:
            self._indexes.finish()
        return (*self._walk.finds, *self._indexes.finds)
