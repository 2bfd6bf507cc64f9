"""The rate that holds now: growth without what happens once, over the longest time that tells one story."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from spindle.forecast.history import DAY, HOUR, Bins, Bools, Floats
from spindle.forecast.season import tiled

_ONCE: Final = 0.4  # of all that ever went: a drop of this share did not come from retention
_TOOTH: Final = 0.7  # of a drop must have come since the one before it
_LULL: Final = 6  # hours: what is over sooner is a burst, no trend
_MUCH: Final = 2.0  # times what goes on before and after it
_NOISE: Final = 4.0
_SURE: Final = 2.5  # standard errors
_GROWTH: Final = 4 / 3  # of the windows compared
_SHORTEST: Final = 3  # bins
_CALM: Final = 1.5
_FEW: Final = 4.0  # bins: so much more may the noise be than so few show
_TINY: Final = 1e-9
_LOOSE: Final = 0.04  # of the rate: an error of the season's shape, no change


@dataclass(frozen=True)
class Trend:
    """What goes on, and how sure that is; all (disks,).

    Attributes:
        rate: bytes per second, mean over a season.
        error: standard error of the rate.
        spread: standard deviation of the growth of a bin, as a rate.
        held: seconds for which it has held.
        burst: bytes that a burst which may still go on has brought so far.
        age: seconds that it has lasted; 0 for none.
        width: seconds of a bin (one number).
    """

    rate: Floats
    error: Floats
    spread: Floats
    held: Floats
    burst: Floats
    age: Floats
    width: float


def trend(bins: Bins, shape: Floats) -> Trend:
    """The trend of each disk, given the season's shape."""
    disks, count = bins.growth.shape
    season = tiled(shape, count)
    growth, counts = _without_drops(bins.growth)
    burst, age = np.zeros(disks), np.zeros(disks)
    if bins.hourly:
        growth, burst, age = _without_bursts(growth, season)
    growth, counts = (growth, counts) if bins.hourly else _between_peaks(growth, counts)
    rate, error, spread, held = _steady(
        np.where(counts, growth, 0.0), np.where(counts, season, 0.0), _windows(bins, shape)
    )
    width = bins.width
    return Trend(rate / width, error / width, spread / width, held * width, burst, age * width, width)


def _without_drops(growth: Floats) -> tuple[Floats, Bools]:
    """Growth without single drops (a topic deleted, replicas that went), and which bins count."""
    drops = np.maximum(-growth, 0.0)
    total = drops.sum(axis=1, keepdims=True)
    once = (drops > _ONCE * total) & (drops > 0)
    once &= ~_teeth(growth, drops, once)[:, None]
    once[:, :-1] |= once[:, 1:]  # the peak before a drop comes early in its bin
    filled = growth.copy()
    for k in np.flatnonzero(once.any(axis=0)).tolist():
        filled[:, k] = np.where(once[:, k], filled[:, k - 1] if k else 0.0, filled[:, k])
    return filled, ~once


def _teeth(growth: Floats, drops: Floats, large: Bools) -> Bools:
    """Where two large drops are a saw's: the second took about what had come since the first, (disks,)."""
    rows = np.arange(len(growth))
    first, last = large.argmax(axis=1), growth.shape[1] - 1 - large[:, ::-1].argmax(axis=1)
    up = np.cumsum(np.maximum(growth, 0.0), axis=1)
    saw: Bools = (large.sum(axis=1) == 2) & (up[rows, last] - up[rows, first] > _TOOTH * drops[rows, last])
    return saw


def _between_peaks(growth: Floats, counts: Bools) -> tuple[Floats, Bools]:
    """Only whole teeth of a saw count, from the first drop to the last: in a short history a part of one looks like a trend."""
    drop = (growth < 0) & counts
    place = np.arange(growth.shape[1])
    first = np.where(drop, place, growth.shape[1]).min(axis=1)[:, None]
    last = np.where(drop, place, -1).max(axis=1)[:, None]
    return growth, counts & ((first >= last) | ((place >= first) & (place < last)))


def _without_bursts(growth: Floats, season: Floats) -> tuple[Floats, Floats, Floats]:
    """Growth capped to what lasts, the bytes above it in a burst that is under way, and the bins that this has lasted.

    What lasts is the opening of the growth (the highest level held for longer than a lull).
    """
    level = np.maximum(growth / season, 0.0)
    lasting = _opened(level, _LULL + 1)
    noise = np.median(np.abs(np.diff(level, axis=1)), axis=1, keepdims=True)
    most = _MUCH * lasting + _NOISE * noise
    over = level > most
    capped = np.where(over, np.minimum(growth, lasting * season), growth)
    gone = growth - capped
    # What burst in has gone, or will: drops that answer bursts go the same way.
    drops = np.maximum(-capped, 0.0)
    total = drops.sum(axis=1, keepdims=True)
    left = np.clip(
        1.0 - np.divide(gone.sum(axis=1, keepdims=True), total, out=np.ones_like(total), where=total > 0),
        0,
        1,
    )
    capped = np.where(capped < 0, capped * left, capped)
    running = np.flip(np.cumprod(np.flip(over[:, -(_LULL + 1) :], axis=1), axis=1), axis=1)
    return capped, (gone[:, -(_LULL + 1) :] * running).sum(axis=1), running.sum(axis=1).astype(np.float64)


def _opened(level: Floats, width: int) -> Floats:
    """Each bin's highest level that is held for ``width`` bins around it."""
    count = level.shape[1]
    if count < width:
        return level
    least = _running(np.minimum, level, width)
    lasting = np.zeros((len(level), count + width - 1))
    lasting[:, width - 1 : count] = least
    return _running(np.maximum, lasting, width)


def _running(pick: np.ufunc, values: Floats, width: int) -> Floats:
    """Least or greatest of each ``width`` neighbours, by doubling."""
    done = 1
    while done < width:
        more = min(done, width - done)
        values = pick(values[:, :-more], values[:, more:])
        done += more
    return values


def _windows(bins: Bins, shape: Floats) -> list[int]:
    """Lengths in bins of the windows that end now and are compared, the shortest first."""
    count = bins.growth.shape[1]
    if not bins.hourly:
        return [count]
    shortest = _SHORTEST if shape.shape[1] > 1 else round(DAY / HOUR)
    lengths = []
    length = float(shortest)
    while length < count:
        lengths.append(round(length))
        length = max(length * _GROWTH, length + 1)
    return [*lengths, count]


def _steady(growth: Floats, season: Floats, windows: list[int]) -> tuple[Floats, Floats, Floats, Floats]:
    """Rate over the longest window that agrees with all shorter ones, its error, the spread, and the window.

    Each window gives an interval, and windows agree up to the one with which all intervals have a point in common
    (Goldenshluger and Nemirovski). That one may just reach over a change, so it is the one before it that counts.
    """
    starts = [growth.shape[1] - length for length in reversed(windows)]

    def over(values: Floats) -> Floats:
        """Sums over each window, the shortest first."""
        return np.cumsum(np.add.reduceat(values, starts, axis=1)[:, ::-1], axis=1)

    weight = np.maximum(over(season), _TINY)
    number = np.maximum(over((season > 0).astype(np.float64)), 1.0)
    mean = over(growth) / weight
    squares = over(growth**2) - 2 * mean * over(growth * season) + mean**2 * over(season**2)
    sigma = np.sqrt(np.maximum(squares, 0.0) / np.maximum(number - 1, 1.0))
    # A window that reaches over a change must not excuse itself by the noise that the change is.
    calm = np.minimum.accumulate(sigma * (1 + _FEW / number), axis=1)
    sigma[:, 1:] = np.minimum(sigma[:, 1:], _CALM * calm[:, :-1])
    wrong = sigma * np.sqrt(number) / weight
    reach = _SURE * (1 + _SHORTEST / number) * wrong + _LOOSE * np.abs(mean)
    agree = np.maximum.accumulate(mean - reach, axis=1) <= np.minimum.accumulate(mean + reach, axis=1)
    longest = agree.sum(axis=1) - 1
    chosen = np.where(longest == len(windows) - 1, longest, np.maximum(longest - 1, 0))
    rows = np.arange(len(growth))
    held = np.array(windows, np.float64)[chosen]
    return mean[rows, chosen], wrong[rows, chosen], sigma[rows, chosen], held
