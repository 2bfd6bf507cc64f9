"""A real cluster from one release of Kafka to the next: there and back before metadata.version is raised, and never after."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from e2e.cluster import versions
from spindle.api import names
from spindle.model.versions import level_of, may_change
from spindle_operator import kafka_commands
from spindle_operator.connection import Access
from spindle_operator.kafka_client import KafkaClient
from tests.kafka.cluster import Cluster
from tests.kafka.node import Node, wait_for

pytestmark = pytest.mark.slow

METADATA = "metadata.version"


@pytest.fixture(scope="module", params=pairwise(versions.KAFKA_RELEASES), ids="-to-".join)
def step(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A release and the next one."""
    former, latest = request.param
    return former, latest


@pytest.fixture(scope="module")
def former(step: tuple[str, str]) -> str:
    return step[0]


@pytest.fixture(scope="module")
def latest(step: tuple[str, str]) -> str:
    return step[1]


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster], former: str) -> Cluster:
    # How long a broker asks to be let in before it ends; a minute by default.
    brief = {"initial.broker.registration.timeout.ms": "10000"}
    made = make_cluster(brokers=1, disks=1, version=former, config=brief)
    made.up()
    made.make_topic("t", [[0]])
    made.produce("t", 0, [b"before"])
    return made


def raise_level(cluster: Cluster, level: int | None) -> None:
    assert level is not None
    pems = ((cluster.operator / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key"))
    access = Access({0: cluster.nodes[0].address}, *pems)
    link = KafkaClient("test/demo", access.hosts, names.PORT_REPLICATION, access.context(), 10)
    try:
        kafka_commands.raise_features(link, {METADATA: level})
    finally:
        link.close()


def restart(cluster: Cluster, node: Node, version: str) -> None:
    node.stop()
    cluster.forget_admin()
    node.cluster = replace(node.cluster, version=version)
    node.new_pod()
    node.preflight()
    node.start()


@pytest.fixture
def all_on_latest(cluster: Cluster, latest: str) -> None:
    for node in cluster.nodes.values():
        if node.cluster.version != latest:
            restart(cluster, node, latest)
            node.wait_ready()


def test_the_level_of_a_release_is_what_it_was_born_with(cluster: Cluster, former: str) -> None:
    assert cluster.view().metadata_version == level_of(former)


def test_kafka_turns_a_level_down_that_a_node_does_not_know(
    cluster: Cluster, former: str, latest: str
) -> None:
    with pytest.raises(kafka_commands.RejectedError, match=METADATA):
        raise_level(cluster, level_of(latest))
    assert cluster.view().metadata_version == level_of(former)


@pytest.mark.usefixtures("all_on_latest")
def test_the_way_back_is_open_before_the_level_is_raised(cluster: Cluster, former: str, latest: str) -> None:
    view = cluster.view()
    assert view.metadata_version == level_of(former)
    assert may_change(latest, former, view.metadata_version) is None
    for node in cluster.nodes.values():
        restart(cluster, node, former)
        node.wait_ready()
    cluster.produce("t", 0, [b"back"])
    assert cluster.end_offset("t", 0) == 2


@pytest.mark.usefixtures("all_on_latest")
def test_there_is_no_way_back_after_it(cluster: Cluster, former: str, latest: str) -> None:
    before = cluster.end_offset("t", 0)
    raise_level(cluster, level_of(latest))
    wait_for("the level", lambda: cluster.view().metadata_version == level_of(latest))
    raise_level(cluster, level_of(latest))  # said twice is no error
    assert may_change(latest, former, cluster.view().metadata_version) is not None
    broker = cluster.nodes[0]
    restart(cluster, broker, former)
    assert broker.wait_end(240) != 0
    restart(cluster, broker, latest)
    broker.wait_ready()
    assert cluster.end_offset("t", 0) == before
