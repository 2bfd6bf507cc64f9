"""Differences between runs: size, racks, replicas, topics, releases, properties of the machines. All of it from the seed."""

import random
from dataclasses import dataclass, field, replace
from typing import Any

from spindle.api import names
from tests.sim.api import NAMESPACE

GIGA = 1_000_000_000
SAMPLE = "demo"
_ALL_DISKS = 0.1  # share of runs whose brokers use all disks of their nodes


@dataclass(frozen=True)
class Topic:
    """A topic of the load.

    Attributes:
        acks_all: whether its producers use acks=all.
        records: records in each partition at the start of the load.
    """

    name: str
    partitions: int
    rf: int
    min_isr: int
    acks_all: bool = True
    records: int = 20


@dataclass(frozen=True)
class Variety:
    """The shape of one run.

    Attributes:
        racks: number of nodes of each zone.
        spares: nodes without a broker.
        disks: per broker; each node has ``spare_disks`` more.
        all_disks: whether each broker uses all disks of its node instead.
        level: metadata.version; 30 and above supports cordons.
        page: objects in a page of a list.
        standby: whether there is a second operator.
        skews: offsets of clocks, by the index of the node.
    """

    brokers: int = 3
    racks: tuple[int, ...] = (1, 1, 1)
    disks: int = 2
    spare_disks: int = 1
    all_disks: bool = False
    capacity: int = 400_000_000
    topics: tuple[Topic, ...] = ()
    elr: bool = True
    level: int = 30
    controllers: int = 3
    page: int = 500
    standby: bool = False
    skews: tuple[tuple[int, float], ...] = ()
    slow_projection: bool = False
    copy_rate: int = 20_000_000
    internal_rf: int = 3
    spec: dict[str, Any] = field(default_factory=dict)

    @property
    def zones(self) -> list[str]:
        """The zone of each node."""
        return [f"zone-{chr(97 + index)}" for index, size in enumerate(self.racks) for _ in range(size)]


def choose(seed: int) -> Variety:
    """The shape of the run with this seed."""
    rng = random.Random(seed * 7919 + 17)
    brokers = rng.choice((1, 2, 3, 3, 3, 3, 3, 3, 4, 4, 4, 5, 5, 6, 9))
    spares = rng.choice((0, 0, 0, 1, 2))
    count = min(rng.choice((1, 2, 3, 3, 3, 4)), brokers)
    racks = [1] * count
    for _ in range(brokers + spares - count):
        racks[rng.randrange(count)] += 1
    topics = []
    for index in range(rng.choice((1, 2, 3))):
        rf = min(brokers, rng.choice((1, 2, 3, 3, 3, 3, 4)))
        least = min(rng.choice((1, 2, 2, 2, 3)), max(1, rf))
        name = (
            f"t{index}" if rng.random() < 0.85 else f"t{index}-" + "x" * (246 if rng.random() < 0.5 else 210)
        )
        topics.append(
            Topic(name, rng.choice((1, 2, 4, 6)), rf, least, rng.random() < 0.85, rng.choice((5, 20, 40)))
        )
    nodes = brokers + spares
    skews: tuple[tuple[int, float], ...] = ()
    if rng.random() < 0.2:
        skews = ((rng.randrange(nodes), rng.choice((-660.0, -45.0, 45.0, 660.0, 900.0))),)
    return Variety(
        brokers=brokers,
        racks=tuple(racks),
        disks=min(rng.choice((1, 2, 2, 2, 3, 4)), max(1, 12 // brokers)),
        spare_disks=rng.choice((0, 1, 1, 2)),
        capacity=rng.choice((300_000_000, 600_000_000, 1_000_000_000)),
        topics=tuple(topics),
        elr=rng.random() < 0.7,
        level=rng.choice((30, 30, 27)),
        controllers=rng.choice((1, 3, 3, 3)) if nodes >= 3 else 1,
        page=rng.choice((500, 500, 7)),
        standby=rng.random() < 0.4,
        skews=skews,
        slow_projection=rng.random() < 0.2,
        copy_rate=rng.choice((5_000_000, 20_000_000, 100_000_000)),
        internal_rf=min(brokers, 3),
        all_disks=random.Random(seed * 104_729 + 5).random() < _ALL_DISKS,
    )


def small(variety: Variety, **changes: Any) -> Variety:
    """The same with something simpler."""
    return replace(variety, **changes)


def disks_of_pool(variety: Variety) -> dict[str, Any]:
    """``disks`` of the pool."""
    if variety.all_disks:
        return {"all": True, "storageClass": "local-disks"}
    return {"count": variety.disks, "size": "100M", "storageClass": "local-disks"}


def cluster(variety: Variety, **spec: Any) -> dict[str, Any]:
    """The KafkaCluster that the user applies."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": "KafkaCluster",
        "metadata": {"name": SAMPLE, "namespace": NAMESPACE},
        "spec": {
            "version": "4.3.1",
            "controllers": {"replicas": variety.controllers, "storage": {"size": "1Gi"}},
            "brokerPools": [
                {
                    "name": "main",
                    "replicas": variety.brokers,
                    "disks": disks_of_pool(variety),
                }
            ],
            "racks": {"topologyKey": "topology.kubernetes.io/zone"},
            **variety.spec,
            **spec,
        },
    }
