"""What holds of any forecast, whatever the disks did."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spindle.forecast.forecast import Forecast, forecast
from spindle.forecast.history import Columns, History, gather

CAPACITY = 1e12
LEVELS = [0.7, 0.8, 0.85, 0.95]


@st.composite
def histories(draw: st.DrawFn) -> History:
    """A few disks with trends, seasons, drops, bursts and stillness; hourly or finer, hours or weeks of it."""
    step = draw(st.sampled_from([300.0, 3600.0]))
    samples = draw(st.sampled_from([2, 3, 7, 30, 75, 400]))
    disks = draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    flow = rng.lognormal(0, draw(st.sampled_from([0.0, 0.3, 1.5])), (disks, samples))
    flow *= rng.choice([0.0, 1e-5, 1e-4, 3e-3], (disks, 1)) * CAPACITY
    for _ in range(draw(st.integers(0, 4))):
        k, at = rng.integers(disks), rng.integers(samples)
        flow[k, at : at + rng.integers(1, 12)] += rng.choice([-0.3, -0.02, 0.02, 0.1]) * CAPACITY
    used = np.clip(np.cumsum(flow, axis=1) + 0.3 * CAPACITY, 0, CAPACITY)
    append = np.maximum(flow, 0) if draw(st.booleans()) else None
    return History(step, used, np.full(disks, CAPACITY), append)


def burst_under_way() -> History:
    """For three hours a disk has filled 17 times as fast as before; 0.8 lies within what the burst will bring, 0.85 just beyond."""
    flow = np.full((1, 75), 0.003 * CAPACITY)
    flow[:, -3:] += 0.05 * CAPACITY
    return History(3600.0, np.cumsum(flow, axis=1) + 0.322 * CAPACITY, np.full(1, CAPACITY), None)


def same(one: Forecast, other: Forecast) -> None:
    for name in ("rate", "eta", "low", "high"):
        np.testing.assert_allclose(
            getattr(one, name), getattr(other, name), rtol=1e-6, atol=1e-6, err_msg=name
        )


@settings(max_examples=100)
@given(histories())
@example(burst_under_way())
def test_ranges_hold_their_forecast_and_higher_levels_come_later(history: History) -> None:
    found = forecast(history, LEVELS)
    for values in (found.eta, found.low, found.high):
        assert values.shape == (len(history.used), len(LEVELS))
        assert not np.isnan(values).any()
        assert (values >= 0).all()
    assert (found.low <= found.eta).all()
    assert (found.eta <= found.high).all()
    assert (found.eta[:, :-1] <= found.eta[:, 1:]).all()
    reached = history.used[:, -1:] >= np.array(LEVELS) * CAPACITY
    assert (found.eta[reached] == 0).all()


@settings(max_examples=60)
@given(histories())
def test_each_disk_is_forecast_by_itself(history: History) -> None:
    together = forecast(history, LEVELS)
    for k in range(len(history.used)):
        append = None if history.append is None else history.append[k : k + 1]
        one = forecast(
            History(history.step, history.used[k : k + 1], history.capacity[k : k + 1], append), LEVELS
        )
        same(one, Forecast(*(getattr(together, name)[k : k + 1] for name in ("rate", "eta", "low", "high"))))


@settings(max_examples=60)
@given(histories(), st.sampled_from([2.0**-20, 2.0**10]))
def test_the_unit_of_bytes_does_not_matter(history: History, factor: float) -> None:
    append = None if history.append is None else history.append * factor
    scaled = forecast(History(history.step, history.used * factor, history.capacity * factor, append), LEVELS)
    plain = forecast(history, LEVELS)
    same(Forecast(scaled.rate / factor, scaled.eta, scaled.low, scaled.high), plain)


@settings(max_examples=60)
@given(histories(), st.floats(0, 0.2), st.floats(0, 0.2))
@example(burst_under_way(), 0.01, 0.0)
def test_what_arrives_brings_levels_nearer_and_what_leaves_takes_them_away(
    history: History, arriving: float, leaving: float
) -> None:
    plain = forecast(history, LEVELS)
    assert (forecast(history, LEVELS, arriving=arriving * CAPACITY).eta <= plain.eta).all()
    assert (forecast(history, LEVELS, leaving=leaving * CAPACITY).eta >= plain.eta).all()


@settings(max_examples=40)
@given(histories(), st.integers(0, 10**9))
def test_a_table_is_read_whatever_its_order_and_its_clock(history: History, start: int) -> None:
    disks, samples = history.used.shape
    t = start + history.step * np.arange(samples)
    order = np.random.default_rng(start).permutation(disks * samples)
    columns = Columns(
        disk=np.repeat(np.arange(disks), samples)[order],
        t=np.tile(t, disks)[order],
        used=history.used.ravel()[order],
        capacity=np.full(disks * samples, CAPACITY)[order],
        append=None if history.append is None else history.append.ravel()[order],
    )
    found = list(gather(columns))
    assert sorted(int(k) for names, _ in found for k in names) == list(range(disks))
    for names, one in found:
        for row, k in enumerate(names.tolist()):
            np.testing.assert_allclose(one.used[row], history.used[k], rtol=1e-9, atol=1)
