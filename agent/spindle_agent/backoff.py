"""Pauses between attempts."""

import random
from typing import Final

_FIRST: Final = 0.5
_LONGEST: Final = 15.0


class Backoff:
    """Doubles from half a second to a quarter of a minute, with jitter so that nodes do not act in step."""

    def __init__(self, first: float = _FIRST, longest: float = _LONGEST) -> None:
        self._first, self._longest = first, longest
        self._next = first

    def failed(self) -> float:
        """Seconds to wait after another failure."""
        pause = self._next
        self._next = min(self._longest, 2 * pause)
        return pause * random.uniform(0.8, 1.2)  # noqa: S311 - spreads load, guards nothing

    def worked(self) -> None:
        """Reset after a success."""
        self._next = self._first
