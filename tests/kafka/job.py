"""What stands around a run of the rebalance job on real brokers: its objects in Kubernetes, and samples of what the brokers hold."""

from collections.abc import Iterable
from typing import Any

from kafka import KafkaProducer

from spindle.api import names
from spindle.samples.codec import encode
from spindle.samples.schema import Sample
from spindle_rebalance.kafka_look import Access
from tests.kafka.cluster import Cluster
from tests.unit.balance_samples import SPEC


class Kubernetes:
    """The objects of one cluster, and what the run wrote. There is no API server in these tests."""

    def __init__(self) -> None:
        self.written: dict[str, dict[str, Any]] = {}

    def cluster(self, namespace: str, name: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "namespace": namespace, "uid": "u"}, "spec": SPEC}

    def brokers(self, namespace: str, cluster: str) -> list[dict[str, Any]]:
        return []

    def rebalances(self, namespace: str, cluster: str) -> list[dict[str, Any]]:
        return []

    def rebalance(self, namespace: str, name: str) -> dict[str, Any] | None:
        return self.written.get(name)

    def apply_rebalance(self, namespace: str, body: dict[str, Any]) -> None:
        self.written[body["metadata"]["name"]] = body

    def config_map(self, namespace: str, name: str) -> dict[str, Any] | None:
        return None

    def create_config_map(self, namespace: str, body: dict[str, Any]) -> None:
        self.written[body["metadata"]["name"]] = body

    def apply_config_map(self, namespace: str, body: dict[str, Any]) -> None:
        self.written[body["metadata"]["name"]] = body


def skewed(made: Cluster) -> Cluster:
    """Everything stands on the first broker of a cluster that was just made."""
    made.up()
    made.make_topic("skewed", [[0]] * 6)
    for partition in range(6):
        made.produce("skewed", partition, (bytes(900_000) for _ in range(14)), compression_type=None)
    return made


def access(cluster: Cluster, first: int = 0) -> Access:
    return Access(f"{cluster.nodes[first].address}:{names.PORT_REPLICATION}", cluster.operator)


def publish(cluster: Cluster, samples: Iterable[Sample], partitions: int) -> None:
    """As the agents do; Kafka's time is that of the sample."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap(), **cluster.ssl(), acks="all")
    try:
        sent = [
            producer.send(
                names.TOPIC_SAMPLES,
                value=encode(each),
                key=str(each.broker).encode(),
                partition=each.broker % partitions,
                timestamp_ms=each.at_ms,
            )
            for each in samples
        ]
        for each in sent:
            each.get(timeout=30)
    finally:
        producer.close(timeout=5)
