"""Back-off for moves between dirs that failed on the agent: each failure doubles the delay before the next attempt."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from spindle.model.waiting import Waiting, counted
from spindle.moves.journal import Move, MoveBackoff
from spindle.moves.kafka_index import KafkaIndex

FIRST: Final = 600.0  # seconds
LONGEST: Final = 86_400.0
_REMEMBERED: Final = 86_400.0  # seconds after the back-off for which the number of failures is remembered


class MoveBackoffs:
    """The back-offs during one step of the executor."""

    def __init__(self, look: KafkaIndex, standing: Iterable[MoveBackoff], now: float) -> None:
        """Start from the recorded back-offs, without expired ones and deleted partitions."""
        self._now = now
        self._entries = {
            entry.id: entry
            for entry in standing
            if now < entry.until + _REMEMBERED and (entry.topic, entry.partition) in look.partitions
        }

    def failed(self, move: Move) -> None:
        """Record that a move failed on the agent."""
        fresh = MoveBackoff(move.topic, move.partition, move.target, move.to_dir, 0, 0.0)
        before = self._entries.get(fresh.id, fresh)
        delay = min(LONGEST, FIRST * 2**before.times)
        self._entries[fresh.id] = replace(before, times=before.times + 1, until=self._now + delay)

    def landed(self, move: Move) -> None:
        """Forget the failures of a move that succeeded."""
        self._entries.pop((*move.key, move.target, move.to_dir), None)

    def refuses(self, move: Move) -> Waiting | None:
        """Why a move must not start yet; None if it may."""
        entry = self._entries.get((*move.key, move.target, move.to_dir))
        if entry is None or not move.within or self._now >= entry.until:
            return None
        minutes = round(min(LONGEST, FIRST * 2 ** (entry.times - 1)) / 60)
        return Waiting.refused(
            rule=None,
            reason="MoveBackOff",
            message=f"The move of {move.name} to {move.to_dir} of broker {move.target} failed {counted(entry.times, 'time')}; "
            f"Spindle tries it again after a back-off of {counted(minutes, 'minute')}.",
            unblocked_by="Nothing to do: Spindle tries the move again by itself if it is still needed. The event MoveFailed shows the cause.",
            objects=(move.name,),
        )

    def standing(self) -> tuple[MoveBackoff, ...]:
        """The entries for the next journal, sorted."""
        return tuple(self._entries[name] for name in sorted(self._entries))
