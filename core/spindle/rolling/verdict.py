"""The answer to "may it go down now?"."""

from dataclasses import dataclass

from spindle.cluster.waiting import Waiting


@dataclass(frozen=True)
class RestartVerdict:
    """May a broker or controller go down?

    Attributes:
        refusal: why not; None if it may.
        named: what going down makes unavailable for a while although it is allowed, because nothing could ever
            prevent it: partitions whose replication factor is no higher than min ISR, a quorum of one controller.
            For the event that announces the take-down.
    """

    refusal: Waiting | None = None
    named: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether it may go down."""
        return self.refusal is None
