"""Histories of disks: evenly spaced samples, and time bins on which everything else works."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

HOUR: Final = 3600.0
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY
_LEAST_BINS: Final = 24  # minimum number of bins before bins grow to an hour
_FINER: Final = 10  # maximum growth of the number of samples when uneven ones are made even


@dataclass(frozen=True)
class History:
    """Disks that were sampled at the same times, every ``step`` seconds; the last sample is now.

    Attributes:
        step: seconds between samples; must divide an hour, else no season is detected.
        used: used bytes, shape (disks, samples).
        capacity: bytes of the file systems, shape (disks,).
        append: bytes appended since the previous sample, shape (disks, samples); None if not counted.
    """

    step: float
    used: NDArray[Any]
    capacity: NDArray[Any]
    append: NDArray[Any] | None = None

    @property
    def seconds(self) -> float:
        """Seconds from the first to the last sample."""
        return self.step * (int(self.used.shape[1]) - 1)


@dataclass(frozen=True)
class Bins:
    """A history in bins of an hour (or of one step if it is shorter than a day); the last bin ends now.

    Attributes:
        width: seconds of a bin.
        growth: growth of usage in bytes, shape (disks, bins).
        append: bytes appended, shape (disks, bins); None if not counted.
        used: currently used bytes, shape (disks,).
    """

    width: float
    growth: Floats
    append: Floats | None
    used: Floats
    capacity: Floats

    @property
    def hourly(self) -> bool:
        """Whether the history has a day or more, in bins of an hour."""
        return self.width == HOUR and self.growth.shape[1] >= _LEAST_BINS


def bins(history: History) -> Bins:
    """Bins of a history; one bin needs at least two samples.

    Usage is compared by its peak within a bin, so that a saw-tooth shorter than a bin does not affect the growth.
    """
    samples = history.used.shape[1]
    per_hour = max(1, round(HOUR / history.step))
    each = per_hour if samples - 1 >= _LEAST_BINS * per_hour else 1
    count = samples // each
    starts = np.arange(samples - each * count, samples, each)
    peaks = np.maximum.reduceat(history.used, starts, axis=1) if each > 1 else history.used
    before = max(int(starts[0]) - 1, 0)
    growth = np.diff(peaks.astype(np.float64), axis=1, prepend=history.used[:, before : before + 1])
    if each > 1 and starts[0] == 0:
        growth[:, 0] *= each / (each - 1)  # the step before the first sample is unknown
    append = None
    if history.append is not None:
        append = np.add.reduceat(history.append, starts, axis=1).astype(np.float64)
    if each == 1:
        growth, append = growth[:, 1:], None if append is None else append[:, 1:]
    return Bins(
        width=each * history.step,
        growth=growth,
        append=append,
        used=history.used[:, -1].astype(np.float64),
        capacity=history.capacity.astype(np.float64),
    )


@dataclass(frozen=True)
class Columns:
    """A table of samples, one row per disk and time, in any order.

    Attributes:
        disk: disk of the sample.
        t: seconds since any fixed time.
        used, capacity: bytes.
        append: bytes appended since the previous row of the same disk; None if not counted.
    """

    disk: NDArray[Any]
    t: NDArray[Any]
    used: NDArray[Any]
    capacity: NDArray[Any]
    append: NDArray[Any] | None = None


def gather(columns: Columns) -> Iterator[tuple[NDArray[Any], History]]:
    """Group disks that were sampled at the same times, with their history. Uneven samples are made even.

    A disk with a single row is left out, because it allows no forecast.

    Yields:
        The disks' names in the table, and their history.
    """
    if (alike := _alike(columns)) is not None:
        yield alike
        return
    c = _sorted(columns)
    starts = np.flatnonzero(np.r_[True, c.disk[1:] != c.disk[:-1]]) if len(c.disk) else np.zeros(0, np.int64)
    lengths = np.diff(np.r_[starts, len(c.disk)])
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        rows = slice(start, start + length)
        if length > 1 and c.t[rows.stop - 1] > c.t[start]:
            yield (
                c.disk[start : start + 1],
                even(
                    c.t[rows],
                    c.used[rows],
                    float(c.capacity[rows.stop - 1]),
                    None if c.append is None else c.append[rows],
                ),
            )


def even(t: NDArray[Any], used: NDArray[Any], capacity: float, append: NDArray[Any] | None = None) -> History:
    """The history of one disk whose samples are uneven or have gaps, with linear interpolation between samples.

    Args:
        t: seconds, ascending.
        used: used bytes.
        capacity: bytes.
        append: bytes appended since the previous sample.
    """
    usual = max(float(np.median(np.diff(t))), float(t[-1] - t[0]) / (_FINER * len(t)))
    step = HOUR / max(1, round(HOUR / usual))
    if step > t[-1] - t[0]:
        step = float(t[-1] - t[0])
    grid = t[-1] - step * np.arange(int((t[-1] - t[0]) / step), -1, -1)
    total = None
    if append is not None:
        total = np.interp(grid, t, np.cumsum(append, dtype=np.float64))
        total = np.diff(total, prepend=total[0])[None, :]
    return History(step, np.interp(grid, t, used)[None, :], np.array([capacity]), total)


def without_moves(used: NDArray[Any], moved: NDArray[Any]) -> Floats:
    """Used bytes without the effect of moves: as if added replicas had always been there, and removed ones never.

    Args:
        used: used bytes, shape (…, samples).
        moved: bytes added (or removed, negative) by moved replicas since the previous sample, shape (…, samples).
    """
    total = np.cumsum(moved, axis=-1, dtype=np.float64)
    settled: Floats = used - total + total[..., -1:]
    return settled


def _alike(c: Columns) -> tuple[NDArray[Any], History] | None:
    """The whole table unchanged, if it is sorted and all disks have the same even times."""
    rows = len(c.disk)
    each = int((c.disk != c.disk[0]).argmax()) or rows if rows else 0
    if each < 2 or rows % each:
        return None
    disk, t = c.disk.reshape(-1, each), c.t.reshape(-1, each)
    step = t[0, 1] - t[0, 0]
    if (
        step <= 0
        or HOUR % step
        or not ((np.diff(t[0]) == step).all() and (t == t[0]).all() and (disk == disk[:, :1]).all())
    ):
        return None
    names = disk[:, 0]
    if len(np.unique(names)) < len(names):
        return None
    append = None if c.append is None else c.append.reshape(disk.shape)
    return names, History(
        float(step), c.used.reshape(disk.shape), c.capacity.reshape(disk.shape)[:, -1], append
    )


def _sorted(c: Columns) -> Columns:
    """Sort by disk and time."""
    order = np.lexsort((c.t, c.disk))
    append = None if c.append is None else c.append[order]
    return Columns(c.disk[order], c.t[order], c.used[order], c.capacity[order], append)
