"""The ladder: it goes up at once, comes down with a release, and never flutters."""

from hypothesis import given
from hypothesis import strategies as st

from spindle.api.thresholds import FreeThresholds, LastResortActions, Thresholds, UsageLevel
from spindle.model.bounds import DiskBounds, disk_bounds
from spindle.model.levels import decide_level

RESORTS = (
    UsageLevel.REDUCE_RETENTION,
    UsageLevel.DELETE_RECORDS,
    UsageLevel.THROTTLE_PRODUCERS,
    UsageLevel.BLOCK_PRODUCERS,
)
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
        for name in ("warn", "move", "cordon", "reject_moves", "block_producers")
    }
    release = draw(st.integers(1, 5))
    return Thresholds(
        warn=warn, move=move, cordon=cordon, reject_moves=refuse, block_producers=stop, hysteresis=release, free=FreeThresholds(**free)
    )  # fmt: skip


@st.composite
def resorts(draw: st.DrawFn) -> LastResortActions:
    on = {name: draw(st.booleans()) for name in LastResortActions.model_fields}
    return LastResortActions(**on)


@st.composite
def ladders(draw: st.DrawFn) -> DiskBounds:
    return disk_bounds(draw(CAPACITIES), draw(thresholds()), draw(resorts()))


def used(of: DiskBounds, share: float) -> int:
    return int(of.capacity * share)


@given(of=ladders())
def test_steps_stand_in_order(of: DiskBounds) -> None:
    levels = [level.level for level in of.steps]
    assert levels == sorted(levels)
    assert [level.enter for level in of.steps] == sorted(level.enter for level in of.steps)
    assert all(0 <= level.leave <= level.enter <= of.capacity for level in of.steps)


@given(of=ladders(), share=SHARES, before=st.sampled_from(UsageLevel), ahead=AHEAD)
def test_the_same_again_changes_nothing(
    of: DiskBounds, share: float, before: UsageLevel, ahead: float | None
) -> None:
    once = decide_level(used(of, share), of, before, ahead)
    again = decide_level(used(of, share), of, once.level, ahead)
    assert again.level is once.level


@given(of=ladders(), one=SHARES, other=SHARES, before=st.sampled_from(UsageLevel), ahead=AHEAD)
def test_fuller_is_never_lower(
    of: DiskBounds, one: float, other: float, before: UsageLevel, ahead: float | None
) -> None:
    low, high = sorted((one, other))
    assert (
        decide_level(used(of, low), of, before, ahead).level
        <= decide_level(used(of, high), of, before, ahead).level
    )


@given(of=ladders(), share=SHARES, before=st.sampled_from(UsageLevel))
def test_up_at_once_and_down_only_below_the_release(of: DiskBounds, share: float, before: UsageLevel) -> None:
    amount = used(of, share)
    now = decide_level(amount, of, before).level
    assert all(now >= level.level for level in of.steps if amount >= level.enter)
    assert all(now >= level.level for level in of.steps if level.level <= before and amount >= level.leave)
    if not any(amount >= level.leave for level in of.steps):
        assert now is UsageLevel.NORMAL


@given(of=ladders(), shares=st.lists(SHARES, min_size=1, max_size=30), level=st.integers(0, 9))
def test_no_flutter_within_the_release(of: DiskBounds, shares: list[float], level: int) -> None:
    """A fill that stays between where a step ends and where the next begins changes the step once at most."""
    step = of.steps[level % len(of.steps)]
    above = [other.enter for other in of.steps if other.enter > step.enter]
    low, high = step.leave, min([*above, of.capacity]) - 1
    level, seen = UsageLevel.NORMAL, []
    for share in shares:
        level = decide_level(int(low + share * max(0, high - low)), of, level).level
        seen.append(level)
    assert seen == sorted(seen)


@given(of=ladders(), share=SHARES, before=st.sampled_from(UsageLevel), ahead=AHEAD)
def test_what_is_turned_off_is_never_done(
    of: DiskBounds, share: float, before: UsageLevel, ahead: float | None
) -> None:
    on = {level.level for level in of.steps} | {UsageLevel.NORMAL}
    assert decide_level(used(of, share), of, before, ahead).level in on


@given(capacity=CAPACITIES, marks=thresholds(), share=SHARES, before=st.sampled_from(UsageLevel))
def test_bytes_free_only_make_it_stricter(
    capacity: int, marks: Thresholds, share: float, before: UsageLevel
) -> None:
    plain = marks.model_copy(update={"free": FreeThresholds()})
    on = LastResortActions(
        reduce_retention=True, delete_records=True, throttle_producers=True, block_producers=True
    )
    amount = int(capacity * share)
    strict = decide_level(amount, disk_bounds(capacity, marks, on), before)
    assert strict.level >= decide_level(amount, disk_bounds(capacity, plain, on), before).level


@given(of=ladders(), share=SHARES, before=st.sampled_from(UsageLevel), ahead=st.floats(0, 10**6))
def test_a_forecast_only_warns_and_moves(
    of: DiskBounds, share: float, before: UsageLevel, ahead: float
) -> None:
    amount = used(of, share)
    without, foreseen = decide_level(amount, of, before), decide_level(amount, of, before, ahead)
    assert foreseen.level in (without.level, UsageLevel.WARN, UsageLevel.MOVE)
    assert foreseen.level >= without.level
