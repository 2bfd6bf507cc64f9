"""The read rate: a token bucket that one read may overdraw, after which the reader waits."""

from typing import Final

# Seconds of unused rate that may accumulate, so that a busy machine does not reduce the average rate.
BURST: Final = 1.0

BLOCK: Final = 4096  # alignment of direct I/O on all common disks
_LARGEST: Final = 1 << 20
_SMALLEST: Final = 64 * 1024
_READS_PER_SECOND: Final = 8


class Bucket:
    """Bytes per second; times are seconds of any clock that never goes back."""

    def __init__(self, rate: int, now: float) -> None:
        self.rate = rate
        self._level = 0.0
        self._at = now

    def take(self, size: int, now: float) -> float:
        """Record a read; returns the seconds to wait before the next one."""
        saved = self._level + (now - self._at) * self.rate
        self._level = min(saved, BURST * self.rate) - size
        self._at = now
        return max(0.0, -self._level / self.rate)


def piece(rate: int) -> int:
    """Bytes per read, in whole blocks: large enough for a spinning disk, small enough for a steady rate."""
    wanted = min(_LARGEST, max(_SMALLEST, rate // _READS_PER_SECOND))
    return wanted // BLOCK * BLOCK
