"""Thresholds of one disk in bytes: where each step of the ladder begins, and where it ends."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from spindle.api import quantity
from spindle.api.policy import LastResorts, Thresholds


class Rung(IntEnum):
    """The ladder, from its foot to its top; each step includes those below it."""

    FINE = 0
    WARNED = 1
    RELIEVING = 2
    CORDONED = 3
    REFUSING = 4
    SHEDDING = 5
    RETENTION = 6
    DELETE_RECORDS = 7
    QUOTA = 8
    HARD_STOP = 9

    @property
    def label(self) -> str:
        """As the status has it: ``DeleteRecords``."""
        return "".join(word.capitalize() for word in self.name.split("_"))


BY_LABEL: Final = {rung.label: rung for rung in Rung}

USED_PERCENT: Final = "UsedPercent"
BYTES_FREE: Final = "BytesFree"

# Between the refusal of moves and the hard stop the steps stand at even distances: 91, 92, 93 and 94 % by default.
_BETWEEN: Final = (Rung.SHEDDING, Rung.RETENTION, Rung.DELETE_RECORDS, Rung.QUOTA)


@dataclass(frozen=True)
class Level:
    """Where one step begins and ends.

    Attributes:
        enter: bytes in use from which on it is taken.
        leave: bytes in use below which it is undone.
        by: which threshold is the stricter one: ``UsedPercent`` or ``BytesFree``.
    """

    rung: Rung
    enter: int
    leave: int
    by: str


@dataclass(frozen=True)
class Levels:
    """All steps of one disk, from the lowest to the highest; those that are turned off are left out."""

    capacity: int
    steps: tuple[Level, ...]

    def at(self, rung: Rung) -> Level:
        """The level of a step, or of the next one above it that is turned on; else of the highest."""
        return next((level for level in self.steps if level.rung >= rung), self.steps[-1])


def levels(capacity: int, thresholds: Thresholds, resorts: LastResorts | None = None) -> Levels:
    """Turn thresholds into bytes in use of a disk of this capacity; of per cent and bytes free the stricter one counts.

    A step never begins later than the next one, whatever was written about bytes free.

    Args:
        capacity: bytes of the file system.
        thresholds: of the cluster or of the pool.
        resorts: the steps that are turned on; none if not given.
    """
    resorts = resorts or LastResorts()
    release = capacity * thresholds.release // 100
    named = {
        Rung.WARNED: (thresholds.warn, thresholds.free.warn),
        Rung.RELIEVING: (thresholds.move, thresholds.free.move),
        Rung.CORDONED: (thresholds.cordon, thresholds.free.cordon),
        Rung.REFUSING: (thresholds.refuse, thresholds.free.refuse),
        Rung.HARD_STOP: (thresholds.hard_stop, thresholds.free.hard_stop),
    }
    begins = {rung: _stricter(capacity, percent, free) for rung, (percent, free) in named.items()}
    refuse, stop = begins[Rung.REFUSING], begins[Rung.HARD_STOP]
    for number, rung in enumerate(_BETWEEN, 1):
        way = (stop[0] - refuse[0]) * number // (len(_BETWEEN) + 1)
        begins[rung] = refuse[0] + max(0, way), refuse[1]
    on = {
        Rung.RETENTION: resorts.retention,
        Rung.DELETE_RECORDS: resorts.delete_records,
        Rung.QUOTA: resorts.quota,
        Rung.HARD_STOP: resorts.hard_stop,
    }
    made: list[Level] = []
    for rung in sorted(begins, reverse=True):
        enter, by = begins[rung]
        if made:
            enter = min(enter, made[-1].enter)
        made.append(Level(rung, enter, max(0, enter - release), by))
    return Levels(capacity, tuple(level for level in reversed(made) if on.get(level.rung, True)))


def _stricter(capacity: int, percent: int, free: str | None) -> tuple[int, str]:
    """Bytes in use at which the first of both is reached, and which that is."""
    by_percent = capacity * percent // 100
    if free is None:
        return by_percent, USED_PERCENT
    by_free = max(0, capacity - quantity.whole(free))
    return (by_free, BYTES_FREE) if by_free < by_percent else (by_percent, USED_PERCENT)
