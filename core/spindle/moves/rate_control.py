"""How fast replicas are copied: additive increase, multiplicative decrease, inside bounds, by what the disks feel.

One function for both who copy: the agent steers what a broker copies between its own dirs, the executor what brokers copy from each
other. Neither keeps anything in memory for it: the rate that stands in Kafka's settings is where the next step begins.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

PERIOD: Final = 10.0  # seconds between two steps: as long as latencies are averaged over, so that each step sees what the last did
_STEPS: Final = 10  # from the lower bound to the upper one
_DOWN: Final = 0.5

# Milliseconds: (no reason to go slower, reason to go slower). Between the two a rate stays as it is.
_DEVICE_MS: Final = (
    50.0,
    100.0,
)  # mean of the requests to a device; what is written back in bulk is slow by nature
_PROBE_MS: Final = (
    250.0,
    1000.0,
)  # one block written, flushed and read back: what a producer with acks=all waits for


class Pressure(IntEnum):
    """What a disk feels; of several the highest counts."""

    CALM = 0
    BUSY = 1
    STRAINED = 2


@dataclass(frozen=True)
class RateBounds:
    """Bytes per second, both included.

    Attributes:
        least: never slower; at most ``most``.
        most: never faster.
    """

    least: int
    most: int

    @classmethod
    def of(cls, least: int | None, most: int) -> "RateBounds":
        """Bounds as they were written down: a lower one above the upper one, or none at all, means that the upper one is kept to."""
        return cls(most if least is None else min(least, most), most)

    def keep(self, rate: int) -> int:
        """The nearest rate inside them."""
        return max(self.least, min(self.most, rate))


def pressure(latency_ms: float | None, *, probe_ms: float | None = None, far: bool = False) -> Pressure:
    """What one disk feels.

    Args:
        latency_ms: mean time of a request to its device, lately; None while there were none.
        probe_ms: what the latest probe took, or has taken so far; None if nothing is known.
        far: its requests take far longer than those of the node's other disks, or the disk is odd in another way.
    """
    if far:
        return Pressure.STRAINED
    return max(_level(latency_ms, _DEVICE_MS), _level(probe_ms, _PROBE_MS))


def highest(found: Iterable[Pressure]) -> Pressure:
    """Of several disks; calm if there are none."""
    return max(found, default=Pressure.CALM)


def steer(rate: int, bounds: RateBounds, felt: Pressure) -> int:
    """The rate of the next `PERIOD` in bytes per second.

    Args:
        rate: of the last one; whatever it was, the answer is inside the bounds.
        bounds: that it has to keep to. Equal ones make it a fixed rate.
        felt: by the disks that are read from and written to.
    """
    rate = bounds.keep(rate)
    if felt is Pressure.STRAINED:
        return bounds.keep(int(rate * _DOWN))
    if felt is Pressure.CALM:
        return bounds.keep(rate + max(1, -(-(bounds.most - bounds.least) // _STEPS)))
    return rate


def _level(milliseconds: float | None, levels: tuple[float, float]) -> Pressure:
    if milliseconds is None or milliseconds < levels[0]:
        return Pressure.CALM
    return Pressure.BUSY if milliseconds < levels[1] else Pressure.STRAINED
