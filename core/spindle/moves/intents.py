"""What the executor wants done to Kafka, in the order in which it is to be done. `reconcile` maps these to its actions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class PlaceReplicasIntent:
    """Tell a broker which dir a replica that it does not hold yet is to be created in (AlterReplicaLogDirs).

    The broker keeps this in memory only. That the replica is not there (REPLICA_NOT_AVAILABLE) is the answer that is
    hoped for.

    Attributes:
        placements: (topic, partition, path of the log dir).
    """

    broker: int
    placements: tuple[tuple[str, int, str], ...]


@dataclass(frozen=True, kw_only=True)
class ReassignIntent:
    """Give partitions other replicas (AlterPartitionReassignments).

    Attributes:
        assignments: (topic, partition, replicas with the preferred leader first); None cancels what is under way.
        reason, message: for the event.
    """

    assignments: tuple[tuple[str, int, tuple[int, ...] | None], ...]
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class ConfigureIntent:
    """Set dynamic configs of a topic or of one broker (IncrementalAlterConfigs), or a quota (AlterClientQuotas).

    Attributes:
        name: the topic, the broker's id in digits, or ``users`` for the quota of users that have none of their own.
        values: key → value; None takes the key away.
    """

    kind: Literal["topic", "broker", "quota"]
    name: str
    values: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ElectIntent:
    """Make the preferred replicas leaders (ElectLeaders).

    Attributes:
        reason, message: for the event.
    """

    partitions: tuple[tuple[str, int], ...]
    reason: str = ""
    message: str = ""


Intent = PlaceReplicasIntent | ReassignIntent | ConfigureIntent | ElectIntent
