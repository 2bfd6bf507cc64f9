"""Which replicas are on which dir, as the safety rules define it (`docs/safety.md`).

"On a dead dir" means: assigned to the broker in metadata, minus the replicas on its live dirs; if the broker does not answer,
all that are assigned to it. It is unknown which of several dead dirs of a broker holds a replica: it counts for each.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from spindle.model.view import STORAGE_ERROR, Broker, KafkaView, LogDir, Partition

Key = tuple[str, int]  # topic, partition


class ReplicaIndex:
    """One view of Kafka, indexed by broker.

    What takes time linear in all replicas is kept by the view and its brokers, so that a second index of a view costs nothing.
    """

    def __init__(self, view: KafkaView) -> None:
        """Index a view."""
        self.view = view
        self.brokers = dict(view.brokers or {})
        self._lost: dict[int, frozenset[Key] | None] = {}

    @property
    def partitions(self) -> Mapping[Key, Partition]:
        """All partitions by topic and index."""
        return self.view.partition_index.by_key

    @property
    def assigned(self) -> Mapping[int, list[Partition]]:
        """Partitions by broker, as assigned in metadata, including replicas that are being added."""
        return self.view.partition_index.assigned

    @property
    def unsettled(self) -> Sequence[Partition]:
        """Partitions that are not `Partition.settled`."""
        return self.view.partition_index.unsettled

    @property
    def known(self) -> bool:
        """Whether brokers and partitions could be read at all: "unknown is not absent" (`docs/safety.md`, rule 8)."""
        view = self.view
        return view.error is None and view.partitions is not None and view.brokers is not None

    @property
    def problem(self) -> str:
        """Why they are not `known`, as a clause."""
        return self.view.error or "brokers or partitions could not be read"

    def holds(self, broker_id: int, key: Key) -> bool:
        """Whether a live broker reports the replica on a live dir; a broker that does not answer does not."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced and key in (broker.live or ())

    def dirs(self, broker_id: int) -> tuple[LogDir, ...] | None:
        """A broker's log dirs; None if it does not answer."""
        broker = self.brokers.get(broker_id)
        return broker.log_dirs if broker is not None else None

    def lost(self, broker_id: int) -> frozenset[Key] | None:
        """Replicas that are assigned to a broker in metadata but on none of its live dirs; None if it does not answer."""
        if broker_id not in self._lost:
            broker = self.brokers.get(broker_id)
            live = broker.live if broker is not None else None
            assigned = frozenset((p.topic, p.index) for p in self.assigned.get(broker_id, ()))
            self._lost[broker_id] = None if not self.known or live is None else assigned - live
        return self._lost[broker_id]

    def on(self, broker_id: int, path: str) -> frozenset[Key] | None:
        """Replicas that are, or may be, on one dir: None if that is not known.

        A dir that is in error, or that the broker does not report at all, may hold all replicas that are on none of the broker's live dirs.
        """
        dirs, lost = self.dirs(broker_id), self.lost(broker_id)
        if dirs is None or lost is None:
            return None
        for log_dir in dirs:
            if log_dir.path == path and not log_dir.error:
                return frozenset(log_dir.replicas) | frozenset(log_dir.futures)
        return lost

    def copies(self, key: Key, without: int) -> int:
        """Number of in-sync replicas on live dirs of live brokers, excluding one broker."""
        partition = self.partitions.get(key)
        return sum(self.holds(b, key) for b in partition.isr if b != without) if partition else 0

    def size_on(self, broker: int, key: Key) -> int:
        """Bytes of a broker's copy on a live dir; 0 if there is none."""
        return max(_sizes(self.brokers.get(broker), key), default=0)

    def size(self, key: Key) -> int:
        """Bytes of the largest copy on any live dir; 0 if there is none."""
        partition = self.partitions.get(key)
        brokers = partition.replicas if partition else ()
        return max((size for b in brokers for size in _sizes(self.brokers.get(b), key)), default=0)


def names_of(keys: Iterable[Key]) -> list[str]:
    """``topic-partition`` of each, sorted."""
    return sorted(f"{topic}-{index}" for topic, index in keys)


def view_for_planning(
    view: KafkaView,
    gone: Collection[tuple[int, str]],
    closed: Collection[tuple[int, str]] = (),
    dead: Collection[int] = (),
) -> KafkaView:
    """A view for planning: bad dirs are in error, closed ones cordoned, and every broker has log dirs.

    A broker that does not answer is neither lost nor a target: it is represented by one dir that holds all replicas that metadata
    assigns to it, and accepts none. So one silent broker does not block moves of the others.

    Args:
        view: with brokers and partitions known.
        gone: (broker, path) of dirs that are bad, whatever Kafka reports of them.
        closed: (broker, path) of dirs that accept no replicas.
        dead: brokers that are lost; they are left unchanged.
    """
    replica_index = ReplicaIndex(view)
    brokers: dict[int, Broker] = {}
    for broker_id, broker in replica_index.brokers.items():
        dirs = broker.log_dirs
        if dirs is None and broker_id not in dead:
            dirs = (_unanswered(replica_index, broker_id),)
        elif dirs is not None:
            dirs = tuple(_shown(d, (broker_id, d.path) in gone, (broker_id, d.path) in closed) for d in dirs)
        brokers[broker_id] = replace(broker, log_dirs=dirs)
    return view.with_brokers(brokers)


_UNLIMITED = 2**60  # bytes


def _unanswered(replica_index: ReplicaIndex, broker_id: int) -> LogDir:
    held = {
        (p.topic, p.index): replica_index.size((p.topic, p.index))
        for p in replica_index.assigned.get(broker_id, ())
    }
    return LogDir("(not asked)", 0, _UNLIMITED, _UNLIMITED, cordoned=True, replicas=held)


def _shown(log_dir: LogDir, gone: bool, closed: bool) -> LogDir:
    if gone:
        return replace(log_dir, error=log_dir.error or STORAGE_ERROR)
    return replace(log_dir, cordoned=log_dir.cordoned or closed)


def _sizes(broker: Broker | None, key: Key) -> list[int]:
    dirs = broker.log_dirs if broker is not None else None
    return [
        size
        for log_dir in dirs or ()
        if not log_dir.error and (size := log_dir.replicas.get(key)) is not None
    ]
