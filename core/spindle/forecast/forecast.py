"""The forecast: growth of a disk and when it reaches each level, with a range that holds in four of five cases."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from spindle.forecast.history import DAY, HOUR, WEEK, Floats, History, bins
from spindle.forecast.trend import Trend, trend

_QUANTILE: Final = 1.2816  # quantile of the normal distribution for a central 80 % range
_ALWAYS: Final = 0.003  # log of the minimum uncertainty factor of any rate
_WEEK_UNSEEN: Final = 0.20  # log of the uncertainty factor of a rate if the weekly pattern is unknown …
_DAY_UNSEEN: Final = 0.7  # … and if the daily pattern is: nights are quiet


@dataclass(frozen=True)
class Forecast:
    """Forecast of each disk.

    Attributes:
        rate: bytes per second, mean over the season; negative if usage falls, shape (disks,).
        eta: seconds until usage reaches each level, infinite for never, shape (disks, levels).
        low, high: range around it that holds in four of five cases, shape (disks, levels).
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
        history: at least two samples.
        levels: levels to reach, as shares of capacity of shape (levels,), or used bytes of shape (disks, levels).
        arriving, leaving: bytes that moves in flight will still add and free, shape (disks,). Arriving bytes count as
            present; leaving bytes count as freed, except for ``low``.
    """
    b = bins(history)
    t = trend(b)
    goal = np.asarray(levels, np.float64)
    if goal.ndim == 1:
        goal = b.capacity[:, None] * goal[None, :]
    free = np.broadcast_to(np.asarray(leaving, np.float64), b.used.shape)[:, None]
    least = goal - (b.used + np.asarray(arriving, np.float64))[:, None]
    gap = least + free
    # A burst is expected to last as long again as it has lasted; its bytes count as present, and the trend continues after it:
    # a higher level is not reached before one that the burst itself reaches.
    within = (gap > 0) & (gap <= t.burst[:, None])
    speed = np.divide(t.burst, t.age, out=np.ones_like(t.age), where=t.age > 0)[:, None]
    age = t.age[:, None]
    after = np.where(gap > 0, np.maximum(_reached(gap - t.burst[:, None], t.flow), age), 0.0)
    eta = np.where(within, np.minimum(gap / speed, age), after)
    low, high = _range(t, (least, gap), eta, history.seconds)
    return Forecast(t.flow.mean(axis=1), eta, low, high)


def _range(t: Trend, gaps: tuple[Floats, Floats], eta: Floats, seconds: float) -> tuple[Floats, Floats]:
    """The range around ``eta``, from the uncertainty of the rate, an unknown weekly or daily pattern, and noise.

    Args:
        t: the trend.
        gaps: minimum and maximum bytes missing to each level, shape (disks, levels) each.
        eta: seconds to each level, shape (disks, levels).
        seconds: length of the history.
    """
    unseen = _DAY_UNSEEN if seconds < 2 * DAY else _WEEK_UNSEEN if seconds < 2 * WEEK else 0.0
    ahead = np.where(np.isfinite(eta), eta, seconds)
    factor = np.exp(_ALWAYS + unseen * -np.expm1(-ahead / seconds))
    error = np.broadcast_to(_QUANTILE * t.error[:, None], ahead.shape)
    noise = _QUANTILE * t.spread[:, None] * np.sqrt(ahead * t.width)
    # Independent uncertainties: their squares add up.
    both = error * ahead + noise
    share = np.divide(np.hypot(error * ahead, noise), both, out=np.ones_like(both), where=both > 0)
    error, noise = error * share, noise * share
    least, most = gaps
    low, high = np.empty_like(eta), np.empty_like(eta)
    for k in range(eta.shape[1]):
        one = slice(k, k + 1)
        soon = (least[:, one] - t.burst[:, None] - noise[:, one]) / factor[:, one]
        low[:, one] = _reached(soon, t.flow + error[:, one])
        high[:, one] = _reached((most[:, one] + noise[:, one]) * factor[:, one], t.flow - error[:, one])
    going_on = np.divide(t.age, t.burst, out=np.full(len(eta), np.inf), where=t.burst > 0)[:, None]
    with np.errstate(invalid="ignore"):
        burst = np.where(least > 0, least * going_on, 0.0)
    return np.minimum(np.minimum(low, eta), burst), np.maximum(high, eta)


def _reached(need: Floats, flow: Floats) -> Floats:
    """Seconds until the needed bytes are reached, shape (disks, levels); 0 if they are already, infinite for never.

    Args:
        need: bytes, shape (disks, levels).
        flow: bytes per second in each hour of a season, which repeats forever, shape (disks, slots).
    """
    slots = flow.shape[1]
    come = np.cumsum(flow, axis=1) * HOUR
    most = np.maximum.accumulate(come, axis=1)
    season, top = come[:, -1:], most[:, -1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        turns = np.where(need <= top, 0.0, np.where(season > 0, np.ceil((need - top) / season), np.inf))
    found = np.full(need.shape, np.inf)
    for level in range(need.shape[1]):
        rows = np.flatnonzero(np.isfinite(turns[:, level]))
        whole = turns[rows, level]
        rest = need[rows, level] - whole * season[rows, 0]
        slot = np.minimum((most[rows] < rest[:, None]).sum(axis=1), slots - 1)
        speed = flow[rows, slot] * HOUR
        part = np.divide(rest - (come[rows, slot] - speed), speed, out=np.ones_like(rest), where=speed > 0)
        found[rows, level] = (whole * slots + slot + np.clip(part, 0.0, 1.0)) * HOUR
    return np.where(need <= 0, 0.0, found)
