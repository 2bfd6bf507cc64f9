"""One KafkaRebalance, parsed."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from pydantic import ValidationError

from spindle.api import rebalance as api
from spindle.api.enums import ProposalPhase
from spindle.moves.journal import Move
from spindle.proposals.move_states import read_move_states

REASON: Final = "rebalance"  # reason of a proposal's moves in the executor's journal


@dataclass(frozen=True)
class Proposal:
    """One KafkaRebalance in its current state.

    Attributes:
        raw: the object.
        spec: None if this version cannot parse it; then ``problem`` says why.
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
        """Its current status."""
        return self.raw.get("status") or {}

    @property
    def phase(self) -> ProposalPhase:
        """Its recorded phase; Proposed if it has none yet."""
        try:
            return ProposalPhase(self.status.get("phase") or ProposalPhase.PROPOSED)
        except ValueError:
            return ProposalPhase.FAILED  # a phase of another version: the proposal is left unchanged

    @property
    def deleting(self) -> bool:
        """Whether it is being deleted."""
        return bool(self.raw["metadata"].get("deletionTimestamp"))

    @property
    def age(self) -> tuple[str, str]:
        """Sort key of proposals: creation time, then name."""
        return str(self.raw["metadata"].get("creationTimestamp") or ""), self.name

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """Its moves in the executor's format."""
        return tuple(_move(move) for move in self.spec.moves) if self.spec is not None else ()

    @cached_property
    def waves(self) -> tuple[int, ...]:
        """The wave of each move; 0 if it has none."""
        return tuple(move.wave or 0 for move in self.spec.moves) if self.spec is not None else ()

    @cached_property
    def marks(self) -> tuple[str, ...]:
        """The recorded state of each move."""
        return read_move_states(self.status.get("outcomes"), len(self.moves))

    @property
    def dropped(self) -> tuple[Mapping[str, Any], ...]:
        """Moves dropped so far, in the format of the status."""
        return tuple(self.status.get("dropped") or ())

    @property
    def leaders(self) -> tuple[api.Lead, ...]:
        """Partitions whose preferred leader changes."""
        return tuple(self.spec.leaders or ()) if self.spec is not None else ()

    @property
    def hash(self) -> str:
        """The hash that an approval must contain."""
        return self.spec.input_hash if self.spec is not None else ""

    @property
    def bytes(self) -> int:
        """Planned bytes of all its moves."""
        return sum(move.bytes for move in self.moves)


def read_proposal(raw: Mapping[str, Any]) -> Proposal:
    """Parse one object; of an invalid one the metadata and status remain readable."""
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
