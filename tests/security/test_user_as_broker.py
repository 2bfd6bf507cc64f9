"""A KafkaUser that is named like a broker's host does not pass for that broker."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.build import ensure_kafka_libs
from e2e.cluster.debian import ensure_programs
from spindle.api.names import API_VERSION
from spindle_operator import ca
from tests.kafka.certs import Ca
from tests.kube.api import Resources
from tests.kube.test_refusals import assert_says, refused

HOST = "localhost"  # the one name of a host that every machine finds


@contextmanager
def impostor(folder: Path) -> Iterator[tuple[int, list[str]]]:
    """A server with a user's certificate: its port, and what became of each client's handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "keystore.pem")
    seen: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                client.settimeout(20)
                with client:
                    try:
                        # With TLS 1.3 this ends when the client has said that it takes the server.
                        context.wrap_socket(client, server_side=True).close()
                        seen.append("believed")
                    except OSError as error:
                        seen.append(f"refused: {error}")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1], seen
        server.shutdown(socket.SHUT_RDWR)
        thread.join(timeout=20)


@pytest.mark.kafka
def test_kafkas_own_client_does_not_believe_it(tmp_path: Path) -> None:
    ensure_programs("java")
    authority = Ca()
    user = authority.client(tmp_path / "user", HOST)
    (tmp_path / "client.properties").write_bytes(
        b"request.timeout.ms=5000\ndefault.api.timeout.ms=8000\n"
        + ca.client_properties(ca.issue(authority.pem, "somebody"), "in the arguments")
    )
    with impostor(user) as (port, seen):
        command = ["java", "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", f"{ensure_kafka_libs()}/*"]
        command += ["org.apache.kafka.tools.TopicCommand", "--list", "--bootstrap-server", f"{HOST}:{port}"]
        command += ["--command-config", str(tmp_path / "client.properties")]
        said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert seen, said.stderr
    assert "believed" not in seen
    assert any("ALERT_CERTIFICATE_UNKNOWN" in each for each in seen), seen


@pytest.mark.kafka
def test_nor_does_one_that_has_openssl(tmp_path: Path) -> None:
    authority = Ca()
    context = ssl.create_default_context(cafile=authority.client(tmp_path / "user", HOST) / "ca.crt")
    context.hostname_checks_common_name = True
    with (
        impostor(tmp_path / "user") as (port, _),
        socket.create_connection(("127.0.0.1", port)) as connection,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        context.wrap_socket(connection, server_hostname=HOST)


def user(name: str) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "KafkaUser",
        "metadata": {"name": name},
        "spec": {"cluster": "demo"},
    }


@pytest.mark.kube
@pytest.mark.parametrize(
    "name", ["demo-broker-0.demo-brokers.kafka.svc", "kafka.example.com", "10.0.0.1", HOST]
)
def test_names_that_look_like_hosts_are_refused(shared: Resources, name: str) -> None:
    assert_says(refused(shared, user(name)), "metadata.name", "without dots")


@pytest.mark.kube
def test_other_names_are_taken(shared: Resources) -> None:
    shared.create(user("orders-eu"), dry=True)


@pytest.mark.kube
@pytest.mark.parametrize("resource", ["topic", "group", "transactionalId"])
def test_a_right_on_nothing_is_refused(shared: Resources, resource: str) -> None:
    """Kafka refuses it each time, so that the cluster's passes failed to get it done for as long as the KafkaUser was there."""
    asked = user("orders")
    asked["spec"]["acls"] = [
        {"resource": resource, "name": "", "pattern": "prefixed", "operations": ["Read"]}
    ]
    assert_says(refused(shared, asked), "spec.acls[0].name", "name is the topic")
