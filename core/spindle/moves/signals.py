"""What the executor is told beside what Kafka shows: the time, what disks feel, and what agents gave up."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from spindle.moves.kafka_index import PartitionKey
from spindle.moves.rate_control import Pressure


@dataclass(frozen=True, kw_only=True)
class MoveSignals:
    """All of it may be missing: then rates stay as they are.

    Attributes:
        now: seconds since the epoch.
        felt: (broker, path of a log dir) → what its disk feels, as the agent on its node says.
        failed: (broker, (topic, partition), path of the dir it was to go to) → why the agent gave a move between dirs up.
        down: brokers that are down or being taken down, though Kafka may show them in sync yet.
    """

    now: float = 0.0
    felt: Mapping[tuple[int, str], Pressure] = field(default_factory=dict)
    failed: Mapping[tuple[int, PartitionKey, str], str] = field(default_factory=dict)
    down: AbstractSet[int] = frozenset()
