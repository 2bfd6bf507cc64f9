"""Whatever the disks feel, a rate stays inside its bounds, and goes where it should in bounded time."""

from hypothesis import given
from hypothesis import strategies as st

from spindle.api.enums import Pressure
from spindle.moves.rate_control import RateBounds, steer

rates = st.integers(0, 10**10)
bounds = st.builds(RateBounds.of, st.one_of(st.none(), st.integers(1, 10**9)), st.integers(1, 10**9))
feelings = st.lists(st.sampled_from(Pressure), max_size=60)


@given(rates, bounds, feelings)
def test_never_outside_the_bounds(rate: int, inside: RateBounds, felt: list[Pressure]) -> None:
    for each in felt:
        rate = steer(rate, inside, each)
        assert inside.least <= rate <= inside.most


@given(rates, bounds, st.sampled_from([Pressure.CALM, Pressure.STRAINED]))
def test_what_lasts_leads_to_a_bound_in_thirty_steps(rate: int, inside: RateBounds, felt: Pressure) -> None:
    for _ in range(31):
        rate = steer(rate, inside, felt)
    assert rate == (inside.most if felt is Pressure.CALM else inside.least)


@given(rates, bounds)
def test_more_pressure_is_never_faster(rate: int, inside: RateBounds) -> None:
    calm, busy, strained = (steer(rate, inside, felt) for felt in Pressure)
    assert strained <= busy <= calm
