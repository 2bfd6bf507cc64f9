"""What preflight hands to the start script, on a real Kafka: a word is never a command, and metrics that nobody may read are served to nobody."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from spindle.api import names
from tests.kafka.cluster import Cluster
from tests.kafka.node import Node

pytestmark = pytest.mark.kafka

LOOPBACK = "127.0.0.1"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "cluster", brokers=1, disks=1)
    try:
        yield made
    finally:
        made.down()


def reaches(address: str) -> bool:
    try:
        socket.create_connection((address, names.PORT_METRICS), 5).close()
    except OSError:
        return False
    return True


def prepared(node: Node, monkeypatch: pytest.MonkeyPatch, bind: str) -> None:
    """A pod whose preflight is told where the metrics are served, as the pod's environment tells it; ready to start."""
    outer = node.environment

    monkeypatch.setattr(node, "environment", lambda: {**outer(), names.ENV_METRICS_BIND: bind})
    node.new_pod()
    node.clear_blank()
    node.preflight()


def test_metrics_that_are_for_nobody_are_served_inside_of_the_pod_alone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = cluster.controller
    node.up()
    node.wait_ready()
    assert reaches(node.address)
    node.stop()
    prepared(node, monkeypatch, LOOPBACK)
    node.start()
    node.wait_ready()  # its readiness is read from the same port
    assert reaches(LOOPBACK)
    assert not reaches(node.address)


def test_a_word_of_the_environment_is_no_command_of_the_start_script(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    prepared(
        cluster.controller,
        monkeypatch,
        f"{LOOPBACK}\ntouch {made}\n$(touch {made})`touch {made}`;touch {made};'touch {made}",
    )
    cluster.controller.start()
    # No address: Kafka does not start with it.
    assert cluster.controller.wait_end() != 0
    assert not made.exists()
