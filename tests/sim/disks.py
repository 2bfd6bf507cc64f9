"""File systems and what stands on them. Kafka's processes, preflight and agents hold references to the file system that they opened."""

from dataclasses import dataclass, field
from typing import Final, Literal

Key = tuple[str, int]  # topic and partition
State = Literal["well", "dead", "hung", "readonly", "slow"]
RECORD: Final = 1_000_000  # bytes that one record takes


@dataclass
class Log:
    """A replica's log: what its folder holds.

    Attributes:
        topic_id: of the topic that it was made for (``partition.metadata``).
        entries: (leader epoch, record id), oldest first.
        start: offset of the first entry; what stood before it was deleted on purpose (retention, DeleteRecords).
        written_at: when it was last written to, by the node's clock.
    """

    topic_id: str
    entries: list[tuple[int, int]] = field(default_factory=list)
    start: int = 0
    written_at: float = 0.0

    @property
    def end(self) -> int:
        """Log end offset."""
        return self.start + len(self.entries)

    @property
    def bytes(self) -> int:
        """What it takes on the disk."""
        return len(self.entries) * RECORD


@dataclass
class FileSystem:
    """One file system on one physical disk. A disk that is formatted anew becomes another one.

    Attributes:
        disk: name of the physical disk.
        uuid: of the file system.
        state: ``hung`` blocks every read and write, ``dead`` fails them, ``readonly`` fails writes, ``slow`` delays them.
        identity: Spindle's file at its root, None if there is none.
        meta: ``cluster.id``, ``node.id`` and ``directory.id`` of Kafka's meta.properties; None if there is none.
        logs: partitions' folders by (partition, suffix): suffix ``""`` for the replica, ``future``, ``delete`` or ``stray``.
        clean: broker epoch in ``.kafka_cleanshutdown``; None if the file is not there.
        other_bytes: what files take that are not Kafka's.
        used_at: when Kafka last wrote a checkpoint to it, by the node's clock.
        hangs_since: when it began to hang, if it does.
        files: other small files by their path below the root (``spindle.json.pending``), and the folder ``log`` as an empty text.
    """

    disk: str
    uuid: str
    capacity: int
    state: State = "well"
    identity: dict[str, object] | None = None
    meta: dict[str, str] | None = None
    logs: dict[tuple[Key, str], Log] = field(default_factory=dict)
    clean: int | None = None
    other_bytes: int = 0
    files: dict[str, str] = field(default_factory=dict)
    hangs_since: float = 0.0
    used_at: float = 0.0

    @property
    def used(self) -> int:
        """Bytes in use."""
        return self.other_bytes + RECORD * sum([len(log.entries) for log in self.logs.values()])

    @property
    def free(self) -> int:
        """Bytes that can still be written."""
        return max(0, self.capacity - self.used)

    @property
    def readable(self) -> bool:
        """Whether a read ends well."""
        return self.state in ("well", "slow", "readonly")

    @property
    def writable(self) -> bool:
        """Whether a write ends well, room aside."""
        return self.state in ("well", "slow")


@dataclass
class Slot:
    """A place for a disk on a node: the path of a local PersistentVolume.

    Attributes:
        fs: what is mounted there now; None: the path is an empty folder on the root file system.
    """

    node: str
    path: str
    fs: FileSystem | None
