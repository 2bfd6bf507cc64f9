"""Latency histories of disks, made up, with the truth about which were slow and since when.

A fleet of two kinds of disks on brokers of their own; within a kind there are models, some of which are slower than the others. Load has a day,
a week and a temper of its own on each disk, and latency rises with it. Hosts have noisy neighbours (all disks of a broker suffer), the whole
cluster has bad hours, single disks scrub themselves for an hour or stall for a moment. Some disks become ten times slower, at once or over
hours, and stay so.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spindle.disks.peers import Fleet

Floats = NDArray[np.float64]

STEP: Final = 300  # seconds
SICK: Final = 10.0  # times slower
_A_DAY: Final = 86400 // STEP


@dataclass(frozen=True)
class Kind:
    """Of disks: how many brokers have how many of it, and what its requests take (ms) when it has little to do."""

    brokers: int
    disks: int
    read_ms: float
    write_ms: float
    busiest: float  # requests per second that it can do


KINDS: Final = (Kind(30, 12, 9.0, 6.0, 180.0), Kind(20, 6, 0.4, 0.15, 9000.0), Kind(3, 4, 7.0, 5.0, 150.0))


@dataclass(frozen=True)
class Truth:
    """What was made.

    Attributes:
        fleet: what samples show.
        factor: by how much the disk itself was slower, (disks, steps).
        since: the first step at which it was `SICK` times slower; -1 for never, (disks,).
    """

    fleet: Fleet
    factor: Floats
    since: NDArray[np.int64]


def make(seed: int, days: int, sick: float = 0.05) -> Truth:
    """A fleet's history; the same arguments give the same.

    Args:
        seed: of everything that is drawn.
        days: of history.
        sick: share of disks that become slow.
    """
    rng = np.random.default_rng(seed)
    steps = days * _A_DAY
    layout = [
        (number, kind, broker)
        for number, kind in enumerate(KINDS)
        for broker in range(kind.brokers)
        for _ in range(kind.disks)
    ]
    kind = np.array([number for number, _, _ in layout])
    broker = np.array([1000 * number + index for number, _, index in layout])
    disks = len(layout)
    factor, since = _sickness(rng, disks, steps, sick)
    load = _load(rng, disks, steps)
    # A queue: the closer to what it can do, the longer it waits. A slow disk can do less, and gets less to do.
    crowd = 1.0 / (1.0 - np.minimum(load * np.minimum(factor, 2.0), 0.8))
    model = np.where(rng.random(disks) < 0.15, rng.uniform(1.5, 3.0, disks), 1.0) * rng.lognormal(
        0, 0.12, disks
    )
    shared = _spells(rng, len(set(broker.tolist())), steps, 0.4, (2.0, 8.0), 36)[
        np.unique(broker, return_inverse=True)[1]
    ]
    everywhere = _spells(rng, 1, steps, 0.5, (1.5, 4.0), 24)
    own = _spells(rng, disks, steps, 0.3, (1.5, 3.5), 12)
    stalls = np.where(rng.random((disks, steps)) < 3e-4, rng.uniform(5.0, 40.0, (disks, steps)), 1.0)
    all_of_it = model[:, None] * crowd * shared * everywhere * own * stalls * factor
    busiest = np.array([each.busiest for _, each, _ in layout])
    share = rng.uniform(0.1, 0.6, (disks, 1))
    number = busiest[:, None] * load / np.sqrt(factor)
    reads, writes = number * share, number * (1 - share)

    def latency(least: Floats) -> Floats:
        return least[:, None] * all_of_it * rng.lognormal(0, 0.25, (disks, steps))

    read_ms, write_ms = (
        latency(np.array([getattr(each, name) for _, each, _ in layout])) for name in ("read_ms", "write_ms")
    )
    away = (
        _spells(rng, len(KINDS) * 1000, steps, 0.02, (2.0, 2.0), 12)[broker] > 1
    )  # no samples of a broker for a while
    fleet = Fleet(
        broker,
        kind,
        *(np.where(away, np.nan, each) for each in (reads, writes, read_ms, write_ms)),
    )
    return Truth(fleet, factor, since)


def _sickness(
    rng: np.random.Generator, disks: int, steps: int, share: float
) -> tuple[Floats, NDArray[np.int64]]:
    factor, since = np.ones((disks, steps)), np.full(disks, -1)
    for disk in np.flatnonzero(rng.random(disks) < share).tolist():
        begin = int(rng.integers(_A_DAY // 4, steps - _A_DAY // 2))
        over = int(rng.integers(12, 144)) if rng.random() < 0.5 else 0  # an hour to half a day, or at once
        rise = np.clip((np.arange(steps) - begin) / over, 0, 1) if over else (np.arange(steps) >= begin) * 1.0
        factor[disk] = SICK**rise
        since[disk] = begin + over
    since[since >= steps] = -1
    return factor, since


def _load(rng: np.random.Generator, disks: int, steps: int) -> Floats:
    """Share of what a disk can do that is asked of it, (disks, steps)."""
    t = np.arange(steps) / _A_DAY
    day = 1 + rng.uniform(0.2, 0.8, (disks, 1)) * np.sin(2 * np.pi * (t + rng.normal(0, 0.05, (disks, 1))))
    week = np.where(t % 7 < 5, 1.0, 0.6)
    temper = np.exp(
        0.3
        * np.cumsum(rng.normal(0, 0.1, (disks, steps)), axis=1)
        / np.sqrt(np.arange(1, steps + 1) / 12 + 1)
    )
    quiet = np.where(rng.random((disks, 1)) < 0.05, 0.002, 1.0)  # disks that nobody asks for much
    bursts = _spells(rng, disks, steps, 0.5, (1.5, 4.0), 12)
    return np.clip(rng.uniform(0.05, 0.3, (disks, 1)) * day * week * temper * bursts * quiet, 1e-4, 0.95)


def _spells(
    rng: np.random.Generator, rows: int, steps: int, a_day: float, times: tuple[float, float], longest: int
) -> Floats:
    """Factors for spells that come and go, so many a day for each row, up to so many steps long, (rows, steps)."""
    found = np.ones((rows, steps))
    count = rng.poisson(a_day * steps / _A_DAY, rows)
    for row in np.flatnonzero(count).tolist():
        for _ in range(int(count[row])):
            begin, length = int(rng.integers(0, steps)), int(rng.integers(2, longest + 1))
            found[row, begin : begin + length] *= rng.uniform(*times)
    return found
