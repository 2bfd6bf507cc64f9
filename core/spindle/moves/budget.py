"""The budget of concurrent moves, and whether one more fits."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from spindle.moves.journal import Move
from spindle.moves.kafka_index import KafkaIndex
from spindle.moves.limits import Limits

_LEAST: Final = 0.04  # weight of the smallest replica
_EPSILON: Final = 1e-9


class MoveBudget:
    """Concurrent moves per broker and per dir, including moves that others started."""

    def __init__(self, look: KafkaIndex, limits: Limits, running: Iterable[Move]) -> None:
        """Count the running moves.

        Args:
            look: one observation of Kafka.
            limits: limits on concurrent moves.
            running: the journal's moves, without moves between dirs that no agent has started.
        """
        self._look, self._limits = look, limits
        self._brokers: dict[int, float] = defaultdict(float)
        self._dirs: dict[tuple[int, str], float] = defaultdict(float)
        ours = set()
        for move in running:
            ours.add((move.target, move.key))
            self.take(move)
        for broker_id, broker in look.brokers.items():
            for log_dir in broker.log_dirs or ():
                for key in log_dir.futures:
                    if (broker_id, key) not in ours:
                        self._count(
                            [], self._both_ends(broker_id, key, log_dir.path), self._weight(look.size(key))
                        )

    def free(self, move: Move) -> bool:
        """Whether one more move may run in addition to the others."""
        weight = self._weight(self._look.size(move.key, move.bytes))
        brokers, dirs = self._used(move)
        return all(
            self._brokers[b] + weight <= self._limits.moves_per_broker + _EPSILON for b in brokers
        ) and all(self._dirs[d] + weight <= self._limits.moves_per_dir + _EPSILON for d in dirs)

    def take(self, move: Move) -> None:
        """Count one more move."""
        self._count(*self._used(move), self._weight(self._look.size(move.key, move.bytes)))

    def _count(self, brokers: Iterable[int], dirs: Iterable[tuple[int, str]], weight: float) -> None:
        for broker in brokers:
            self._brokers[broker] += weight
        for place in dirs:
            self._dirs[place] += weight

    def _weight(self, size: int) -> float:
        return min(1.0, max(_LEAST, size / self._limits.small))

    def _used(self, move: Move) -> tuple[list[int], list[tuple[int, str]]]:
        """Brokers and dirs that a move occupies: the target, and the source of the copy."""
        if move.within:
            return [], list(self._both_ends(move.target, move.key, move.to_dir))
        brokers, dirs = [move.target], [(move.target, move.to_dir)]
        partition = self._look.partitions.get(move.key)
        leader = partition.leader if partition is not None else None
        if leader is not None and leader != move.target:
            brokers.append(leader)
            stands = self._look.standing(leader, move.key)
            dirs += [(leader, stands.path)] if stands is not None else []
        return brokers, dirs

    def _both_ends(self, broker: int, key: tuple[str, int], to_dir: str) -> Iterator[tuple[int, str]]:
        yield broker, to_dir
        stands = self._look.standing(broker, key)
        if stands is not None and stands.path != to_dir:
            yield broker, stands.path
