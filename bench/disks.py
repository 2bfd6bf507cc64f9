"""Disks of a made-up Kafka, with a past and a future: topics with their own rates, retention and birthdays, day and night.

Use follows from what is appended and what retention takes, segment by segment; nothing here knows of the forecaster.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from spindle.forecast.history import DAY, Floats, History

STEP: Final = 300.0
_WARM: Final = 8.0  # days before the history, in which retention fills up
_RETENTION: Final = (1.0, 3.0, 7.0, np.inf)  # days; infinite for topics that keep everything


@dataclass(frozen=True)
class Disks:
    """Disks with a future.

    Attributes:
        history: what a forecast may look at.
        future: bytes in use after it, every STEP seconds, (disks, samples).
    """

    history: History
    future: Floats

    def truth(self, level: float) -> Floats:
        """Seconds until each disk first reaches a share of its capacity; infinite if it does not in its future."""
        reached = self.future >= level * self.history.capacity[:, None]
        return np.where(reached.any(axis=1), (reached.argmax(axis=1) + 1) * STEP, np.inf)


def make(seed: int, disks: int, days: float, future: float = 7.0) -> Disks:
    """Make disks, each between 60 and 79 % full now.

    Args:
        seed: for always the same disks.
        disks: how many.
        days, future: of history and of future.
    """
    rng = np.random.default_rng(seed)
    rows = [_disk(rng, days, future) for _ in range(disks)]
    used, append = (np.array([row[k] for row in rows]) for k in (0, 1))
    now = round(days * DAY / STEP)
    capacity = used[:, now] / rng.uniform(0.6, 0.79, disks)
    return Disks(History(STEP, used[:, : now + 1], capacity, append[:, : now + 1]), used[:, now + 1 :])


def _disk(rng: np.random.Generator, days: float, future: float) -> tuple[Floats, Floats]:
    """Bytes in use and bytes appended of one disk."""
    samples = round((_WARM + days + future) * DAY / STEP) + 1
    t = np.asarray(np.arange(samples) * STEP / DAY - _WARM, np.float64)
    shape = 1 + rng.uniform(0, 0.9) * np.sin(2 * np.pi * (t + rng.uniform()))
    if rng.random() < 0.5:
        shape *= np.where((t + rng.uniform(0, 7)) % 7 < 5, 1.0, rng.uniform(0.2, 1.0))
    used, append = np.zeros(len(t)), np.zeros(len(t))
    for _ in range(rng.integers(1, 12)):
        flow = rng.lognormal(0, 1.5) * shape * _unrest(rng, len(t)) * STEP / DAY
        born = rng.uniform(-60, days + 1) if rng.random() < 0.5 else -60.0
        total = np.cumsum(np.where(t >= born, flow, 0.0))
        gone = _expired(t, total, float(rng.choice(_RETENTION)), rng.uniform(0.003, 0.05) * flow.sum())
        if rng.random() < 0.05:  # deleted as a whole
            died = rng.uniform(0, days + future)
            gone = np.where(t >= died, total[np.searchsorted(t, died) - 1], gone)
            total = np.where(t >= died, total[np.searchsorted(t, died) - 1], total)
        used += total - gone
        append += np.diff(total, prepend=total[0])
    first = len(t) - round((days + future) * DAY / STEP) - 1
    return used[first:], append[first:]


def _unrest(rng: np.random.Generator, count: int) -> Floats:
    """Noise around 1 that lasts for some hours, as that of real producers does."""
    hours = rng.normal(0, 0.2, count // 24 + 2).cumsum()
    hours -= np.convolve(hours, np.ones(25) / 25, mode="same")
    slow = np.interp(np.arange(count), np.arange(len(hours)) * 24, hours)
    return np.asarray(np.exp(slow) * rng.lognormal(0, 0.3, count))


def _expired(t: Floats, total: Floats, retention: float, segment: float) -> Floats:
    """Bytes that retention has taken: whole segments, the last record of which is too old."""
    if not np.isfinite(retention):
        return np.zeros(len(t))
    old = np.interp(t - retention, t, total, left=0.0)
    return np.asarray(np.floor(old / segment) * segment)
