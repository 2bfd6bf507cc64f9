"""The current rate: growth without one-time events, over the longest consistent period."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from spindle.forecast.history import DAY, HOUR, Bins, Bools, Floats
from spindle.forecast.season import profile, tiled

_ONCE: Final = 0.4  # share of all bytes that were ever freed: a drop this large did not come from retention
_TOOTH: Final = 0.7  # share of a drop that must have been added since the previous drop
_LULL: Final = 6  # hours: anything shorter is a burst, not a trend
_MUCH: Final = 2.0  # factor over the rate before and after it
_NOISE: Final = 4.0  # factor over the usual difference between consecutive hours
_SURE: Final = 2.5  # standard errors
_GROWTH: Final = 4 / 3  # growth factor of the compared windows
_SHORTEST: Final = 3  # bins
_CALM: Final = 1.5  # maximum noise of a longer window, as a factor of that of shorter ones
_FEW: Final = 4.0  # bins: correction for noise estimated from few bins
_TINY: Final = 1e-9
_DAYS: Final = 3  # minimum number of days to estimate how long fluctuations persist
_SLOW: Final = 4.0  # maximum factor for persistent fluctuations
_SOME: Final = 1e-3  # share of the added bytes: fewer freed bytes are ignored


@dataclass(frozen=True)
class _Kind:
    """Properties of a flow.

    Attributes:
        shortest: shortest significant window in bins.
        loose: share of the rate that counts as no change, because of errors of the seasonal pattern.
        rare: occurs in large pieces, so that hours without any are not significant.
        back: how many windows before the longest consistent one to use, because that one may span a change.
    """

    shortest: int
    loose: float
    rare: bool
    back: int = 1


_PUT: Final = _Kind(shortest=_SHORTEST, loose=0.04, rare=False)
_EARLY: Final = _Kind(
    shortest=6, loose=0.45, rare=False, back=3
)  # less than a day of history: nights are quiet
_TAKEN: Final = _Kind(shortest=24, loose=0.3, rare=True, back=2)


@dataclass(frozen=True)
class Trend:
    """The trend and its uncertainty; all of shape (disks,) except the first.

    Attributes:
        flow: bytes per second in each slot of the season, starting with the next one, shape (disks, slots).
        error: standard error of its mean.
        spread: standard deviation of a bin's growth, as a rate.
        burst: bytes added so far by a burst that may still continue.
        age: duration of that burst in seconds; 0 without a burst.
        width: seconds of a bin (one number).
    """

    flow: Floats
    error: Floats
    spread: Floats
    burst: Floats
    age: Floats
    width: float


def trend(bins: Bins) -> Trend:
    """The trend of each disk.

    If the appended bytes are known, appended and freed bytes (mainly by retention) are modelled separately, each with its own
    rate and season: usage that is constant on average may still fluctuate a lot.
    """
    growth, counts = _without_drops(bins.growth)
    return _hourly(bins, growth, counts) if bins.hourly else _early(bins, growth, counts)


def _early(bins: Bins, growth: Floats, counts: Bools) -> Trend:
    """The trend with less than a day of history."""
    along = counts.astype(np.float64)
    windows = _windows(growth.shape[1], _EARLY.shortest)
    rate, error, spread, _ = _steady(np.where(counts, growth, 0.0), along, windows, _EARLY)
    whole = _between_peaks(growth, counts)
    rows = np.flatnonzero((whole != counts).any(axis=1))
    if len(rows):  # a part of a tooth looks like a trend
        values = np.where(whole[rows], growth[rows], 0.0)
        rate[rows], error[rows], spread[rows], _ = _steady(
            values, whole[rows].astype(np.float64), windows[-1:], _EARLY
        )
    none, width = np.zeros(len(growth)), bins.width
    return Trend(rate[:, None] / width, error / width, spread / width, none, none, width)


def _hourly(bins: Bins, growth: Floats, counts: Bools) -> Trend:
    """The trend with a day of history or more: added bytes minus freed bytes."""
    count = growth.shape[1]
    gross = bins.append if bins.append is not None else np.maximum(growth, 0.0)
    season = profile(gross)
    along = tiled(season, count)
    capped, burst, age = _without_bursts(growth, along)
    put = capped if bins.append is None else bins.append - np.maximum(growth - capped, 0.0)
    flow, error, held, left = _part(put, counts, season, _PUT)
    taken = np.where(counts, put - capped, 0.0)
    rows = np.flatnonzero(np.abs(taken).sum(axis=1) > _SOME * put.sum(axis=1))
    if len(rows):
        part = taken[rows]
        off, wrong, long, rest = _part(part, counts[rows], profile(np.maximum(part, 0.0)), _TAKEN)
        flow[rows] -= off
        error[rows] = np.hypot(error[rows], wrong)
        held[rows] = np.minimum(held[rows], long)
        left[rows] -= rest
    spread, slow = _unrest(left, held)
    return Trend(flow / HOUR, error * slow / HOUR, spread / HOUR, burst, age * HOUR, HOUR)


def _part(values: Floats, counts: Bools, shape: Floats, kind: _Kind) -> tuple[Floats, Floats, Floats, Floats]:
    """Bytes per hour in each slot, the error of their mean, the hours for which it has held, and the residuals."""
    along = np.where(counts, tiled(shape, values.shape[1]), 0.0)
    values = np.where(counts, values, 0.0)
    windows = _windows(values.shape[1], kind.shortest if shape.shape[1] > 1 else round(DAY / HOUR))
    rate, error, _, held = _steady(values, along, windows, kind)
    return rate[:, None] * shape, error, held, values - rate[:, None] * along


def _unrest(left: Floats, held: Floats) -> tuple[Floats, Floats]:
    """Spread of the residuals as if hours were independent, and the factor by which errors are larger because they are not.

    Consecutive hours are correlated: an excess in one continues in the next. So whole days are used, if there are enough.

    Args:
        left: residual bytes of each hour, shape (disks, hours).
        held: hours up to now for which the trend has held, shape (disks,).
    """
    days = left.shape[1] // 24
    left = left[:, left.shape[1] - 24 * days :].reshape(len(left), days, 24)
    within = np.arange(days, 0, -1) * 24 <= np.maximum(held, 24)[:, None]
    number = within.sum(axis=1)
    hours = np.sqrt(((left**2).mean(axis=2) * within).sum(axis=1) / number)
    whole = np.sqrt((left.sum(axis=2) ** 2 / 24 * within).sum(axis=1) / number)
    slow = np.divide(whole, hours, out=np.ones_like(hours), where=(hours > 0) & (number >= _DAYS))
    slow = np.clip(slow, 1.0, _SLOW)
    return hours * slow, slow


def _without_drops(growth: Floats) -> tuple[Floats, Bools]:
    """Growth without one-time drops (a deleted topic, moved replicas), and the bins that count."""
    drops = np.maximum(-growth, 0.0)
    total = drops.sum(axis=1, keepdims=True)
    once = (drops > _ONCE * total) & (drops > 0)
    once &= ~_teeth(growth, drops, once)[:, None]
    once[:, :-1] |= once[:, 1:]  # the peak before a drop is early in its bin
    filled = growth.copy()
    for k in np.flatnonzero(once.any(axis=0)).tolist():
        filled[:, k] = np.where(once[:, k], filled[:, k - 1] if k else 0.0, filled[:, k])
    return filled, ~once


def _teeth(growth: Floats, drops: Floats, large: Bools) -> Bools:
    """Disks whose two large drops form a saw-tooth: the second one freed about as much as was added since the first; shape (disks,)."""
    rows = np.arange(len(growth))
    first, last = large.argmax(axis=1), growth.shape[1] - 1 - large[:, ::-1].argmax(axis=1)
    up = np.cumsum(np.maximum(growth, 0.0), axis=1)
    saw: Bools = (large.sum(axis=1) == 2) & (up[rows, last] - up[rows, first] > _TOOTH * drops[rows, last])
    return saw


def _between_peaks(growth: Floats, counts: Bools) -> Bools:
    """Count only whole teeth of a saw-tooth, from the first drop to the last: in a short history a part of a tooth looks like a trend."""
    drop = (growth < 0) & counts
    place = np.arange(growth.shape[1])
    first = np.where(drop, place, growth.shape[1]).min(axis=1)[:, None]
    last = np.where(drop, place, -1).max(axis=1)[:, None]
    whole: Bools = (first >= last) | ((place >= first) & (place < last))
    return counts & whole


def _without_bursts(growth: Floats, season: Floats) -> tuple[Floats, Floats, Floats]:
    """Growth capped to the lasting level, the bytes above it in a current burst, and the burst's duration in bins."""
    level = np.maximum(growth / season, 0.0)
    capped, burst, age = growth.copy(), np.zeros(len(growth)), np.zeros(len(growth))
    rows = np.flatnonzero(level.max(axis=1) > _MUCH * level.mean(axis=1))
    if len(rows):
        capped[rows], burst[rows], age[rows] = _capped(growth[rows], season[rows], level[rows])
    return capped, burst, age


def _capped(growth: Floats, season: Floats, level: Floats) -> tuple[Floats, Floats, Floats]:
    """The same for disks that may have had bursts. The lasting level is the highest one held for longer than a lull."""
    lasting = _opened(level, _LULL + 1)
    noise = np.median(np.abs(np.diff(level, axis=1)), axis=1, keepdims=True)
    over = level > _MUCH * lasting + _NOISE * noise
    capped = np.where(over, np.minimum(growth, lasting * season), growth)
    gone = growth - capped
    # Bytes of a burst are freed sooner or later; drops that follow bursts are treated the same way.
    total = np.maximum(-capped, 0.0).sum(axis=1, keepdims=True)
    answered = np.divide(gone.sum(axis=1, keepdims=True), total, out=np.zeros_like(total), where=total > 0)
    capped = np.where(capped < 0, capped * np.maximum(1.0 - answered, 0.0), capped)
    running = np.flip(np.cumprod(np.flip(over[:, -(_LULL + 1) :], axis=1), axis=1), axis=1)
    return capped, (gone[:, -(_LULL + 1) :] * running).sum(axis=1), running.sum(axis=1).astype(np.float64)


def _opened(level: Floats, width: int) -> Floats:
    """For each bin the highest level that is held for ``width`` bins around it."""
    count = level.shape[1]
    if count < width:
        return level
    least = _running(np.minimum, level, width)
    lasting = np.zeros((len(level), count + width - 1))
    lasting[:, width - 1 : count] = least
    return _running(np.maximum, lasting, width)


def _running(pick: np.ufunc, values: Floats, width: int) -> Floats:
    """Minimum or maximum of each ``width`` neighbours, by doubling."""
    done = 1
    while done < width:
        more = min(done, width - done)
        values = pick(values[:, :-more], values[:, more:])
        done += more
    return values


def _windows(count: int, shortest: int) -> list[int]:
    """Lengths in bins of the compared windows, which all end now, shortest first."""
    lengths = []
    length = float(shortest)
    while length < count:
        lengths.append(round(length))
        length = max(length * _GROWTH, length + 1)
    return [*lengths, count]


def _steady(
    growth: Floats, season: Floats, windows: list[int], kind: _Kind
) -> tuple[Floats, Floats, Floats, Floats]:
    """Rate over the longest window consistent with all shorter ones, its error and the spread, all per bin, and the window.

    Each window gives an interval; windows are consistent as long as all intervals have a common point
    (Goldenshluger and Nemirovski). The longest one may just span a change, so one before it is used.
    """
    starts = [growth.shape[1] - length for length in reversed(windows)]

    def over(values: Floats) -> Floats:
        """Sums over each window, shortest first."""
        return np.cumsum(np.add.reduceat(values, starts, axis=1)[:, ::-1], axis=1)

    weight = np.maximum(over(season), _TINY)
    number = np.maximum(over((season > 0).astype(np.float64)), 1.0)
    mean = over(growth) / weight
    squares = over(growth**2) - 2 * mean * over(growth * season) + mean**2 * over(season**2)
    sigma = np.sqrt(np.maximum(squares, 0.0) / np.maximum(number - 1, 1.0))
    if not kind.rare:
        # A window that spans a change must not appear consistent because the change increases its noise.
        calm = np.minimum.accumulate(sigma * (1 + _FEW / number), axis=1)
        sigma[:, 1:] = np.minimum(sigma[:, 1:], _CALM * calm[:, :-1])
    wrong = sigma * np.sqrt(number) / weight
    reach = _SURE * (1 + _SHORTEST / number) * wrong + kind.loose * np.abs(mean)
    agree = np.maximum.accumulate(mean - reach, axis=1) <= np.minimum.accumulate(mean + reach, axis=1)
    longest = agree.sum(axis=1) - 1
    chosen = np.where(longest == len(windows) - 1, longest, np.maximum(longest - kind.back, 0))
    rows = np.arange(len(growth))
    held = np.array(windows, np.float64)[chosen]
    return mean[rows, chosen], wrong[rows, chosen], sigma[rows, chosen], held
