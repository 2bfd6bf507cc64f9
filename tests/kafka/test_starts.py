"""How real brokers stop and start: the mark of a clean stop, the recovery after a kill, and what can be seen of it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaProducer

from spindle.model.start_progress import Start, read_start
from spindle_operator import starts
from tests.kafka.cluster import Cluster
from tests.kafka.node import Node, wait_for

pytestmark = pytest.mark.slow

PARTITIONS = 200
SLOW = 240.0  # seconds: each question has a JVM that starts collect all of its metrics
MARK = ".kafka_cleanshutdown"


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=1, disks=2)
    made.up()
    return made


def fill(cluster: Cluster, topic: str, partitions: int = PARTITIONS) -> None:
    cluster.make_topic(topic, [[0]] * partitions)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap(), **cluster.ssl())
    for partition in range(partitions):
        for _ in range(20):
            producer.send(topic, b"x" * 1000, partition=partition)
    producer.flush(60)
    producer.close()


def look(node: Node) -> Start | None:
    """As the operator asks: the start that is not over, of the pod at this address."""
    running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    status = {"podIP": node.address, "containerStatuses": [{"name": "kafka", "state": running}]}
    pod = {"metadata": {"name": "demo-broker-0"}, "status": status}
    found = asyncio.run(starts.look({0: {"metadata": {}, "spec": {"id": 0}}}, {0: pod}))
    return found.get(0)


def restart(cluster: Cluster, node: Node, stop: Callable[[], None]) -> list[Start]:
    """Stop and start it; what it told while it started."""
    stop()
    cluster.forget_admin()
    node.log.write_bytes(b"")
    node.new_pod()
    node.preflight()
    node.start()
    told: list[Start] = []

    def running() -> bool:
        if node.kafka is not None and node.kafka.poll() is not None:
            raise AssertionError(f"Kafka ended:\n{node.tail()}")
        if (start := look(node)) is not None:
            told.append(start)
        return "Kafka Server started" in node.log.read_text(errors="replace")

    wait_for("Kafka's start", running, SLOW, pause=0.1)
    node.wait_ready(SLOW)
    return told


def marks(node: Node) -> list[bool]:
    return [(Path(node.log_dir(disk)) / MARK).exists() for disk in ("disk0", "disk1")]


def recovery_threads(node: Node) -> str:
    """What Kafka says that it was started with."""
    line = next(
        line for line in node.log.read_text().splitlines() if "num.recovery.threads.per.data.dir = " in line
    )
    return line.rpartition("= ")[2].strip()


def test_a_first_start_has_nothing_to_load(cluster: Cluster) -> None:
    assert read_start(cluster.nodes[0].metrics()) == Start("Empty", 0, 0)


def test_a_clean_stop_leaves_its_mark_and_the_next_start_recovers_nothing(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    fill(cluster, "clean", 20)
    stopped: list[bool] = []

    def stop() -> None:
        node.stop(seconds=SLOW)
        stopped.extend(marks(node))

    told = restart(cluster, node, stop)
    assert stopped == [True, True]
    assert {start.kind for start in told if start.kind} == {"Clean"}
    assert recovery_threads(node) == "2"


def test_a_dirty_start_recovers_with_more_threads_and_tells_how_far_it_is(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    fill(cluster, "dirty")
    stopped: list[bool] = []

    def stop() -> None:
        node.kill()
        stopped.extend(marks(node))

    told = restart(cluster, node, stop)
    assert stopped == [False, False]
    assert {start.kind for start in told if start.kind} == {"Dirty"}
    left = [start.logs_left for start in told if start.loading]
    assert left, "no progress was seen"
    assert max(left) <= 2 * PARTITIONS + 60
    assert int(recovery_threads(node)) >= 4
    assert read_start(node.metrics()) == Start("Dirty", 0, 0)
    assert cluster.end_offset("dirty", 0) == 20


def test_a_users_own_number_of_threads_stays(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    fill(cluster, "own", 20)
    node.extra = {**node.extra, "num.recovery.threads.per.data.dir": "3"}
    told = restart(cluster, node, node.kill)
    assert {start.kind for start in told if start.kind} == {"Dirty"}
    assert recovery_threads(node) == "3"
