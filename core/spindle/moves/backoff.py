"""Moves between dirs that an agent gave up rest for a while, longer each time, so that none is tried for ever."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from spindle.cluster.waiting import Waiting, counted
from spindle.moves.journal import Move, MoveBackoff
from spindle.moves.kafka_index import KafkaIndex

FIRST: Final = 600.0  # seconds
LONGEST: Final = 86_400.0
_REMEMBERED: Final = 86_400.0  # seconds after its rest for which it is known how often a move has failed


class MoveBackoffs:
    """Those that rest, while a step is being worked out."""

    def __init__(self, look: KafkaIndex, standing: Iterable[MoveBackoff], now: float) -> None:
        """Those on record; what is long past, and partitions that are gone, are forgotten."""
        self._now = now
        self._entries = {
            entry.id: entry
            for entry in standing
            if now < entry.until + _REMEMBERED and (entry.topic, entry.partition) in look.partitions
        }

    def failed(self, move: Move) -> None:
        """An agent gave a move up."""
        fresh = MoveBackoff(move.topic, move.partition, move.target, move.to_dir, 0, 0.0)
        before = self._entries.get(fresh.id, fresh)
        rest = min(LONGEST, FIRST * 2**before.times)
        self._entries[fresh.id] = replace(before, times=before.times + 1, until=self._now + rest)

    def landed(self, move: Move) -> None:
        """It came off after all."""
        self._entries.pop((*move.key, move.target, move.to_dir), None)

    def refuses(self, move: Move) -> Waiting | None:
        """Why a move must not begin yet; None if it may."""
        entry = self._entries.get((*move.key, move.target, move.to_dir))
        if entry is None or not move.within or self._now >= entry.until:
            return None
        minutes = round(min(LONGEST, FIRST * 2 ** (entry.times - 1)) / 60)
        return Waiting.refused(
            rule=None,
            reason="MoveBackOff",
            message=f"The move of {move.name} to {move.to_dir} of broker {move.target} was given up {counted(entry.times, 'time')}; "
            f"it rests for {minutes} minutes.",
            unblocked_by="Nothing: it is tried again by itself if it is still wanted. An event MoveFailed says what was in the way.",
            objects=(move.name,),
        )

    def standing(self) -> tuple[MoveBackoff, ...]:
        """For the next journal."""
        return tuple(self._entries[name] for name in sorted(self._entries))
