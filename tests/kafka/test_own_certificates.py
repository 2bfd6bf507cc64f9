"""A listener's own certificate at a real broker: presented, exchanged without a restart, and kept if the next one cannot be read."""

import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from kafka.errors import KafkaError, NodeNotReadyError

from spindle.api import names
from spindle.listeners.broker_listener import BrokerListener, keystore_key, keystore_path
from spindle.model.actions import Patch, ReloadCertificates
from spindle_operator import ca, kafka_commands
from spindle_operator.connection import Access
from spindle_operator.kafka_actions import KAFKA_ACTIONS
from spindle_operator.kafka_client import KafkaClient
from spindle_operator.kafka_commands import RejectedError
from tests.kafka.cluster import Cluster
from tests.kafka.node import wait_for

OUTSIDE, PLAIN = 9095, 9096
NO_RECORD = Patch(kind="KafkaBroker", name="demo-broker-0", uid="", body={})


def deliver(cluster: Cluster, marked: str, subject: str, *hosts: str) -> None:
    """What the kubelet does with a changed Secret: another certificate, of an authority that the cluster does not know."""
    made = ca.issue(ca.make_ca("elsewhere"), subject, hosts)
    keystore = ca.server_keystore(made["tls.crt"], made["tls.key"])
    folder = cluster.brokers[0].layout.listeners_dir
    Path(folder).mkdir(parents=True, exist_ok=True)
    for path in (keystore_path(folder, "outside"), keystore_path(folder, "outside", marked)):
        Path(path).write_bytes(keystore)


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=1, disks=1)
    broker = made.brokers[0]
    broker.doors = (
        BrokerListener("outside", OUTSIDE, "none", broker.address, OUTSIDE, own_certificate=True),
        BrokerListener("plain", PLAIN, "none", broker.address, PLAIN),
    )
    deliver(made, "a", "first", "broker-0.example.com", "old.example.com")
    made.up()
    return made


@pytest.fixture(scope="module")
def link(cluster: Cluster) -> Iterator[KafkaClient]:
    pems = [(cluster.operator / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")]
    hosts = {0: cluster.brokers[0].address}
    made = KafkaClient("test/demo", hosts, names.PORT_REPLICATION, Access(hosts, *pems).context(), 10)
    yield made
    made.close()


def connected(cluster: Cluster, port: int = OUTSIDE) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(socket.create_connection((cluster.brokers[0].address, port), 10))


def presented(cluster: Cluster, port: int = OUTSIDE) -> str:
    with connected(cluster, port) as connection:
        certificate = x509.load_der_x509_certificate(connection.getpeercert(binary_form=True) or b"")
    return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def load(cluster: Cluster, link: KafkaClient, marked: str) -> None:
    folder = cluster.brokers[0].layout.listeners_dir
    paths = {keystore_key("outside"): keystore_path(folder, "outside", marked)}
    carry_out(link, paths, *paths)


def carry_out(link: KafkaClient, paths: Mapping[str, str], *remove: str) -> None:
    action = ReloadCertificates(broker=0, paths=paths, remove=remove, begin=NO_RECORD, record=NO_RECORD)
    KAFKA_ACTIONS[ReloadCertificates].run(link, action)


def test_the_own_certificate_is_presented_on_its_listener_alone(cluster: Cluster) -> None:
    assert presented(cluster) == "first"
    assert presented(cluster, PLAIN) == names.PRINCIPAL_NODE


def test_another_one_is_loaded_while_the_broker_runs(cluster: Cluster, link: KafkaClient) -> None:
    """With another subject, and without one of the hosts: Kafka refuses both unless it is told otherwise."""
    process, old = cluster.brokers[0].kafka, connected(cluster)
    with old:
        deliver(cluster, "b", "second", "broker-0.example.com")
        assert presented(cluster) == "first"
        load(cluster, link, "b")
        wait_for("the new certificate", lambda: presented(cluster) == "second")
        old.settimeout(1)
        with pytest.raises(TimeoutError):  # it was not closed
            old.recv(1)
    assert cluster.brokers[0].kafka is process
    assert presented(cluster, PLAIN) == names.PRINCIPAL_NODE


def test_a_file_that_is_not_there_yet_is_refused_and_changes_nothing(
    cluster: Cluster, link: KafkaClient
) -> None:
    before = presented(cluster)
    with pytest.raises((KafkaError, RuntimeError)):
        load(cluster, link, "c")
    assert presented(cluster) == before


def test_nothing_of_it_stays_in_kafka_and_a_start_presents_the_newest(
    cluster: Cluster, link: KafkaClient
) -> None:
    deliver(cluster, "d", "fourth", "broker-0.example.com")
    load(cluster, link, "d")
    wait_for("the new certificate", lambda: presented(cluster) == "fourth")
    deliver(cluster, "e", "fifth", "broker-0.example.com")
    Path(keystore_path(cluster.brokers[0].layout.listeners_dir, "outside", "d")).unlink()
    cluster.forget_admin()
    broker = cluster.brokers[0]
    broker.stop()
    broker.start()
    broker.wait_ready()
    assert presented(cluster) == "fifth"


def test_what_an_interrupted_load_has_left_is_removed_and_hinders_no_other_setting(
    cluster: Cluster, link: KafkaClient
) -> None:
    """Kafka starts with a setting whose file is gone, but applies none of the broker's dynamic settings, and takes no further one."""
    folder = cluster.brokers[0].layout.listeners_dir
    deliver(cluster, "f", "sixth", "broker-0.example.com")
    left = {keystore_key("outside"): keystore_path(folder, "outside", "f")}
    wait_for("the broker's answer", lambda: tried(link, left))
    deliver(cluster, "g", "seventh", "broker-0.example.com")
    Path(keystore_path(folder, "outside", "f")).unlink()
    cluster.forget_admin()
    broker = cluster.brokers[0]
    broker.stop()
    broker.start()
    broker.wait_ready()
    assert presented(cluster) == "seventh"
    with pytest.raises(RejectedError, match="Failed to load PEM SSL keystore"):
        wait_for("the broker's answer", lambda: tried(link, {"log.cleaner.backoff.ms": "16000"}))
    carry_out(link, {}, *left)
    # The broker learns of that from the metadata log.
    wait_for("the setting", lambda: tried(link, {"log.cleaner.backoff.ms": "16000"}, RejectedError))
    assert presented(cluster) == "seventh"


def tried(link: KafkaClient, values: Mapping[str, str], also: type[Exception] = NodeNotReadyError) -> bool:
    """Whether the broker, which may have started just now, takes them."""
    try:
        kafka_commands.set_configs(link, "broker", "0", values)
    except (NodeNotReadyError, also):
        return False
    return True
