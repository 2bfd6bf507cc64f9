"""From a disk's past to its forecast in the status, which is told anew only when it has changed by something that matters."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from spindle.api.policy import LastResortActions, Thresholds
from spindle.forecast.forecast import forecast
from spindle.forecast.history import DAY, History
from spindle.thresholds.bounds import UsageLevel, disk_bounds

THRESHOLDS: Final = {
    "warnAt": UsageLevel.WARN,
    "moveAt": UsageLevel.MOVE,
    "cordonAt": UsageLevel.CORDON,
    "blockProducersAt": UsageLevel.BLOCK_PRODUCERS,
}
_HORIZON: Final = 28 * DAY
_LONGER: Final = 1.25  # times the horizon, up to which what was told once is told on
_LITTLE: Final = 0.1  # of the time that is left, or of the rate: no news
_MOMENT: Final = 600.0  # seconds: no news either
_YEAR_9999: Final = 250_000_000_000.0
_STILL: Final = 0.001  # of the disk in a day: as good as nothing


@dataclass(frozen=True)
class ThresholdEta:
    """When a level is reached: wall clock, seconds; infinite for never."""

    at: float
    low: float
    high: float


@dataclass(frozen=True)
class UsageForecast:
    """What is to be expected of one disk.

    Attributes:
        made: wall clock, seconds.
        rate: bytes per second.
        etas: by their name in the status.
    """

    made: float
    rate: float
    capacity: float
    etas: Mapping[str, ThresholdEta]


@dataclass(frozen=True)
class Task:
    """One disk to be forecast.

    Attributes:
        until: when the history ends, wall clock.
        arriving, leaving: bytes that moves in flight still bring, and will free.
    """

    until: float
    history: History
    thresholds: Thresholds
    arriving: int = 0
    leaving: int = 0


def make_forecast(task: Task) -> UsageForecast:
    """Forecast one disk; takes some milliseconds."""
    capacity = float(task.history.capacity[0])
    steps = disk_bounds(int(capacity), task.thresholds, LastResortActions(block_producers=True))
    goals = np.array([[float(steps.at(level).enter) for level in THRESHOLDS.values()]])
    found = forecast(task.history, goals, task.arriving, task.leaving)
    times = (task.until + values[0] for values in (found.eta, found.low, found.high))
    etas = {
        name: ThresholdEta(*(float(x) for x in row))
        for name, row in zip(THRESHOLDS, zip(*times, strict=True), strict=True)
    }
    return UsageForecast(task.until, float(found.rate[0]), capacity, etas)


def as_status(forecast: UsageForecast, before: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The entry of the status: what stands there already, if the news do not matter."""
    entry: dict[str, Any] = {"bytesPerSecond": _coarse(forecast.rate)}
    for name, eta in forecast.etas.items():
        known = (before or {}).get(name)
        if eta.at - forecast.made <= _HORIZON * (_LONGER if known else 1.0):
            entry[name] = known if known and _same(eta, known, forecast.made) else _written(eta)
    rest = {name: entry[name] for name in entry if name != "bytesPerSecond"}
    if before is not None and rest == {name: before[name] for name in before if name != "bytesPerSecond"}:
        slack = max(_LITTLE * abs(forecast.rate), _STILL * forecast.capacity / DAY)
        if abs(forecast.rate - before["bytesPerSecond"]) <= slack:
            return before
    return entry


def _same(eta: ThresholdEta, known: Mapping[str, Any], now: float) -> bool:
    """Whether what was reported of an ETA still holds well enough."""
    return all(_near(getattr(eta, part), _read(known.get(part)), now) for part in ("at", "low", "high"))


def _near(found: float, known: float, now: float) -> bool:
    far = now + _HORIZON * _LONGER
    if found > far or known > far:
        return found > far and known > far
    return abs(found - known) <= max(_MOMENT, _LITTLE * max(found - now, 0.0))


def _written(eta: ThresholdEta) -> dict[str, str]:
    parts = {"at": eta.at, "low": eta.low, "high": eta.high}
    return {name: _stamp(value) for name, value in parts.items() if np.isfinite(value) and value < _YEAR_9999}


def _stamp(at: float) -> str:
    """To the minute: nothing here is known to the second."""
    return datetime.fromtimestamp(round(at / 60) * 60, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _read(text: object) -> float:
    return float("inf") if not isinstance(text, str) else datetime.fromisoformat(text).timestamp()


def _coarse(rate: float) -> int:
    """Two digits."""
    unit = 10.0 ** max(0, len(str(int(abs(rate)))) - 2)
    return int(round(rate / unit) * unit)
