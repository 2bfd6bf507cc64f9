"""Verdict on whether a broker or controller may be taken down now."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from spindle.model.waiting import Waiting


@dataclass(frozen=True)
class RestartVerdict:
    """Whether a broker or controller may be taken down.

    Attributes:
        refusal: why not; None if it may.
        named: what the take-down makes temporarily unavailable although it is allowed, because this is unavoidable: partitions whose
            replication factor is not greater than min.insync.replicas, a quorum of one controller. For the event about the take-down.
    """

    refusal: Waiting | None = None
    named: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether it may be taken down."""
        return self.refusal is None


@dataclass(frozen=True)
class RolloutDecision:
    """The next step of a rolling restart.

    Attributes:
        go: node ids that may be taken down now, together with those that are already being taken down.
        refused: node id → why a safety rule forbids it.
        later: node ids that could be taken down, but wait for their turn.
    """

    go: tuple[int, ...] = ()
    refused: Mapping[int, Waiting] = field(default_factory=dict)
    later: tuple[int, ...] = ()
