"""The forecaster on disks whose future is known; the command; and the published scorer, where it is at hand."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from spindle.forecast.forecast import Forecast, forecast
from spindle.forecast.history import DAY, HOUR, Columns, Floats, History, gather, without_moves
from spindle_cli.forecast import app

pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")
SHARED = Path(os.environ.get("SPINDLE_BENCH", Path(__file__).parents[3] / "shared" / "bench"))

STEP = 300.0
CAPACITY = 1e12
RATE = 0.02 * CAPACITY / DAY


def times(days: float) -> Floats:
    """Seconds of each sample, 0 being now."""
    return np.asarray((np.arange(round(days * DAY / STEP) + 1) - round(days * DAY / STEP)) * STEP, np.float64)


def noisy(flow: Floats, seed: int = 1) -> Floats:
    """Bytes of each step, with the unrest of real producers."""
    noise = np.random.default_rng(seed).lognormal(-0.045, 0.3, len(flow))
    return np.asarray(flow * STEP * noise)


def ending(appended: Floats, now: float = 0.6) -> Floats:
    """Bytes in use over time, such that they are a share of capacity now."""
    used = np.cumsum(appended)
    return np.asarray(used - used[-1] + now * CAPACITY)


def ask(used: Floats, append: Floats | None = None, level: float = 0.85, **more: Any) -> Forecast:
    return forecast(
        History(STEP, used[None, :], np.array([CAPACITY]), None if append is None else append[None, :]),
        [level],
        **more,
    )


def hours(found: Forecast) -> float:
    return float(found.eta[0, 0]) / HOUR


@pytest.mark.parametrize("days", [0.02, 0.25, 1.5, 3, 28])
def test_steady_growth_is_drawn_on(days: float) -> None:
    used = ending(np.full(len(times(days)), RATE * STEP))
    found = ask(used)
    assert found.rate[0] == pytest.approx(RATE)
    assert found.eta[0, 0] == pytest.approx(0.25 * CAPACITY / RATE, rel=1e-6)
    assert found.low[0, 0] <= found.eta[0, 0] <= found.high[0, 0]


def test_a_level_that_is_reached_already() -> None:
    assert hours(ask(ending(np.full(300, RATE * STEP), now=0.9))) == 0.0


def test_levels_may_be_bytes() -> None:
    used = ending(np.full(300, RATE * STEP))
    both = forecast(History(STEP, used[None, :], np.array([CAPACITY])), np.array([[0.7, 0.85]]) * CAPACITY)
    assert both.eta[0] == pytest.approx([0.1 * CAPACITY / RATE, 0.25 * CAPACITY / RATE])


def season(t: Floats, weekly: bool) -> Floats:
    shape = 1 + 0.8 * np.sin(2 * np.pi * t / DAY)
    if weekly:
        shape = shape * np.where((t // DAY) % 7 < 5, 1.3, 0.3)
    return np.asarray(shape)


@pytest.mark.parametrize("with_append", [True, False])
@pytest.mark.parametrize(("days", "weekly"), [(3, False), (28, False), (28, True)])
def test_the_seasons_that_a_history_shows_go_on(days: float, weekly: bool, with_append: bool) -> None:
    t = times(days)
    appended = noisy(RATE * season(t, weekly))
    used = ending(appended)
    ahead = np.asarray(np.arange(1, 4000) * STEP, np.float64)
    to_come = np.cumsum(RATE * season(ahead, weekly) * STEP)
    for missing in (
        0.02,
        0.05,
        0.1,
    ):  # of a hundred the forecaster may be off by four, however long that takes at night
        when = ask(used, appended if with_append else None, 0.6 + missing).eta[0, 0]
        assert np.interp(when, ahead, to_come) == pytest.approx(missing * CAPACITY, rel=0.04)


@pytest.mark.parametrize("ago", [12, 40])
@pytest.mark.parametrize("days", [3, 28])
def test_a_new_topic_counts_from_when_it_came(days: float, ago: float) -> None:
    t = times(days)
    appended = noisy(np.where(t < -ago * HOUR, 0.05 * RATE, RATE))
    assert hours(ask(ending(appended), appended)) == pytest.approx(0.25 * CAPACITY / RATE / HOUR, rel=0.1)


@pytest.mark.parametrize("days", [0.25, 3, 28])
def test_a_clean_up_happens_once(days: float) -> None:
    t = times(days)
    appended = noisy(np.full(len(t), RATE))
    used = ending(appended) + np.where(t < -3 * HOUR, 0.2 * CAPACITY, 0.0)
    assert hours(ask(used, appended)) == pytest.approx(0.25 * CAPACITY / RATE / HOUR, rel=0.12)


@pytest.mark.parametrize("days", [0.25, 3, 28])
@pytest.mark.parametrize("period", [0.4, 1.3, 2.7])
def test_what_retention_takes_again_does_not_fill(days: float, period: float) -> None:
    t = times(days)
    tooth = 0.01 * CAPACITY
    used = 0.78 * CAPACITY + (t / HOUR % period) / period * tooth
    append = np.full(len(t), tooth / period / HOUR * STEP)
    assert hours(ask(used, append)) > 7 * 24
    assert hours(ask(used)) > 7 * 24


@pytest.mark.parametrize("hours_since", [1, 6, 11])
def test_quiet_hours_between_deletions_are_no_growth(hours_since: float) -> None:
    t = times(28)
    appended = noisy(np.full(len(t), 0.05 * CAPACITY / DAY))
    drops = np.floor((t - t[0]) / HOUR / 12 + (12 - hours_since) / 12) != np.floor(
        (t - t[0] - STEP) / HOUR / 12 + (12 - hours_since) / 12
    )
    used = np.cumsum(appended) - np.cumsum(np.where(drops, 0.025 * CAPACITY, 0.0))
    assert hours(ask(used - used[-1] + 0.75 * CAPACITY, appended)) > 7 * 24


def test_growth_that_has_stopped_is_over() -> None:
    t = times(28)
    appended = noisy(np.where(t > -5 * HOUR, 0.02 * RATE, RATE))
    assert hours(ask(ending(appended), appended)) > 7 * 24


def test_a_burst_is_no_trend_but_may_go_on() -> None:
    t = times(28)
    burst = np.where(t > -2 * HOUR, 0.05 * CAPACITY / (2 * HOUR), 0.0)
    appended = noisy(np.full(len(t), 0.05 * RATE)) + burst * STEP
    found = ask(ending(appended, now=0.75), appended)
    assert hours(found) > 7 * 24
    assert found.low[0, 0] == pytest.approx(4 * HOUR, rel=0.1)  # 10 % are missing, at 2.5 % an hour


def test_a_burst_is_expected_to_last_as_long_again() -> None:
    t = times(28)
    appended = noisy(np.full(len(t), 0.05 * RATE)) + np.where(
        t > -2 * HOUR, 0.05 * CAPACITY * STEP / (2 * HOUR), 0.0
    )
    found = ask(ending(appended, now=0.83), appended)
    assert found.eta[0, 0] == pytest.approx(0.02 / 0.025 * HOUR, rel=0.1)


def test_in_a_short_history_the_latest_counts() -> None:
    t = np.arange(-90, 1) * 60.0
    used = 0.5 * CAPACITY + np.where(t > -20 * 60, (t + 20 * 60) * 1e-4 * CAPACITY / 60, 0.0)
    found = forecast(History(60.0, used[None, :], np.array([CAPACITY])), [0.85])
    assert found.rate[0] == pytest.approx(1e-4 * CAPACITY / 60, rel=0.01)


def test_bursts_that_came_and_went_leave_no_trend() -> None:
    t = times(28)
    appended = noisy(np.full(len(t), 0.02 * RATE))
    used = np.cumsum(appended)
    for day in (-25, -17, -11, -4):
        came = (t > day * DAY) & (t <= day * DAY + 3 * HOUR)
        appended = appended + np.where(came, 0.06 * CAPACITY * STEP / (3 * HOUR), 0)
        used = (
            used
            + np.cumsum(np.where(came, 0.06 * CAPACITY / came.sum(), 0))
            - np.where(t > day * DAY + 20 * HOUR, 0.06 * CAPACITY, 0)
        )
    assert hours(ask(used - used[-1] + 0.78 * CAPACITY, appended)) > 7 * 24


def test_what_moves_brought_is_no_growth() -> None:
    t = times(3)
    moved = np.where((t > -10 * HOUR) & (t <= 0), 0.001 * CAPACITY, 0.0)
    used = 0.5 * CAPACITY + np.cumsum(moved) + np.cumsum(np.full(len(t), RATE * STEP))
    found = ask(without_moves(used, moved))
    assert found.eta[0, 0] == pytest.approx((0.85 * CAPACITY - used[-1]) / RATE, rel=1e-6)
    assert found.rate[0] == pytest.approx(RATE, rel=1e-6)


def test_moves_in_flight_count() -> None:
    used = ending(np.full(900, RATE * STEP))
    plain, arriving = ask(used), ask(used, arriving=0.1 * CAPACITY)
    assert arriving.eta[0, 0] == pytest.approx(plain.eta[0, 0] * 0.6)
    leaving = ask(used, leaving=np.array([0.1 * CAPACITY]))
    assert leaving.eta[0, 0] == pytest.approx(plain.eta[0, 0] * 1.4)
    assert leaving.low[0, 0] == pytest.approx(plain.low[0, 0], rel=0.05)


def test_a_disk_that_empties_or_stands_still_never_fills() -> None:
    for rate in (-RATE, 0.0):
        found = ask(ending(np.full(900, rate * STEP)))
        assert np.isinf(found.eta).all()
        assert np.isinf(found.high).all()


def test_ranges_hold_about_as_often_as_they_say() -> None:
    made, days = 150, 3.0
    rng = np.random.default_rng(5)
    now = len(times(days))
    flow = RATE * STEP * rng.lognormal(-0.045, 0.3, (made, 1)) * rng.lognormal(-0.5, 1.0, (made, 2 * now))
    used = np.cumsum(flow, axis=1)
    used += 0.6 * CAPACITY - used[:, now - 1 : now]
    found = forecast(History(STEP, used[:, :now], np.full(made, CAPACITY), flow[:, :now]), [0.64])
    truth = (np.argmax(used[:, now:] >= 0.64 * CAPACITY, axis=1) + 1) * STEP
    held = ((found.low[:, 0] <= truth) & (truth <= found.high[:, 0])).mean()
    assert 0.7 <= held <= 0.97


def table(disks: int, days: float = 1.0) -> dict[str, np.ndarray]:
    n = len(times(days))
    return {
        "disk": np.repeat(np.arange(disks, dtype=np.int32), n),
        "t": np.tile(times(days).astype(np.int64) + 5_000_000, disks),
        "used": np.concatenate([ending(np.full(n, (k + 1) * RATE * STEP)) for k in range(disks)]),
        "capacity": np.full(disks * n, CAPACITY),
    }


def test_rows_may_come_in_any_order() -> None:
    rows = table(3)
    order = np.random.default_rng(3).permutation(len(rows["t"]))
    apart = list(gather(Columns(**{key: values[order] for key, values in rows.items()})))
    ((names, together),) = gather(Columns(**rows))
    assert names.tolist() == [0, 1, 2]
    assert [int(disk[0]) for disk, _ in apart] == [0, 1, 2]
    for k, (_, one) in enumerate(apart):
        assert one.used[0] == pytest.approx(together.used[k])
        assert one.step == together.step


def test_gaps_are_drawn_over() -> None:
    rows = table(1, days=3)
    keep = np.ones(len(rows["t"]), bool)
    keep[200:420] = False
    ((_, history),) = gather(Columns(**{key: values[keep] for key, values in rows.items()}))
    assert forecast(history, [0.85]).eta[0, 0] == pytest.approx(0.25 * CAPACITY / RATE, rel=1e-3)


def test_nothing_is_said_of_a_single_sample() -> None:
    rows = {key: values[:1] for key, values in table(1).items()}
    assert list(gather(Columns(**rows))) == []
    assert list(gather(Columns(**{key: values[:0] for key, values in rows.items()}))) == []


def test_the_command(tmp_path: Path) -> None:
    rows = table(4)
    future = rows["t"] > 5_000_000 - 2 * HOUR
    source, out = tmp_path / "h.parquet", tmp_path / "f.parquet"
    rows["used"][future] = 1.0  # must not be looked at
    pq.write_table(pa.table({**rows, "future": future}), source)
    done = CliRunner().invoke(app, [str(source), "--level", "80", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "4 disks" in done.output
    answer = pq.read_table(out)
    assert answer.column_names == ["disk", "eta", "low", "high"]
    now = (rows["used"].reshape(4, -1))[:, ~future[: len(future) // 4]][:, -1]
    expected = [(0.8 * CAPACITY - used) / (k + 1) / RATE for k, used in enumerate(now)]
    assert answer["eta"].to_pylist() == pytest.approx(expected, rel=1e-6)


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    for name, content in (("not-there", None), ("broken", b"no parquet"), ("lacking", "used")):
        source = tmp_path / f"{name}.parquet"
        if isinstance(content, bytes):
            source.write_bytes(content)
        elif content is not None:
            rows = table(1)
            del rows[content]
            pq.write_table(pa.table(rows), source)
        done = CliRunner().invoke(app, [str(source), "--out", str(tmp_path / "f.parquet")])
        assert done.exit_code == 2
        assert "cannot forecast" in done.output


@pytest.mark.skipif(not (SHARED / "score_forecast.py").is_file(), reason="no scorer at hand")
def test_the_published_scorer(tmp_path: Path) -> None:
    source, out = tmp_path / "h.parquet", tmp_path / "f.parquet"
    make = [sys.executable, str(SHARED / "make_history.py"), str(source), "--disks", "48", "--seed", "77"]
    subprocess.run(make, check=True, capture_output=True)
    assert CliRunner().invoke(app, [str(source), "--out", str(out)]).exit_code == 0
    judge = [sys.executable, str(SHARED / "score_forecast.py"), str(source), str(out), "--json"]
    score = json.loads(subprocess.run(judge, check=True, capture_output=True, text=True).stdout)
    ours, plain = score["forecast"]["all"], score["predict_linear_6h"]["all"]
    assert ours["median_error_h"] <= 0.5 * plain["median_error_h"]
    assert ours["foreseen"] >= 0.9
    assert ours["false_alarms"] <= plain["false_alarms"]
