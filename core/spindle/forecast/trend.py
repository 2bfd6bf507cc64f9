"""The rate that holds now: growth without what happens once, over the longest time that tells one story."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from spindle.forecast.history import DAY, HOUR, Bins, Bools, Floats
from spindle.forecast.season import profile, tiled

_ONCE: Final = 0.4  # of all that ever went: a drop of this share did not come from retention
_TOOTH: Final = 0.7  # of a drop must have come since the one before it
_LULL: Final = 6  # hours: what is over sooner is a burst, no trend
_MUCH: Final = 2.0  # times what goes on before and after it
_NOISE: Final = 4.0  # times what one hour usually differs from the next
_SURE: Final = 2.5  # standard errors
_GROWTH: Final = 4 / 3  # of the windows compared
_SHORTEST: Final = 3  # bins
_CALM: Final = 1.5  # times the noise of shorter windows: so much may that of a longer one be
_FEW: Final = 4.0  # bins: so much more may the noise be than so few show
_TINY: Final = 1e-9
_DAYS: Final = 3  # before days tell how long unrest lasts
_SLOW: Final = 4.0  # times: not more is believed of how long unrest lasts
_SOME: Final = 1e-3  # of what is put: less that is taken is no flow


@dataclass(frozen=True)
class _Kind:
    """What flows.

    Attributes:
        shortest: window in bins that says anything.
        loose: share of the rate that counts as no change: an error of the season's shape.
        rare: comes in large pieces, so that hours without any say nothing.
        back: so many windows before the longest that agrees is the one that counts: it may reach over a change.
    """

    shortest: int
    loose: float
    rare: bool
    back: int = 1


_PUT: Final = _Kind(shortest=_SHORTEST, loose=0.04, rare=False)
_EARLY: Final = _Kind(shortest=6, loose=0.45, rare=False, back=3)  # no day was seen: nights are quiet
_TAKEN: Final = _Kind(shortest=24, loose=0.3, rare=True, back=2)


@dataclass(frozen=True)
class Trend:
    """What goes on, and how sure that is; all (disks,) but the first.

    Attributes:
        flow: bytes per second in each slot of the season, the one that comes next first, (disks, slots).
        error: standard error of its mean.
        spread: standard deviation of the growth of a bin, as a rate.
        burst: bytes that a burst which may still go on has brought so far.
        age: seconds that it has lasted; 0 for none.
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

    Where it is known what is appended, that and what is taken away again (by retention, most of all) go on each at its own
    rate and with its own season: use that stands still on average may rise and fall by much.
    """
    growth, counts = _without_drops(bins.growth)
    return _hourly(bins, growth, counts) if bins.hourly else _early(bins, growth, counts)


def _early(bins: Bins, growth: Floats, counts: Bools) -> Trend:
    """The trend where there is less than a day of history."""
    along = counts.astype(np.float64)
    windows = _windows(growth.shape[1], _EARLY.shortest)
    rate, error, spread, _ = _steady(np.where(counts, growth, 0.0), along, windows, _EARLY)
    whole = _between_peaks(growth, counts)
    rows = np.flatnonzero((whole != counts).any(axis=1))
    if len(rows):  # part of a tooth looks like a trend
        values = np.where(whole[rows], growth[rows], 0.0)
        rate[rows], error[rows], spread[rows], _ = _steady(
            values, whole[rows].astype(np.float64), windows[-1:], _EARLY
        )
    none, width = np.zeros(len(growth)), bins.width
    return Trend(rate[:, None] / width, error / width, spread / width, none, none, width)


def _hourly(bins: Bins, growth: Floats, counts: Bools) -> Trend:
    """The trend where there is a day of history or more: what is put, less what is taken where anything is."""
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
    """Bytes an hour in each slot, the error of their mean, the hours that it has held, and what it leaves over."""
    along = np.where(counts, tiled(shape, values.shape[1]), 0.0)
    values = np.where(counts, values, 0.0)
    windows = _windows(values.shape[1], kind.shortest if shape.shape[1] > 1 else round(DAY / HOUR))
    rate, error, _, held = _steady(values, along, windows, kind)
    return rate[:, None] * shape, error, held, values - rate[:, None] * along


def _unrest(left: Floats, held: Floats) -> tuple[Floats, Floats]:
    """Spread of what the trend leaves over, as of hours that know nothing of each other, and how much more errors are.

    Hours do know of each other: what is too much in one is so in the next. So whole days tell, where there are some.

    Args:
        left: bytes of each hour that the trend does not explain, (disks, hours).
        held: hours, up to now, for which the trend has held, (disks,).
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


def _between_peaks(growth: Floats, counts: Bools) -> Bools:
    """Only whole teeth of a saw count, from the first drop to the last: in a short history a part of one looks like a trend."""
    drop = (growth < 0) & counts
    place = np.arange(growth.shape[1])
    first = np.where(drop, place, growth.shape[1]).min(axis=1)[:, None]
    last = np.where(drop, place, -1).max(axis=1)[:, None]
    whole: Bools = (first >= last) | ((place >= first) & (place < last))
    return counts & whole


def _without_bursts(growth: Floats, season: Floats) -> tuple[Floats, Floats, Floats]:
    """Growth capped to what lasts, the bytes above it in a burst that is under way, and the bins that this has lasted."""
    level = np.maximum(growth / season, 0.0)
    capped, burst, age = growth.copy(), np.zeros(len(growth)), np.zeros(len(growth))
    rows = np.flatnonzero(level.max(axis=1) > _MUCH * level.mean(axis=1))
    if len(rows):
        capped[rows], burst[rows], age[rows] = _capped(growth[rows], season[rows], level[rows])
    return capped, burst, age


def _capped(growth: Floats, season: Floats, level: Floats) -> tuple[Floats, Floats, Floats]:
    """The same for disks that may have seen bursts. What lasts is the highest level held for longer than a lull."""
    lasting = _opened(level, _LULL + 1)
    noise = np.median(np.abs(np.diff(level, axis=1)), axis=1, keepdims=True)
    over = level > _MUCH * lasting + _NOISE * noise
    capped = np.where(over, np.minimum(growth, lasting * season), growth)
    gone = growth - capped
    # What burst in has gone, or will: drops that answer bursts go the same way.
    total = np.maximum(-capped, 0.0).sum(axis=1, keepdims=True)
    answered = np.divide(gone.sum(axis=1, keepdims=True), total, out=np.zeros_like(total), where=total > 0)
    capped = np.where(capped < 0, capped * np.maximum(1.0 - answered, 0.0), capped)
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


def _windows(count: int, shortest: int) -> list[int]:
    """Lengths in bins of the windows that end now and are compared, the shortest first."""
    lengths = []
    length = float(shortest)
    while length < count:
        lengths.append(round(length))
        length = max(length * _GROWTH, length + 1)
    return [*lengths, count]


def _steady(
    growth: Floats, season: Floats, windows: list[int], kind: _Kind
) -> tuple[Floats, Floats, Floats, Floats]:
    """Rate over the longest window that agrees with all shorter ones, its error, the spread, all of a bin, and the window.

    Each window gives an interval, and windows agree up to the one with which all intervals have a point in common
    (Goldenshluger and Nemirovski). That one may just reach over a change, so it is one before it that counts.
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
    if not kind.rare:
        # A window that reaches over a change must not excuse itself by the noise that the change is.
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
