"""How far up the ladder a disk is: by what is used now, by what is foreseen, and by where it was before.

A step is taken as soon as its level is reached, and undone only when the fill is below the level by the release, so that a disk
that fills and empties a little does not go up and down all the time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from spindle.thresholds.bounds import DiskBounds, LevelBounds, UsageLevel

FORECAST: Final = "Forecast"
NOT_RELEASED: Final = "NotReleased"
ROOM: Final = "Room"

WARN_AHEAD: Final = 24 * 3600.0  # seconds before the expected cordon at which a disk is warned of
MOVE_AHEAD: Final = 3600.0  # seconds before it at which replicas are moved away
_LINGER: Final = 1.5  # a forecast has to retreat so far before what it gave rise to is undone

_DOES: Final = {
    UsageLevel.NORMAL: "It has room.",
    UsageLevel.WARN: "Spindle takes no action yet.",
    UsageLevel.MOVE: "Spindle moves replicas to disks with more room.",
    UsageLevel.CORDON: "Kafka places no new replica on it, and Spindle moves replicas away.",
    UsageLevel.REJECT_MOVES: "Spindle moves nothing to it.",
    UsageLevel.DROP_REPLICAS: "Spindle drops a replica if enough others are in sync.",
    UsageLevel.REDUCE_RETENTION: "Spindle halves the retention of the topics that fill it.",
    UsageLevel.DELETE_RECORDS: "Spindle deletes the oldest records on it.",
    UsageLevel.THROTTLE_PRODUCERS: "Spindle throttles producers without a quota of their own.",
    UsageLevel.BLOCK_PRODUCERS: "Spindle blocks producers of the topics on it.",
}


@dataclass(frozen=True)
class LevelVerdict:
    """Where a disk is on the ladder.

    Attributes:
        reason: ``UsedPercent``, ``BytesFree``, ``Forecast``, ``NotReleased`` or ``Room``.
        message: the same as a sentence, with the numbers.
        used_percent: in whole per cent, rounded down.
    """

    level: UsageLevel
    reason: str
    message: str
    used_percent: int


def decide_level(
    used: int, levels: DiskBounds, before: UsageLevel = UsageLevel.NORMAL, cordon_in: float | None = None
) -> LevelVerdict:
    """Decide about one disk.

    Args:
        used: bytes in use.
        levels: of this disk.
        before: where it was.
        cordon_in: seconds until the forecast expects the level of the cordon to be reached; None for never or not known.
    """
    reached = _last(level for level in levels.steps if used >= level.enter)
    held = _last(level for level in levels.steps if level.level <= before and used >= level.leave)
    foreseen = _foreseen(used, levels, before, cordon_in)
    usage_level = max(reached, held, foreseen)
    percent = 100 * used // levels.capacity if levels.capacity else 0
    size = f"{percent} % of {levels.capacity / 1e9:.1f} GB is used"
    if usage_level is UsageLevel.NORMAL:
        return LevelVerdict(usage_level, ROOM, f"{size}. {_DOES[usage_level]}", percent)
    level = levels.at(usage_level)
    if reached is usage_level:
        edge = f"level {usage_level.label} starts at {_percent(level.enter, levels)} %"
        return LevelVerdict(usage_level, level.by, f"{size}; {edge}. {_DOES[usage_level]}", percent)
    if held is usage_level:
        edge = f"level {usage_level.label} ends below {_percent(level.leave, levels)} %"
        return LevelVerdict(usage_level, NOT_RELEASED, f"{size}; {edge}. {_DOES[usage_level]}", percent)
    # In coarse words: the status is not to be written for every second that passes.
    ahead = "a day" if usage_level is UsageLevel.WARN else "an hour"
    edge = f"at the present growth it reaches level Cordon within about {ahead}"
    return LevelVerdict(usage_level, FORECAST, f"{size}; {edge}. {_DOES[usage_level]}", percent)


def _foreseen(used: int, levels: DiskBounds, before: UsageLevel, cordon_in: float | None) -> UsageLevel:
    """What the forecast alone calls for. Moving costs, so below the level of the warning nothing is moved for it."""
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
