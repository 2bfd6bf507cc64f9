"""A cluster's history of replicas and disks, in the form that planning uses.

Rates are sums over many samples in no guaranteed order, so their last digits may differ between runs. Inputs of
the plan and its hash are therefore rounded to a few digits, so that the same history gives the same proposal.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from spindle.balance.picture import DirPlace
from spindle.planner.snapshot import FloatArray, IntArray, PlannerSnapshot

_DIGITS: Final = 4


@dataclass(frozen=True)
class DiskOutlook:
    """The forecast of one disk.

    Attributes:
        place: broker and path.
        growth: bytes per second; None if unknown.
        full_in: seconds from the time of the picture until it is full: earliest, expected, latest of an 80 % range; None if unknown.
    """

    place: DirPlace
    growth: float | None = None
    full_in: tuple[float, float, float] | None = None


@dataclass(frozen=True, eq=False)
class ReplicaHistory:
    """Results of the samples.

    Attributes:
        topic, partition, broker: of each replica with samples.
        growth: growth of its size in bytes per second; NaN if unknown.
        rate: append rate in bytes per second; NaN if unknown.
        disks: forecasts by disk.
        slow: disks that are slow compared with their peers.
    """

    topic: Sequence[str] = ()
    partition: ArrayLike = ()
    broker: ArrayLike = ()
    growth: ArrayLike = ()
    rate: ArrayLike = ()
    disks: tuple[DiskOutlook, ...] = field(default=())
    slow: frozenset[DirPlace] = frozenset()


def rounded(values: ArrayLike) -> FloatArray:
    """Round to four significant digits; 0 for NaN and negative values."""
    x = np.asarray(values, np.float64)
    x = np.where(np.isfinite(x) & (x > 0), x, 0.0)
    with np.errstate(divide="ignore"):
        power = np.floor(np.log10(x, where=x > 0, out=np.zeros_like(x))) - (_DIGITS - 1)
    scale = 10.0 ** np.abs(power)
    down: FloatArray = np.where(power >= 0, np.round(x / scale) * scale, np.round(x * scale) / scale)
    return down


def rows_of(snapshot: PlannerSnapshot, history: ReplicaHistory) -> tuple[IntArray, IntArray]:
    """Rows of the snapshot and rows of the history of the same replicas; replicas in only one of them are left out."""
    if not len(history.topic) or not snapshot.topic_names:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    names = np.array(snapshot.topic_names)
    told = np.asarray(history.topic)
    at = np.minimum(np.searchsorted(names, told), len(names) - 1)
    known = names[at] == told
    theirs = _keys(at, np.asarray(history.partition), np.asarray(history.broker))
    ours = _keys(snapshot.topic, snapshot.partition, snapshot.broker[snapshot.dir_broker[snapshot.dir]])
    order = np.argsort(ours, kind="stable")
    place = np.minimum(np.searchsorted(ours[order], theirs), len(ours) - 1)
    hit = known & (ours[order][place] == theirs)
    return order[place[hit]], np.flatnonzero(hit)


def _keys(topic: IntArray, partition: IntArray, broker: IntArray) -> IntArray:
    """One integer key per replica: topics and partitions are below 2^24, brokers below 2^14."""
    found: IntArray = (
        (topic.astype(np.int64) << 38) | (partition.astype(np.int64) << 14) | broker.astype(np.int64)
    )
    return found


def with_history(snapshot: PlannerSnapshot, history: ReplicaHistory, seconds: float) -> PlannerSnapshot:
    """The same cluster with its produce rates, and with the sizes expected after a plan of this many seconds.

    A disk that would exceed its capacity by then counts as full; the forecast reports more.
    """
    rows, at = rows_of(snapshot, history)
    if not len(rows):
        return snapshot
    rate, more = np.zeros(len(snapshot.size)), np.zeros(len(snapshot.size))
    rate[rows] = rounded(history.rate)[at]
    more[rows] = rounded(history.growth)[at] * seconds
    n = len(snapshot.capacity)
    room = np.maximum(snapshot.capacity - np.bincount(snapshot.dir, snapshot.size, n), 0.0)
    come = np.bincount(snapshot.dir, more, n)
    share = np.divide(room, come, out=np.ones(n), where=come > room)
    return replace(snapshot, rate=rate, planned=snapshot.size + np.floor(more * share[snapshot.dir]))
