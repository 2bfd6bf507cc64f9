"""How much may be in motion at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Budgets of the executor.

    Attributes:
        moves_per_broker: reassignments in which one broker takes part at a time, as the target or as the leader that the
            copy is read from.
        moves_per_dir: replicas that are read from or written to one log dir at a time, copies inside its broker included.
        small: bytes below which a replica counts as a part of a move only (at least a twenty-fifth), so that many small
            ones do not take for ever.
        moves_in_all: entries of the journal; what is wanted beyond that waits its turn.
        queued_per_broker: moves between dirs that one broker's agent is told of at a time (``spec.moves``).
        bytes_per_second: replication throttle of each broker, for what it sends and for what it takes; None for none. Also what
            the agent may copy between a broker's dirs.
        least_bytes_per_second: what the throttles do not fall below, however much the disks suffer; nothing if it is not less than
            ``bytes_per_second``.
        reject_moves: usage of a dir, as a share of its capacity, above which nothing may come in (rule 4).
        ceilings: the same for single dirs (broker, path) for which something else holds.
    """

    moves_per_broker: int = 5
    moves_per_dir: int = 2
    small: int = 64 * 2**20
    moves_in_all: int = 2000
    queued_per_broker: int = 200
    bytes_per_second: int | None = 50_000_000
    least_bytes_per_second: int = 1_000_000
    reject_moves: float = 0.90
    ceilings: Mapping[tuple[int, str], float] = field(default_factory=dict)

    def ceiling(self, broker: int, path: str) -> float:
        """What holds for one dir."""
        return self.ceilings.get((broker, path), self.reject_moves)
