"""One observation of Kafka, indexed for the executor: where replicas are, which are live, and what is being copied to each dir."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from spindle.model.view import Broker, KafkaView, LogDir, Partition
from spindle.moves.journal import Move

PartitionKey = tuple[str, int]  # topic, partition


class KafkaIndex:
    """Questions about one view.

    Attributes:
        unknown: why nothing is known at all, as a clause; empty otherwise.
        partitions: by (topic, index).
    """

    def __init__(
        self,
        view: KafkaView,
        closed: AbstractSet[tuple[int, str]] = frozenset(),
        bad: AbstractSet[tuple[int, str]] = frozenset(),
    ) -> None:
        """Index a view.

        Args:
            view: one observation of Kafka.
            closed: (broker, path) of dirs that take no replica, whatever Kafka reports about them.
            bad: dirs that are evacuated because their disk failed: a replica on them does not count as live, as for the planner.
        """
        self.bad = bad
        self.view = view
        self.closed = closed
        self.unknown = _unknown(view)
        self.brokers: Mapping[int, Broker] = view.brokers or {}
        self.partitions: Mapping[PartitionKey, Partition] = view.partition_index.by_key

    def up(self, broker: int) -> bool:
        """Whether a broker takes part: registered, not fenced, and answering for its log dirs."""
        found = self.brokers.get(broker)
        return found is not None and not found.fenced and found.log_dirs is not None

    def dirs(self, broker: int) -> tuple[LogDir, ...]:
        """A broker's log dirs; empty if it did not answer."""
        found = self.brokers.get(broker)
        return (found.log_dirs or ()) if found is not None else ()

    def dir(self, broker: int, path: str) -> LogDir | None:
        """One log dir."""
        return next((log_dir for log_dir in self.dirs(broker) if log_dir.path == path), None)

    def offline(self, broker: int) -> list[str]:
        """Paths of a broker's offline dirs."""
        return [log_dir.path for log_dir in self.dirs(broker) if log_dir.error]

    def open(self, broker: int, log_dir: LogDir) -> bool:
        """Whether a dir may take replicas: online, and neither cordoned nor closed."""
        return not log_dir.error and not log_dir.cordoned and (broker, log_dir.path) not in self.closed

    def standing(self, broker: int, key: PartitionKey) -> LogDir | None:
        """The live dir on which a broker shows its replica."""
        return next((d for d in self.dirs(broker) if not d.error and key in d.replicas), None)

    def future(self, broker: int, key: PartitionKey) -> LogDir | None:
        """The live dir to which a broker is copying its replica."""
        return next((d for d in self.dirs(broker) if not d.error and key in d.futures), None)

    def live(self, broker: int, partition: Partition) -> bool:
        """Whether a broker's replica counts as live: it is on a live dir of a broker that is not fenced.

        For a broker that does not answer DescribeLogDirs the ISR decides: the controllers remove replicas on failed dirs from it.
        """
        found = self.brokers.get(broker)
        if found is None or found.fenced:
            return False
        if found.log_dirs is None:
            return broker in partition.isr
        stands = self.standing(broker, (partition.topic, partition.index))
        return stands is not None and (broker, stands.path) not in self.bad

    def size(self, key: PartitionKey, planned: int = 0) -> int:
        """Size of a partition in bytes: that of its largest replica, but at least the planned size."""
        partition = self.partitions.get(key)
        replicas = partition.replicas if partition is not None else ()
        stands = (self.standing(broker, key) for broker in replicas)
        return max((planned, *(log_dir.replicas[key] for log_dir in stands if log_dir is not None)))

    def future_anywhere(self, partition: Partition) -> int | None:
        """A broker that is copying its replica of a partition between its dirs; None for none."""
        key = (partition.topic, partition.index)
        return next((b for b in partition.replicas if self.future(b, key) is not None), None)


class Incoming:
    """Bytes still to be copied to each dir by all moves in flight, Spindle's and others' (no overfull target, docs/safety.md).

    Bytes that were already copied are part of the dir's usage, so only the rest of a replica counts here.
    """

    def __init__(self, look: KafkaIndex, moves: Iterable[Move]) -> None:
        """Sum up running copies: recorded moves, copies between dirs, replicas that are being added."""
        self._look = look
        self._bytes: dict[tuple[int, str], int] = defaultdict(int)
        ours = {(move.target, move.key) for move in moves}
        for move in moves:
            self.add(move)
        for broker, path, key, present in self._others():
            if (broker, key) not in ours:
                self._bytes[broker, path] += max(0, look.size(key) - present)

    def add(self, move: Move) -> None:
        """Count one more recorded move."""
        look, key = self._look, move.key
        size = look.size(key, move.bytes)
        self._bytes[move.target, move.to_dir] += size - min(size, present(look, move))
        if not move.within and (stands := look.standing(move.target, key)) and stands.path != move.to_dir:
            # The replica is being copied to a dir that was not chosen.
            self._bytes[move.target, stands.path] += max(0, size - stands.replicas[key])

    def drop(self, move: Move) -> None:
        """Remove a recorded move from the sum."""
        look, key = self._look, move.key
        size = look.size(key, move.bytes)
        self._bytes[move.target, move.to_dir] -= size - min(size, present(look, move))

    def to(self, broker: int, path: str) -> int:
        """Bytes still to be copied to one dir."""
        return self._bytes.get((broker, path), 0)

    def _others(self) -> Iterator[tuple[int, str, PartitionKey, int]]:
        """Copies that others started: broker, path, partition, bytes that are already there."""
        for broker_id, broker in self._look.brokers.items():
            for log_dir in broker.log_dirs or ():
                for key, there in log_dir.futures.items():
                    yield broker_id, log_dir.path, key, there
        for broker_id, partitions in self._look.view.partition_index.arriving.items():
            # A false broker may describe a partition twice.
            for key in dict.fromkeys((each.topic, each.index) for each in partitions):
                stands = self._look.standing(broker_id, key)
                if stands is not None:
                    yield broker_id, stands.path, key, stands.replicas[key]
                else:  # Kafka may create it on any of them
                    yield from (
                        (broker_id, d.path, key, 0) for d in self._look.dirs(broker_id) if not d.error
                    )


def present(look: KafkaIndex, move: Move) -> int:
    """Bytes of a move that are already on its chosen dir, as a future log or as the replica itself."""
    chosen = look.dir(move.target, move.to_dir)
    if chosen is None or chosen.error:
        return 0
    return max(chosen.futures.get(move.key, 0), chosen.replicas.get(move.key, 0))


def _unknown(view: KafkaView) -> str:
    if view.error:
        return view.error.rstrip(".")
    if view.brokers is None:
        return "the brokers could not be listed"
    if view.partitions is None:
        return "the partitions could not be listed"
    return ""
