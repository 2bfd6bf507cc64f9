"""Slow disks, by comparison with their peers: disks of the same kind at the same time.

A disk's *ratio* at one time step is the time of its requests divided by the time of the same requests on a typical disk of its kind: the
sum over reads and writes of number x mean time, with the disk's own times and with the median times of its kind. This cancels the mix of
reads and writes, the hour of the day, and load that all disks share. Times are service times of single requests: queueing time is
removed by Little's law, so that a busy disk does not count as slow. A slowdown that all disks of a broker share is not a
disk's fault and is removed too. A disk is also compared with its own better hours, because kinds are distinguished by class and size, and
some models are slower than others.

The rebalance job judges by this. An agent compares the disks of its own node only, see `spindle.disks.signals.compare`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

PeerFloats = NDArray[np.float64]
PeerInts = NDArray[np.int64]
PeerBools = NDArray[np.bool_]

AT_LEAST: Final = 5.0  # times the ratio of its better hours, as the geometric mean of three samples
UNKNOWN: Final = 1.6  # times the typical value: assumed for a disk's better hours while none were observed
EACH: Final = 3.0  # times the typical value, in each of the three samples
WELL: Final = 2.0  # times the better hours before it became slow, likewise: below this it is healthy
BETTER: Final = 3.5  # times the typical value: upper limit for the better hours of a disk
SAMPLES: Final = 3
FEWEST_PEERS: Final = (
    4  # disks of a kind with requests at a step, including the disk itself; with fewer there is no verdict
)
MOST: Final = 0.2  # share of a kind: if more of them (and more than one) exceed EACH at once, the disks are not the cause
_FEWEST_ON_BROKER: Final = 2  # other disks needed to determine what a broker's disks have in common
_IN_FLIGHT: Final = 2.0  # requests that a disk serves concurrently without much delay
_REQUESTS: Final = 0.1  # per second: fewer are not significant
_PAST: Final = 12  # steps that history is aggregated over: an hour
HOURS: Final = (
    24  # of history that count: what the rebalance job reads; with a longer history the verdicts are the same
)
_QUARTER: Final = (
    0.25  # quantile of the hours: the very best hour is chance, and everything looks slow compared to it
)
_FORGET: Final = 6  # steps without requests after which earlier samples are discarded


@dataclass(frozen=True)
class Fleet:
    """Disks of one cluster over the same equal time steps.

    Attributes:
        broker: broker id of the disk, (disks,).
        kind: disks with equal numbers may be compared, (disks,).
        reads, writes: requests per second, NaN for unknown, (disks, steps).
        read_ms, write_ms: mean time of a request, NaN for none or unknown, (disks, steps).
    """

    broker: PeerInts
    kind: PeerInts
    reads: PeerFloats
    writes: PeerFloats
    read_ms: PeerFloats
    write_ms: PeerFloats


@dataclass(frozen=True)
class Verdicts:
    """Verdicts at each step, from that step and earlier ones; all (disks, steps).

    Attributes:
        slow: whether the disk counts as slow.
        ratio: time of its requests relative to a typical disk of its kind, NaN if it cannot be determined.
        own_ms, peers_ms: mean service time of its requests, and of the same requests on a typical disk of its kind; NaN likewise.
        peers: number of disks that it was compared with, excluding itself.
    """

    slow: PeerBools
    ratio: PeerFloats
    own_ms: PeerFloats
    peers_ms: PeerFloats
    peers: PeerInts


def judge(fleet: Fleet) -> Verdicts:
    """Determine at each step which disks are slow."""
    own, usual, peers = _compared(fleet)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = own / usual
    ratio = np.where(ratio > 0, ratio, np.nan)
    ratio = ratio / _shared(ratio, fleet.broker)
    return Verdicts(_slow(np.log(ratio), _common_cause(ratio, fleet.kind)), ratio, own, usual, peers)


def _compared(fleet: Fleet) -> tuple[PeerFloats, PeerFloats, PeerInts]:
    """Mean ms of each disk's requests, the same at its kind's median times, and the number of peers."""
    waiting = _waiting(fleet)
    number, own, usual = (np.zeros(fleet.reads.shape) for _ in range(3))
    peers = np.zeros(fleet.reads.shape, np.int64)
    for rate, ms in ((fleet.reads, fleet.read_ms), (fleet.writes, fleet.write_ms)):
        known = (rate >= _REQUESTS) & (ms > 0)
        alone = np.where(known, ms / waiting, np.nan)
        middle, count = _middles(alone, fleet.kind)
        comparable = known & (count >= FEWEST_PEERS)
        number += np.where(comparable, rate, 0.0)
        own += np.where(comparable, rate * alone, 0.0)
        usual += np.where(comparable, rate * middle, 0.0)
        peers = np.maximum(peers, np.where(comparable, count - 1, 0))
    some = number > 0
    share = np.where(some, number, 1.0)
    return np.where(some, own / share, np.nan), np.where(some, usual / share, np.nan), peers


def _waiting(fleet: Fleet) -> PeerFloats:
    """Factor by which queueing prolongs requests, from the number of concurrent requests: number x time (Little's law)."""
    at_once = np.zeros(fleet.reads.shape)
    for rate, ms in ((fleet.reads, fleet.read_ms), (fleet.writes, fleet.write_ms)):
        at_once += np.nan_to_num(rate * ms / 1000)
    return 1 + at_once / _IN_FLIGHT


def _middles(values: PeerFloats, kind: PeerInts) -> tuple[PeerFloats, PeerInts]:
    """The median of each kind at each step, and the number of disks it is taken over, for each disk."""
    middle, count = np.full(values.shape, np.nan), np.zeros(values.shape, np.int64)
    for rows in _groups(kind):
        middle[rows], count[rows] = _median(values[rows])
    return middle, count


def _median(values: PeerFloats) -> tuple[PeerFloats, PeerInts]:
    """Over the first axis, without NaN: the median (NaN for nothing) and the number of values."""
    ordered = np.sort(values, axis=0)  # NaN last
    count = (~np.isnan(ordered)).sum(axis=0)
    steps = np.arange(values.shape[1])
    high = ordered[np.minimum(count // 2, len(values) - 1), steps]
    low = ordered[np.maximum(count - 1, 0) // 2, steps]
    return np.where(count > 0, (low + high) / 2, np.nan), count


def _shared(ratio: PeerFloats, broker: PeerInts) -> PeerFloats:
    """Factor by which a broker's other disks are slower than typical, at least 1; computed only for disks that seem slow."""
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


def _common_cause(ratio: PeerFloats, kind: PeerInts) -> PeerBools:
    """Whether so many disks of a kind seem slow at once that the disks are not the cause, (disks, steps)."""
    crowded = np.zeros(ratio.shape, np.bool_)
    for rows in _groups(kind):
        with np.errstate(invalid="ignore"):
            high = (ratio[rows] >= EACH).sum(axis=0)
        known = (~np.isnan(ratio[rows])).sum(axis=0)
        crowded[rows] = high > np.maximum(1, MOST * known)
    return crowded


def _slow(log: PeerFloats, common: PeerBools) -> PeerBools:
    """The verdict at each step: determined by three consecutive samples, and kept until three others contradict it."""
    disks, steps = log.shape
    better = _better(log)
    slow = np.zeros(log.shape, np.bool_)
    last, idle = np.full((disks, SAMPLES), np.nan), np.zeros(disks, np.int64)
    now = np.zeros(disks, np.bool_)
    before = np.zeros(
        disks
    )  # its better hours when it became slow: later, slow hours are among the better ones
    for step in range(steps):
        known = ~np.isnan(log[:, step])
        idle = np.where(known, 0, idle + 1)
        last[known] = np.column_stack([last[known, 1:], log[known, step]])
        last[idle >= _FORGET] = np.nan
        mean = last.mean(axis=1)  # NaN until there are three
        far = (mean >= better[:, step] + np.log(AT_LEAST)) & (last.min(axis=1) >= np.log(EACH))
        begins = known & ~now & far & ~common[:, step]
        before = np.where(begins, better[:, step], before)
        now = (now | begins) & ~(known & (mean < before + np.log(WELL)))
        slow[:, step] = now
    return slow


def _better(log: PeerFloats) -> PeerFloats:
    """The logarithm of the ratio in a disk's better hours of the last day before each step; `UNKNOWN` if there were none."""
    disks, steps = log.shape
    blocks = -(-steps // _PAST)
    padded = np.full((disks, blocks * _PAST), np.nan)
    padded[:, :steps] = log
    middle, count = _median(padded.reshape(disks * blocks, _PAST).T)
    hours = np.where(count >= _PAST // 2, middle, np.nan).reshape(disks, blocks)
    better = np.full((disks, blocks), np.nan)
    for block in range(1, blocks):
        past = np.sort(hours[:, max(0, block - HOURS) : block], axis=1)  # NaN last
        place = _QUARTER * np.maximum((~np.isnan(past)).sum(axis=1) - 1, 0)
        better[:, block] = past[np.arange(disks), place.astype(np.int64)]
    better = np.where(np.isnan(better), np.log(UNKNOWN), np.clip(better, 0.0, np.log(BETTER)))
    return np.repeat(better, _PAST, axis=1)[:, :steps]


def _groups(labels: PeerInts) -> Iterator[PeerInts]:
    """Rows of each label."""
    order: PeerInts = np.argsort(labels, kind="stable").astype(np.int64)
    cuts = np.flatnonzero(np.diff(labels[order])) + 1
    for first, end in pairwise([0, *cuts.tolist(), len(order)]):
        if end > first:
            yield order[first:end]
