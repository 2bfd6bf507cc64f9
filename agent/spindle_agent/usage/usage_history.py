"""A disk's usage history in memory: the last hours by minute, four weeks by five minutes."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from spindle.forecast.history import History, even, without_moves
from spindle_agent.usage.records import PLACES, STEP, UNKNOWN, Sample

MINUTE: Final = 60.0
_MINUTES: Final = 120
_ENOUGH: Final = 12  # number of five-minute samples below which the minutes are used
_LEAST: Final = (
    12  # minutes: with fewer there is no forecast, so that a broker's start does not look like a trend
)
_TOGETHER: Final = 3600.0  # seconds: minutes further apart do not form a trend
_UNKNOWN: Final = (
    0.5  # share of samples without a broker report above which the appended bytes count as unknown
)


@dataclass(frozen=True)
class Minute:
    """One sample: wall clock in seconds, used bytes, bytes appended (None if unknown) and moved since the previous one."""

    at: float
    used: int
    append: int | None
    moved: int


class UsageHistory:
    """The usage history of one disk."""

    def __init__(self) -> None:
        self._ring = np.zeros((5, PLACES), np.int64)  # number, used, capacity, append, moved
        self._minutes: deque[Minute] = deque(maxlen=_MINUTES)
        self._open: Sample | None = None  # the current five-minute interval

    def recall(self, samples: Iterable[Sample], now: float) -> None:
        """Add stored samples; samples already known are kept."""
        latest = int(now // STEP)
        for sample in samples:
            place = sample.number % PLACES
            if latest - PLACES < sample.number <= latest and self._ring[0, place] < sample.number:
                self._put(sample)

    def add(self, minute: Minute, capacity: int) -> Sample | None:
        """Add a minute's sample; returns the five-minute sample that it completes, to be stored."""
        if self._minutes and not 0 < minute.at - self._minutes[-1].at < _TOGETHER:
            self._minutes.clear()  # the agent was down, or the clock was set
        self._minutes.append(minute)
        number = int(minute.at // STEP)
        done, before = None, self._open
        if before is not None and before.number != number:
            done, before = before, None
            self._put(done)
        append = UNKNOWN if minute.append is None else minute.append
        if before is not None:
            append = UNKNOWN if UNKNOWN in (append, before.append) else append + before.append
        moved = minute.moved + (before.moved if before is not None else 0)
        self._open = Sample(number, minute.used, capacity, append, moved)
        return done

    def history(self) -> tuple[float, History] | None:
        """End of the history (wall clock in seconds) and the history; None if it is too short."""
        ring = self._ring[:, self._ring[0] > max(0, int(self._ring[0].max()) - PLACES)]
        if ring.shape[1] >= _ENOUGH:
            ring = ring[:, np.argsort(ring[0])]
            times, used, append, moved = (ring[0] + 1.0) * STEP, ring[1], ring[3], ring[4]
            capacity = float(ring[2, -1])
        elif len(self._minutes) >= _LEAST and self._open is not None:
            rows = [(m.at, m.used, UNKNOWN if m.append is None else m.append, m.moved) for m in self._minutes]
            times, used, append, moved = np.array(rows, np.float64).T
            capacity = float(self._open.capacity)
        else:
            return None
        settled = without_moves(used, moved)
        unknown = (append == UNKNOWN).mean() > _UNKNOWN
        # Usage cannot grow by more than the appended bytes, so at least that much was appended, also in gaps.
        append = np.maximum(append, np.diff(settled, prepend=settled[0]))
        return float(times[-1]), even(times, settled, capacity, None if unknown else append)

    def _put(self, sample: Sample) -> None:
        self._ring[:, sample.number % PLACES] = (
            sample.number, sample.used, sample.capacity, sample.append, sample.moved,
        )  # fmt: skip
