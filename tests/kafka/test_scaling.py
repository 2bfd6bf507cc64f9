"""A broker leaves real Kafka and comes back: emptied under load, stopped, unregistered, and taken in again with its disks."""

import itertools
import threading
from collections.abc import Callable
from typing import Self

import pytest
from kafka.errors import KafkaError

from spindle.api import names
from spindle.evacuation.backfill import plan_backfill
from spindle.evacuation.evacuate import evacuate
from spindle.model.view import Broker
from spindle.scaling.rules import may_go
from spindle_operator import kafka_commands
from tests.kafka.cluster import Cluster
from tests.kafka.node import wait_for
from tests.kafka.test_moves import Operator

pytestmark = pytest.mark.slow

LEAVES = 3
TOPICS = 2
PARTITIONS = 4


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=4, disks=2)
    made.up()
    for topic in range(TOPICS):
        layout = [[(topic + index + copy) % 4 for copy in range(3)] for index in range(PARTITIONS)]
        made.make_topic(f"t{topic}", layout, **{"min.insync.replicas": "2"})
    return made


@pytest.fixture
def operator(cluster: Cluster) -> Operator:
    return Operator(cluster)


class Load:
    """Records with acks=all to every partition in turn until it is told to end; none may fail."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.sent: dict[tuple[str, int], int] = {}
        self._end = threading.Event()
        self._failed: list[KafkaError] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        assert not self._failed

    def _run(self) -> None:
        everywhere = [(f"t{topic}", index) for topic in range(TOPICS) for index in range(PARTITIONS)]
        try:
            for where in itertools.cycle(everywhere):
                if self._end.is_set():
                    return
                self.cluster.produce(*where, (b"x" * 1000 for _ in range(20)), retries=20)
                self.sent[where] = self.sent.get(where, 0) + 20
        except KafkaError as error:
            self._failed.append(error)


def brokers(cluster: Cluster) -> dict[int, Broker]:
    return dict(cluster.view().brokers or {})


def unregister(operator: Operator, broker: int) -> None:
    link = operator.link()
    try:
        kafka_commands.unregister(link, broker)
    finally:
        link.close()


@pytest.fixture(scope="module")
def gone(cluster: Cluster) -> Load:
    """Broker 3 is emptied under load, stopped and unregistered."""
    operator = Operator(cluster)
    with Load(cluster) as load:
        wait_for("records everywhere", lambda: len(load.sent) == TOPICS * PARTITIONS, 60)
        view = cluster.view()
        refused = may_go(view, LEAVES)
        assert refused is not None
        assert refused.reason == "ReplicasOnBroker"
        dirs = [(LEAVES, d.path) for d in brokers(cluster)[LEAVES].log_dirs or ()]
        plan = evacuate(view, (), dirs, closed=dirs)
        assert plan.problem is None
        operator.step(*plan.moves)
        operator.until_quiet(seconds=180)
        wait_for("nothing on it any more", lambda: may_go(cluster.view(), LEAVES) is None, 120)
        cluster.forget_admin()
        cluster.nodes[LEAVES].stop()
        wait_for("Kafka to notice", lambda: brokers(cluster)[LEAVES].fenced, 60)
        unregister(operator, LEAVES)
        wait_for("Kafka to forget it", lambda: LEAVES not in brokers(cluster), 30)
    return load


def test_it_is_forgotten_and_everything_acknowledged_is_there(cluster: Cluster, gone: Load) -> None:
    assert sorted(brokers(cluster)) == [0, 1, 2]
    for (topic, index), count in gone.sent.items():
        state = cluster.partitions(topic)[index]
        assert LEAVES not in {*state.replicas, *state.isr, *(state.elr or ())}
        assert len(state.isr) == 3
        assert cluster.end_offset(topic, index) >= count


def test_to_forget_it_twice_is_no_error(cluster: Cluster, operator: Operator, gone: Load) -> None:
    assert LEAVES not in brokers(cluster)
    unregister(operator, LEAVES)
    assert sorted(brokers(cluster)) == [0, 1, 2]


def test_kafka_forgets_one_that_holds_replicas_so_rule_5_must_not(
    cluster: Cluster, operator: Operator, gone: Load
) -> None:
    """What the rule is there for: Kafka itself does not ask."""
    cluster.make_topic("held", [[2, 0, 1]])
    cluster.forget_admin()
    cluster.nodes[2].stop()
    wait_for("Kafka to notice", lambda: brokers(cluster)[2].fenced, 60)
    assert may_go(cluster.view(), 2) is not None
    unregister(operator, 2)
    wait_for("Kafka to forget it", lambda: 2 not in brokers(cluster), 30)
    assert 2 in cluster.partitions("held")[0].replicas
    cluster.nodes[2].start()
    cluster.nodes[2].wait_ready()
    wait_for("all in sync", lambda: cluster.isr("held") == {0: [0, 1, 2]}, 60)


def test_it_comes_back_with_its_disks_and_is_filled(cluster: Cluster, operator: Operator, gone: Load) -> None:
    node = cluster.nodes[LEAVES]
    node.start()
    node.wait_ready()
    dirs = brokers(cluster)[LEAVES].log_dirs or ()
    assert [d.error for d in dirs] == [0, 0]
    assert {d.path for d in dirs} == {f"{node.mount(disk)}/{names.LOG_SUBDIR}" for disk in ("disk0", "disk1")}
    moves = plan_backfill(cluster.view(), [(LEAVES, d.path) for d in dirs])
    assert moves
    operator.step(*moves)
    operator.until_quiet(seconds=180)
    assert sum(
        LEAVES in p.replicas for topic in range(TOPICS) for p in cluster.partitions(f"t{topic}").values()
    )
    for topic, index in gone.sent:
        assert cluster.end_offset(topic, index) >= gone.sent[topic, index]
