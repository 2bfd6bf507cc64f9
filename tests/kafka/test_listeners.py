"""Who gets in, and who may do what, at a real broker: the cells of the table in docs/security.md."""

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, TopicAuthorizationFailedError

from spindle.api import names
from spindle.listeners.broker_listener import BrokerListener
from spindle.model.rights import Right
from spindle_operator import ca, users
from spindle_operator.connection import Access
from spindle_operator.kafka_client import KafkaClient
from tests.kafka.certs import Ca
from tests.kafka.cluster import Cluster
from tests.kafka.node import wait_for

INSIDE, OPEN, NARROW, PLAIN, PLAIN_SCRAM = 9095, 9096, 9097, 9098, 9099
WRITE = (
    Right("topic", "orders", "literal", "Write", "*"),
    Right("topic", "orders", "literal", "Describe", "*"),
)
READ = (Right("topic", "orders", "literal", "Read", "*"),)
QUOTA = 20_000.0  # bytes per second
OUTSIDE_MS = 4000  # for which one that is not let in knocks; those that are let in are inside within a second


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=1, disks=1)
    host = made.brokers[0].address
    made.brokers[0].doors = (
        BrokerListener("inside", INSIDE, "scram", host, INSIDE),
        BrokerListener("open", OPEN, "none", host, OPEN),
        BrokerListener("narrow", NARROW, "none", host, NARROW, limits=(("max.connections", "1"),)),
        BrokerListener("plain", PLAIN, "none", host, PLAIN, tls=False),
        BrokerListener("word", PLAIN_SCRAM, "scram", host, PLAIN_SCRAM, tls=False),
    )
    made.up()
    made.make_topic("orders", [[0]])
    return made


@pytest.fixture(scope="module")
def link(cluster: Cluster) -> Iterator[KafkaClient]:
    """The operator's own connection."""
    pems = [(cluster.operator / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")]
    hosts = {0: cluster.brokers[0].address}
    access = Access(hosts, *pems)
    made = KafkaClient("test/demo", hosts, names.PORT_REPLICATION, access.context(), 10)
    yield made
    made.close()


def encrypted(cluster: Cluster, port: int, **more: Any) -> dict[str, Any]:
    """A client that knows the authority and says nothing of itself."""
    return {
        "bootstrap_servers": [f"{cluster.brokers[0].address}:{port}"],
        "security_protocol": "SSL",
        "ssl_cafile": str(cluster.operator / "ca.crt"),
        **more,
    }


def certified(cluster: Cluster, folder: Path) -> dict[str, Any]:
    more = {"ssl_certfile": str(folder / "tls.crt"), "ssl_keyfile": str(folder / "tls.key")}
    return encrypted(cluster, names.PORT_CLIENT, **more)


def scram(cluster: Cluster, user: str, password: str) -> dict[str, Any]:
    return encrypted(
        cluster,
        INSIDE,
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username=user,
        sasl_plain_password=password,
    )


def write(
    client: dict[str, Any], value: bytes = b"x", patience_ms: int = 8000, topic: str = "orders"
) -> None:
    """Write one record; raises if that is not allowed."""
    producer = KafkaProducer(
        **client, acks="all", retries=0, max_block_ms=patience_ms, bootstrap_timeout_ms=patience_ms
    )
    try:
        producer.send(topic, value, partition=0).get(timeout=15)
    finally:
        producer.close(timeout=1)


def read(client: dict[str, Any]) -> int:
    """How many records of ``orders`` can be read."""
    consumer = KafkaConsumer(**client, consumer_timeout_ms=4000, bootstrap_timeout_ms=8000)
    try:
        consumer.assign([TopicPartition("orders", 0)])
        consumer.seek_to_beginning()
        return sum(1 for _ in consumer)
    finally:
        consumer.close()


def give(link: KafkaClient, user: str, *rights: Right) -> None:
    users.alter(link, user, rights, ())
    wait_for("the rights", lambda: users.look(link, [user])[user].rights >= set(rights))


def set_password(link: KafkaClient, user: str, password: bytes) -> None:
    users.set_password(link, user, password)
    wait_for("the password", lambda: users.look(link, [user])[user].scram)


def shut_out(client: dict[str, Any]) -> None:
    with pytest.raises((KafkaError, OSError)) as caught:
        write(client, patience_ms=OUTSIDE_MS)
    assert not isinstance(caught.value, TopicAuthorizationFailedError), "it was let in"


def test_a_client_without_a_certificate_is_not_let_in_where_one_is_asked_for(cluster: Cluster) -> None:
    shut_out(encrypted(cluster, names.PORT_CLIENT))


def test_a_certificate_of_another_authority_is_not_let_in(cluster: Cluster, tmp_path: Path) -> None:
    shut_out(certified(cluster, Ca().client(tmp_path, "admin")))


def test_without_encryption_there_is_no_door_unless_tls_is_switched_off(cluster: Cluster) -> None:
    for port in (names.PORT_CLIENT, INSIDE, OPEN):
        shut_out(encrypted(cluster, port, security_protocol="PLAINTEXT"))


def test_where_tls_is_switched_off_clients_have_the_same_rights_as_with_it(
    cluster: Cluster, link: KafkaClient
) -> None:
    bare = {"bootstrap_servers": [f"{cluster.brokers[0].address}:{PLAIN}"], "security_protocol": "PLAINTEXT"}
    with pytest.raises(TopicAuthorizationFailedError):
        write(bare)
    set_password(link, "paula", b"right")
    give(link, "paula", *WRITE)
    known = scram(cluster, "paula", "right") | {
        "bootstrap_servers": [f"{cluster.brokers[0].address}:{PLAIN_SCRAM}"],
        "security_protocol": "SASL_PLAINTEXT",
    }
    write(known)
    shut_out({**known, "sasl_plain_password": "wrong"})
    shut_out(encrypted(cluster, PLAIN))


def test_the_anonymous_are_let_in_where_nothing_is_asked_and_may_do_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    with pytest.raises(TopicAuthorizationFailedError):
        write(encrypted(cluster, OPEN))
    # A certificate that nobody asked for makes nobody of them, the operator's least of all.
    folder = cluster.ca.client(tmp_path, names.PRINCIPAL_OPERATOR)
    files = {"ssl_certfile": str(folder / "tls.crt"), "ssl_keyfile": str(folder / "tls.key")}
    with pytest.raises(TopicAuthorizationFailedError):
        write(encrypted(cluster, OPEN, **files))


def test_a_user_without_rights_is_let_in_and_may_do_nothing(cluster: Cluster, tmp_path: Path) -> None:
    folder = cluster.ca.client(tmp_path, "stranger")
    with pytest.raises(TopicAuthorizationFailedError):
        write(certified(cluster, folder))


def test_a_user_may_do_what_it_was_given_and_no_more(
    cluster: Cluster, link: KafkaClient, tmp_path: Path
) -> None:
    client = certified(cluster, cluster.ca.client(tmp_path, "writer"))
    give(link, "writer", *WRITE)
    write(client)
    with pytest.raises(TopicAuthorizationFailedError):
        read(client)
    give(link, "writer", *READ)
    assert read(client) >= 1
    users.alter(link, "writer", (), WRITE[:1])
    wait_for("the right to be gone", lambda: WRITE[0] not in users.look(link, ["writer"])["writer"].rights)
    with pytest.raises(TopicAuthorizationFailedError):
        write(client)


def test_a_password_lets_in_and_a_wrong_one_or_none_does_not(cluster: Cluster, link: KafkaClient) -> None:
    set_password(link, "alice", b"right")
    give(link, "alice", *WRITE)
    write(scram(cluster, "alice", "right"))
    shut_out(scram(cluster, "alice", "wrong"))
    shut_out(scram(cluster, "nobody", "right"))
    shut_out(encrypted(cluster, INSIDE))
    users.drop_password(link, "alice")
    users.drop_password(link, "alice")
    wait_for("it to be gone", lambda: not users.look(link, ["alice"])["alice"].scram)
    shut_out(scram(cluster, "alice", "right"))


def test_what_a_user_has_is_seen_and_that_of_others_is_not(cluster: Cluster, link: KafkaClient) -> None:
    give(link, "seen", *READ)
    give(link, "other", *WRITE)
    users.set_quotas(link, "seen", {"producer_byte_rate": QUOTA, "request_percentage": 50.0})
    users.set_quotas(link, "other", {"consumer_byte_rate": 1.0})
    wait_for("the quotas", lambda: len(users.look(link, ["seen"])["seen"].quotas) == 2)
    seen = users.look(link, ["seen", "nobody"])
    assert seen["seen"].rights == set(READ)
    assert seen["seen"].quotas == {"producer_byte_rate": QUOTA, "request_percentage": 50.0}
    assert (seen["nobody"].rights, seen["nobody"].quotas, seen["nobody"].scram) == (frozenset(), {}, False)
    users.set_quotas(link, "seen", {"request_percentage": None})
    wait_for("one less", lambda: users.look(link, ["seen"])["seen"].quotas == {"producer_byte_rate": QUOTA})


def test_a_quota_is_felt(cluster: Cluster, link: KafkaClient, tmp_path: Path) -> None:
    client = certified(cluster, cluster.ca.client(tmp_path, "slow"))
    give(link, "slow", *WRITE)
    users.set_quotas(link, "slow", {"producer_byte_rate": QUOTA})
    wait_for("the quota", lambda: users.look(link, ["slow"])["slow"].quotas)
    producer = KafkaProducer(**client, acks="all", batch_size=16_384)
    began = time.monotonic()
    try:
        for sent in [producer.send("orders", b"x" * 10_000, partition=0) for _ in range(40)]:
            sent.get(timeout=60)
        took = time.monotonic() - began
    finally:
        producer.close(timeout=5)
    print(f"400 kB took {took:.1f} s under a quota of {QUOTA / 1000:.0f} kB/s")
    # Kafka lets a burst through (quota.window.num times quota.window.size.seconds = 11 s of the rate), and holds back the rest.
    assert took > 4


def test_a_broker_that_trusts_two_authorities_lets_in_clients_of_both(
    cluster: Cluster, tmp_path: Path
) -> None:
    """What stands between the first and the last step of a replacement of the authority."""
    broker, following = cluster.brokers[0], Ca()
    trusted = Path(broker.layout.tls_dir) / "ca.crt"
    alone = trusted.read_bytes()
    client = certified(cluster, following.client(tmp_path / "new", "stranger"))
    shut_out(client)
    cluster.forget_admin()
    broker.stop()
    trusted.write_bytes(alone + following.pem.cert)
    broker.start()
    broker.wait_ready()
    try:
        with pytest.raises(TopicAuthorizationFailedError):
            write(client)
        with pytest.raises(TopicAuthorizationFailedError):
            write(certified(cluster, cluster.ca.client(tmp_path / "old", "stranger")))
        assert len(ca.fingerprints(trusted.read_bytes())) == 2
    finally:
        trusted.write_bytes(alone)


def test_a_listener_takes_as_many_connections_as_it_may(cluster: Cluster) -> None:
    """One more is served when another one is closed; the other listeners do not notice."""
    context = ssl.create_default_context(cafile=str(cluster.operator / "ca.crt"))
    context.check_hostname = False
    address = (cluster.brokers[0].address, NARROW)

    def greeted(connection: socket.socket) -> bool:
        connection.settimeout(2)
        try:
            context.wrap_socket(connection, do_handshake_on_connect=False).do_handshake()
        except TimeoutError:
            return False
        return True

    first, second = socket.create_connection(address, 5), socket.create_connection(address, 5)
    try:
        first.settimeout(5)
        held = context.wrap_socket(first)
        assert not greeted(second)
        with socket.create_connection((address[0], OPEN), 5) as other:
            assert greeted(other)
        held.close()
        wait_for("the next one is served", lambda: greeted(socket.create_connection(address, 5)))
    finally:
        first.close()
        second.close()
