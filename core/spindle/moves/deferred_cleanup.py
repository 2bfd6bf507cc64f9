"""Logs that Kafka has yet to delete: the space that they use will be free soon."""

from collections.abc import Iterable
from typing import Final

from spindle.moves.journal import DroppedReplica, Move, PendingCleanup, RemovedReplica
from spindle.moves.kafka_index import KafkaIndex

_LASTS: Final = 80.0  # seconds: file.delete.delay.ms is a minute, and an observation may be late


class CleanupTracker:
    """The pending deletions during one step of the executor."""

    def __init__(self, look: KafkaIndex, standing: Iterable[PendingCleanup], now: float) -> None:
        """Start from the recorded deletions, without those that are done by now."""
        self._look, self._now = look, now
        self._entries = {entry.id: entry for entry in standing if now < entry.until}

    def landed(self, move: Move) -> None:
        """Record that a move is done: Kafka will delete the log on its source."""
        if move.source is not None and move.from_dir is not None:
            self._note(move.key, move.source, move.from_dir, self._look.size(move.key, move.bytes))

    def left(self, entry: DroppedReplica | RemovedReplica) -> None:
        """Record that a replica leaves its assignment: Kafka will delete its log."""
        stands = self._look.standing(entry.broker, entry.key)
        if stands is not None:
            self._note(entry.key, entry.broker, stands.path, stands.replicas[entry.key])

    def _note(self, key: tuple[str, int], broker: int, path: str, size: int) -> None:
        if self._now > 0 and size > 0:
            entry = PendingCleanup(*key, broker, path, size, self._now + _LASTS)
            self._entries[entry.id] = entry

    def standing(self) -> tuple[PendingCleanup, ...]:
        """The entries for the next journal, sorted."""
        return tuple(self._entries[name] for name in sorted(self._entries))
