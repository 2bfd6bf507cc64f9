"""Verdict on whether a broker or controller may be taken down now."""

from dataclasses import dataclass

from spindle.cluster.waiting import Waiting


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
