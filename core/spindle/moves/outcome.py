"""What one step of the executor comes to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from spindle.cluster.waiting import Waiting
from spindle.moves.intents import Intent
from spindle.moves.journal import Journal, Move


@dataclass(frozen=True)
class RefusedMove:
    """A wanted move that must not begin now, or one that was given up, and why.

    Attributes:
        given_up: it was in motion and is not any more.
    """

    move: Move
    refusal: Waiting
    given_up: bool = False


@dataclass(frozen=True)
class Progress:
    """How far a move is.

    Attributes:
        state: ``Queued`` (its agent has not begun), ``Copying``, ``Waiting`` (its target does not answer).
        bytes, copied: its size, and what of it stands on the chosen dir.
    """

    move: Move
    state: Literal["Queued", "Copying", "Waiting"]
    bytes: int
    copied: int


@dataclass(frozen=True)
class StepResult:
    """What one step comes to.

    Attributes:
        journal: to be written, if it differs, before any of the intents is carried out.
        actions: intents in order; the failure of one ends the step.
        refusals: wanted moves that did not begin for a reason that is worth telling (not: that their turn has not come), and
            moves that were given up.
        agent_moves: broker → moves between its dirs, in order: the whole of what its ``spec.moves`` is to hold. Brokers without
            any are left out.
        progress: of each move in the journal, in its order.
        landed: moves that were found done in this step.
        slowed: brokers whose disks are to be copied between as slowly as is allowed: a partition that nobody can write to catches up.
    """

    journal: Journal
    actions: tuple[Intent, ...] = ()
    refusals: tuple[RefusedMove, ...] = ()
    agent_moves: Mapping[int, tuple[Move, ...]] = field(default_factory=dict)
    progress: tuple[Progress, ...] = ()
    landed: tuple[Move, ...] = ()
    slowed: frozenset[int] = frozenset()
