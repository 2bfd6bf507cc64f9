"""What healing left on fewer racks than it found it on: noted when such a move begins, forgotten when it is mended or somebody else's.

While a disk or a whole rack is away its replicas are made anew where there is room, and that may be a rack that holds another copy already.
The record says which partitions these are, so that they can be spread again when that is possible. What a person put together is not in it.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from spindle.moves.journal import EVACUATE, Journal, Move
from spindle.moves.kafka_index import KafkaIndex, PartitionKey
from spindle.moves.spread_violations import SpreadViolation
from spindle.placement.racks import PlacementError, count_racks, rack_of

MOST: Final = 20_000  # entries: they share the journal's room with the moves


class SpreadTracker:
    """The record of one step of the executor."""

    def __init__(self, look: KafkaIndex, journal: Journal) -> None:
        """Take up what is on record.

        Args:
            look: what Kafka says; brokers and partitions are known.
            journal: as it stands on record.
        """
        self._look = look
        self._entries = {entry.key: entry for entry in journal.spread_violations}
        # What these were put to, nobody but us has done.
        self._ours = {move.key for move in journal.moves} | {entry.key for entry in journal.dropped}
        self._racks = _racks_of(look)

    def begun(self, move: Move) -> None:
        """Note a move that begins, if it leaves its partition on fewer racks than it has."""
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
        """What stays on record.

        Args:
            ours: partitions that are in motion, or short of a replica, by our hand after this step.
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
