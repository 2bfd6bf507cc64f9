"""What a large Kafka of the benchmarks consists of: 1,000 replicas a broker, replication factor 3, three racks, 12 disks a broker."""

import uuid
from dataclasses import dataclass
from functools import cached_property

DISKS = 12
REPLICAS = 1000  # a broker
_COPIES = 3
_OF_TOPIC = 48  # partitions of most topics


@dataclass(frozen=True)
class Shape:
    """A Kafka of this many brokers, at least three."""

    brokers: int

    @property
    def ids(self) -> range:
        """The brokers' ids."""
        return range(self.brokers)

    @property
    def partitions(self) -> int:
        """Of all topics."""
        return self.brokers * REPLICAS // _COPIES

    @property
    def topics(self) -> int:
        """How many there are."""
        return -(-self.partitions // _OF_TOPIC)

    def partitions_of(self, topic: int) -> int:
        """How many the topic has; the last one has the rest."""
        return min(_OF_TOPIC, self.partitions - topic * _OF_TOPIC)

    def name(self, topic: int) -> str:
        """Names of topics sort as their numbers do."""
        return f"team-{topic // 100:03}.orders.{topic:06}"

    def topic_of(self, name: str) -> int:
        """The number of a topic."""
        return int(name.rsplit(".", 1)[1])

    def topic_id(self, topic: int) -> uuid.UUID:
        """The same in each run."""
        return uuid.UUID(int=topic + 1)

    def replicas(self, topic: int, partition: int) -> list[int]:
        """Brokers of a partition, one in each rack: broker ``i`` is in rack ``i % 3``."""
        number = topic * _OF_TOPIC + partition
        racks = [range(rack, self.brokers, _COPIES) for rack in range(_COPIES)]
        chosen = [
            rack[(number + shift * (number // len(rack))) % len(rack)] for shift, rack in enumerate(racks)
        ]
        first = number % _COPIES
        return chosen[first:] + chosen[:first]

    def held(self, broker: int) -> list[dict[int, list[int]]]:
        """By disk: topic → partitions."""
        return self._held[broker]

    @cached_property
    def _held(self) -> list[list[dict[int, list[int]]]]:
        found: list[list[dict[int, list[int]]]] = [[{} for _ in range(DISKS)] for _ in self.ids]
        count = [0] * self.brokers
        for topic in range(self.topics):
            for partition in range(self.partitions_of(topic)):
                for node in self.replicas(topic, partition):
                    found[node][count[node] % DISKS].setdefault(topic, []).append(partition)
                    count[node] += 1
        return found

    def broker_at(self, host: str) -> int:
        """The broker of an address."""
        _, _, high, low = host.split(".")
        return int(high) * 250 + int(low) - 1


def address(broker: int) -> str:
    """An address on loopback for each broker."""
    return f"127.77.{broker // 250}.{broker % 250 + 1}"
