"""The state of a cluster as Kafka reports it, as one immutable snapshot.

What could not be read is None, never an empty value: "unknown is not absent" (`docs/safety.md`, rule 8).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from spindle.model.by_key import ByKey
from spindle.model.config_values import ConfigValues
from spindle.model.replica_sizes import total_bytes
from spindle.model.rights import Right, UserView

LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
CORDONED: Final = "cordoned.log.dirs"

RETENTION_MS: Final = "retention.ms"
RETENTION_BYTES: Final = "retention.bytes"
MAX_MESSAGE_BYTES: Final = "max.message.bytes"
CLEANUP_POLICY: Final = "cleanup.policy"
PRODUCER_RATE: Final = "producer_byte_rate"  # of the default quota, for users without a quota of their own
DEFAULT_USERS: Final = ("quota", "users")  # key of that quota among the settings

CORDON_LEVEL: Final = 30  # first metadata.version with cordons: 4.3-IV0
STORAGE_ERROR: Final = 56  # KAFKA_STORAGE_ERROR: an offline log dir

# The topic settings of the last-resort actions: they replace the user's value for a time.
LAST_RESORT_SETTINGS: Final = (RETENTION_MS, RETENTION_BYTES, MAX_MESSAGE_BYTES)
# The dynamic configs that Spindle changes, and so must know.
TOPIC_SETTINGS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS, *LAST_RESORT_SETTINGS)
BROKER_SETTINGS: Final = (LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE, CORDONED)


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition as metadata describes it (MetadataResponse, DescribeTopicPartitions).

    Attributes:
        replicas: the recorded assignment, preferred leader first; includes ``adding`` and ``removing``.
        elr: eligible leader replicas (KIP-966); None if the broker did not report them.
        leader: broker id, or None while there is no leader.
        recorded_rf: size of the assignment at the topic's creation or at its last reassignment.
    """

    topic: str
    index: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] | None = None
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """``topic-partition``, as Kafka names a log's directory."""
        return f"{self.topic}-{self.index}"

    @property
    def recorded_rf(self) -> int:
        """The intended replication factor of the partition."""
        return len(set(self.replicas) - set(self.adding)) if self.adding else len(self.replicas)

    @property
    def settled(self) -> bool:
        """Whether it has a leader, its ISR is its assignment, and it is not being reassigned."""
        if self.leader is None or self.adding or self.removing:
            return False
        isr, replicas = self.isr, self.replicas
        return isr == replicas or (len(isr) == len(replicas) and set(isr) == set(replicas))


class PartitionIndex:
    """The partitions of one view, by key and by broker, as metadata has them; lists are in the order of the view."""

    def __init__(self, partitions: Sequence[Partition]) -> None:
        """Nothing is computed before it is asked for."""
        self._all = partitions
        self._crowded: tuple[tuple[Mapping[int, str], Sequence[int]], Sequence[Partition]] | None = None

    @cached_property
    def by_key(self) -> Mapping[tuple[str, int], Partition]:
        """All partitions by topic and index."""
        return ByKey(self.by_topic)

    @cached_property
    def topics(self) -> frozenset[str]:
        """Names of all topics that have partitions."""
        return frozenset(p.topic for p in self._all)

    @cached_property
    def by_topic(self) -> Mapping[str, list[Partition]]:
        """Partitions by topic, in their order."""
        found: dict[str, list[Partition]] = defaultdict(list)
        for partition in self._all:
            found[partition.topic].append(partition)
        return dict(found)

    @cached_property
    def assigned(self) -> Mapping[int, list[Partition]]:
        """Partitions by broker, including replicas that are being added."""
        return _by_broker(self._all, lambda p: p.replicas)

    @cached_property
    def unsettled(self) -> Sequence[Partition]:
        """Partitions that are not `Partition.settled`: few of many."""
        return [p for p in self._all if not p.settled]

    @cached_property
    def lagging(self) -> Mapping[int, list[Partition]]:
        """Partitions by broker that is missing in their ISR; replicas that are being added do not count."""
        return _by_broker(
            self.unsettled, lambda p: [b for b in p.replicas if b not in p.isr and b not in p.adding]
        )

    @cached_property
    def arriving(self) -> Mapping[int, list[Partition]]:
        """Partitions by broker to which a replica is being added."""
        return _by_broker(self.unsettled, lambda p: p.adding)

    def on_fewer_racks(self, racks: Mapping[int, str], wanted: Sequence[int]) -> Sequence[Partition]:
        """Partitions whose assignment is on fewer racks than wanted; those with an unknown broker are omitted.

        The answer is kept until another question is asked: passes over the same partitions ask the same.

        Args:
            racks: broker → rack.
            wanted: number of racks by number of replicas; the last entry counts for more replicas, too.
        """
        if self._crowded is not None and self._crowded[0] == (racks, list(wanted)):
            return self._crowded[1]
        rack, most = racks.get, len(wanted) - 1
        found = [
            p
            for p in self._all
            if len(on := set(map(rack, p.replicas))) < wanted[min(len(p.replicas), most)] and None not in on
        ]
        self._crowded = (dict(racks), list(wanted)), found  # copies: what was asked may change later
        return found

    def in_isr(self, broker: int) -> list[Partition]:
        """Partitions that have a broker in their ISR."""
        return [p for p in self.assigned.get(broker, ()) if broker in p.isr] + self._beside.get(broker, [])

    @cached_property
    def _beside(self) -> Mapping[int, list[Partition]]:
        """Partitions by broker that is in their ISR and not in their assignment: Kafka has none, but a view may."""
        return _by_broker(self.unsettled, lambda p: [b for b in p.isr if b not in p.replicas])


def _by_broker(
    partitions: Iterable[Partition], brokers: Callable[[Partition], Iterable[int]]
) -> Mapping[int, list[Partition]]:
    """Broker → the partitions for which ``brokers`` names it, in their order."""
    found: dict[int, list[Partition]] = defaultdict(list)
    for partition in partitions:
        for broker in brokers(partition):
            found[broker].append(partition)
    return dict(found)


@dataclass(frozen=True, slots=True)
class LogDir:
    """One log dir as its own broker describes it (DescribeLogDirs v4/v5).

    Attributes:
        error: Kafka's error code, 0 for none; 56 is KAFKA_STORAGE_ERROR, an offline dir.
        total_bytes, usable_bytes: of the volume, None where unknown.
        replicas: (topic, partition) → bytes, the future copies left out.
    """

    path: str
    error: int = 0
    total_bytes: int | None = None
    usable_bytes: int | None = None
    cordoned: bool = False
    replicas: Mapping[tuple[str, int], int] = field(default_factory=dict)
    futures: Mapping[tuple[str, int], int] = field(default_factory=dict)

    @property
    def other_bytes(self) -> int:
        """Used bytes that belong to no replica, including logs that Kafka has yet to delete; 0 if that is not known."""
        if self.total_bytes is None or self.usable_bytes is None:
            return 0
        return max(0, self.total_bytes - self.usable_bytes - total_bytes(self.replicas))

    @property
    def log_bytes(self) -> int:
        """Bytes of all replicas, future ones included."""
        return total_bytes(self.replicas) + total_bytes(self.futures)


@dataclass(frozen=True)
class Broker:
    """One broker.

    Attributes:
        fenced: True while registered and fenced; None if the controller did not report it.
        log_dirs: None if the broker could not be queried.
    """

    id: int
    rack: str | None
    fenced: bool | None = None
    log_dirs: tuple[LogDir, ...] | None = None

    @cached_property
    def live(self) -> frozenset[tuple[str, int]] | None:
        """Replicas on its live dirs; None if it did not answer."""
        if self.log_dirs is None:
            return None
        return frozenset().union(*(log_dir.replicas.keys() for log_dir in self.log_dirs if not log_dir.error))


@dataclass(frozen=True)
class Voter:
    """A replica of the metadata log as the quorum's leader describes it (DescribeQuorum): a voter or an observer.

    Attributes:
        directory_id: in Kafka's notation; of voters of a static quorum 22 times ``A``.
        caught_up: whether its log end is near the leader's; None if not known.
        lag: records of the leader's log that it lacks; None if not known.
    """

    id: int
    directory_id: str
    caught_up: bool | None = None
    lag: int | None = None


@dataclass(frozen=True)
class Quorum:
    """The controller quorum (KIP-853).

    Attributes:
        observers: brokers, and controllers that are not voters; without those that have not fetched for five minutes.
    """

    leader: int
    voters: tuple[Voter, ...]
    observers: tuple[Voter, ...] = ()


@dataclass(frozen=True)
class KafkaView:
    """One observation of Kafka.

    Attributes:
        error: why Kafka could not be queried at all; None if it could. With an error, everything else is None.
        brokers: registered brokers by id; None if unknown.
        partitions: every partition of every topic, including internal ones; None if unknown.
        min_isr: topic → its effective min.insync.replicas; None if unknown.
        metadata_version: the finalized metadata.version level, None if unknown.
        features: every finalized feature and its level (one at level 0 is missing), including metadata.version; None if unknown.
        settings: (``"topic"`` or ``"broker"``, its name or its id in digits) → the keys of `TOPIC_SETTINGS` or
            `BROKER_SETTINGS` that are set dynamically on exactly that topic or broker, with their values. One that could
            not be queried is missing; one without any of them is present and empty. None if none could be queried.
            `DEFAULT_USERS` has the default quota of users without one of their own, as `PRODUCER_RATE`.
        topics: topic → its effective retention, message size and cleanup settings, wherever they are set; None if unknown.
        standing: broker id → its values of the settings that a running broker accepts, and where each is set; a broker that could not be queried
            is missing.
        users: name → ACLs, credentials and quotas of each of the requested users only; None if unknown or not requested.
        topic_ids: topic → Kafka's id of it; None if unknown.
        managed: topic → those of the requested settings that are set on the topic itself, of the requested topics that exist; None if unknown.
        agents: principal → each agent's ACLs, of those that agents get; None if unknown.
        own_epochs: requested partition → whether its leader's log has the epoch that it was elected with; those without an answer are missing.
            None if unknown or not requested.
    """

    error: str | None = None
    cluster_id: str | None = None
    brokers: Mapping[int, Broker] | None = None
    partitions: tuple[Partition, ...] | None = None
    min_isr: Mapping[str, int] | None = None
    quorum: Quorum | None = None
    metadata_version: int | None = None
    features: Mapping[str, int] | None = None
    settings: Mapping[tuple[str, str], Mapping[str, str]] | None = None
    topics: Mapping[str, Mapping[str, str]] | None = None
    standing: Mapping[int, Mapping[str, ConfigValues]] = field(default_factory=dict)
    users: Mapping[str, UserView] | None = None
    topic_ids: Mapping[str, str] | None = None
    managed: Mapping[str, Mapping[str, str]] | None = None
    agents: Mapping[str, frozenset[Right]] | None = None
    own_epochs: Mapping[tuple[str, int], bool] | None = None

    @cached_property
    def partition_index(self) -> PartitionIndex:
        """The partitions, indexed once for all who ask; empty if they are unknown."""
        return PartitionIndex(self.partitions or ())

    def share_index(self, before: "KafkaView") -> None:
        """Take the index of a former view, if it has the very same partitions: what was computed of them stays right."""
        if self.partitions is not None and self.partitions is before.partitions:
            vars(self)["partition_index"] = before.partition_index

    def with_brokers(self, brokers: Mapping[int, Broker]) -> "KafkaView":
        """The same view with other brokers; it shares the index of the partitions."""
        changed = replace(self, brokers=brokers)
        vars(changed)["partition_index"] = self.partition_index
        return changed
