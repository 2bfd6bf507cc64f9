"""Summarises the samples of one broker: one row per replica, and the history of each disk.

Everything is computed on arrays of (replicas, samples), in time linear in the number of samples.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spindle_rebalance.tidy import Dated

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LATENCIES: Final = ("reads_per_s", "writes_per_s", "read_ms", "write_ms")
_FEW: Final = 4  # samples: no slope with fewer
_SHORT_S: Final = 1800.0  # seconds: no slope over a shorter period
_SWAPPED: Final = (
    0.5  # share of the previous usage: with less, and a different capacity, the disk was replaced
)
_MS: Final = 1000.0


@dataclass(frozen=True)
class Replicas:
    """Replicas that the broker had in its latest sample.

    Attributes:
        topic, dir: names.
        size: bytes in the latest sample.
        growth: bytes per second; NaN with too few samples.
        p50, p95: median and 95th percentile of the append rate; NaN likewise.
        leader: whether the broker led the partition; None if unknown.
        samples: number of samples that contain it.
    """

    topic: list[str]
    partition: NDArray[np.int32]
    dir: list[str]
    size: Ints
    growth: Floats
    p50: Floats
    p95: Floats
    leader: list[bool | None]
    samples: Ints


@dataclass(frozen=True)
class DiskHistory:
    """A disk and its history.

    Attributes:
        dir, disk, kind, state: from the latest sample.
        at_s: seconds since 1970, ascending, shape (samples,).
        used, capacity: bytes, shape (samples,).
        appended: bytes since the previous sample, shape (samples,); None if not counted.
        columns: columns of the samples by the names of `LATENCIES`, shape (samples,) each; NaN if unknown.
    """

    dir: str
    disk: str
    kind: str
    state: str
    at_s: Floats
    used: Ints
    capacity: Ints
    appended: Floats | None
    columns: dict[str, Floats]


def replicas(moments: list[list[Dated]]) -> Replicas:
    """A row for each replica of the latest complete sample, or of parts of later samples.

    Args:
        moments: samples by time from `tidy.clean_records`, each a list of parts.
    """
    names, table = _matrices(moments)
    latest = _latest_whole(moments)
    there = np.flatnonzero(~np.isnan(table.size[:, latest:]).all(axis=1))
    size, rate = table.size[there], table.rate[there]
    last = size.shape[1] - 1 - (~np.isnan(size[:, ::-1])).argmax(axis=1)
    rows = np.arange(len(there))
    led = table.leader[there][rows, last]
    middle, high = quantiles(rate, (0.5, 0.95))
    chosen = [names[k] for k in there.tolist()]
    return Replicas(
        topic=[topic for topic, _, _ in chosen],
        partition=np.array([partition for _, partition, _ in chosen], np.int32),
        dir=[where for _, _, where in chosen],
        size=size[rows, last].astype(np.int64),
        growth=slopes(table.at_s, size),
        p50=middle,
        p95=high,
        leader=[None if value < 0 else bool(value) for value in led.tolist()],
        samples=(~np.isnan(size)).sum(axis=1),
    )


def slopes(at_s: Floats, values: Floats) -> Floats:
    """Robust growth of each row: the median of slopes between samples half of the period apart (Theil's estimator on disjoint pairs).

    It tolerates outliers in a quarter of the samples, ignores a saw-tooth shorter than half of the period, and is linear in the number of samples.

    Args:
        at_s: seconds, ascending, shape (samples,).
        values: shape (rows, samples), NaN for missing values.

    Returns:
        Growth per second, shape (rows,); NaN with too few samples or too short a period.
    """
    count = len(at_s)
    if count < _FEW or at_s[-1] - at_s[0] < _SHORT_S:
        return np.full(len(values), np.nan)
    half = count // 2
    apart = at_s[half:] - at_s[: count - half]
    change = (values[:, half:] - values[:, : count - half]) / apart
    (middle,) = quantiles(change, (0.5,))
    enough = (~np.isnan(values)).sum(axis=1) >= _FEW
    return np.where(enough, middle, np.nan)


def quantiles(values: Floats, shares: tuple[float, ...]) -> tuple[Floats, ...]:
    """Quantiles of each row ignoring NaN, with linear interpolation; NaN for rows with only NaN.

    Args:
        values: shape (rows, samples).
        shares: quantiles, from 0 to 1.
    """
    if values.shape[1] == 0:
        return tuple(np.full(len(values), np.nan) for _ in shares)
    ordered = np.sort(values, axis=1)  # NaN is sorted last
    count = (~np.isnan(ordered)).sum(axis=1)
    rows = np.arange(len(values))
    found = []
    for share in shares:
        place = share * np.maximum(count - 1, 0)
        below = place.astype(np.int64)
        above = np.minimum(below + 1, np.maximum(count - 1, 0))
        low = ordered[rows, below]
        found.append(low + (ordered[rows, above] - low) * (place - below))
    return tuple(found)


def disks(moments: list[list[Dated]]) -> list[DiskHistory]:
    """The history of each log dir in the latest sample with disks, ordered by name."""
    shown = [
        (k, part.sample.disks)
        for k, parts in enumerate(moments)
        for part in parts
        if part.sample.disks.num_rows
    ]
    if not shown:
        return []
    table = pa.Table.from_batches([batch for _, batch in shown]).combine_chunks()
    moment = np.repeat([k for k, _ in shown], [batch.num_rows for _, batch in shown])
    dirs = np.array(table["dir"].to_pylist(), np.object_)
    capacity, used = (_whole(table[name]) for name in ("capacity", "used"))
    known = (capacity > 0) & (used >= 0)
    found = []
    for where in sorted(set(dirs[moment == moment[-1]].tolist())):
        rows = np.flatnonzero(dirs == where).astype(np.int64)
        rows = rows[np.append(np.diff(moment[rows]) > 0, True)]  # the last one within the same sample
        rows = rows[known[rows]]
        rows = rows[_swapped(capacity[rows], used[rows]) :]
        if len(rows):
            found.append(_history(where, table, rows, [moments[k] for k in moment[rows].tolist()]))
    return found


def _whole(column: Any) -> Ints:
    """Integers, -1 for null."""
    values: Ints = column.fill_null(-1).to_numpy()
    return values


def _history(where: str, table: Any, rows: Ints, seen: list[list[Dated]]) -> DiskHistory:
    mine = table.take(pa.array(rows))
    at_s = np.array([parts[0].at_ms / _MS for parts in seen], np.float64)
    rates = np.array([_rate(where, parts) for parts in seen], np.float64)
    latest = {name: mine[name][-1].as_py() or "" for name in ("disk", "kind", "state")}
    return DiskHistory(
        dir=where,
        **latest,
        at_s=at_s,
        used=mine["used"].to_numpy(),
        capacity=mine["capacity"].to_numpy(),
        appended=_bytes(rates, np.diff(at_s, prepend=at_s[:1] - seen[0][0].sample.interval_s)),
        columns={name: mine[name].to_numpy() for name in LATENCIES},  # null becomes NaN
    )


def _swapped(capacity: Ints, used: Ints) -> int:
    """Index where the history of the current disk starts: a different capacity with little data means that the disk was replaced."""
    other = (capacity[1:] != capacity[:-1]) & (used[1:] < _SWAPPED * used[:-1])
    return int(np.flatnonzero(other).max(initial=-1)) + 1


def _rate(where: str, parts: list[Dated]) -> float:
    """Bytes per second appended to a log dir; 0 without replicas, NaN if unknown or if a part of the sample is missing."""
    rates = [each.appended[where] for each in parts if where in each.appended]
    if len(parts) < parts[0].sample.parts:
        return float("nan")
    if len(rates) < 2:
        return rates[0] if rates else 0.0
    return float(np.sum(rates))


def _bytes(rates: Floats, seconds: Floats) -> Floats | None:
    """Bytes appended since the previous sample. Unknown values are replaced by the typical value of the other samples."""
    known = ~np.isnan(rates)
    if 2 * known.sum() <= len(rates):
        return None
    filled = np.where(known, rates, np.median(rates[known]))
    whole: Floats = np.rint(filled * seconds)
    return whole


@dataclass(frozen=True)
class _Table:
    """Values of replicas over time: at_s (samples,), the others (replicas, samples), NaN (leader: -1) for missing values."""

    at_s: Floats
    size: Floats
    rate: Floats
    leader: NDArray[np.int8]


def _matrices(moments: list[list[Dated]]) -> tuple[list[tuple[str, int, str]], _Table]:
    """All replicas in the samples, and their values over time."""
    known: dict[tuple[str, int, str], int] = {}
    placed: list[tuple[int, NDArray[np.int64], pa.RecordBatch]] = []
    layouts: dict[int, tuple[pa.RecordBatch, NDArray[np.int64]]] = {}
    for k, part in _with_replicas(moments):
        batch = part.sample.replicas
        before = layouts.get(part.sample.part)
        rows = before[1] if before is not None and _same(before[0], batch) else _rows(batch, known)
        layouts[part.sample.part] = (batch, rows)
        placed.append((k, rows, batch))
    # One sample is written after the other; the figures read one replica after the other.
    size = np.full((len(moments), len(known)), np.nan)
    rate = np.full_like(size, np.nan)
    leader = np.full(size.shape, -1, np.int8)
    for k, rows, batch in placed:
        size[k, rows] = batch.column("bytes").to_numpy()
        rate[k, rows] = batch.column("append_rate").to_numpy(zero_copy_only=False)
        leader[k, rows] = batch.column("leader").cast(pa.int8()).fill_null(-1).to_numpy()
    size, rate, leader = (np.ascontiguousarray(each.T) for each in (size, rate, leader))
    at_s = np.array([parts[0].at_ms / _MS for parts in moments])
    return list(known), _Table(at_s, size, rate, leader)


def _with_replicas(moments: list[list[Dated]]) -> Iterator[tuple[int, Dated]]:
    for k, parts in enumerate(moments):
        for part in parts:
            if part.sample.replicas.num_rows:
                yield k, part


def _same(one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    """Whether the same replicas are in the same rows, which is the usual case."""
    return all(one.column(name).equals(other.column(name)) for name in ("partition", "topic", "dir"))


def _rows(batch: pa.RecordBatch, known: dict[tuple[str, int, str], int]) -> NDArray[np.int64]:
    """The row of each replica; new replicas get the next free row."""
    keys = zip(*(batch.column(name).to_pylist() for name in ("topic", "partition", "dir")), strict=True)
    return np.array([known.setdefault(key, len(known)) for key in keys], np.int64)


def _latest_whole(moments: list[list[Dated]]) -> int:
    """Index of the latest complete sample; 0 if there is none."""
    for k in range(len(moments) - 1, -1, -1):
        if len(moments[k]) == moments[k][0].sample.parts:
            return k
    return 0
