"""The forecaster's benchmark: quality next to a straight line through the last six hours, and what it costs.

    python -m bench.forecast [--seeds 2] [--disks 150] [--cost 12000]

The disks are made by `bench.disks`, whose topics come, are deleted, and are held by retention, with days, weeks and unrest of
their own; what is forecast is when a disk reaches 85 %. The line is what Prometheus' predict_linear draws. Time is processor time
from samples in memory to forecasts, next to numpy.polyfit for each disk (as one would write it) and for all disks in one call.
"""

import argparse
import sys
import time
from collections.abc import Callable
from typing import Final, TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.disks import STEP, make
from spindle.forecast.forecast import forecast
from spindle.forecast.history import DAY, HOUR, Floats, History

T = TypeVar("T")
_LEVEL: Final = 0.85
_WEEK: Final = 7 * DAY
_LOOKS: Final = ((28.0, "28 days"), (3.0, "3 days"), (0.25, "6 hours"))
_LINE: Final = round(6 * HOUR / STEP) + 1  # samples
_DEAREST: Final = 20.0  # times the line


def main() -> None:
    """Run; exit 1 if the forecast is further off than the line, or costs too much."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--disks", type=int, default=150, help="of each seed")
    parser.add_argument("--cost", type=int, default=12_000, help="disks to measure the cost on; 0 for none")
    args = parser.parse_args()
    console = Console(width=140)
    well = _quality(console, args.seeds, args.disks)
    if args.cost:
        well &= _cost(console, args.cost)
    sys.exit(0 if well else 1)


def line(history: History) -> Floats:
    """Seconds until a straight line through the last six hours reaches the level; infinite for never."""
    used = history.used[:, -_LINE:].astype(np.float64)
    at = (np.arange(used.shape[1]) - used.shape[1] + 1) * STEP
    slope, now = np.polyfit(at, used.T, 1)
    with np.errstate(divide="ignore"):
        eta = np.maximum((_LEVEL * history.capacity - now) / slope, 0.0)
    return np.where(slope > 0, eta, np.inf)


def _quality(console: Console, seeds: int, disks: int) -> bool:
    made = [make(seed, disks, _LOOKS[0][0]) for seed in range(1, seeds + 1)]
    truth = np.concatenate([each.truth(_LEVEL) for each in made])
    table = Table(box=None, header_style="bold")
    for name in (
        "history",
        "by",
        "median error h",
        "mean error h",
        "foreseen",
        "false alarms",
        "in the range",
    ):
        table.add_column(name, justify="left" if name in ("history", "by") else "right")
    well, reach = True, np.isfinite(truth)
    for days, title in _LOOKS:
        looks = [_last(each.history, days) for each in made]
        found = [forecast(look, [_LEVEL]) for look in looks]
        eta, low, high = (
            np.concatenate([getattr(each, name)[:, 0] for each in found]) for name in ("eta", "low", "high")
        )
        ours, theirs = _errors(eta, truth), _errors(np.concatenate([line(look) for look in looks]), truth)
        held = f"{((low <= truth) & (truth <= high))[reach].mean():.2f}"
        table.add_row(title, "forecast", *_row(ours), held)
        table.add_row("", "line", *_row(theirs), "")
        well &= ours[0] <= theirs[0]
    console.print(f"{len(truth)} disks, {int(reach.sum())} of which reach {_LEVEL:.0%} within a week\n")
    console.print(table)
    return well


def _last(history: History, days: float) -> History:
    samples = round(days * DAY / STEP) + 1
    assert history.append is not None  # noqa: S101 - these disks are counted
    return History(STEP, history.used[:, -samples:], history.capacity, history.append[:, -samples:])


def _errors(eta: Floats, truth: Floats) -> tuple[float, float, float, int]:
    """Median and mean error in hours, share foreseen, false alarms; never counts as a week."""
    reach, alarm = np.isfinite(truth), eta <= _WEEK
    error = np.abs(np.minimum(eta, _WEEK) - truth)[reach] / HOUR
    return (
        float(np.median(error)),
        float(error.mean()),
        float(alarm[reach].mean()),
        int((alarm & ~reach).sum()),
    )


def _row(errors: tuple[float, float, float, int]) -> tuple[str, ...]:
    median, mean, seen, false = errors
    return f"{median:.1f}", f"{mean:.1f}", f"{seen:.2f}", str(false)


def _cost(console: Console, disks: int) -> bool:
    """Three days of history of many disks; the same few over and over, which costs the same as so many."""
    some = make(1, 60, 3.0).history
    times = -(-disks // 60)
    assert some.append is not None  # noqa: S101 - these disks are counted
    history = History(
        STEP,
        np.tile(some.used, (times, 1))[:disks],
        np.tile(some.capacity, times)[:disks],
        np.tile(some.append, (times, 1))[:disks],
    )
    ours = min(_timed(lambda: forecast(history, [_LEVEL])) for _ in range(3))
    at_once = min(_timed(lambda: line(history)) for _ in range(3))
    each = _timed(lambda: [line(_row_of(history, k)) for k in range(disks)])
    console.print(
        f"\n{disks:,} disks with 3 days of history: {ours:.2f} s; a line through 6 hours {each:.2f} s disk by disk "
        f"(x {ours / each:.1f}), {at_once:.3f} s for all in one call (x {ours / at_once:.0f})"
    )
    return ours <= _DEAREST * each


def _row_of(history: History, disk: int) -> History:
    return History(STEP, history.used[disk : disk + 1], history.capacity[disk : disk + 1])


def _timed(work: Callable[[], T]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main()
