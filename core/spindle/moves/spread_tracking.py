"""Records partitions that healing left on fewer racks than before, until their rack spread is restored or another client moves them.

While a disk or a whole rack is unavailable, its replicas are rebuilt where there is space, possibly in a rack that already has a copy.
The record names these partitions, so that their spread can be restored later. Partitions that users placed on few racks are not in it.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from spindle.model.racks import PlacementError, count_racks, rack_of
from spindle.moves.journal import EVACUATE, Journal, Move
from spindle.moves.kafka_index import KafkaIndex, PartitionKey
from spindle.moves.spread_violations import SpreadViolation

MOST: Final = 20_000  # entries: they share the journal's room with the moves


class SpreadTracker:
    """The record of one step of the executor."""

    def __init__(self, look: KafkaIndex, journal: Journal) -> None:
        """Start from the recorded violations.

        Args:
            look: the state of Kafka; brokers and partitions must be known.
            journal: the current journal.
        """
        self._look = look
        self._entries = {entry.key: entry for entry in journal.spread_violations}
        # The current assignment of these partitions is Spindle's own.
        self._ours = {move.key for move in journal.moves} | {entry.key for entry in journal.dropped}
        self._ours |= {entry.key for entry in journal.removed}
        self._racks = _racks_of(look)

    def begun(self, move: Move) -> None:
        """Record a move that starts, if it leaves its partition on fewer racks than before."""
        partition = self._look.partitions.get(move.key)
        if move.reason != EVACUATE or move.within or partition is None or self._racks is None:
            return
        entry = self._entries.get(move.key)
        if entry is None and len(self._entries) >= MOST:
            return
        before = set(partition.replicas) - set(partition.adding)
        after = before - {move.source} | {move.target}
        racks = max(count_racks(before, self._racks), entry.racks if entry is not None else 0)
        if count_racks(after, self._racks) < racks:
            self._entries[move.key] = SpreadViolation(*move.key, racks=racks, brokers=tuple(sorted(after)))

    def standing(self, ours: Collection[PartitionKey]) -> tuple[SpreadViolation, ...]:
        """The violations that stay recorded.

        Args:
            ours: partitions that Spindle is moving, or from which it dropped or removes a replica, after this step.
        """
        kept = (self._still(entry, ours) for _, entry in sorted(self._entries.items()))
        return tuple(entry for entry in kept if entry is not None)

    def _still(self, entry: SpreadViolation, ours: Collection[PartitionKey]) -> SpreadViolation | None:
        partition = self._look.partitions.get(entry.key)
        if partition is None:
            return None
        if self._racks is None or entry.key in ours or partition.adding or partition.removing:
            return entry
        stand = tuple(sorted(partition.replicas))
        if (stand != entry.brokers and entry.key not in self._ours) or count_racks(
            stand, self._racks
        ) >= entry.racks:
            return None
        return replace(entry, brokers=stand)


def _racks_of(look: KafkaIndex) -> Mapping[int, str] | None:
    try:
        return rack_of({b: broker.rack for b, broker in look.brokers.items()})
    except PlacementError:
        return None
