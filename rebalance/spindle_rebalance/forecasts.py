"""Forecasts when each disk will be full, with core's forecaster over the whole history, and a back-test of the forecast.

The agent and ``spindle-forecast`` use the same forecaster (`spindle.forecast`), so the same history gives the
same result. Disks that were sampled at the same times are forecast together, as arrays.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spindle.forecast.forecast import forecast
from spindle.forecast.history import DAY, HOUR, Columns, Floats, History, gather
from spindle_rebalance.arrays import lists

HELD_OUT_S: Final = DAY  # length of the part held out in the back-test; a quarter of a short history
_SHARE: Final = 4
_LEAST_S: Final = 6 * HOUR  # a shorter history is not tested
_MOVED: Final = (
    0.001  # share of capacity: with less growth in the held-out part there was nothing to forecast
)
COLUMNS: Final = pa.schema(
    [
        ("broker", pa.int32()),
        ("dir", pa.string()),
        ("disk", pa.string()),
        ("kind", pa.string()),
        ("state", pa.string()),
        ("at_s", pa.float64()),
        ("capacity", pa.int64()),
        ("used", pa.int64()),
        ("samples", pa.int64()),
        ("history_s", pa.float64()),
        ("rate", pa.float64()),
        ("eta", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("error_h", pa.float64()),
        ("in_range", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class DiskForecasts:
    """Forecasts of some disks, all of shape (disks,); NaN with too little history, infinite for never.

    Attributes:
        rate: bytes per second.
        eta, low, high: seconds from the latest sample until the level is reached, and a range that holds in four of five cases.
    """

    rate: Floats
    eta: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Tested:
    """Accuracy of forecasts without the last part of the history, all of shape (disks,).

    Attributes:
        error_h: hours between the forecast and the actual peak of that part; NaN if nothing could be tested.
        in_range: 1 if the peak came within the forecast range, 0 if not, NaN likewise.
    """

    error_h: Floats
    in_range: Floats


def of_batch(batch: pa.RecordBatch, level: float) -> pa.RecordBatch:
    """One row per disk: its latest state, forecast and back-test.

    ``eta``, ``low`` and ``high`` are seconds from the disk's latest sample, infinite for never, null with too little
    history; ``error_h`` and ``in_range`` are null if the back-test had nothing to test.

    Args:
        batch: broker, and the columns of a disk in `features.BROKERS`.
        level: the level to reach, as a share of capacity above 0 and at most 1.
    """
    at_s, used, capacity, appended = (lists(batch, name) for name in ("at_s", "used", "capacity", "appended"))
    expected = DiskForecasts(*(np.full(batch.num_rows, np.nan) for _ in range(4)))
    tested = Tested(*(np.full(batch.num_rows, np.nan) for _ in range(2)))
    for rows, history in _alike(at_s, used, capacity, appended):
        found = forecast(history, [level])
        for name, values in (
            ("rate", found.rate),
            ("eta", found.eta),
            ("low", found.low),
            ("high", found.high),
        ):
            getattr(expected, name)[rows] = values.reshape(len(rows))
        done = backtest(history)
        tested.error_h[rows], tested.in_range[rows] = done.error_h, done.in_range
    within = [None if np.isnan(value) else bool(value) for value in tested.in_range.tolist()]
    return pa.RecordBatch.from_arrays(
        [
            *(batch.column(name) for name in ("broker", "dir", "disk", "kind", "state")),
            pa.array([each[-1] for each in at_s], pa.float64()),
            pa.array([each[-1] for each in capacity], pa.int64()),
            pa.array([each[-1] for each in used], pa.int64()),
            pa.array([len(each) for each in at_s], pa.int64()),
            pa.array([each[-1] - each[0] for each in at_s], pa.float64()),
            *(
                pa.array(values, pa.float64(), from_pandas=True)  # NaN becomes null
                for values in (expected.rate, expected.eta, expected.low, expected.high, tested.error_h)
            ),
            pa.array(within, pa.bool_()),
        ],
        schema=COLUMNS,
    )


def backtest(history: History) -> Tested:
    """Forecast the last part of a history: when usage reached its actual peak in that part."""
    count = history.used.shape[1]
    out = round(min(HELD_OUT_S, history.seconds / _SHARE) / history.step)
    nothing = np.full(len(history.used), np.nan)
    if history.seconds < _LEAST_S or out < 1 or count - out < 2:
        return Tested(nothing, nothing.copy())
    before = History(
        history.step,
        history.used[:, :-out],
        history.capacity,
        None if history.append is None else history.append[:, :-out],
    )
    rest = history.used[:, -out:].astype(np.float64)
    peak = rest.max(axis=1)
    came = (rest.argmax(axis=1) + 1) * history.step
    tested = peak - before.used[:, -1] > _MOVED * history.capacity
    found = forecast(before, peak[:, None])
    eta, low, high = found.eta[:, 0], found.low[:, 0], found.high[:, 0]
    error = np.abs(np.minimum(eta, out * history.step) - came) / HOUR
    within = ((low <= came) & (came <= high)).astype(np.float64)
    return Tested(np.where(tested, error, np.nan), np.where(tested, within, np.nan))


def _alike(
    at_s: list[Any], used: list[Any], capacity: list[Any], appended: list[Any]
) -> Iterator[tuple[NDArray[np.int64], History]]:
    """Groups of rows that were sampled at the same times, with their history; rows with a single sample are left out.

    They pass through the forecaster's `gather`, which makes uneven samples even.
    """
    groups: dict[tuple[bytes, bool], list[int]] = {}
    for k, times in enumerate(at_s):
        groups.setdefault((times.tobytes(), appended[k] is None), []).append(k)
    for (_, uncounted), rows in groups.items():
        each = len(at_s[rows[0]])
        columns = Columns(
            disk=np.repeat(np.array(rows), each),
            t=np.concatenate([at_s[k] for k in rows]),
            used=np.concatenate([used[k] for k in rows]),
            capacity=np.concatenate([capacity[k] for k in rows]),
            append=None if uncounted else np.concatenate([appended[k] for k in rows]),
        )
        yield from gather(columns)
