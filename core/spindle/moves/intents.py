"""Requests of the executor to Kafka, in order of execution. `reconcile` maps them to its actions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class PlaceReplicasIntent:
    """Choose the dir in which a broker creates a replica that it does not have yet (AlterReplicaLogDirs).

    The broker keeps the choice in memory only. The expected answer is REPLICA_NOT_AVAILABLE.

    Attributes:
        placements: (topic, partition, path of the log dir).
    """

    broker: int
    placements: tuple[tuple[str, int, str], ...]


@dataclass(frozen=True, kw_only=True)
class ReassignIntent:
    """Change the replicas of partitions (AlterPartitionReassignments).

    Attributes:
        assignments: (topic, partition, replicas with the preferred leader first); None cancels a running reassignment.
        reason, message: for the event.
    """

    assignments: tuple[tuple[str, int, tuple[int, ...] | None], ...]
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class ConfigureIntent:
    """Set dynamic configs of a topic or of one broker (IncrementalAlterConfigs), or a quota (AlterClientQuotas).

    Attributes:
        name: the topic, the broker's id in digits, or ``users`` for the default quota of users.
        values: key → value; None deletes the key.
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
