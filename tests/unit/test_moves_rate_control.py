"""How fast replicas are copied."""

import pytest

from spindle.api.enums import Pressure
from spindle.moves.rate_control import RateBounds, highest, pressure, steer

BOUNDS = RateBounds(1_000_000, 50_000_000)


def test_a_strained_disk_halves_the_rate_down_to_the_lower_bound() -> None:
    rate, seen = BOUNDS.most, []
    for _ in range(8):
        rate = steer(rate, BOUNDS, Pressure.STRAINED)
        seen.append(rate)
    assert seen[:3] == [25_000_000, 12_500_000, 6_250_000]
    assert seen[-1] == BOUNDS.least


def test_calm_disks_get_it_back_in_equal_steps() -> None:
    rate, steps = BOUNDS.least, 0
    while rate < BOUNDS.most:
        before, rate, steps = rate, steer(rate, BOUNDS, Pressure.CALM), steps + 1
        assert rate - before <= 4_900_000
    assert steps == 10


def test_busy_disks_keep_it() -> None:
    assert steer(7_000_000, BOUNDS, Pressure.BUSY) == 7_000_000


def test_what_stood_there_outside_the_bounds_comes_inside() -> None:
    assert steer(90_000_000, BOUNDS, Pressure.BUSY) == BOUNDS.most
    assert steer(1, BOUNDS, Pressure.BUSY) == BOUNDS.least


@pytest.mark.parametrize("felt", Pressure)
def test_equal_bounds_make_a_fixed_rate(felt: Pressure) -> None:
    assert steer(123, RateBounds.of(None, 400_000), felt) == 400_000
    assert steer(123, RateBounds.of(1_000_000, 400_000), felt) == 400_000


@pytest.mark.parametrize(
    ("latency", "probe", "far", "expected"),
    [
        (None, None, False, Pressure.CALM),
        (5, 30, False, Pressure.CALM),
        (50, 30, False, Pressure.BUSY),
        (5, 300, False, Pressure.BUSY),
        (100, None, False, Pressure.STRAINED),
        (None, 1000, False, Pressure.STRAINED),
        (1, 1, True, Pressure.STRAINED),
    ],
)
def test_what_a_disk_feels(latency: float | None, probe: float | None, far: bool, expected: Pressure) -> None:
    assert pressure(latency, probe_ms=probe, far=far) is expected


def test_the_worst_of_all_disks_counts() -> None:
    assert highest([]) is Pressure.CALM
    assert highest([Pressure.BUSY, Pressure.STRAINED, Pressure.CALM]) is Pressure.STRAINED
