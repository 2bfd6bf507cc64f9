"""What a KafkaUser may do with each right on the cluster that needs no label: nothing to the topics of others. On a real broker."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest
from kafka.admin import KafkaAdminClient, NewTopic  # type: ignore[attr-defined]
from kafka.errors import AuthorizationError

from spindle.api.user import Operation
from spindle.model.rights import Right
from spindle.users.wide import wide
from spindle_operator.kafka_client import KafkaClient
from tests.kafka.cluster import Cluster
from tests.kafka.test_listeners import certified, give

pytestmark = pytest.mark.kafka

OF_CLUSTER = [
    Right("cluster", "kafka-cluster", "literal", operation, "*") for operation in get_args(Operation)
]


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=1, disks=1)
    made.up()
    made.make_topic("orders", [[0]])
    return made


@pytest.fixture
def link(cluster: Cluster) -> Iterator[KafkaClient]:
    made = cluster.link()
    yield made
    made.close()


@pytest.mark.parametrize(
    "right", [right for right in OF_CLUSTER if not wide(right)], ids=lambda right: right.operation
)
def test_without_the_label_no_right_on_the_cluster_creates_or_deletes_a_topic(
    cluster: Cluster, link: KafkaClient, tmp_path: Path, right: Right
) -> None:
    principal = f"only-{right.operation.lower()}"
    give(link, principal, right)
    admin = KafkaAdminClient(**certified(cluster, cluster.ca.client(tmp_path, principal)))
    try:
        with pytest.raises(AuthorizationError):
            admin.delete_topics(["orders"])
        with pytest.raises(AuthorizationError):
            admin.create_topics([NewTopic("more", 1, 1)])
    finally:
        admin.close()
    assert set(link.admin.list_topics()) >= {"orders"}
