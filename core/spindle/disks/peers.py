"""Slow disks, by comparison with their peers: disks of the same kind at the same time.

A disk's *ratio* at one step of time is what its requests took, against what the same requests take on a usual disk of its kind: the
sum over reads and writes of number x mean time, with the disk's own times and with the median times of its kind. The mix of reads
and writes, the hour of the day and a load that all share so fall out. Times are those of a request by itself: what it waited behind
others is taken off by Little's law, so that a busy disk is not a slow one. What all disks of a broker have in common is not a
disk's fault and is taken off too. And a disk is compared with what it was at its best: kinds are told by class and size, and some
models are slower than others.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

AT_LEAST: Final = 5.0  # times what the disk's ratio is at its best, on (geometric) mean of three samples
ALWAYS: Final = 8.0  # times what is usual, where nobody knows what the disk is at its best
EACH: Final = 3.0  # times what is usual, in each of the three
WELL: Final = 2.0  # times the best, on mean of three: below this it is well again
BEST: Final = 3.5  # times what is usual: no disk that is slower than this is believed to be at its best
SAMPLES: Final = 3
FEWEST_PEERS: Final = (
    4  # disks of a kind with requests at a step, the disk itself among them; with fewer nothing is told
)
MOST: Final = 0.2  # of a kind: with more of them over EACH at once, beyond one, it is not the disks
_FEWEST_ON_BROKER: Final = 2  # other disks, to tell what a broker's disks have in common
_IN_FLIGHT: Final = 2.0  # requests that a disk works on at once without much delay to any
_REQUESTS: Final = 0.1  # per second: fewer tell nothing
_PAST: Final = 12  # steps over which the past is looked at together
_FORGET: Final = 6  # steps without requests after which the samples before tell nothing


@dataclass(frozen=True)
class Fleet:
    """Disks of one cluster over the same even steps of time.

    Attributes:
        broker: whose disk it is, (disks,).
        kind: what it may be compared with, any numbers, (disks,).
        reads, writes: requests per second, NaN for unknown, (disks, steps).
        read_ms, write_ms: mean time of a request, NaN for none or unknown, (disks, steps).
    """

    broker: Ints
    kind: Ints
    reads: Floats
    writes: Floats
    read_ms: Floats
    write_ms: Floats


@dataclass(frozen=True)
class Verdicts:
    """What is known at each step from it and those before; all (disks, steps).

    Attributes:
        slow: whether the disk is called slow.
        ratio: times what is usual for its requests, NaN where nobody can tell.
        own_ms, peers_ms: mean time of its requests by themselves, and of the same requests on a usual disk of its kind; NaN likewise.
        peers: disks that it was compared with, itself not counted.
    """

    slow: Bools
    ratio: Floats
    own_ms: Floats
    peers_ms: Floats
    peers: Ints


def judge(fleet: Fleet) -> Verdicts:
    """Say at each step which disks are slow."""
    own, usual, peers = _compared(fleet)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = own / usual
    ratio = np.where(ratio > 0, ratio, np.nan)
    ratio = ratio / _shared(ratio, fleet.broker)
    return Verdicts(_told(np.log(ratio), _crowded(ratio, fleet.kind)), ratio, own, usual, peers)


def _compared(fleet: Fleet) -> tuple[Floats, Floats, Ints]:
    """Mean ms of each disk's requests, the same at its kind's median times, and the number of peers."""
    waiting = _waiting(fleet)
    number, own, usual = (np.zeros(fleet.reads.shape) for _ in range(3))
    peers = np.zeros(fleet.reads.shape, np.int64)
    for rate, ms in ((fleet.reads, fleet.read_ms), (fleet.writes, fleet.write_ms)):
        known = (rate >= _REQUESTS) & (ms > 0)
        alone = np.where(known, ms / waiting, np.nan)
        middle, count = _middles(alone, fleet.kind)
        told = known & (count >= FEWEST_PEERS)
        number += np.where(told, rate, 0.0)
        own += np.where(told, rate * alone, 0.0)
        usual += np.where(told, rate * middle, 0.0)
        peers = np.maximum(peers, np.where(told, count - 1, 0))
    some = number > 0
    share = np.where(some, number, 1.0)
    return np.where(some, own / share, np.nan), np.where(some, usual / share, np.nan), peers


def _waiting(fleet: Fleet) -> Floats:
    """By how much requests take longer for those before them, from how many there are at once: number x time (Little)."""
    at_once = np.zeros(fleet.reads.shape)
    for rate, ms in ((fleet.reads, fleet.read_ms), (fleet.writes, fleet.write_ms)):
        at_once += np.nan_to_num(rate * ms / 1000)
    return 1 + at_once / _IN_FLIGHT


def _middles(values: Floats, kind: Ints) -> tuple[Floats, Ints]:
    """The median of each kind at each step, and how many disks it is of, for each disk."""
    middle, count = np.full(values.shape, np.nan), np.zeros(values.shape, np.int64)
    for rows in _groups(kind):
        middle[rows], count[rows] = _median(values[rows])
    return middle, count


def _median(values: Floats) -> tuple[Floats, Ints]:
    """Over the first axis, without NaN: the median (NaN for nothing) and the number of values."""
    ordered = np.sort(values, axis=0)  # NaN last
    count = (~np.isnan(ordered)).sum(axis=0)
    steps = np.arange(values.shape[1])
    high = ordered[np.minimum(count // 2, len(values) - 1), steps]
    low = ordered[np.maximum(count - 1, 0) // 2, steps]
    return np.where(count > 0, (low + high) / 2, np.nan), count


def _shared(ratio: Floats, broker: Ints) -> Floats:
    """By how much a broker's other disks are slower than usual, 1 at least; it is asked only where a disk seems slow."""
    found = np.ones(ratio.shape)
    with np.errstate(invalid="ignore"):
        suspect = np.nanmax(ratio, axis=1, initial=0.0) >= EACH
    for rows in _groups(broker):
        for row in rows[suspect[rows]].tolist():
            others = rows[rows != row]
            if not len(others):
                continue
            middle, count = _median(ratio[others])
            found[row] = np.where(count >= _FEWEST_ON_BROKER, np.fmax(middle, 1.0), 1.0)
    return found


def _crowded(ratio: Floats, kind: Ints) -> Bools:
    """Whether so many of a kind seem slow at once that it is not the disks, (disks, steps)."""
    crowded = np.zeros(ratio.shape, np.bool_)
    for rows in _groups(kind):
        with np.errstate(invalid="ignore"):
            high = (ratio[rows] >= EACH).sum(axis=0)
        known = (~np.isnan(ratio[rows])).sum(axis=0)
        crowded[rows] = high > np.maximum(1, MOST * known)
    return crowded


def _told(log: Floats, crowded: Bools) -> Bools:
    """The verdict at each step: what three samples in a row say, which holds until three others say otherwise."""
    disks, steps = log.shape
    best, known_best = _best(log)
    need = np.where(known_best, best + np.log(AT_LEAST), np.log(ALWAYS))
    well = best + np.log(WELL)
    slow = np.zeros(log.shape, np.bool_)
    last, idle = np.full((disks, SAMPLES), np.nan), np.zeros(disks, np.int64)
    now = np.zeros(disks, np.bool_)
    for step in range(steps):
        known = ~np.isnan(log[:, step])
        idle = np.where(known, 0, idle + 1)
        last[known] = np.column_stack([last[known, 1:], log[known, step]])
        last[idle >= _FORGET] = np.nan
        mean = last.mean(axis=1)  # NaN until there are three
        begins = (mean >= need[:, step]) & (last.min(axis=1) >= np.log(EACH)) & ~crowded[:, step]
        now = np.where(known, (now | begins) & ~(mean < well[:, step]), now)
        slow[:, step] = now
    return slow


def _best(log: Floats) -> tuple[Floats, Bools]:
    """The logarithm of the ratio at its best before each step, over an hour or so, and whether that was seen at all."""
    disks, steps = log.shape
    blocks = -(-steps // _PAST)
    padded = np.full((disks, blocks * _PAST), np.nan)
    padded[:, :steps] = log
    middle, count = _median(padded.reshape(disks * blocks, _PAST).T)
    middle = np.where(count >= _PAST // 2, middle, np.inf).reshape(disks, blocks)
    best = np.full((disks, blocks), np.inf)
    best[:, 1:] = np.minimum.accumulate(middle, axis=1)[:, :-1]
    whole = np.repeat(best, _PAST, axis=1)[:, :steps]
    known: Bools = np.isfinite(whole)
    return np.where(known, np.clip(whole, 0.0, np.log(BEST)), 0.0), known


def _groups(labels: Ints) -> Iterator[Ints]:
    """Rows of each label."""
    order: Ints = np.argsort(labels, kind="stable").astype(np.int64)
    cuts = np.flatnonzero(np.diff(labels[order])) + 1
    for first, end in pairwise([0, *cuts.tolist(), len(order)]):
        if end > first:
            yield order[first:end]
