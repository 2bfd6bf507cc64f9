"""How fast is read: a token bucket that may be overdrawn by one read, and is then waited for."""

from typing import Final

BURST: Final = 1.0  # seconds' worth that may have been saved up, so that a busy machine does not make it slower than it is to be

BLOCK: Final = 4096  # direct I/O is aligned to this on any disk in use
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
        """Take what was read; returns the seconds to wait before more is read."""
        saved = self._level + (now - self._at) * self.rate
        self._level = min(saved, BURST * self.rate) - size
        self._at = now
        return max(0.0, -self._level / self.rate)


def piece(rate: int) -> int:
    """Bytes to read at a time, whole blocks: large enough for a disk that turns, small enough for an even pace."""
    wanted = min(_LARGEST, max(_SMALLEST, rate // _READS_PER_SECOND))
    return wanted // BLOCK * BLOCK
