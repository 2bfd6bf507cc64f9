"""The life of a disk as one table: which state follows on which, and why. The manual's diagram is drawn from it.

The state stands in the status of the KafkaBroker and may be lost; what must not be is in the spec (mode, directory id,
retired ids). `initial` finds the state again from that.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from spindle.disks import facts as known
from spindle.disks.health import UNKNOWN, Health
from spindle.disks.signals import DiskVerdict


class DiskState(StrEnum):
    """Where a disk is in its life."""

    PROVISIONING = "Provisioning"
    ACTIVE = "Active"
    CORDONED = "Cordoned"
    FAILED = "Failed"
    EVACUATING = "Evacuating"
    EVACUATED = "Evacuated"
    REPLACING = "Replacing"
    BACKFILLING = "Backfilling"
    DRAINING = "Draining"
    DRAINED = "Drained"
    REMOVED = "Removed"


MEANINGS: Final[Mapping[DiskState, str]] = {
    DiskState.PROVISIONING: "Its volume is made, cleared and formatted; Kafka does not use it yet.",
    DiskState.ACTIVE: "Kafka uses it.",
    DiskState.CORDONED: "Kafka uses it, and places nothing new on it.",
    DiskState.FAILED: "It cannot serve its replicas. Nothing was moved yet.",
    DiskState.EVACUATING: "Its replicas are made anew on other disks.",
    DiskState.EVACUATED: "Nothing stands on it any more and the broker runs without it: safe to pull. The slot waits "
    "for a new disk.",
    DiskState.REPLACING: "A new disk is in the slot and is taken in.",
    DiskState.BACKFILLING: "Kafka uses it, since a moment ago; it is being filled by planned moves.",
    DiskState.DRAINING: "Its replicas are leaving it, since a person or the spec wants so.",
    DiskState.DRAINED: "Nothing stands on it any more and the broker runs without it: safe to pull.",
    DiskState.REMOVED: "It is no longer a disk of the broker. Its volume is kept for its owner.",
}


@dataclass(frozen=True, kw_only=True)
class DiskFacts:
    """What is so now. None is "not known", and permits nothing (rule 8).

    Attributes:
        mode: of the slot in the spec: ``Active``, ``Placeholder`` or ``Absent``.
        online: whether Kafka shows the log dir, without an error.
        empty: whether no replica stands on it (rule 5's definition) and none is owed to it.
        out: whether the broker's pod is without the disk, and was made so.
        may_empty: whether it may be emptied by itself now (rule 9, and what it calls for is evacuation).
        new_disk: whether a blank disk that is not the former one lies in the slot.
        backfilled: whether the moves that fill a new disk are done.
        cordon_requested, drain_requested: by a person.
        backfilling: whether it is fuller than the level at which disks are cordoned.
        removing: whether the spec has this disk no more.
        scaling_in: whether the spec has no more of its whole broker.
        released: whether its claim is gone, so that the slot itself can go.
        added: whether it is new to a broker that ran before, and nothing was ever on it.
        joining: whether its broker is new to a cluster that ran before.
    """

    health: Health
    mode: str = known.ACTIVE
    online: bool | None = None
    empty: bool | None = None
    out: bool | None = None
    may_empty: bool = False
    new_disk: bool = False
    backfilled: bool = False
    cordon_requested: bool = False
    drain_requested: bool = False
    backfilling: bool = False
    removing: bool = False
    scaling_in: bool = False
    released: bool = False
    added: bool = False
    joining: bool = False

    @property
    def slow(self) -> bool:
        """Whether the disk is surely slow now."""
        return self.health.fresh and self.health.verdict == DiskVerdict.SLOW

    @property
    def in_use(self) -> bool:
        """Whether Kafka surely uses it."""
        return self.online is True and self.mode == known.ACTIVE


Test = Callable[[DiskFacts], bool]

# What makes a transition happen, by the name that the diagram shows.
TRIGGERS: Final[Mapping[str, Test]] = {
    "in use": lambda f: f.in_use and not f.health.surely_bad,
    "joined": lambda f: (f.added or f.joining) and f.in_use and not f.health.surely_bad,
    "cordon requested": lambda f: f.cordon_requested,
    "filling": lambda f: f.backfilling,
    "slow": lambda f: f.slow,
    "no more cause": lambda f: f.health.well and not (f.cordon_requested or f.backfilling or f.slow),
    "failed": lambda f: f.health.surely_bad,
    # A new disk that is not mounted yet, or is not the right one, is none that failed; nor is one that no pod has yet.
    "unusable": lambda f: (
        f.health.surely_bad
        and (f.health.verdict == DiskVerdict.FAILED or f.mode != known.ACTIVE)
        and not (f.added and f.mode == known.ABSENT)
    ),
    "well again": lambda f: f.in_use and f.health.well,
    "may be emptied": lambda f: f.health.surely_bad and f.may_empty,
    "empty and out": lambda f: f.empty is True and f.out is True and f.mode == known.ABSENT,
    # Where nobody looks, another volume is one: preflight sees to it that it is blank.
    "new disk": lambda f: (
        f.new_disk
        and (f.health.well or f.health.verdict == UNKNOWN)
        and not f.drain_requested
        and not f.removing
    ),
    "filled": lambda f: f.backfilled and f.in_use and f.health.well,
    "drain requested": lambda f: f.drain_requested,
    "leaving": lambda f: f.removing,
    "broker leaves": lambda f: f.scaling_in,
    "wanted again": lambda f: f.in_use and f.health.well and not f.drain_requested and not f.removing,
    "released": lambda f: f.removing and f.released,
}


@dataclass(frozen=True)
class Transition:
    """One row of the table.

    Attributes:
        reason: of the event and of the status, in CamelCase.
        sentence: for the event; the disk is named before it.
    """

    source: DiskState
    trigger: str
    target: DiskState
    reason: str
    sentence: str


def _rows(
    sources: tuple[DiskState, ...], trigger: str, target: DiskState, reason: str, sentence: str
) -> tuple[Transition, ...]:
    return tuple(Transition(source, trigger, target, reason, sentence) for source in sources)


_S = DiskState
_IN_USE: Final = (_S.ACTIVE, _S.CORDONED)

# From the first row that applies to the present state; what is bad goes before what is requested.
TRANSITIONS: Final[tuple[Transition, ...]] = (
    *_rows(
        (_S.ACTIVE, _S.CORDONED, _S.REPLACING, _S.BACKFILLING, _S.DRAINING),
        "failed",
        _S.FAILED,
        "DiskFailed",
        "cannot serve its replicas.",
    ),
    *_rows((_S.PROVISIONING,), "unusable", _S.FAILED, "DiskFailed", "cannot be used."),
    *_rows((_S.PROVISIONING,), "broker leaves", _S.DRAINING, "ScaleInStarted", "goes with its broker."),
    *_rows((_S.PROVISIONING,), "leaving", _S.DRAINING, "DiskRemovalStarted", "is wanted no more."),
    *_rows(
        (_S.PROVISIONING,),
        "joined",
        _S.BACKFILLING,
        "BackfillStarted",
        "is in use, and is filled by planned moves.",
    ),
    *_rows((_S.PROVISIONING,), "in use", _S.ACTIVE, "DiskActive", "is in use."),
    *_rows(
        (_S.FAILED, _S.EVACUATING),
        "empty and out",
        _S.EVACUATED,
        "DiskEvacuated",
        "is empty and out of its broker: safe to pull.",
    ),
    *_rows(
        (_S.FAILED,),
        "may be emptied",
        _S.EVACUATING,
        "EvacuationStarted",
        "is being emptied onto other disks.",
    ),
    *_rows(
        (_S.FAILED, _S.EVACUATING), "well again", _S.ACTIVE, "DiskRecovered", "is well again, and in use."
    ),
    *_rows(
        (_S.EVACUATED, _S.DRAINED),
        "released",
        _S.REMOVED,
        "DiskRemoved",
        "is no disk of the broker any more.",
    ),
    *_rows((_S.EVACUATED,), "drain requested", _S.DRAINED, "DiskDrained", "is empty, as requested."),
    *_rows(
        (_S.EVACUATED, _S.DRAINED),
        "new disk",
        _S.REPLACING,
        "DiskReplaced",
        "has been replaced by a new disk.",
    ),
    *_rows(
        (_S.REPLACING,),
        "in use",
        _S.BACKFILLING,
        "BackfillStarted",
        "is in use again, and is filled by planned moves.",
    ),
    *_rows(
        (*_IN_USE, _S.BACKFILLING),
        "drain requested",
        _S.DRAINING,
        "DrainRequested",
        "is being emptied, as requested.",
    ),
    *_rows(
        (*_IN_USE, _S.BACKFILLING),
        "broker leaves",
        _S.DRAINING,
        "ScaleInStarted",
        "is being emptied: its broker leaves.",
    ),
    *_rows(
        (*_IN_USE, _S.BACKFILLING),
        "leaving",
        _S.DRAINING,
        "DiskRemovalStarted",
        "is being emptied: the spec has it no more.",
    ),
    *_rows((_S.BACKFILLING,), "filled", _S.ACTIVE, "BackfillCompleted", "carries its share again."),
    *_rows(
        (_S.ACTIVE,), "cordon requested", _S.CORDONED, "CordonRequested", "takes nothing new, as requested."
    ),
    *_rows((_S.ACTIVE,), "filling", _S.CORDONED, "DiskUsageHigh", "takes nothing new: it is nearly full."),
    *_rows((_S.ACTIVE,), "slow", _S.CORDONED, "DiskSlow", "takes nothing new: it is slow."),
    *_rows((_S.CORDONED,), "no more cause", _S.ACTIVE, "Uncordoned", "takes new replicas again."),
    *_rows(
        (_S.DRAINING,),
        "empty and out",
        _S.DRAINED,
        "DiskDrained",
        "is empty and out of its broker: safe to pull.",
    ),
    *_rows(
        (_S.DRAINING, _S.DRAINED),
        "wanted again",
        _S.BACKFILLING,
        "DrainCancelled",
        "is wanted again, and is filled by planned moves.",
    ),
)


def step(state: DiskState, facts: DiskFacts) -> Transition | None:
    """The transition that is due; None if the disk stays where it is. One at a time: ask again with the new state."""
    for row in TRANSITIONS:
        if row.source is state and TRIGGERS[row.trigger](facts):
            return row
    return None


def initial(facts: DiskFacts) -> DiskState:
    """The state of a disk of which none is on record, or which this version does not know."""
    new = facts.added or (facts.joining and facts.mode == known.ACTIVE)
    if new and facts.mode != known.PLACEHOLDER:
        return DiskState.PROVISIONING
    if facts.mode == known.ABSENT:
        return DiskState.DRAINED if facts.drain_requested or facts.removing else DiskState.EVACUATED
    if facts.mode == known.PLACEHOLDER:
        return DiskState.FAILED
    return DiskState.ACTIVE if facts.online else DiskState.PROVISIONING
