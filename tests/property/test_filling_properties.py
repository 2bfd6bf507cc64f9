"""The ladder: it goes up at once, comes down with a release, and never flutters."""

from hypothesis import given
from hypothesis import strategies as st

from spindle.api.policy import FreeThresholds, LastResorts, Thresholds
from spindle.filling.levels import Levels, Rung, levels
from spindle.filling.rungs import decide

RESORTS = (Rung.RETENTION, Rung.DELETE_RECORDS, Rung.QUOTA, Rung.HARD_STOP)
CAPACITIES = st.integers(10**6, 10**14)
SHARES = st.floats(0, 1)
AHEAD = st.none() | st.floats(0, 10**6)


@st.composite
def thresholds(draw: st.DrawFn) -> Thresholds:
    warn, move, cordon, refuse, stop = sorted(
        draw(st.lists(st.integers(6, 99), min_size=5, max_size=5, unique=True))
    )
    free = {
        name: draw(st.none() | st.integers(2**20, 2**42).map(str))
        for name in ("warn", "move", "cordon", "refuse", "hard_stop")
    }
    release = draw(st.integers(1, 5))
    return Thresholds(
        warn=warn, move=move, cordon=cordon, refuse=refuse, hard_stop=stop, release=release, free=FreeThresholds(**free)
    )  # fmt: skip


@st.composite
def resorts(draw: st.DrawFn) -> LastResorts:
    on = {name: draw(st.booleans()) for name in LastResorts.model_fields}
    return LastResorts(**on)


@st.composite
def ladders(draw: st.DrawFn) -> Levels:
    return levels(draw(CAPACITIES), draw(thresholds()), draw(resorts()))


def used(of: Levels, share: float) -> int:
    return int(of.capacity * share)


@given(of=ladders())
def test_steps_stand_in_order(of: Levels) -> None:
    rungs = [level.rung for level in of.steps]
    assert rungs == sorted(rungs)
    assert [level.enter for level in of.steps] == sorted(level.enter for level in of.steps)
    assert all(0 <= level.leave <= level.enter <= of.capacity for level in of.steps)


@given(of=ladders(), share=SHARES, before=st.sampled_from(Rung), ahead=AHEAD)
def test_the_same_again_changes_nothing(of: Levels, share: float, before: Rung, ahead: float | None) -> None:
    once = decide(used(of, share), of, before, ahead)
    again = decide(used(of, share), of, once.rung, ahead)
    assert again.rung is once.rung


@given(of=ladders(), one=SHARES, other=SHARES, before=st.sampled_from(Rung), ahead=AHEAD)
def test_fuller_is_never_lower(
    of: Levels, one: float, other: float, before: Rung, ahead: float | None
) -> None:
    low, high = sorted((one, other))
    assert decide(used(of, low), of, before, ahead).rung <= decide(used(of, high), of, before, ahead).rung


@given(of=ladders(), share=SHARES, before=st.sampled_from(Rung))
def test_up_at_once_and_down_only_below_the_release(of: Levels, share: float, before: Rung) -> None:
    amount = used(of, share)
    now = decide(amount, of, before).rung
    assert all(now >= level.rung for level in of.steps if amount >= level.enter)
    assert all(now >= level.rung for level in of.steps if level.rung <= before and amount >= level.leave)
    if not any(amount >= level.leave for level in of.steps):
        assert now is Rung.FINE


@given(of=ladders(), shares=st.lists(SHARES, min_size=1, max_size=30), level=st.integers(0, 9))
def test_no_flutter_within_the_release(of: Levels, shares: list[float], level: int) -> None:
    """A fill that stays between where a step ends and where the next begins changes the step once at most."""
    step = of.steps[level % len(of.steps)]
    above = [other.enter for other in of.steps if other.enter > step.enter]
    low, high = step.leave, min([*above, of.capacity]) - 1
    rung, seen = Rung.FINE, []
    for share in shares:
        rung = decide(int(low + share * max(0, high - low)), of, rung).rung
        seen.append(rung)
    assert seen == sorted(seen)


@given(of=ladders(), share=SHARES, before=st.sampled_from(Rung), ahead=AHEAD)
def test_what_is_turned_off_is_never_done(
    of: Levels, share: float, before: Rung, ahead: float | None
) -> None:
    on = {level.rung for level in of.steps} | {Rung.FINE}
    assert decide(used(of, share), of, before, ahead).rung in on


@given(capacity=CAPACITIES, marks=thresholds(), share=SHARES, before=st.sampled_from(Rung))
def test_bytes_free_only_make_it_stricter(
    capacity: int, marks: Thresholds, share: float, before: Rung
) -> None:
    plain = marks.model_copy(update={"free": FreeThresholds()})
    on = LastResorts(retention=True, delete_records=True, quota=True, hard_stop=True)
    amount = int(capacity * share)
    strict = decide(amount, levels(capacity, marks, on), before)
    assert strict.rung >= decide(amount, levels(capacity, plain, on), before).rung


@given(of=ladders(), share=SHARES, before=st.sampled_from(Rung), ahead=st.floats(0, 10**6))
def test_a_forecast_only_warns_and_moves(of: Levels, share: float, before: Rung, ahead: float) -> None:
    amount = used(of, share)
    without, foreseen = decide(amount, of, before), decide(amount, of, before, ahead)
    assert foreseen.rung in (without.rung, Rung.WARNED, Rung.RELIEVING)
    assert foreseen.rung >= without.rung
