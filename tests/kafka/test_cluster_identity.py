"""A cluster is born: every disk becomes a log dir with the directory id on record, and no one gets in uninvited."""

import json
import os
import signal
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient, NewTopic  # type: ignore[attr-defined]
from kafka.errors import ClusterAuthorizationFailedError, TopicAuthorizationFailedError

from e2e.cluster.build import ensure_kafka_libs
from spindle.api import names
from spindle.model.disk_identity import parse_meta_properties
from spindle_operator.ca import client_properties
from tests.kafka.certs import Ca
from tests.kafka.cluster import Cluster
from tests.kafka.node import wait_for


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=1, disks=2)
    made.up()
    return made


def test_every_disk_is_a_log_dir_with_its_directory_id(cluster: Cluster) -> None:
    broker = cluster.brokers[0]
    said = cluster.log_dirs(0)
    assert set(said) == {broker.log_dir("disk0"), broker.log_dir("disk1")}
    assert [entry["error_code"] for entry in said.values()] == [0, 0]
    for name, slot in broker.slots.items():
        meta = parse_meta_properties(Path(broker.log_dir(name), "meta.properties").read_text())
        assert meta.directory_id == slot.directory_id
        identity = json.loads((broker.mount(name) / "spindle.json").read_text())
        assert identity["directoryId"] == slot.directory_id
        assert identity["fsUuid"] == slot.fs_uuid


def test_the_controller_is_born_with_its_directory_id(cluster: Cluster) -> None:
    quorum = cluster.view().quorum
    assert quorum is not None
    recorded = cluster.controller.slots["metadata"].directory_id
    assert [(voter.id, voter.directory_id) for voter in quorum.voters] == [(9000, recorded)]
    root = cluster.controller.mount("metadata")
    assert json.loads((root / "spindle.json").read_text())["directoryId"] == recorded
    assert not (root / "spindle.json.pending").exists()


def test_rack_and_defaults_are_what_was_asked_for(cluster: Cluster) -> None:
    view = cluster.view()
    assert view.brokers is not None
    assert view.brokers[0].rack == "zone-0"
    cluster.admin().create_topics([NewTopic("defaults", num_partitions=1)])
    wait_for("topic", lambda: cluster.partitions("defaults"))
    described = cluster.view()
    assert described.min_isr is not None
    assert described.min_isr["defaults"] == 1


@pytest.mark.parametrize("port", [names.PORT_CLIENT, names.PORT_REPLICATION])
def test_client_without_a_certificate_gets_nowhere(cluster: Cluster, port: int) -> None:
    address = (cluster.brokers[0].address, port)
    context = ssl.create_default_context(cadata=cluster.ca.pem.cert.decode())
    with pytest.raises((ssl.SSLError, ConnectionError)):
        _exchange(context, address)


def test_client_with_a_certificate_of_another_authority_gets_nowhere(
    cluster: Cluster, tmp_path: Path
) -> None:
    folder = Ca().client(tmp_path / "intruder", names.PRINCIPAL_OPERATOR)
    context = ssl.create_default_context(cadata=cluster.ca.pem.cert.decode())
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        _exchange(context, (cluster.brokers[0].address, names.PORT_CLIENT))


def _exchange(context: ssl.SSLContext, address: tuple[str, int]) -> None:
    """TLS 1.3 tells a client of its refusal only when it reads."""
    import socket

    with (
        socket.create_connection(address, timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=address[0]) as tls,
    ):
        tls.send(b"\0\0\0\0")
        if tls.recv(1) == b"":
            raise ConnectionError("closed")


def test_admin_may_nothing_until_it_is_granted(cluster: Cluster, tmp_path: Path) -> None:
    folder = cluster.ca.client(tmp_path / "admin", names.PRINCIPAL_ADMIN)
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap(names.PORT_CLIENT), **cluster.ssl(folder))
    try:
        with pytest.raises((ClusterAuthorizationFailedError, TopicAuthorizationFailedError)):
            admin.create_topics([NewTopic("forbidden", num_partitions=1, replication_factor=1)])
    finally:
        admin.close()
    assert "forbidden" not in {p.topic for p in cluster.view().partitions or ()}


def test_kafkas_own_tools_take_the_admins_client_properties(cluster: Cluster, tmp_path: Path) -> None:
    """As the operator's principal, which may list topics."""
    files = {name: (cluster.operator / name).read_bytes() for name in ("ca.crt", "tls.key", "keystore.pem")}
    bootstrap = f"{cluster.brokers[0].address}:{names.PORT_CLIENT}"
    properties = tmp_path / "client.properties"
    properties.write_bytes(client_properties(files, bootstrap))
    done = subprocess.run(
        [
            "java",
            "-Xmx128m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{ensure_kafka_libs()}/*",
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", bootstrap, "--command-config", str(properties), "--list"),
        ],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"]},
    )
    assert "defaults" in done.stdout.split()


def test_metrics_for_prometheus(cluster: Cluster) -> None:
    text = cluster.brokers[0].metrics()
    assert cluster.brokers[0].metric("kafka_server_kafkaserver_brokerstate") == 3
    assert cluster.brokers[0].metric("kafka_log_logmanager_offlinelogdirectorycount") == 0
    assert "kafka_server_replicamanager_underreplicatedpartitions 0.0" in text
    assert 'topic="defaults"' not in text
    assert cluster.controller.metric("kafka_controller_kafkacontroller_activecontrollercount") == 1


def test_all_killed_at_once_come_back_with_everything(cluster: Cluster) -> None:
    broker, controller = cluster.brokers[0], cluster.controller
    cluster.make_topic("kept", [[0]])
    cluster.produce("kept", 0, [b"%d" % index for index in range(100)])
    cluster.forget_admin()
    for node in (broker, controller):
        node.stop(signal.SIGKILL)
    assert not broker.ready()[0]

    broker.start()  # a container restart: no init containers
    wait_for("a broker that looks for its controller", lambda: "state is 1, not 3" in broker.ready()[1])
    controller.start()
    cluster.wait_ready()
    assert cluster.end_offset("kept", 0) == 100
