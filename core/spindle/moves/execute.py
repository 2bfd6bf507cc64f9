"""One step of the executor: look at what is in motion, then begin what may begin, then see to throttles and what is put back."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Literal

from spindle.cluster.refusal import Refusal
from spindle.cluster.view import KafkaView
from spindle.moves.intents import Intent
from spindle.moves.journal import Journal, Move, SettingKey, Shrunk
from spindle.moves.limits import Limits


@dataclass(frozen=True)
class Refused:
    """A wanted move that must not begin now, or one that was given up, and why.

    Attributes:
        given_up: it was in motion and is not any more.
    """

    move: Move
    refusal: Refusal
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
class Outcome:
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
    """

    journal: Journal
    actions: tuple[Intent, ...] = ()
    refusals: tuple[Refused, ...] = ()
    agent_moves: Mapping[int, tuple[Move, ...]] = field(default_factory=dict)
    progress: tuple[Progress, ...] = ()
    landed: tuple[Move, ...] = ()


def execute(
    view: KafkaView,
    journal: Journal,
    wanted: Sequence[Move],
    limits: Limits,
    *,
    shrinks: Sequence[Shrunk] = (),
    lost: AbstractSet[int] = frozenset(),
    settings: Mapping[SettingKey, str] | None = None,
) -> Outcome:
    """Verify what is in motion, begin what may begin, and keep Kafka's settings as both need them.

    Whatever of Kafka is not known (``None`` in the view) permits nothing new and proves nothing done.

    Args:
        view: one look at Kafka.
        journal: what is in motion by our own record.
        wanted: moves in the order in which they are to begin. What is in the journal already need not be among them.
        limits: budgets.
        shrinks: replicas on dead dirs that are to leave their assignment now; the caller has asked rule 5 about this very view.
            They are noted in the journal first and stay there until a move without a source (the way back) has landed, or
            the replica is in sync on that broker again.
        lost: brokers that are not waited for any longer; moves to them are given up.
        settings: other dynamic configs that are to stand for as long as they are asked for ((kind, name, key) → value; a list such as
            ``cordoned.log.dirs`` is joined with the user's own), recorded and put back like the throttles.
    """
    raise NotImplementedError


def cleanup(view: KafkaView, journal: Journal) -> Outcome:
    """Before the cluster goes: cancel what is in motion, put back every setting. Done when the outcome's journal is empty.

    Args:
        view: one look at Kafka.
        journal: what is on record.
    """
    raise NotImplementedError
