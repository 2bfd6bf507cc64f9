"""Which disks are slow now, and since when: applies core's rule (`spindle.disks.peers`) to the latest part of the history."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from spindle.disks.peers import Fleet, PeerFloats, PeerInts, Verdicts, judge
from spindle_rebalance.arrays import lists
from spindle_rebalance.findings import SlowFinding
from spindle_rebalance.summary import LATENCIES

WINDOW: Final = 288  # number of latest samples: a day at one per five minutes
_MS: Final = 1000
_COLUMNS: Final = pa.schema(
    [
        ("broker", pa.int32()),
        ("dir", pa.string()),
        ("since_ms", pa.int64()),
        ("times", pa.float64()),
        ("latency_ms", pa.float64()),
        ("peers_ms", pa.float64()),
        ("peers", pa.int64()),
        ("message", pa.string()),
    ]
)


def slow_disks(window: int = WINDOW) -> Callable[[DataFrame], DataFrame]:
    """Disks with their histories (`features.disks`, of one cluster) → one row per disk that is slow now: broker, dir, `SlowFinding`.

    Args:
        window: number of latest samples to use.
    """

    def found(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist(list(of_batches(list(batches))), schema=_COLUMNS)

    def transformed(disks: DataFrame) -> DataFrame:
        latest = disks.select(
            "broker", "dir", "disk", "kind", *(_latest(name, window) for name in ("at_s", *LATENCIES))
        )
        # All disks of a cluster are compared with each other; ten thousand disks take some tens of MB.
        return latest.repartition(1).mapInArrow(found, from_arrow_schema(_COLUMNS))

    return transformed


def _latest(name: str, window: int) -> Column:
    start = sf.greatest(-sf.size(name), sf.lit(-window))
    return sf.when(sf.size(name) > 0, sf.slice(name, start, window)).otherwise(sf.col(name)).alias(name)


def of_batches(batches: Sequence[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """The rows of `slow_disks`, by broker and dir.

    Args:
        batches: broker, dir, disk, kind, at_s and the columns of `LATENCIES`, as lists.
    """
    if not batches:
        return
    table = (
        pa.Table.from_batches(batches)
        .combine_chunks()
        .sort_by([("broker", "ascending"), ("dir", "ascending")])
    )
    if not table.num_rows:
        return
    at_s = lists(table, "at_s")
    step, grid = _grid(at_s)
    if not len(grid):
        return
    reads, writes, read_ms, write_ms = (_on(grid, step, at_s, lists(table, name)) for name in LATENCIES)
    brokers = table.column("broker").to_numpy().astype(np.int64)
    kind = np.array(table.column("kind").to_pylist(), np.str_)
    _, kinds = np.unique(kind, return_inverse=True)
    # A disk of unknown kind has no peers.
    kinds = np.where(kind == "", -1 - np.arange(len(kinds)), kinds)
    verdicts = judge(Fleet(brokers, kinds, reads, writes, read_ms, write_ms))
    disks, dirs = table.column("disk").to_pylist(), table.column("dir").to_pylist()
    for row in np.flatnonzero(verdicts.slow[:, -1]).tolist():
        # The state at the last time with data.
        last = int(np.flatnonzero(~np.isnan(verdicts.ratio[row]))[-1])
        since = int(np.flatnonzero(~verdicts.slow[row]).max(initial=-1)) + 1
        finding = _finding(
            verdicts, row, last, round(float(grid[since]) * _MS), f"{disks[row]} ({kind[row]})"
        )
        yield {"broker": int(brokers[row]), "dir": dirs[row], **vars(finding)}


def _finding(verdicts: Verdicts, row: int, last: int, since_ms: int, disk: str) -> SlowFinding:
    times, own_ms, usual_ms = (
        float(values[row, last]) for values in (verdicts.ratio, verdicts.own_ms, verdicts.peers_ms)
    )
    peers = int(verdicts.peers[row, last])
    message = (
        f"{disk}: request latency is {own_ms:.1f} ms without queueing, compared with {usual_ms:.1f} ms on a "
        f"typical one of {peers} other disks of its kind; without the part common to all disks of its broker, {times:.1f} times as long"
    )
    return SlowFinding(since_ms, times, own_ms, usual_ms, peers, message)


def _grid(at_s: Sequence[PeerFloats]) -> tuple[float, PeerFloats]:
    """Evenly spaced times up to the latest sample of all, with the typical interval of samples; empty if no disk has two samples."""
    gaps = [np.diff(times) for times in at_s if len(times) > 1]
    if not gaps:
        return 0.0, np.zeros(0)
    step = float(np.median(np.concatenate(gaps)))
    end = max(float(times[-1]) for times in at_s if len(times))
    start = min(float(times[0]) for times in at_s if len(times))
    count = min(int((end - start) / step) + 1, 2 * max(len(times) for times in at_s))
    grid: PeerFloats = end - step * np.arange(count - 1, -1, -1, dtype=np.float64)
    return step, grid


def _on(
    grid: PeerFloats, step: float, at_s: Sequence[PeerFloats], values: Sequence[PeerFloats]
) -> PeerFloats:
    """Values on the grid, shape (disks, steps), each at the step of its sample; NaN without a sample."""
    found = np.full((len(at_s), len(grid)), np.nan)
    for row, (times, mine) in enumerate(zip(at_s, values, strict=True)):
        place: PeerInts = len(grid) - 1 - np.floor((grid[-1] - times) / step).astype(np.int64)
        there = place >= 0
        found[row, place[there]] = mine[there]
    return found
