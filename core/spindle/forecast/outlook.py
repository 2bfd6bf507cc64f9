"""The forecast: how fast a disk fills and when it reaches each level, with a range that holds four times in five."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from spindle.forecast.history import DAY, HOUR, WEEK, Floats, History, bins
from spindle.forecast.season import profile
from spindle.forecast.trend import Trend, trend

_QUANTILE: Final = 1.2816  # of the normal distribution: four in five lie within
_ALWAYS: Final = 0.003  # log of the factor that no rate is known better than
_WEEK_UNSEEN: Final = 0.20  # log of the factor by which a rate is off when the week's shape is unknown …
_DAY_UNSEEN: Final = 0.7  # … and when the day's is: nights are quiet


@dataclass(frozen=True)
class Forecast:
    """What is to be expected of each disk.

    Attributes:
        rate: bytes per second, mean over the season; negative while a disk empties, (disks,).
        eta: seconds until use reaches each level, infinite for never, (disks, levels).
        low, high: the range around it that holds four times in five, (disks, levels).
    """

    rate: Floats
    eta: Floats
    low: Floats
    high: Floats


def forecast(
    history: History, levels: ArrayLike, arriving: ArrayLike = 0.0, leaving: ArrayLike = 0.0
) -> Forecast:
    """Forecast all disks of a history.

    Args:
        history: what was seen, at least two samples.
        levels: what is to be reached: (levels,) shares of capacity, or (disks, levels) bytes in use.
        arriving, leaving: bytes that moves in flight still bring, and will free, (disks,). What arrives counts as if it were
            there; what leaves counts too, but not for ``low``.
    """
    b = bins(history)
    shape = profile(b)
    t = trend(b, shape)
    goal = np.asarray(levels, np.float64)
    if goal.ndim == 1:
        goal = b.capacity[:, None] * goal[None, :]
    free = np.broadcast_to(np.asarray(leaving, np.float64), b.used.shape)[:, None]
    least = goal - (b.used + np.asarray(arriving, np.float64))[:, None]
    need = least + free - t.burst[:, None]
    clock = _Clock(shape)
    eta = clock.when(need, t.rate[:, None])
    low, high = _range(t, clock, (least, least + free), eta, history.seconds)
    return Forecast(t.rate, eta, low, high)


def _range(
    t: Trend, clock: "_Clock", gaps: tuple[Floats, Floats], eta: Floats, seconds: float
) -> tuple[Floats, Floats]:
    """The range around ``eta``: what the rate may really be, the shape of a week or a day never seen, and mere noise.

    Args:
        t, clock: what goes on.
        gaps: least and most bytes that are missing to each level, (disks, levels) each.
        eta: seconds to each level, (disks, levels).
        seconds: how long the history is.
    """
    rate, error = t.rate[:, None], _QUANTILE * t.error[:, None]
    unseen = _DAY_UNSEEN if seconds < 2 * DAY else _WEEK_UNSEEN if seconds < 2 * WEEK else 0.0
    ahead = np.where(np.isfinite(eta), eta, seconds)
    factor = np.exp(_ALWAYS + unseen * -np.expm1(-ahead / seconds))
    noise = _QUANTILE * t.spread[:, None] * np.sqrt(ahead * t.width)
    least, most = gaps
    low = clock.when(least - t.burst[:, None] - noise, np.maximum(rate + error, 0.0) * factor)
    high = clock.when(most + noise, (rate - error) / factor)
    going_on = np.divide(t.age, t.burst, out=np.full(len(eta), np.inf), where=t.burst > 0)[:, None]
    with np.errstate(invalid="ignore"):
        burst = np.where(least > 0, least * going_on, 0.0)
    return np.minimum(np.minimum(low, eta), burst), np.maximum(high, eta)


class _Clock:
    """Turns bytes at a mean rate into time, along the season."""

    def __init__(self, shape: Floats) -> None:
        self._passed = np.cumsum(shape, axis=1)
        self._shape = shape

    def when(self, need: Floats, rate: Floats) -> Floats:
        """Seconds until ``need`` bytes have come at a mean ``rate``; 0 if they are there, infinite if they never come."""
        slots = self._shape.shape[1]
        with np.errstate(divide="ignore", invalid="ignore"):
            hours = np.where(rate > 0, need / rate / HOUR, np.inf)
        hours = np.where(need <= 0, 0.0, hours)
        if slots == 1:
            return hours * HOUR
        whole = np.floor(np.where(np.isfinite(hours), hours, 0) / slots)
        rest = hours - whole * slots
        found = np.empty_like(hours)
        rows = np.arange(len(hours))
        for k in range(hours.shape[1]):
            slot = np.minimum((self._passed <= rest[:, k : k + 1]).sum(axis=1), slots - 1)
            before = self._passed[rows, slot] - self._shape[rows, slot]
            found[:, k] = whole[:, k] * slots + slot + (rest[:, k] - before) / self._shape[rows, slot]
        return np.where(np.isfinite(hours), found, np.inf) * HOUR
