"""When disks will be full, next to the forecaster alone."""

from typing import Any

import numpy as np
import pytest

from bench.disks import STEP, make
from spindle.forecast.forecast import forecast
from spindle.forecast.history import DAY, History
from spindle_rebalance.forecasts import backtest
from spindle_rebalance.study import Study, exploded
from tests.unit.rebalance_samples import CLUSTER, at, disk, record, records, replica, sample

LEVEL = 0.85
DISKS = 6


def whole(history: History) -> History:
    """The same in whole bytes, as Kafka and file systems count."""
    assert history.append is not None
    return History(
        history.step,
        np.rint(history.used).astype(np.int64),
        np.rint(history.capacity).astype(np.int64),
        np.rint(history.append).astype(np.int64),
    )


def forecasts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The forecasts of a broker's disks."""
    row = Study(CLUSTER, LEVEL).broker(0, iter([records(rows)] if rows else []))
    found: list[dict[str, Any]] = exploded(row, "disks").to_pylist()
    return found


def through(history: History) -> list[dict[str, Any]]:
    """A history as the samples of one broker whose disks have one replica each."""
    assert history.append is not None
    rows = []
    for step in range(history.used.shape[1]):
        names = [f"/d{k}" for k in range(len(history.used))]
        replicas = [
            replica("t", k, 1, name, append_rate=float(history.append[k, step]) / STEP)
            for k, name in enumerate(names)
        ]
        disks = [
            disk(name, int(history.used[k, step]), capacity=int(history.capacity[k]))
            for k, name in enumerate(names)
        ]
        rows.append(record(sample(at(step), replicas, disks), step))
    return forecasts(rows)


def test_figures_are_those_of_the_forecaster_alone() -> None:
    history = whole(make(1, DISKS, 3).history)
    expected = forecast(history, [LEVEL])

    found = {row["dir"]: row for row in through(history)}

    for name in ("eta", "low", "high"):
        values = np.array([found[f"/d{k}"][name] for k in range(DISKS)])
        assert values == pytest.approx(getattr(expected, name)[:, 0], rel=1e-12)
    tested = backtest(history)
    errors = [found[f"/d{k}"]["error_h"] for k in range(DISKS)]
    assert [np.nan if each is None else each for each in errors] == pytest.approx(
        tested.error_h.tolist(), nan_ok=True
    )


def test_a_steady_disk_is_full_when_a_line_says_so() -> None:
    used = np.arange(1000, dtype=np.int64)[None, :] * 100 + 10**5
    history = History(STEP, used, np.array([10**6]), np.full((1, 1000), 100))
    (row,) = through(history)

    left = LEVEL * 10**6 - used[0, -1]
    assert row["eta"] == pytest.approx(left / 100 * STEP, rel=0.02)
    assert row["low"] <= row["eta"] <= row["high"]
    assert row["error_h"] == pytest.approx(0, abs=1)
    assert row["in_range"]


def test_one_sample_is_a_disk_without_a_forecast() -> None:
    history = History(STEP, np.array([[500]]), np.array([1000]), np.array([[1]]))
    (row,) = through(history)

    assert [row[name] for name in ("dir", "used", "rate", "eta", "error_h")] == ["/d0", 500, None, None, None]


def test_a_tenfold_jump_of_one_sample_is_no_trend() -> None:
    used = np.full((1, 600), 10**6, np.int64)
    used[0, 300] *= 10
    history = History(STEP, used, np.array([10**8]), np.zeros((1, 600)))
    (row,) = through(history)

    assert row["eta"] > 7 * DAY


def test_a_gap_is_drawn_over() -> None:
    rows = [
        record(
            sample(
                at(step),
                [replica("t", 0, 1, append_rate=1.0)],
                [disk(used=1000 + 300 * step, capacity=10**6)],
            ),
            step,
        )
        for step in range(400)
        if not 100 < step < 180
    ]
    (row,) = forecasts(rows)

    assert row["eta"] == pytest.approx((LEVEL * 10**6 - 1000 - 300 * 399) / 1.0, rel=0.02)


def test_no_disks_have_no_forecasts() -> None:
    assert forecasts([]) == []
    assert forecasts([record(sample(at(0), [replica("t", 0, 1)]), 0)]) == []
