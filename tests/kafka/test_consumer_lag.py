"""The lag of consumer groups on real Kafka: a consumer that lags, groups and topics that go, coordinators that are not there."""

import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from spindle.metrics import table
from spindle.metrics.consumer_lag import GroupOffsets, lag_samples
from spindle_operator.connection import Access
from spindle_operator.kafka_executor import KafkaExecutor
from tests.kafka.cluster import Cluster
from tests.kafka.node import wait_for

TIMEOUT = 5.0


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(
        brokers=2,
        disks=1,
        config={"offsets.topic.num.partitions": "8", "offsets.topic.replication.factor": "1"},
    )
    made.up()
    made.make_topic("orders", [[0], [1]])
    for partition, count in ((0, 20), (1, 5)):
        made.produce("orders", partition, [b"x"] * count)
    return made


@pytest.fixture
async def kafka() -> AsyncIterator[KafkaExecutor]:
    made = KafkaExecutor("test/demo", TIMEOUT)
    yield made
    await made.shutdown()


def commit(cluster: Cluster, group: str, offsets: dict[tuple[str, int], int]) -> None:
    """What a consumer does that read so far."""
    consumer: Any = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap(), group_id=group, enable_auto_commit=False, **cluster.ssl()
    )
    try:
        consumer.assign([TopicPartition(*key) for key in offsets])
        consumer.commit(
            {TopicPartition(*key): OffsetAndMetadata(offset, "", -1) for key, offset in offsets.items()}
        )
    finally:
        consumer.close()


class Read:
    """One reading, as the exporter makes it."""

    def __init__(self, offsets: GroupOffsets, ends: dict[tuple[str, int], int]) -> None:
        found = list(lag_samples(("test", "demo"), offsets, ends))
        self.lag = {s.labels[2:]: s.value for s in found if s.metric is table.CONSUMER_LAG}
        self.groups = {s.labels[2]: s.value for s in found if s.metric is table.LAG_GROUPS}


async def read(cluster: Cluster, kafka: KafkaExecutor, *groups: str) -> Read:
    pems = ((cluster.operator / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key"))
    access = Access({node.node_id: node.address for node in cluster.brokers if node.kafka is not None}, *pems)
    leaders = {(p.topic, p.index): p.leader for p in cluster.view().partitions or ()}
    return Read(*await kafka.read_lag(access, groups, leaders))


async def reads(cluster: Cluster, kafka: KafkaExecutor, true: Callable[[Read], bool]) -> Read:
    end = time.monotonic() + 60
    while True:
        found = await read(cluster, kafka)
        if true(found):
            return found
        assert time.monotonic() < end, (found.lag, found.groups)


async def test_a_consumer_that_lags(cluster: Cluster, kafka: KafkaExecutor) -> None:
    commit(cluster, "billing", {("orders", 0): 13, ("orders", 1): 5})
    commit(cluster, "audit", {("orders", 0): 0})
    found = await read(cluster, kafka)
    assert found.lag == {
        ("audit", "orders", "0"): 20,
        ("billing", "orders", "0"): 7,
        ("billing", "orders", "1"): 0,
    }
    assert found.groups == {"exported": 2, "left_out": 0, "unread": 0}
    assert (await read(cluster, kafka, "bill*")).lag.keys() == {
        ("billing", "orders", "0"),
        ("billing", "orders", "1"),
    }
    cluster.produce("orders", 1, [b"x"] * 3)
    assert (await read(cluster, kafka, "billing")).lag["billing", "orders", "1"] == 3


async def test_a_consumer_with_members_of_each_protocol(cluster: Cluster, kafka: KafkaExecutor) -> None:
    consumer: Any = KafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap(),
        group_id="member",
        auto_offset_reset="earliest",
        **cluster.ssl(),
    )
    try:
        wait_for("records", lambda: consumer.poll(timeout_ms=500))
        consumer.commit()
        found = await read(cluster, kafka, "member")
        assert found.groups == {"exported": 1, "left_out": 0, "unread": 0}
        assert found.lag.keys() <= {("member", "orders", "0"), ("member", "orders", "1")}
        assert found.lag
    finally:
        consumer.close()


async def test_a_deleted_group_has_no_lag(cluster: Cluster, kafka: KafkaExecutor) -> None:
    commit(cluster, "short", {("orders", 0): 1})
    assert ("short", "orders", "0") in (await read(cluster, kafka)).lag
    cluster.admin().delete_groups(["short"])
    found = await reads(cluster, kafka, lambda found: ("short", "orders", "0") not in found.lag)
    assert found.groups["unread"] == 0


async def test_a_topic_that_is_deleted_and_made_anew(cluster: Cluster, kafka: KafkaExecutor) -> None:
    cluster.make_topic("brief", [[0]])
    cluster.produce("brief", 0, [b"x"] * 9)
    commit(cluster, "brief-reader", {("brief", 0): 9})
    key = ("brief-reader", "brief", "0")
    assert (await read(cluster, kafka)).lag[key] == 0
    cluster.admin().delete_topics(["brief"])
    await reads(cluster, kafka, lambda found: key not in found.lag)
    cluster.make_topic("brief", [[1]])
    cluster.produce("brief", 0, [b"x"] * 2)
    assert (await read(cluster, kafka)).lag.get(
        key
    ) is None  # never what the offset of the former topic would say
    commit(cluster, "brief-reader", {("brief", 0): 1})
    assert (await read(cluster, kafka)).lag[key] == 1


async def test_groups_of_a_coordinator_that_is_not_there(cluster: Cluster, kafka: KafkaExecutor) -> None:
    """The offsets have one replica, so a stopped broker's groups have no coordinator; those of the other broker stay, and all return."""
    names = [f"spread-{index}" for index in range(12)]
    for name in names:
        commit(cluster, name, {("orders", 0): 20})
    before = {group for group, _, _ in (await read(cluster, kafka, "spread-*")).lag}
    assert before == set(names)
    cluster.brokers[1].stop()
    cluster.forget_admin()
    try:
        found = await read(cluster, kafka, "spread-*")
        left = {group for group, _, _ in found.lag}
        assert left < before
        assert found.groups["exported"] == len(left)
        assert all(value == 0 for value in found.lag.values())
    finally:
        cluster.brokers[1].start()
        cluster.brokers[1].wait_ready()
    after = await reads(
        cluster, kafka, lambda f: len({g for g, _, _ in f.lag if g.startswith("spread-")}) == 12
    )
    assert after.groups["unread"] == 0
