"""Logs that Kafka has yet to delete: what they take up is room that is about to come back."""

from collections.abc import Iterable
from typing import Final

from spindle.moves.journal import DroppedReplica, Move, PendingCleanup
from spindle.moves.kafka_index import KafkaIndex

_LASTS: Final = 80.0  # seconds: file.delete.delay.ms is a minute, and a look may come late


class CleanupTracker:
    """Those that stand, while a step is being worked out."""

    def __init__(self, look: KafkaIndex, standing: Iterable[PendingCleanup], now: float) -> None:
        """Those on record; what is surely deleted is forgotten."""
        self._look, self._now = look, now
        self._entries = {entry.id: entry for entry in standing if now < entry.until}

    def landed(self, move: Move) -> None:
        """A move is done: its source is left over."""
        if move.source is not None and move.from_dir is not None:
            self._note(move.key, move.source, move.from_dir, self._look.size(move.key, move.bytes))

    def shed(self, entry: DroppedReplica) -> None:
        """A replica leaves its assignment."""
        stands = self._look.standing(entry.broker, entry.key)
        if stands is not None:
            self._note(entry.key, entry.broker, stands.path, stands.replicas[entry.key])

    def _note(self, key: tuple[str, int], broker: int, path: str, size: int) -> None:
        if self._now > 0 and size > 0:
            entry = PendingCleanup(*key, broker, path, size, self._now + _LASTS)
            self._entries[entry.id] = entry

    def standing(self) -> tuple[PendingCleanup, ...]:
        """For the next journal."""
        return tuple(self._entries[name] for name in sorted(self._entries))
