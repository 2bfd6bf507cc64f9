"""What KafkaTopics rely on, on real brokers: places chosen before the creation, growth, settings in another form, and deletion by id alone."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from spindle.model.actions import AddPartitions, ConfigureTopic, CreateTopic, DeleteTopic
from spindle.model.view import KafkaView
from spindle.topics.observed import ObservedTopics, differing
from spindle.topics.placement import BrokerRoom, DirRoom, Rooms, place
from spindle_operator.connection import Access
from spindle_operator.kafka_commands import RejectedError
from spindle_operator.kafka_executor import KafkaExecutor
from tests.kafka.cluster import Cluster

TOPIC = "orders"
CONFIG = {"cleanup.policy": "compact, delete", "min.cleanable.dirty.ratio": ".25", "retention.ms": "1000"}


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=3, disks=2)
    made.up()
    return made


@pytest.fixture
async def gate(cluster: Cluster) -> AsyncIterator[KafkaExecutor]:
    made = KafkaExecutor("test/demo", 5.0)
    await look(made, cluster)
    yield made
    await made.shutdown()


async def look(gate: KafkaExecutor, cluster: Cluster) -> KafkaView:
    pems = ((cluster.operator / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key"))
    hosts = {node.node_id: node.address for node in cluster.brokers}
    view, _ = await gate.look(Access(hosts, *pems), managed={TOPIC: tuple(CONFIG)})
    assert view.error is None
    return view


async def until(gate: KafkaExecutor, cluster: Cluster, count: int) -> KafkaView:
    """The view once the topic has so many partitions, each with its logs."""
    for _ in range(40):
        view = await look(gate, cluster)
        logs = sum(
            topic == TOPIC
            for b in (view.brokers or {}).values()
            for d in b.log_dirs or ()
            for topic, _ in d.replicas
        )
        if len(ObservedTopics(view).partitions(TOPIC)) == count and logs == 3 * count:
            return view
    raise AssertionError(f"the topic has not {count} partitions")


def rooms(view: KafkaView) -> Rooms:
    brokers = {
        b.id: BrokerRoom(
            b.id,
            b.rack,
            [DirRoom(d.path, 0.0, float(d.total_bytes or 1), 0.9, len(d.replicas)) for d in b.log_dirs or ()],
        )
        for b in (view.brokers or {}).values()
    }
    return Rooms(brokers, 1000.0)


async def test_the_life_of_a_topic(cluster: Cluster, gate: KafkaExecutor) -> None:
    view = await look(gate, cluster)
    there = rooms(view)
    placed = place(there, 6, 3)
    await gate.carry_out(CreateTopic(topic=TOPIC, assignments=placed.rows, configs=CONFIG, dirs=placed.dirs))
    view = await until(gate, cluster, 6)
    seen = ObservedTopics(view)
    assert tuple(p.replicas for p in seen.partitions(TOPIC)) == placed.rows
    assert on_dirs(view) == set(placed.dirs), "each broker took the dir that it was told before"
    assert all(partition.elr is not None for partition in seen.partitions(TOPIC))

    # Kafka writes values in a form of its own: that is no drift.
    own = (view.managed or {})[TOPIC]
    assert own.keys() == CONFIG.keys()
    assert not differing(CONFIG, own, "4.3.1")

    # A topic that exists although the view had none keeps its replicas where they are.
    paths = {
        broker.id: [each.path for each in broker.log_dirs or ()] for broker in (view.brokers or {}).values()
    }
    others = tuple((b, i, next(each for each in paths[b] if each != path)) for b, i, path in placed.dirs)
    with pytest.raises(RejectedError, match="TopicAlreadyExists"):
        await gate.carry_out(CreateTopic(topic=TOPIC, assignments=placed.rows, configs={}, dirs=others))
    view = await look(gate, cluster)
    assert on_dirs(view) == set(placed.dirs)
    assert not [d.futures for b in (view.brokers or {}).values() for d in b.log_dirs or () if d.futures]

    # Growth: new partitions in chosen places; a request from an old view changes nothing.
    more = place(there, 3, 3, [p.replicas for p in seen.partitions(TOPIC)])
    add = AddPartitions(topic=TOPIC, first=6, assignments=more.rows, dirs=more.dirs)
    await gate.carry_out(add)
    view = await until(gate, cluster, 9)
    assert tuple(p.replicas for p in ObservedTopics(view).partitions(TOPIC)) == (*placed.rows, *more.rows)
    assert on_dirs(view) == {*placed.dirs, *more.dirs}
    others = tuple((b, i, next(each for each in paths[b] if each != path)) for b, i, path in more.dirs)
    with pytest.raises(RejectedError):
        await gate.carry_out(replace(add, dirs=others))
    view = await look(gate, cluster)
    assert on_dirs(view) == {*placed.dirs, *more.dirs}

    # Settings that somebody changed, and one that the spec no longer has.
    await gate.carry_out(ConfigureTopic(topic=TOPIC, values={"retention.ms": "5", "cleanup.policy": None}))
    own = ((await look(gate, cluster)).managed or {})[TOPIC]
    assert differing(CONFIG, own, "4.3.1") == {"retention.ms": "5", "cleanup.policy": None}
    with pytest.raises(RejectedError, match=r"retention\.ms"):
        await gate.carry_out(ConfigureTopic(topic=TOPIC, values={"retention.ms": "soon"}))

    # Deleted and created again by somebody else: the old id deletes nothing.
    first = str(ObservedTopics(view).id(TOPIC))
    await gate.carry_out(DeleteTopic(topic=TOPIC, id=first))
    cluster.make_topic(TOPIC, [[0, 1, 2]])
    view = await until(gate, cluster, 1)
    second = str(ObservedTopics(view).id(TOPIC))
    assert second != first
    await gate.carry_out(DeleteTopic(topic=TOPIC, id=first))
    assert ObservedTopics(await look(gate, cluster)).id(TOPIC) == second
    await gate.carry_out(DeleteTopic(topic=TOPIC, id=second))
    for _ in range(20):
        if ObservedTopics(await look(gate, cluster)).id(TOPIC) is None:
            return
    raise AssertionError("the topic was not deleted")


def on_dirs(view: KafkaView) -> set[tuple[int, int, str]]:
    return {
        (broker.id, index, log_dir.path)
        for broker in (view.brokers or {}).values()
        for log_dir in broker.log_dirs or ()
        for topic, index in log_dir.replicas
        if topic == TOPIC
    }
