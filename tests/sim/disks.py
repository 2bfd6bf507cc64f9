"""File systems and their contents. Kafka's processes, preflight and agents hold references to the file systems that they opened."""

from dataclasses import dataclass, field
from typing import Final, Literal

Key = tuple[str, int]  # topic and partition
State = Literal["well", "dead", "hung", "readonly", "slow"]
RECORD: Final = 1_000_000  # bytes of a record


@dataclass
class Log:
    """The log of a replica: the contents of its directory.

    Attributes:
        topic_id: of the topic that it was created for (``partition.metadata``).
        entries: (leader epoch, record id), oldest first.
        start: offset of the first entry; earlier ones were deleted on purpose (retention, DeleteRecords).
        written_at: time of the last write, by the node's clock.
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
        """Bytes on the disk."""
        return len(self.entries) * RECORD


@dataclass
class FileSystem:
    """One file system on one physical disk. A newly formatted disk is another one.

    Attributes:
        disk: name of the physical disk.
        uuid: of the file system.
        state: ``hung`` blocks every read and write, ``dead`` fails them, ``readonly`` fails writes, ``slow`` delays them.
        identity: Spindle's file at its root, None if there is none.
        meta: ``cluster.id``, ``node.id`` and ``directory.id`` of Kafka's meta.properties; None if there is none.
        logs: partition directories by (partition, suffix): suffix ``""`` for the replica, ``future``, ``delete``, ``stray``, or ``renamed`` by
            Spindle.
        clean: broker epoch in ``.kafka_cleanshutdown``; None if there is no such file.
        other_bytes: bytes of files that are not Kafka's.
        used_at: time of Kafka's last checkpoint on it, by the node's clock.
        hangs_since: start of its hang, if it hangs.
        buffers: while it hangs, appends to logs that are open go into the memory of its node, and Kafka acknowledges them.
        files: other small files by their path below the root (``spindle.json.pending``), and the directory ``log`` as an empty text.
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
    buffers: bool = False
    used_at: float = 0.0

    @property
    def used(self) -> int:
        """Used bytes."""
        return self.other_bytes + RECORD * sum([len(log.entries) for log in self.logs.values()])

    @property
    def free(self) -> int:
        """Free bytes."""
        return max(0, self.capacity - self.used)

    @property
    def readable(self) -> bool:
        """Whether a read succeeds."""
        return self.state in ("well", "slow", "readonly")

    @property
    def writable(self) -> bool:
        """Whether a write succeeds, apart from free space."""
        return self.state in ("well", "slow")

    @property
    def blocks(self) -> bool:
        """Whether whoever appends to a log waits."""
        return self.state == "hung" and not self.buffers

    @property
    def appends(self) -> bool:
        """Whether an append to a log succeeds, apart from free space."""
        return self.writable or (self.state == "hung" and self.buffers)


@dataclass
class Slot:
    """A slot for a disk on a node: the path of a local PersistentVolume.

    Attributes:
        fs: the file system that is mounted there; None: the path is an empty directory on the root file system.
    """

    node: str
    path: str
    fs: FileSystem | None
