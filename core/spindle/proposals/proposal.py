"""One KafkaRebalance, read."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

from pydantic import ValidationError

from spindle.api import rebalance as api
from spindle.moves.journal import Move
from spindle.proposals.move_states import read_move_states

REASON: Final = "rebalance"  # of a proposal's moves in the executor's journal


class ProposalPhase(StrEnum):
    """Where a proposal is in its life."""

    PROPOSED = "Proposed"
    APPROVED = "Approved"
    EXECUTING = "Executing"
    DONE = "Done"
    STOPPED = "Stopped"
    EXPIRED = "Expired"
    SUPERSEDED = "Superseded"
    FAILED = "Failed"

    @property
    def over(self) -> bool:
        """Whether nothing more becomes of it."""
        return self not in (ProposalPhase.PROPOSED, ProposalPhase.APPROVED, ProposalPhase.EXECUTING)


# What may follow on what; everything else never happens.
NEXT: Final[Mapping[ProposalPhase, frozenset[ProposalPhase]]] = {
    ProposalPhase.PROPOSED: frozenset(
        (
            ProposalPhase.APPROVED,
            ProposalPhase.EXECUTING,
            ProposalPhase.STOPPED,
            ProposalPhase.EXPIRED,
            ProposalPhase.SUPERSEDED,
            ProposalPhase.FAILED,
        )
    ),
    ProposalPhase.APPROVED: frozenset(
        (
            ProposalPhase.PROPOSED,
            ProposalPhase.EXECUTING,
            ProposalPhase.STOPPED,
            ProposalPhase.EXPIRED,
            ProposalPhase.SUPERSEDED,
            ProposalPhase.FAILED,
        )
    ),
    ProposalPhase.EXECUTING: frozenset((ProposalPhase.DONE, ProposalPhase.STOPPED, ProposalPhase.FAILED)),
    **{phase: frozenset() for phase in ProposalPhase if phase.over},
}


@dataclass(frozen=True)
class Proposal:
    """One KafkaRebalance as it stands.

    Attributes:
        raw: the object.
        spec: None if this version does not understand it; ``problem`` says why then.
    """

    raw: Mapping[str, Any]
    spec: api.KafkaRebalanceSpec | None
    problem: str = ""

    @property
    def name(self) -> str:
        """``metadata.name``."""
        return str(self.raw["metadata"]["name"])

    @property
    def uid(self) -> str:
        """``metadata.uid``."""
        return str(self.raw["metadata"].get("uid", ""))

    @property
    def status(self) -> Mapping[str, Any]:
        """Its status as it stands."""
        return self.raw.get("status") or {}

    @property
    def phase(self) -> ProposalPhase:
        """Where it is by its own record; one without any has just been made."""
        try:
            return ProposalPhase(self.status.get("phase") or ProposalPhase.PROPOSED)
        except ValueError:
            return ProposalPhase.FAILED  # a word of another version: nothing is done about it

    @property
    def deleting(self) -> bool:
        """Whether it is on its way out."""
        return bool(self.raw["metadata"].get("deletionTimestamp"))

    @property
    def age(self) -> tuple[str, str]:
        """What proposals are ordered by: when it was made, then its name."""
        return str(self.raw["metadata"].get("creationTimestamp") or ""), self.name

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """Its moves as the executor takes them."""
        return tuple(_move(move) for move in self.spec.moves) if self.spec is not None else ()

    @cached_property
    def waves(self) -> tuple[int, ...]:
        """The wave of each move; 0 where it names none."""
        return tuple(move.wave or 0 for move in self.spec.moves) if self.spec is not None else ()

    @cached_property
    def marks(self) -> tuple[str, ...]:
        """What has become of each move, by its record."""
        return read_move_states(self.status.get("outcomes"), len(self.moves))

    @property
    def dropped(self) -> tuple[Mapping[str, Any], ...]:
        """What was left out so far, as the status has it."""
        return tuple(self.status.get("dropped") or ())

    @property
    def leaders(self) -> tuple[api.Lead, ...]:
        """Partitions that are to have another preferred leader."""
        return tuple(self.spec.leaders or ()) if self.spec is not None else ()

    @property
    def hash(self) -> str:
        """What its approval has to say."""
        return self.spec.input_hash if self.spec is not None else ""

    @property
    def bytes(self) -> int:
        """Bytes of all its moves, as they were planned."""
        return sum(move.bytes for move in self.moves)


def read_proposal(raw: Mapping[str, Any]) -> Proposal:
    """Read one object; one that is not understood stays readable as far as its metadata and status go."""
    try:
        return Proposal(raw, api.KafkaRebalanceSpec.model_validate(raw.get("spec") or {}))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return Proposal(raw, None, f"spec.{where}: {first['msg']}")


def _move(move: api.ProposedMove) -> Move:
    return Move(
        topic=move.topic,
        partition=move.partition,
        source=move.from_broker,
        from_dir=move.from_dir,
        target=move.to_broker,
        to_dir=move.to_dir,
        bytes=move.bytes,
        reason=REASON,
    )
