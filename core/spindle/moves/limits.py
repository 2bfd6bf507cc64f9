"""Limits on concurrent moves."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Budgets of the executor.

    Attributes:
        moves_per_broker: concurrent reassignments in which a broker takes part, as the target or as the leader that the
            copy is read from.
        moves_per_dir: replicas that are read from or written to one log dir concurrently, including copies inside its broker.
        small: size in bytes below which a replica counts as a fraction of a move (at least a twenty-fifth), so that many small
            replicas do not take forever.
        moves_in_all: maximum number of entries in the journal; further moves wait.
        queued_per_broker: maximum number of moves between dirs that one broker's agent has at a time (``spec.moves``).
        bytes_per_second: replication throttle of each broker, for sending and for receiving; None for none. It also limits
            the agent's copies between a broker's dirs.
        least_bytes_per_second: lower limit of the throttles, however high the load of the disks is; ignored if it is not less than
            ``bytes_per_second``.
        reject_moves: usage of a dir, as a share of its capacity, above which nothing is moved in: "no overfull target" (`docs/safety.md`, rule 4).
        ceilings: the same for single dirs (broker, path) with another limit.
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
        """The limit of one dir."""
        return self.ceilings.get((broker, path), self.reject_moves)
