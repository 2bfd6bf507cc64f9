"""Changes to KafkaBrokers, collected over one pass."""

from dataclasses import dataclass, field
from typing import Any

from spindle.model.broker_disks import disks_of
from spindle.model.snapshot import SnapshotObject


@dataclass
class BrokerRecords:
    """Changes to KafkaBrokers, collected over the steps and applied at the end: at most one write per broker.

    Attributes:
        fields: broker id → operator-owned fields of its spec. An empty field is left out of the apply, which removes it. A field that
            the object was created with has another field manager; set it to False instead.
        disks: (broker id, disk) → fields of that disk.
        fresh: broker id → entries of disks to add.
        dropped: (broker id, disk) of disks to remove.
    """

    fields: dict[int, dict[str, Any]] = field(default_factory=dict)
    disks: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)
    fresh: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    dropped: set[tuple[int, str]] = field(default_factory=set)

    def note(self, broker_id: int, **fields: Any) -> None:
        """Set fields of a broker's spec."""
        self.fields.setdefault(broker_id, {}).update(fields)

    def note_disk(self, broker_id: int, disk: str, **fields: Any) -> None:
        """Set fields of one disk."""
        self.disks.setdefault((broker_id, disk), {}).update(fields)

    def add_disk(self, broker_id: int, entry: dict[str, Any]) -> None:
        """Add a disk to a broker's record."""
        self.fresh.setdefault(broker_id, []).append(entry)

    def drop_disk(self, broker_id: int, disk: str) -> None:
        """Remove a disk from a broker's record."""
        self.dropped.add((broker_id, disk))

    def changed_disks(self, broker_id: int, broker: SnapshotObject) -> list[dict[str, Any]]:
        """The disks of a broker with all collected changes."""
        kept = [disk for disk in disks_of(broker) if (broker_id, disk["name"]) not in self.dropped]
        return [
            *({**disk, **self.disks.get((broker_id, disk["name"]), {})} for disk in kept),
            *self.fresh.get(broker_id, ()),
        ]
