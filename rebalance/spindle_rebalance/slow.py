"""Which disks are slow now, and since when: applies core's rule (`spindle.disks.peers`) to the latest part of the history."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spindle.disks.peers import Fleet, PeerFloats, PeerInts, Verdicts, judge
from spindle_rebalance.arrays import lists
from spindle_rebalance.findings import SlowFinding
from spindle_rebalance.summary import LATENCIES

_MS: Final = 1000


def of_batches(batches: Sequence[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """A row for each disk that is slow now, by broker and dir: broker, dir, and the attributes of a `SlowFinding`.

    Args:
        batches: all disks of one cluster, each with the latest part of its history: broker, dir, disk, kind, at_s and the columns of `LATENCIES`, as lists.
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
