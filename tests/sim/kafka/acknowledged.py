"""Records that were acknowledged to producers with acks=all, and the location of their copies."""

from collections.abc import Iterable
from dataclasses import dataclass

from tests.sim.disks import FileSystem, Key, Log

Ident = tuple[str, int]  # topic id and partition
_SICK = ("dead", "hung")
_LEFT = ("delete", "stray")  # suffixes of directories whose replica is no longer one


@dataclass(frozen=True)
class Loss:
    """Acknowledged records that Kafka no longer has.

    Attributes:
        how: what happened (``led by broker 1 now``).
        disk: a disk that still has them; empty if there is none.
    """

    topic: str
    partition: int
    records: int
    how: str
    disk: str

    def __str__(self) -> str:
        where = f"; they are on disk {self.disk}" if self.disk else ""
        return f"{self.records} of {self.topic[:20]}-{self.partition}, {self.how}{where}"


@dataclass
class _Doubt:
    """Records that a leader does not have, while the only disks with them have a fault: lost once such a disk is healthy again."""

    key: Key
    ident: Ident
    records: set[int]
    how: str


class AcknowledgedRecords:
    """Judges each leader's log when it starts to serve, each copy that is truncated or deleted, and all logs at the end."""

    def __init__(self) -> None:
        self.acked: dict[Ident, set[int]] = {}
        self.gone: dict[Ident, set[int]] = {}  # deleted on purpose
        self.accepted: list[tuple[int, str, frozenset[Key]]] = []
        self.losses: list[Loss] = []
        self.disks: list[FileSystem] = []
        self._doubts: list[_Doubt] = []

    def lost(self) -> list[Loss]:
        """All losses so far."""
        for doubt in list(self._doubts):
            fs = self._holder(doubt.key, doubt.ident, doubt.records, sick=False)
            if fs is not None:
                kept = doubt.records & _records(fs, doubt.key, doubt.ident)
                self.losses.append(Loss(*doubt.key, len(kept), doubt.how, fs.disk))
                self._doubts.remove(doubt)
        return self.losses

    def accept(self, broker: int, directory_id: str, partitions: Iterable[Key]) -> None:
        """A user accepts the loss of these records on one disk."""
        self.accepted.append((broker, directory_id, frozenset(partitions)))

    def knows(self, fs: FileSystem) -> None:
        """A disk is, or was, Kafka's."""
        if not any(each is fs for each in self.disks):
            self.disks.append(fs)

    def acknowledge(self, ident: Ident, records: Iterable[int]) -> None:
        """These were acknowledged to producers."""
        self.acked.setdefault(ident, set()).update(records)

    def delete(self, ident: Ident, records: Iterable[int]) -> None:
        """The deletion of these was requested."""
        self.gone.setdefault(ident, set()).update(records)

    def forget(self, ident: Ident) -> None:
        """The deletion of the topic was requested."""
        self.acked.pop(ident, None)
        self._doubts = [doubt for doubt in self._doubts if doubt.ident != ident]

    def serves(self, key: Key, ident: Ident, log: Log, how: str) -> None:
        """A log is the content of a partition from now on: does it have everything that was acknowledged?"""
        promised = self.acked.get(ident)
        if not promised:
            return
        missing = promised - {record for _, record in log.entries} - self.gone.get(ident, set())
        if not missing:
            return
        promised -= missing
        well = self._holder(key, ident, missing, sick=False)
        if well is not None:
            kept = missing & _records(well, key, ident)
            self.losses.append(Loss(*key, len(kept), how, well.disk))
        elif self._holder(key, ident, missing, sick=True) is not None:
            self._doubts.append(_Doubt(key, ident, missing, how))

    def destroys(
        self, fs: FileSystem, key: Key, log: Log, entries: Iterable[tuple[int, int]], how: str
    ) -> None:
        """Entries of a copy are removed. They must not be the last copies of acknowledged records."""
        ident = (log.topic_id, key[1])
        promised = self.acked.get(ident)
        if not promised:
            return
        going = {record for _, record in entries} & promised
        going -= self.gone.get(ident, set())
        for other in self.disks if going else ():
            for (held, _), copy in other.logs.items():
                if held == key and copy is not log and copy.topic_id == log.topic_id:
                    going -= {record for _, record in copy.entries}
        if going and not self._given_up(fs, key):
            self.losses.append(Loss(*key, len(going), how, ""))
            promised -= going

    def _holder(self, key: Key, ident: Ident, records: set[int], *, sick: bool) -> FileSystem | None:
        """A disk that has some of these records and whose loss was not accepted."""
        for fs in self.disks:
            if (
                (fs.state in _SICK) == sick
                and not self._given_up(fs, key)
                and records & _records(fs, key, ident, deleted=not self._was_accepted(key))
            ):
                return fs
        return None

    def _was_accepted(self, key: Key) -> bool:
        """Whether a user accepted the loss of this partition on any disk: what replicas that left before have left elsewhere no longer counts."""
        return any(key in keys for _, _, keys in self.accepted)

    def _given_up(self, fs: FileSystem, key: Key) -> bool:
        directory = (fs.meta or {}).get("directory.id")
        return any(key in keys and directory == d for _, d, keys in self.accepted)


def _records(fs: FileSystem, key: Key, ident: Ident, *, deleted: bool = True) -> set[int]:
    """A disk's records of a partition, in directories of any name; with ``deleted=False``, without those of replicas that left.

    Kafka is about to delete such a directory, or has set it aside as ``-stray``, because the broker was down when its replica left.
    """
    return {
        record
        for (held, suffix), log in fs.logs.items()
        if held == key and log.topic_id == ident[0] and (deleted or not suffix.startswith(_LEFT))
        for _, record in log.entries
    }
