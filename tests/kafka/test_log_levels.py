"""Levels of spec.logging reach a broker and a controller that run: the readiness probe writes Log4j's file, and Log4j reads it again."""

from collections.abc import Callable
from pathlib import Path

import pytest

from spindle.manifests.config_maps import LOGGERS_KEY, loggers_map
from tests.kafka.cluster import Cluster
from tests.kafka.node import Node, wait_for
from tests.kafka.projected import project

pytestmark = pytest.mark.slow


def levels(node: Node, **loggers: str) -> None:
    """What the kubelet and its readiness probe do when the ConfigMap changes."""
    names = {name.replace("__", "."): level for name, level in loggers.items()}
    made = loggers_map({"metadata": {"name": "demo", "namespace": "test", "uid": "uid"}}, names)["data"]
    project(Path(node.layout.loggers_dir), LOGGERS_KEY, made[LOGGERS_KEY])
    assert node.ready(SPINDLE_READY_EVERY="0")[0]


def new_lines(node: Node, since: int) -> list[str]:
    return node.log.read_text().splitlines()[since:]


def says(node: Node, level: str, logger: str) -> Callable[[], bool]:
    """Whether the log has another line of this level and logger from now on."""
    since = len(node.log.read_text().splitlines())
    return lambda: any(f"] {level} " in line and f"({logger}" in line for line in new_lines(node, since))


def test_levels_change_without_a_restart(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(brokers=1, disks=1)
    cluster.up()
    broker = cluster.brokers[0]
    controller = next(node for node in cluster.nodes.values() if node not in cluster.brokers)
    processes = [node.kafka.pid for node in (broker, controller) if node.kafka is not None]
    cluster.make_topic("first", [[0]])
    assert "state.change.logger" not in broker.log.read_text()

    levels(broker, state__change__logger="INFO", org__apache__kafka__raft="DEBUG")
    levels(controller, org__apache__kafka__raft="DEBUG", root="WARN")
    wait_for("the broker says more", says(broker, "DEBUG", "org.apache.kafka.raft"))
    wait_for("the controller says more", says(controller, "DEBUG", "org.apache.kafka.raft"))
    # A preset level gives way to the user's.
    told = says(broker, "INFO", "state.change.logger")
    cluster.make_topic("second", [[0]])
    wait_for("changes of state", told)

    levels(broker)
    levels(controller)

    def quiet() -> bool:
        since = [len(node.log.read_text().splitlines()) for node in (broker, controller)]
        told = says(controller, "INFO", "org.apache.kafka")
        cluster.make_topic(f"third-{since[0]}", [[0]])
        wait_for("the controller logs a topic", told)
        return not any(
            "] DEBUG " in line
            for node, n in zip((broker, controller), since, strict=True)
            for line in new_lines(node, n)
        )

    wait_for("as before", quiet)
    assert [node.kafka.pid for node in (broker, controller) if node.kafka is not None] == processes
