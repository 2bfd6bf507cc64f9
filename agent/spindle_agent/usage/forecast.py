"""Makes a disk's forecast from its history; the status is updated only for significant changes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from spindle.api.thresholds import LastResortActions, Thresholds, UsageLevel
from spindle.forecast.forecast import forecast
from spindle.forecast.history import DAY, History
from spindle.model.bounds import disk_bounds

THRESHOLDS: Final = {
    "warnAt": UsageLevel.WARN,
    "moveAt": UsageLevel.MOVE,
    "cordonAt": UsageLevel.CORDON,
    "blockProducersAt": UsageLevel.BLOCK_PRODUCERS,
}
_HORIZON: Final = 28 * DAY
_LONGER: Final = 1.25  # times the horizon, up to which a forecast once reported stays reported
_LITTLE: Final = 0.1  # share of the remaining time or of the rate that counts as unchanged
_MOMENT: Final = 600.0  # seconds that count as unchanged
_YEAR_9999: Final = 250_000_000_000.0
_STILL: Final = 0.001  # share of the disk per day that counts as no growth


@dataclass(frozen=True)
class ThresholdEta:
    """When a threshold is reached: wall clock in seconds; infinite for never."""

    at: float
    low: float
    high: float


@dataclass(frozen=True)
class UsageForecast:
    """The forecast of one disk.

    Attributes:
        made: time of the forecast, wall clock in seconds.
        rate: growth in bytes per second.
        etas: by their name in the status.
    """

    made: float
    rate: float
    capacity: float
    etas: Mapping[str, ThresholdEta]


@dataclass(frozen=True)
class Task:
    """Input of a disk's forecast.

    Attributes:
        until: end of the history, wall clock in seconds.
        arriving, leaving: bytes that moves in flight will still add and free.
    """

    until: float
    history: History
    thresholds: Thresholds
    arriving: int = 0
    leaving: int = 0


def make_forecast(task: Task) -> UsageForecast:
    """Forecast one disk; takes a few milliseconds."""
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
    """The entry for the status; the existing entry if the change is not significant."""
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
    """Rounded to the minute, because forecasts are not accurate to the second."""
    return datetime.fromtimestamp(round(at / 60) * 60, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _read(text: object) -> float:
    return float("inf") if not isinstance(text, str) else datetime.fromisoformat(text).timestamp()


def _coarse(rate: float) -> int:
    """Round to two digits."""
    unit = 10.0 ** max(0, len(str(int(abs(rate)))) - 2)
    return int(round(rate / unit) * unit)
