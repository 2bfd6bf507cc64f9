"""What the certificate of an agent opens at a real Kafka, in the hands of whoever took over its node."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, TopicAuthorizationFailedError

from spindle.api import names
from spindle.model.agent_access import CLUSTER, RIGHTS
from spindle.model.rights import Right
from spindle.model.view import LOG_DIRS_RATE
from spindle_agent.broker.connection import Access, BrokerError
from spindle_agent.samples.sending import send
from spindle_operator import kafka_commands, users
from spindle_operator.connection import Access as OperatorAccess
from spindle_operator.kafka_client import KafkaClient
from tests.kafka.cluster import Cluster
from tests.kafka.node import wait_for
from tests.kafka.proposals import Proposals

pytestmark = pytest.mark.kafka

USER = names.agent_principal("node1")


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=1, disks=2)
    made.up()
    made.make_topic("orders", [[0]])
    made.make_topic(names.TOPIC_SAMPLES, [[0]])
    made.produce("orders", 0, [b"of others"])
    made.let_agent()
    return made


def pems(cluster: Cluster) -> list[bytes]:
    return [(cluster.base / "agent" / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")]


@pytest.fixture(scope="module")
def taken(cluster: Cluster) -> Iterator[KafkaClient]:
    """An administrator's tools with the agent's key."""
    hosts = {0: cluster.brokers[0].address}
    access = OperatorAccess(hosts, *pems(cluster))
    link = KafkaClient("test/demo", hosts, names.PORT_REPLICATION, access.context(), 10)
    yield link
    link.close()


def client(cluster: Cluster) -> dict[str, Any]:
    folder = cluster.base / "agent"
    return {
        "bootstrap_servers": cluster.bootstrap(),
        "security_protocol": "SSL",
        "ssl_cafile": str(folder / "ca.crt"),
        "ssl_certfile": str(folder / "tls.crt"),
        "ssl_keyfile": str(folder / "tls.key"),
    }


async def test_an_agent_does_all_that_it_has_to(cluster: Cluster) -> None:
    desk = Proposals(cluster)
    async with desk.link() as link:
        here = {replica: each.path for each in await link.log_dirs() for replica in each.replicas}
        other = next(
            path for path in (each.path for each in await link.log_dirs()) if path != here["orders", 0]
        )
        assert await link.move({("orders", 0): other}) == {}
        assert (await link.leaders(["orders"]))[1] == {("orders", 0): 0}
        assert await link.throttle(await link.log_dirs()) is None
    access = Access(cluster.brokers[0].address, names.PORT_REPLICATION, *pems(cluster))
    with ThreadPoolExecutor(1) as pool:
        sent = asyncio.get_running_loop().run_in_executor(pool, send, access, 0, [(1, b"a sample")])
        assert await sent == 1


def polled(consumer: Any) -> None:
    for _ in range(20):
        assert not consumer.poll(timeout_ms=500)


def test_it_reads_no_record(cluster: Cluster) -> None:
    for topic in ("orders", names.TOPIC_SAMPLES):
        consumer = KafkaConsumer(**client(cluster), auto_offset_reset="earliest")
        try:
            consumer.assign([TopicPartition(topic, 0)])
            consumer.seek(TopicPartition(topic, 0), 0)
            with pytest.raises(TopicAuthorizationFailedError):
                polled(consumer)
        finally:
            consumer.close()


def test_it_writes_to_no_topic_but_that_of_samples(cluster: Cluster) -> None:
    producer = KafkaProducer(**client(cluster))
    try:
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send("orders", b"forged", partition=0).get(timeout=20)
    finally:
        producer.close(timeout=5)


@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param(lambda link: kafka_commands.create_topic(link, "new", [[0]], {}), id="make a topic"),
        pytest.param(
            lambda link: kafka_commands.set_configs(link, "topic", "orders", {"retention.ms": "1"}),
            id="of a topic",
        ),
        pytest.param(lambda link: kafka_commands.trim(link, [("orders", 0, 0, 1.0)]), id="delete records"),
    ],
)
def test_topics_are_not_its_to_make_or_change(
    taken: KafkaClient, attempt: Callable[[KafkaClient], None]
) -> None:
    with pytest.raises((KafkaError, RuntimeError), match=r"(?i)authoriz"):
        attempt(taken)


def test_what_kafka_puts_into_the_same_right_as_moves_between_dirs_stays_open(taken: KafkaClient) -> None:
    """The threat model says so (docs/security.md): with Kafka's own authorizer there is no smaller right. If this fails, say less there."""
    users.alter(taken, "somebody", [Right("topic", "orders", "literal", "Read", "*")], ())
    users.alter(taken, "somebody", (), [Right("topic", "orders", "literal", "Read", "*")])


@pytest.mark.parametrize("broker", ["0", ""], ids=["a-broker", "all-brokers"])
def test_it_changes_no_setting_of_a_broker(taken: KafkaClient, broker: str) -> None:
    with pytest.raises((KafkaError, RuntimeError), match=r"(?i)authoriz"):
        kafka_commands.set_configs(taken, "broker", broker, {LOG_DIRS_RATE: "1"})


def test_a_right_that_it_gives_itself_is_seen_and_taken_back(cluster: Cluster, taken: KafkaClient) -> None:
    """Who may have replicas moved between dirs may make ACLs: the operator compares them in each pass."""
    more = Right("cluster", CLUSTER, "literal", "AlterConfigs", "*")
    users.alter(taken, USER, [more], ())
    link = cluster.link()
    try:
        wait_for("it has given itself the right", lambda: more in users.agents(link)[USER])
        users.alter(link, USER, (), users.agents(link)[USER] - RIGHTS)
        wait_for("it is taken back", lambda: users.agents(link)[USER] == RIGHTS)
    finally:
        link.close()


async def test_without_its_rights_the_certificate_opens_nothing(cluster: Cluster) -> None:
    link = cluster.link()
    try:
        assert users.agents(link) == {USER: RIGHTS}
        users.alter(link, USER, (), RIGHTS)
        wait_for("they are gone", lambda: users.agents(link) == {})
    finally:
        link.close()
    async with Proposals(cluster).link() as mine:
        with pytest.raises(BrokerError, match="ClusterAuthorizationFailed"):
            await mine.log_dirs()
        with pytest.raises(BrokerError, match="ClusterAuthorizationFailed"):
            await mine.throttle([])
