"""Rate control for copies: additive increase and multiplicative decrease within bounds, depending on the load of the disks.

The same function is used by the agent, for copies between the dirs of a broker, and by the executor, for copies between brokers. Neither
keeps state in memory: the next step starts from the rate in Kafka's settings.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from spindle.api.enums import Pressure

PERIOD: Final = 10.0  # seconds between two steps: the averaging time of latencies, so that each step sees the effect of the last one
_STEPS: Final = 10  # from the lower bound to the upper one
_DOWN: Final = 0.5

# Milliseconds: (no reason to go slower, reason to go slower). Between the two a rate stays as it is.
_DEVICE_MS: Final = (
    50.0,
    100.0,
)  # mean of the requests to a device; bulk write-back is slow by nature
_PROBE_MS: Final = (
    250.0,
    1000.0,
)  # one block written, flushed and read back: the latency that a producer with acks=all sees


@dataclass(frozen=True)
class RateBounds:
    """Inclusive limits in bytes per second.

    Attributes:
        least: lower limit; at most ``most``.
        most: upper limit.
    """

    least: int
    most: int

    @classmethod
    def of(cls, least: int | None, most: int) -> "RateBounds":
        """Bounds from the configuration: a lower limit that is missing or above the upper one means a fixed rate at the upper limit."""
        return cls(most if least is None else min(least, most), most)

    def keep(self, rate: int) -> int:
        """The nearest rate within the bounds."""
        return max(self.least, min(self.most, rate))


def pressure(latency_ms: float | None, *, probe_ms: float | None = None, far: bool = False) -> Pressure:
    """Load of one disk.

    Args:
        latency_ms: recent mean time of a request to its device; None without requests.
        probe_ms: duration of the latest probe, or of a pending one so far; None if not known.
        far: whether its requests take much longer than those of the node's other disks, or the disk has another anomaly.
    """
    if far:
        return Pressure.STRAINED
    return max(_level(latency_ms, _DEVICE_MS), _level(probe_ms, _PROBE_MS))


def highest(found: Iterable[Pressure]) -> Pressure:
    """Highest load of several disks; calm if there are none."""
    return max(found, default=Pressure.CALM)


def steer(rate: int, bounds: RateBounds, felt: Pressure) -> int:
    """The rate of the next `PERIOD` in bytes per second.

    Args:
        rate: rate of the last period; the result is always within the bounds.
        bounds: limits of the rate. Equal limits mean a fixed rate.
        felt: load of the source and target disks.
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
