"""How far up the ladder a disk is: by what is used now, by what is foreseen, and by where it was before.

A step is taken as soon as its level is reached, and undone only when the fill is below the level by the release, so that a disk
that fills and empties a little does not go up and down all the time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from spindle.filling.levels import Level, Levels, Rung

FORECAST: Final = "Forecast"
NOT_RELEASED: Final = "NotReleased"
ROOM: Final = "Room"

WARN_AHEAD: Final = 24 * 3600.0  # seconds before the expected cordon at which a disk is warned of
MOVE_AHEAD: Final = 3600.0  # seconds before it at which replicas are moved away
_LINGER: Final = 1.5  # a forecast has to retreat so far before what it gave rise to is undone

_DOES: Final = {
    Rung.FINE: "It has room.",
    Rung.WARNED: "Nothing is done yet.",
    Rung.RELIEVING: "Replicas are moved to disks with more room.",
    Rung.CORDONED: "Nothing new is placed on it, and replicas are moved away.",
    Rung.REFUSING: "No move may bring anything in.",
    Rung.SHEDDING: "A replica is given up where enough others are in sync.",
    Rung.RETENTION: "The retention of the topics that fill it is halved.",
    Rung.DELETE_RECORDS: "The oldest records on it are deleted.",
    Rung.QUOTA: "Producers without a quota of their own are slowed down.",
    Rung.HARD_STOP: "Producers of the topics on it are stopped.",
}


@dataclass(frozen=True)
class Verdict:
    """Where a disk is on the ladder.

    Attributes:
        reason: ``UsedPercent``, ``BytesFree``, ``Forecast``, ``NotReleased`` or ``Room``.
        message: the same as a sentence, with the numbers.
        used_percent: in whole per cent, rounded down.
    """

    rung: Rung
    reason: str
    message: str
    used_percent: int


def decide(used: int, levels: Levels, before: Rung = Rung.FINE, cordon_in: float | None = None) -> Verdict:
    """Decide about one disk.

    Args:
        used: bytes in use.
        levels: of this disk.
        before: where it was.
        cordon_in: seconds until the forecast expects the level of the cordon to be reached; None for never or not known.
    """
    reached = _last(level for level in levels.steps if used >= level.enter)
    held = _last(level for level in levels.steps if level.rung <= before and used >= level.leave)
    foreseen = _foreseen(used, levels, before, cordon_in)
    rung = max(reached, held, foreseen)
    percent = 100 * used // levels.capacity if levels.capacity else 0
    size = f"{percent} % of {levels.capacity / 1e9:.1f} GB is used"
    if rung is Rung.FINE:
        return Verdict(rung, ROOM, f"{size}. {_DOES[rung]}", percent)
    level = levels.at(rung)
    if reached is rung:
        edge = f"{rung.label} begins at {_percent(level.enter, levels)} %"
        return Verdict(rung, level.by, f"{size}; {edge}. {_DOES[rung]}", percent)
    if held is rung:
        edge = f"{rung.label} ends below {_percent(level.leave, levels)} %"
        return Verdict(rung, NOT_RELEASED, f"{size}; {edge}. {_DOES[rung]}", percent)
    # In coarse words: the status is not to be written for every second that passes.
    ahead = "a day" if rung is Rung.WARNED else "an hour"
    edge = f"at its present growth it will be cordoned within about {ahead}"
    return Verdict(rung, FORECAST, f"{size}; {edge}. {_DOES[rung]}", percent)


def _foreseen(used: int, levels: Levels, before: Rung, cordon_in: float | None) -> Rung:
    """What the forecast alone calls for. Moving costs, so below the level of the warning nothing is moved for it."""
    if cordon_in is None:
        return Rung.FINE
    lingering = 1.0 if before < Rung.RELIEVING else _LINGER
    warned = levels.at(Rung.WARNED)
    enough = used >= (warned.enter if before < Rung.RELIEVING else warned.leave)
    if enough and cordon_in <= MOVE_AHEAD * lingering:
        return Rung.RELIEVING
    lingering = 1.0 if before < Rung.WARNED else _LINGER
    return Rung.WARNED if cordon_in <= WARN_AHEAD * lingering else Rung.FINE


def _percent(amount: int, levels: Levels) -> int:
    return round(100 * amount / levels.capacity) if levels.capacity else 0


def _last(found: Iterable[Level]) -> Rung:
    return max((level.rung for level in found), default=Rung.FINE)
