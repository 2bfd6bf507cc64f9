"""The usage level of a disk, from its current usage, the forecast, and its previous level.

A level starts as soon as its threshold is reached, and ends only when usage is below the threshold by the hysteresis, so that small
changes of usage do not change the level all the time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from spindle.api.thresholds import EFFECTS, UsageLevel
from spindle.model.bounds import DiskBounds, LevelBounds

FORECAST: Final = "Forecast"
NOT_RELEASED: Final = "NotReleased"
ROOM: Final = "Room"

WARN_AHEAD: Final = 24 * 3600.0  # seconds before the expected cordon at which Spindle warns
MOVE_AHEAD: Final = 3600.0  # seconds before the expected cordon at which replicas are moved away
_LINGER: Final = 1.5  # hysteresis: the forecast must exceed the time by this factor before the level ends


@dataclass(frozen=True)
class LevelVerdict:
    """The usage level of a disk and its reason.

    Attributes:
        reason: ``UsedPercent``, ``BytesFree``, ``Forecast``, ``NotReleased`` or ``Room``.
        message: explanation with the numbers.
        used_percent: in whole percent, rounded down.
    """

    level: UsageLevel
    reason: str
    message: str
    used_percent: int


def decide_level(
    used: int, levels: DiskBounds, before: UsageLevel = UsageLevel.NORMAL, cordon_in: float | None = None
) -> LevelVerdict:
    """Determine the usage level of one disk.

    Args:
        used: used bytes.
        levels: bounds of this disk's levels.
        before: the previous level.
        cordon_in: seconds until the disk is expected to reach the cordon threshold; None for never or not known.
    """
    # The usual disk is below the first level, and no other one starts earlier.
    steps = levels.steps if before > UsageLevel.NORMAL or used >= levels.steps[0].enter else ()
    reached = _last(level for level in steps if used >= level.enter)
    held = _last(level for level in steps if level.level <= before and used >= level.leave)
    foreseen = _foreseen(used, levels, before, cordon_in)
    usage_level = max(reached, held, foreseen)
    percent = 100 * used // levels.capacity if levels.capacity else 0
    size = f"{percent} % of {levels.capacity / 1e9:.1f} GB is used"
    if usage_level is UsageLevel.NORMAL:
        return LevelVerdict(usage_level, ROOM, f"{size}. {EFFECTS[usage_level]}", percent)
    level = levels.at(usage_level)
    if reached is usage_level:
        edge = f"{usage_level.label} starts at {_percent(level.enter, levels)} %"
        return LevelVerdict(usage_level, level.by, f"{size}; {edge}. {EFFECTS[usage_level]}", percent)
    if held is usage_level:
        edge = f"level {usage_level.label} ends below {_percent(level.leave, levels)} %"
        return LevelVerdict(usage_level, NOT_RELEASED, f"{size}; {edge}. {EFFECTS[usage_level]}", percent)
    # A coarse time, so that the status is not written every second.
    ahead = "a day" if usage_level is UsageLevel.WARN else "an hour"
    edge = f"at its current growth the disk will reach the cordon threshold within about {ahead}"
    return LevelVerdict(usage_level, FORECAST, f"{size}; {edge}. {EFFECTS[usage_level]}", percent)


def _foreseen(used: int, levels: DiskBounds, before: UsageLevel, cordon_in: float | None) -> UsageLevel:
    """The level from the forecast alone. Moves are expensive, so below the warn threshold nothing is moved because of a forecast."""
    if cordon_in is None:
        return UsageLevel.NORMAL
    lingering = 1.0 if before < UsageLevel.MOVE else _LINGER
    warned = levels.at(UsageLevel.WARN)
    enough = used >= (warned.enter if before < UsageLevel.MOVE else warned.leave)
    if enough and cordon_in <= MOVE_AHEAD * lingering:
        return UsageLevel.MOVE
    lingering = 1.0 if before < UsageLevel.WARN else _LINGER
    return UsageLevel.WARN if cordon_in <= WARN_AHEAD * lingering else UsageLevel.NORMAL


def _percent(amount: int, levels: DiskBounds) -> int:
    return round(100 * amount / levels.capacity) if levels.capacity else 0


def _last(found: Iterable[LevelBounds]) -> UsageLevel:
    return max((level.level for level in found), default=UsageLevel.NORMAL)
