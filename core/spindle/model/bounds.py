"""The thresholds of one disk in bytes: where each usage level starts, and where it ends."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from spindle.api import quantity
from spindle.api.thresholds import LastResortActions, Thresholds, UsageLevel

BY_LABEL: Final = {usage_level.label: usage_level for usage_level in UsageLevel}

USED_PERCENT: Final = "UsedPercent"
BYTES_FREE: Final = "BytesFree"

# The levels between RejectMoves and BlockProducers are evenly spaced: 91, 92, 93 and 94 % by default.
_BETWEEN: Final = tuple(
    level for level in UsageLevel if UsageLevel.REJECT_MOVES < level < UsageLevel.BLOCK_PRODUCERS
)
# Levels whose action must be enabled, and the field that enables it.
_ENABLED_BY: Final = {
    level: level.name.lower() for level in UsageLevel if level.name.lower() in LastResortActions.model_fields
}


@dataclass(frozen=True)
class LevelBounds:
    """Where one usage level starts and ends.

    Attributes:
        enter: used bytes at which it starts.
        leave: used bytes below which it ends.
        by: which threshold is the stricter one: ``UsedPercent`` or ``BytesFree``.
    """

    level: UsageLevel
    enter: int
    leave: int
    by: str


@dataclass(frozen=True)
class DiskBounds:
    """All usage levels of one disk, from the lowest to the highest, without disabled ones."""

    capacity: int
    steps: tuple[LevelBounds, ...]

    def at(self, lowest: UsageLevel) -> LevelBounds:
        """The bounds of a level, or of the next enabled one above it; otherwise of the highest."""
        return next((level for level in self.steps if level.level >= lowest), self.steps[-1])


@lru_cache(maxsize=1024)
def disk_bounds(
    capacity: int, thresholds: Thresholds, actions: LastResortActions | None = None
) -> DiskBounds:
    """Convert thresholds to used bytes of a disk of this capacity; of percent and free bytes the stricter one counts.

    No level starts later than the next one, whatever thresholds for free bytes are configured.

    Args:
        capacity: bytes of the file system.
        thresholds: thresholds of the cluster or of the pool.
        actions: the enabled last-resort actions; none if not given.
    """
    actions = actions or LastResortActions()
    hysteresis = capacity * thresholds.hysteresis // 100
    named = {
        UsageLevel.WARN: (thresholds.warn, thresholds.free.warn),
        UsageLevel.MOVE: (thresholds.move, thresholds.free.move),
        UsageLevel.CORDON: (thresholds.cordon, thresholds.free.cordon),
        UsageLevel.REJECT_MOVES: (thresholds.reject_moves, thresholds.free.reject_moves),
        UsageLevel.BLOCK_PRODUCERS: (thresholds.block_producers, thresholds.free.block_producers),
    }
    begins = {
        usage_level: _stricter(capacity, percent, free) for usage_level, (percent, free) in named.items()
    }
    reject, stop = begins[UsageLevel.REJECT_MOVES], begins[UsageLevel.BLOCK_PRODUCERS]
    for number, usage_level in enumerate(_BETWEEN, 1):
        way = (stop[0] - reject[0]) * number // (len(_BETWEEN) + 1)
        begins[usage_level] = reject[0] + max(0, way), reject[1]
    on = {level: getattr(actions, field) for level, field in _ENABLED_BY.items()}
    made: list[LevelBounds] = []
    for usage_level in sorted(begins, reverse=True):
        enter, by = begins[usage_level]
        if made:
            enter = min(enter, made[-1].enter)
        made.append(LevelBounds(usage_level, enter, max(0, enter - hysteresis), by))
    return DiskBounds(capacity, tuple(level for level in reversed(made) if on.get(level.level, True)))


def _stricter(capacity: int, percent: int, free: str | None) -> tuple[int, str]:
    """Used bytes at which the first of the two is reached, and which one that is."""
    by_percent = capacity * percent // 100
    if free is None:
        return by_percent, USED_PERCENT
    by_free = max(0, capacity - quantity.whole(free))
    return (by_free, BYTES_FREE) if by_free < by_percent else (by_percent, USED_PERCENT)
