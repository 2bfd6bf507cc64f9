"""Inputs of the executor other than the state of Kafka: the time, the load of disks, and moves that failed on agents."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from spindle.api.enums import Pressure
from spindle.moves.kafka_index import PartitionKey


@dataclass(frozen=True, kw_only=True)
class MoveSignals:
    """Inputs of one step. All are optional; without them rates do not change.

    Attributes:
        now: seconds since the epoch.
        felt: (broker, path of a log dir) → load of its disk, as the agent on its node reports.
        failed: (broker, (topic, partition), path of the target dir) → why a move between dirs failed on the agent.
        down: brokers that are down or being taken down, even if Kafka still shows them in sync.
    """

    now: float = 0.0
    felt: Mapping[tuple[int, str], Pressure] = field(default_factory=dict)
    failed: Mapping[tuple[int, PartitionKey, str], str] = field(default_factory=dict)
    down: AbstractSet[int] = frozenset()
