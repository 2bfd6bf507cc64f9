"""Settings that a real broker takes while it runs: which those are, that it takes them, and that they are taken back."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from kafka.protocol.admin import DescribeConfigsRequest

from e2e.cluster import versions
from spindle.api import names
from spindle.api.owned import owned
from spindle.config.defaults import default_changes
from spindle.config.dynamic_config import AT_START, ON_BROKERS, ON_CLUSTER, config_changes
from spindle.config.settings import known
from spindle.model.config_values import ConfigValues
from spindle_operator import kafka_commands
from spindle_operator.connection import Access
from spindle_operator.kafka_client import KafkaClient
from tests.kafka.cluster import Cluster
from tests.kafka.node import Node, wait_for

# A running broker could change these, too: classes, but what they need on its class path is there only after a restart; TLS; and what Kafka
# does not document.
LEFT_OUT = {
    "config.providers",
    "metric.reporters",
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    *(f"group.{kind}.assignor.offload.enable" for kind in ("consumer", "share", "streams")),
}


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=1, disks=1)
    made.up()
    made.make_topic("t", [[0]])
    return made


@pytest.fixture
def link(cluster: Cluster) -> Iterator[KafkaClient]:
    pems = ((cluster.operator / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key"))
    access = Access({0: cluster.nodes[0].address}, *pems)
    made = KafkaClient("test/demo", access.hosts, names.PORT_REPLICATION, access.context(), 10)
    try:
        yield made
    finally:
        made.close()


def settings(node: Node) -> dict[str, str]:
    lines = (Path(node.layout.config_dir) / "server.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def standing(cluster: Cluster) -> dict[str, ConfigValues]:
    return dict(cluster.view().standing[0])


def has(cluster: Cluster, threads: str | None) -> bool:
    return standing(cluster)["num.io.threads"].effective == threads


def handlers(node: Node) -> int:
    """How many threads of its data plane a broker has; Linux keeps fifteen letters of a name."""
    assert node.kafka is not None
    tasks = Path(f"/proc/{node.kafka.pid}/task").glob("*/comm")
    return sum(comm.read_text().strip() == "data-plane-kafk" for comm in tasks)


def test_the_list_is_the_brokers_own(link: KafkaClient) -> None:
    resource = DescribeConfigsRequest.DescribeConfigsResource(4, "0", None)
    (result,) = link.send(DescribeConfigsRequest(resources=[resource]), 0).results
    takes = {config.name for config in result.configs if not config.read_only}
    assert (
        takes - {key for key in takes if owned(key)} - LEFT_OUT
        == (ON_BROKERS | ON_CLUSTER | AT_START) & known(versions.KAFKA).keys()
    )


def test_a_fresh_broker_needs_to_be_told_nothing(cluster: Cluster) -> None:
    assert not config_changes(settings(cluster.nodes[0]), standing(cluster), {}).orders


def test_threads_are_taken_step_by_step_and_taken_back(cluster: Cluster, link: KafkaClient) -> None:
    node = cluster.nodes[0]
    before, ours = handlers(node), dict[str, str]()
    wanted = settings(node) | {"num.io.threads": "7"}
    steps = []
    while (tuning := config_changes(wanted, standing(cluster), ours)).orders:
        kafka_commands.set_configs(link, "broker", "0", tuning.orders)
        ours = dict(tuning.ours)
        step = tuning.orders["num.io.threads"]
        steps.append(step)
        wait_for("the step", partial(has, cluster, step))
    assert steps == ["4", "7"]
    wait_for("five threads more", lambda: handlers(node) == before + 5)
    back = settings(node)
    while (tuning := config_changes(back, standing(cluster), ours)).orders:
        kafka_commands.set_configs(link, "broker", "0", tuning.orders)
        ours = dict(tuning.ours)
        after = tuning.orders["num.io.threads"]
        wait_for("the step back", partial(has, cluster, after if after is not None else "2"))
    wait_for("the threads before", lambda: handlers(node) == before)
    assert standing(cluster)["num.io.threads"].own is None


def test_what_was_set_by_hand_is_left(cluster: Cluster, link: KafkaClient) -> None:
    kafka_commands.set_configs(link, "broker", "0", {"log.retention.ms": "1000000"})
    wait_for("the value", lambda: standing(cluster)["log.retention.ms"].own == "1000000")
    tuning = config_changes(
        settings(cluster.nodes[0]) | {"log.retention.ms": "2000000"}, standing(cluster), {}
    )
    assert not tuning.orders
    assert tuning.by_hand == {"log.retention.ms": ("1000000", "2000000")}
    kafka_commands.set_configs(link, "broker", "0", {"log.retention.ms": None})


def test_the_least_in_sync_replicas_are_the_clusters(cluster: Cluster, link: KafkaClient) -> None:
    assert (cluster.view().min_isr or {})["t"] == 1
    values = default_changes({"min.insync.replicas": "2"}, standing(cluster), {}).orders
    kafka_commands.set_configs(link, "broker", "", values)
    wait_for("the topic goes by it", lambda: (cluster.view().min_isr or {})["t"] == 2)
    assert not default_changes({"min.insync.replicas": "2"}, standing(cluster), {}).orders
