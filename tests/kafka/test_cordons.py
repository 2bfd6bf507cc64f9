"""What becomes of a cordon whose dir leaves its broker, on real processes."""

import os
import subprocess
from collections.abc import Callable

import pytest
from kafka.protocol.admin import IncrementalAlterConfigsRequest

from e2e.cluster.build import ensure_kafka_libs
from spindle.api import names
from spindle.model.view import CORDONED, FOLLOWER_RATE, LOG_DIRS_RATE
from spindle_operator import kafka_commands
from spindle_operator.kafka_commands import RejectedError
from tests.kafka.cluster import Cluster
from tests.kafka.node import Node, wait_for

pytestmark = pytest.mark.slow

STAYS, LEAVES = 0, 1  # brokers: the one that keeps running, and the one that disks leave
THREADS = "log.cleaner.threads"


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=2, disks=4)
    made.up()
    return made


def configure(cluster: Cluster, values: dict[str, str | None]) -> None:
    link = cluster.link()
    try:
        kafka_commands.set_configs(link, "broker", str(LEAVES), values)
    finally:
        link.close()


def told(cluster: Cluster) -> tuple[dict[str, str], str | None]:
    """What the broker says is set on it: what Spindle sets, and one of a user's settings."""
    view = cluster.view()
    assert view.settings is not None
    return dict(view.settings["broker", str(LEAVES)]), view.standing[LEAVES][THREADS].own


def cordoned(cluster: Cluster) -> set[str]:
    return {path for path, entry in cluster.log_dirs(LEAVES).items() if entry["is_cordoned"]}


def holds(cluster: Cluster, *paths: str) -> None:
    wait_for("the cordon", lambda: cordoned(cluster) == set(paths))


def stop(cluster: Cluster, node: Node) -> None:
    cluster.forget_admin()
    node.stop()


def start_without(node: Node, disk: str) -> None:
    slot = node.slots.pop(disk)
    assert slot.disk is not None
    slot.disk.unmount()
    node.new_pod()
    node.preflight()
    node.start()
    node.wait_ready()


def by_another(cluster: Cluster, cordon: str) -> str:
    """What the other broker answers who is asked to set a cordon."""
    request = IncrementalAlterConfigsRequest
    config = request.AlterConfigsResource.AlterableConfig(name=CORDONED, config_operation=0, value=cordon)
    resource = request.AlterConfigsResource(resource_type=4, resource_name=str(LEAVES), configs=[config])
    link = cluster.link()
    try:
        (answer,) = link.send(request(resources=[resource], validate_only=False), STAYS).responses
    finally:
        link.close()
    return str(answer.error_message)


def through_controller(cluster: Cluster, *args: str) -> str:
    """What Kafka's own command line says, asking a controller in place of a broker (KIP-919), as the operator's principal."""
    tls, client = cluster.operator, cluster.base / "client.properties"
    pair = cluster.base / "client.pem"
    pair.write_text((tls / "tls.key").read_text() + (tls / "tls.crt").read_text())
    client.write_text(
        "security.protocol=SSL\nssl.truststore.type=PEM\nssl.keystore.type=PEM\n"
        f"ssl.truststore.location={tls / 'ca.crt'}\nssl.keystore.location={pair}\n"
    )
    where = f"{cluster.controller.address}:{names.PORT_CONTROLLER}"
    libs = f"{ensure_kafka_libs(cluster.inputs.version)}/*"
    asked = ("--bootstrap-controller", where, "--command-config", str(client), "--entity-type", "brokers")
    done = subprocess.run(
        ["java", "-Xmx128m", "-cp", libs, "kafka.admin.ConfigCommand", *asked, "--entity-name", str(LEAVES), *args],
        env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    return done.stdout


def test_a_broker_that_lacks_a_cordoned_dir_runs_and_takes_nothing_until_the_cordon_is_right(
    cluster: Cluster,
) -> None:
    node = cluster.nodes[LEAVES]
    stays, leaves = node.log_dir("disk0"), node.log_dir("disk2")
    both = f"{stays},{leaves}"
    configure(cluster, {CORDONED: both, THREADS: "2", FOLLOWER_RATE: "1000000", LOG_DIRS_RATE: "2000000"})
    holds(cluster, stays, leaves)
    stop(cluster, node)
    start_without(node, "disk2")

    # It tells what is set, but no throttle; and the other dir is not cordoned.
    assert told(cluster) == ({CORDONED: both}, "2")
    assert cordoned(cluster) == set()
    changes: tuple[dict[str, str | None], ...]
    changes = ({THREADS: "3"}, {THREADS: None}, {FOLLOWER_RATE: None}, {LOG_DIRS_RATE: None})
    for values in changes:
        with pytest.raises(RejectedError, match=CORDONED.replace(".", "[.]")):
            configure(cluster, values)

    configure(cluster, {CORDONED: stays, FOLLOWER_RATE: None})
    holds(cluster, stays)
    assert told(cluster) == ({CORDONED: stays, LOG_DIRS_RATE: "2000000"}, "2")
    configure(cluster, {CORDONED: None, LOG_DIRS_RATE: None})
    holds(cluster)
    wait_for("all is told", lambda: told(cluster) == ({}, "2"))


def test_a_stopped_brokers_cordon_is_changed_by_a_controller_and_by_no_broker(cluster: Cluster) -> None:
    node = cluster.nodes[LEAVES]
    stays, leaves = node.log_dir("disk0"), node.log_dir("disk3")
    configure(cluster, {CORDONED: f"{stays},{leaves}"})
    holds(cluster, stays, leaves)
    stop(cluster, node)

    assert "Unexpected broker id" in by_another(cluster, stays)
    through_controller(cluster, "--alter", "--add-config", f"{CORDONED}=[{stays}]")
    assert stays not in through_controller(cluster, "--describe"), "a controller tells nothing of it"
    start_without(node, "disk3")

    assert told(cluster)[0] == {CORDONED: stays}
    assert cordoned(cluster) == {stays}
