"""The last resorts against full disks on a real Kafka: what producers get, what goes on, and that it can be put back."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import MessageSizeTooLargeError

from spindle.model.actions import SetConfigs, TrimPartitions
from spindle.model.view import DEFAULT_USERS, MAX_MESSAGE_BYTES, PRODUCER_RATE, KafkaView
from spindle.thresholds.last_resort_actions import PRODUCERS_BLOCKED
from spindle_operator.kafka_executor import KafkaExecutor
from tests.kafka.cluster import Cluster
from tests.kafka.node import wait_for
from tests.kafka.test_operator_kafka import access

RECORD = b"x" * 500


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=2, disks=1)
    made.up()
    for topic in ("stopped", "other", "trimmed"):
        made.make_topic(topic, [[0, 1]], **{"retention.ms": "1000000"})
    return made


@pytest.fixture
async def gate(cluster: Cluster) -> AsyncIterator[KafkaExecutor]:
    gate = KafkaExecutor("test/demo", 10.0)
    await gate.look(access(cluster))
    yield gate
    await gate.shutdown()


async def look(gate: KafkaExecutor, cluster: Cluster) -> KafkaView:
    view, _ = await gate.look(access(cluster))
    return view


def producer(cluster: Cluster, **options: Any) -> Any:
    return KafkaProducer(bootstrap_servers=cluster.bootstrap(), **cluster.ssl(), **options)


def send(cluster: Cluster, topic: str, value: bytes = RECORD, **options: Any) -> None:
    sender = producer(cluster, enable_idempotence=False, **options)
    try:
        sender.send(topic, value, partition=0).get(timeout=20)
    finally:
        sender.close()


async def test_a_stopped_topic_refuses_producers_and_nobody_else(
    cluster: Cluster, gate: KafkaExecutor
) -> None:
    send(cluster, "stopped", acks="all")
    open_transaction = producer(cluster, transactional_id="t1", acks="all")
    open_transaction.init_transactions()
    open_transaction.begin_transaction()
    open_transaction.send("stopped", RECORD, partition=0).get(timeout=20)

    await gate.carry_out(
        SetConfigs(target="topic", name="stopped", values={MAX_MESSAGE_BYTES: PRODUCERS_BLOCKED})
    )
    view = await look(gate, cluster)
    assert view.settings is not None
    assert view.topics is not None
    assert view.settings["topic", "stopped"] == {
        "retention.ms": "1000000",
        MAX_MESSAGE_BYTES: PRODUCERS_BLOCKED,
    }
    assert view.topics["stopped"][MAX_MESSAGE_BYTES] == PRODUCERS_BLOCKED
    assert view.topics["other"][MAX_MESSAGE_BYTES] != PRODUCERS_BLOCKED
    assert view.topics["other"]["cleanup.policy"] == "delete"
    for acks in ("all", 1):
        with pytest.raises(MessageSizeTooLargeError):
            send(cluster, "stopped", acks=acks)
    send(cluster, "other", acks="all")
    open_transaction.commit_transaction()  # its marker of 78 bytes passes
    open_transaction.close()
    wait_for("both in sync", lambda: cluster.isr("stopped") == {0: [0, 1]})

    await gate.carry_out(SetConfigs(target="topic", name="stopped", values={MAX_MESSAGE_BYTES: None}))
    send(cluster, "stopped", acks="all")
    view = await look(gate, cluster)
    assert view.settings is not None
    assert view.settings["topic", "stopped"] == {"retention.ms": "1000000"}


async def test_the_quota_of_users_without_one(cluster: Cluster, gate: KafkaExecutor) -> None:
    before = (await look(gate, cluster)).settings or {}
    assert before[DEFAULT_USERS] == {}
    await gate.carry_out(SetConfigs(target="quota", name=DEFAULT_USERS[1], values={PRODUCER_RATE: "1000000"}))
    during = (await look(gate, cluster)).settings or {}
    assert during[DEFAULT_USERS] == {PRODUCER_RATE: "1000000"}
    await gate.carry_out(SetConfigs(target="quota", name=DEFAULT_USERS[1], values={PRODUCER_RATE: None}))
    after = (await look(gate, cluster)).settings or {}
    assert after[DEFAULT_USERS] == {}


async def test_the_oldest_records_are_deleted(cluster: Cluster, gate: KafkaExecutor) -> None:
    cluster.produce("trimmed", 0, [b"%d" % n for n in range(100)])
    leader = cluster.partitions("trimmed")[0].leader
    assert leader is not None
    await gate.carry_out(TrimPartitions(partitions=(("trimmed", 0, leader, 0.25),)))
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap(), **cluster.ssl())
    partition = TopicPartition("trimmed", 0)
    assert consumer.beginning_offsets([partition])[partition] == 25
    assert consumer.end_offsets([partition])[partition] == 100
    consumer.close()
