"""The states of a disk and their transitions as one table; the documentation's diagram is generated from it.

The state is stored in the status of the KafkaBroker and may be lost; what must not be lost is in the spec (mode, directory id,
retired ids). `initial` derives the state from that.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from spindle.api.enums import DiskState, DiskVerdict
from spindle.disks.health import UNKNOWN, Health
from spindle.model import disk_facts as known

MEANINGS: Final[Mapping[DiskState, str]] = {
    DiskState.PROVISIONING: "Its volume is created, cleared and formatted; Kafka does not use it yet.",
    DiskState.ACTIVE: "Kafka uses it.",
    DiskState.CORDONED: "Kafka uses it but places no new replicas on it.",
    DiskState.FAILED: "It cannot serve its replicas. Nothing has been moved yet.",
    DiskState.EVACUATING: "Its replicas are rebuilt on other disks.",
    DiskState.EVACUATED: "It holds no replica any more and the broker runs without it: safe to pull. The slot waits for a new disk.",
    DiskState.REPLACING: "A new disk is in the slot and is being added to the broker.",
    DiskState.BACKFILLING: "Kafka has just started to use it; it is being backfilled by planned moves.",
    DiskState.DRAINING: "Its replicas are moved away, because the user requested it or the spec removes the disk.",
    DiskState.DRAINED: "It holds no replica any more and the broker runs without it: safe to pull.",
    DiskState.REMOVED: "It is no longer a disk of the broker. Its volume is kept for its owner.",
}


@dataclass(frozen=True, kw_only=True)
class DiskFacts:
    """The current facts about a disk. None is "not known" and permits nothing: "unknown is not absent" (`docs/safety.md`, rule 8).

    Attributes:
        mode: of the disk in the spec: ``Active``, ``Placeholder`` or ``Absent``.
        online: whether Kafka reports the log dir without an error.
        empty: whether no replica is on it ("no log dir removed with replicas on it", `docs/safety.md`, rule 5) and none is moving to it.
        out: whether the broker's pod is without the disk, and was created without it.
        may_empty: whether it may be evacuated automatically now ("no automatic action on many disks at once", `docs/safety.md`, rule 9),
            and evacuation is the remedy.
        new_disk: whether a blank disk that is not the previous one is in the slot.
        backfilled: whether the moves that backfill a new disk are done.
        cordon_requested, drain_requested: by the user.
        backfilling: whether its usage has reached the level Cordon.
        removing: whether the spec no longer has this disk.
        scaling_in: whether the spec no longer has its whole broker.
        released: whether its claim is deleted, so that its entry can be removed.
        added: whether it is new to an existing broker and has never held data.
        joining: whether its broker is new to an existing cluster.
        formatted: whether its claim records that it was formatted for this broker, or it is blank in place of a disk that was in use.
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
    formatted: bool = False

    @property
    def slow(self) -> bool:
        """Whether the disk is slow according to a current report."""
        return self.health.fresh and self.health.verdict == DiskVerdict.SLOW

    @property
    def in_use(self) -> bool:
        """Whether Kafka certainly uses it."""
        return self.online is True and self.mode == known.ACTIVE


Test = Callable[[DiskFacts], bool]

# The conditions of transitions, by the names in the diagram.
TRIGGERS: Final[Mapping[str, Test]] = {
    "in use": lambda f: f.in_use and not f.health.surely_bad,
    "new and in use": lambda f: (f.added or f.joining) and f.in_use and not f.health.surely_bad,
    "cordon requested": lambda f: f.cordon_requested,
    "usage high": lambda f: f.backfilling,
    "slow": lambda f: f.slow,
    "cause resolved": lambda f: f.health.well and not (f.cordon_requested or f.backfilling or f.slow),
    "failed": lambda f: f.health.surely_bad,
    # A new disk that is not mounted yet, or is not the right one, has not failed; nor has one that no pod uses yet. A disk of a re-adopted
    # broker has no recorded state and may have been formatted long ago.
    "unusable": lambda f: (
        f.health.surely_bad
        and (f.health.verdict == DiskVerdict.FAILED or f.mode != known.ACTIVE or f.formatted)
        and not (f.added and f.mode == known.ABSENT)
    ),
    "recovered": lambda f: f.in_use and f.health.well,
    "evacuation allowed": lambda f: f.health.surely_bad and f.may_empty,
    "empty and removed": lambda f: f.empty is True and f.out is True and f.mode == known.ABSENT,
    # Without a report, another volume counts as a new disk: preflight verifies that it is blank.
    "new disk": lambda f: (
        f.new_disk
        and (f.health.well or f.health.verdict == UNKNOWN)
        and not f.drain_requested
        and not f.removing
    ),
    "backfilled": lambda f: f.backfilled and f.in_use and f.health.well,
    "drain requested": lambda f: f.drain_requested,
    "disk removed from spec": lambda f: f.removing,
    "scale-in": lambda f: f.scaling_in,
    "drain cancelled": lambda f: f.in_use and f.health.well and not f.drain_requested and not f.removing,
    "claim deleted": lambda f: f.removing and f.released,
}


@dataclass(frozen=True)
class Transition:
    """One row of the table.

    Attributes:
        reason: of the event and of the status, in CamelCase.
        sentence: for the event, without its subject: the name of the disk precedes it.
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

# The first row that applies to the current state counts; failures precede requests.
TRANSITIONS: Final[tuple[Transition, ...]] = (
    *_rows(
        (_S.ACTIVE, _S.CORDONED, _S.REPLACING, _S.BACKFILLING, _S.DRAINING),
        "failed",
        _S.FAILED,
        "DiskFailed",
        "cannot serve its replicas.",
    ),
    *_rows((_S.PROVISIONING,), "unusable", _S.FAILED, "DiskFailed", "cannot be used."),
    *_rows(
        (_S.PROVISIONING,),
        "scale-in",
        _S.DRAINING,
        "ScaleInStarted",
        "is removed with its broker (scale-in).",
    ),
    *_rows(
        (_S.PROVISIONING,),
        "disk removed from spec",
        _S.DRAINING,
        "DiskRemovalStarted",
        "is removed: the spec no longer has it.",
    ),
    *_rows(
        (_S.PROVISIONING,),
        "new and in use",
        _S.BACKFILLING,
        "BackfillStarted",
        "is in use and is backfilled by planned moves.",
    ),
    *_rows((_S.PROVISIONING,), "in use", _S.ACTIVE, "DiskActive", "is in use."),
    *_rows(
        (_S.FAILED, _S.EVACUATING),
        "empty and removed",
        _S.EVACUATED,
        "DiskEvacuated",
        "is empty and removed from its broker: safe to pull.",
    ),
    *_rows(
        (_S.FAILED,),
        "evacuation allowed",
        _S.EVACUATING,
        "EvacuationStarted",
        "is being evacuated to other disks.",
    ),
    *_rows(
        (_S.FAILED, _S.EVACUATING), "recovered", _S.ACTIVE, "DiskRecovered", "has recovered and is in use."
    ),
    *_rows(
        (_S.EVACUATED, _S.DRAINED),
        "claim deleted",
        _S.REMOVED,
        "DiskRemoved",
        "is no longer a disk of the broker.",
    ),
    *_rows((_S.EVACUATED,), "drain requested", _S.DRAINED, "DiskDrained", "is drained, as requested."),
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
        "is in use again and is backfilled by planned moves.",
    ),
    *_rows(
        (*_IN_USE, _S.BACKFILLING),
        "drain requested",
        _S.DRAINING,
        "DrainRequested",
        "is being drained, as requested.",
    ),
    *_rows(
        (*_IN_USE, _S.BACKFILLING),
        "scale-in",
        _S.DRAINING,
        "ScaleInStarted",
        "is being drained: its broker is removed (scale-in).",
    ),
    *_rows(
        (*_IN_USE, _S.BACKFILLING),
        "disk removed from spec",
        _S.DRAINING,
        "DiskRemovalStarted",
        "is being drained: the spec no longer has it.",
    ),
    *_rows((_S.BACKFILLING,), "backfilled", _S.ACTIVE, "BackfillCompleted", "is backfilled."),
    *_rows(
        (_S.ACTIVE,),
        "cordon requested",
        _S.CORDONED,
        "CordonRequested",
        "is cordoned (no new replicas), as requested.",
    ),
    *_rows(
        (_S.ACTIVE,),
        "usage high",
        _S.CORDONED,
        "DiskUsageHigh",
        "is cordoned (no new replicas): it is nearly full.",
    ),
    *_rows((_S.ACTIVE,), "slow", _S.CORDONED, "DiskSlow", "is cordoned (no new replicas): it is slow."),
    *_rows((_S.CORDONED,), "cause resolved", _S.ACTIVE, "Uncordoned", "accepts new replicas again."),
    *_rows(
        (_S.DRAINING,),
        "empty and removed",
        _S.DRAINED,
        "DiskDrained",
        "is empty and removed from its broker: safe to pull.",
    ),
    *_rows(
        (_S.DRAINING, _S.DRAINED),
        "drain cancelled",
        _S.BACKFILLING,
        "DrainCancelled",
        "stays in use (drain cancelled) and is backfilled by planned moves.",
    ),
)

_FROM: Final = {
    state: tuple((row, TRIGGERS[row.trigger]) for row in TRANSITIONS if row.source is state)
    for state in DiskState
}


def step(state: DiskState, facts: DiskFacts) -> Transition | None:
    """The transition that is due; None if the state stays. One at a time: call again with the new state."""
    for row, due in _FROM[state]:
        if due(facts):
            return row
    return None


def initial(facts: DiskFacts) -> DiskState:
    """The state of a disk without a recorded state, or with one that this version does not know."""
    new = facts.added or (facts.joining and facts.mode == known.ACTIVE)
    if new and facts.mode != known.PLACEHOLDER:
        return DiskState.PROVISIONING
    if facts.mode == known.ABSENT:
        return DiskState.DRAINED if facts.drain_requested or facts.removing else DiskState.EVACUATED
    if facts.mode == known.PLACEHOLDER:
        return DiskState.FAILED
    return DiskState.ACTIVE if facts.online else DiskState.PROVISIONING
