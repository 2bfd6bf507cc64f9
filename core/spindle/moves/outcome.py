"""The result of one step of the executor."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from spindle.model.waiting import Waiting
from spindle.moves.intents import Intent
from spindle.moves.journal import Journal, Move


@dataclass(frozen=True)
class RefusedMove:
    """A requested move that must not start now, or one that was abandoned, and why.

    Attributes:
        given_up: the move was running and has been abandoned.
    """

    move: Move
    refusal: Waiting
    given_up: bool = False


@dataclass(frozen=True)
class Progress:
    """Progress of a move.

    Attributes:
        state: ``Queued`` (its agent has not started), ``Copying``, ``Waiting`` (its target does not answer).
        bytes, copied: size of the replica, and bytes of it on the chosen dir.
    """

    move: Move
    state: Literal["Queued", "Copying", "Waiting"]
    bytes: int
    copied: int


@dataclass(frozen=True)
class StepResult:
    """Result of one step.

    Attributes:
        journal: the next journal; if it differs, it must be written before any intent is executed.
        actions: intents in order; the failure of one ends the step.
        refusals: requested moves that did not start for a reason that the user should know (not just the budget), and abandoned moves.
        agent_moves: broker → moves between its dirs, in order: the complete content of its ``spec.moves``. Brokers without any are
            left out.
        progress: progress of each move in the journal, in its order.
        landed: moves that were found done in this step.
        slowed: brokers that copy between their disks at the lower limit, because a partition below min.insync.replicas is catching up.
    """

    journal: Journal
    actions: tuple[Intent, ...] = ()
    refusals: tuple[RefusedMove, ...] = ()
    agent_moves: Mapping[int, tuple[Move, ...]] = field(default_factory=dict)
    progress: tuple[Progress, ...] = ()
    landed: tuple[Move, ...] = ()
    slowed: frozenset[int] = frozenset()
