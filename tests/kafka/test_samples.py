"""Samples on real Kafka: the operator's topic, the agent's keeper and sender, brokers that go and come back."""

import asyncio
import contextlib
import dataclasses
import itertools
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pyarrow as pa
import pytest
from kafka import KafkaConsumer, TopicPartition

from spindle.api import names
from spindle.model.view import MAX_MESSAGE_BYTES, RETENTION_MS
from spindle.planner.assign import assign
from spindle.samples.codec import Poison, Sample, decode, pack
from spindle.samples.framing import Version, seal, unseal
from spindle_agent.broker.connection import Access, BrokerError
from spindle_agent.broker.session import BrokerSession
from spindle_agent.moves.mover import Mover
from spindle_agent.options import parse
from spindle_agent.samples import sampler as module
from spindle_agent.samples.backlog import Backlog
from spindle_agent.samples.gathered import SeenDisk
from spindle_agent.samples.sampler import Sampler
from spindle_agent.samples.sending import send
from spindle_operator import kafka_commands
from spindle_operator.connection import Access as OperatorAccess
from spindle_operator.kafka_client import KafkaClient
from tests.kafka.cluster import Cluster
from tests.kafka.proposals import NAME, Secrets, until

TOPIC = names.TOPIC_SAMPLES


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=2, disks=2, config={"auto.create.topics.enable": "true"})
    made.up()
    made.let_agent()
    return made


@contextlib.contextmanager
def operators_link(cluster: Cluster) -> Any:
    hosts = {node.node_id: node.address for node in cluster.brokers if node.kafka is not None}
    files = ((cluster.operator / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key"))
    link = KafkaClient(
        "test/demo", hosts, names.PORT_REPLICATION, OperatorAccess(hosts, *files).context(), 10
    )
    try:
        yield link
    finally:
        link.close()


def read(cluster: Cluster) -> list[Any]:
    """All records of the topic, in the order of their time."""
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap(), **cluster.ssl())
    try:
        parts = [TopicPartition(TOPIC, index) for index in cluster.partitions(TOPIC)]
        ends = consumer.end_offsets(parts)
        consumer.assign(parts)
        consumer.seek_to_beginning()
        found: list[Any] = []
        while any(consumer.position(part) < ends[part] for part in parts):
            for records in consumer.poll(timeout_ms=1000).values():
                found += records
        return sorted(found, key=lambda record: record.timestamp)
    finally:
        consumer.close()


class Stand:
    """The agent's keeper and sampler of broker 0; disks are told from here."""

    def __init__(self, cluster: Cluster, backlog: Backlog | None = None) -> None:
        self.cluster = cluster
        self.disks = [
            SeenDisk(name, cluster.brokers[0].log_dir(name), "Active") for name in ("disk0", "disk1")
        ]
        self.spec: dict[str, Any] = {"cluster": "demo", "id": 0, "rack": "zone-0", "samplesEverySeconds": 1}
        self.backlog = backlog or Backlog()
        self.sampler: Sampler

    @contextlib.asynccontextmanager
    async def agent(self) -> AsyncIterator[Sampler]:
        options = parse([f"--broker-host={self.cluster.brokers[0].address}"])
        secrets = cast("Any", Secrets(self.cluster.base / "agent"))
        with ThreadPoolExecutor(1) as senders:
            self.sampler = Sampler(NAME, lambda: self.disks, senders, send, self.backlog)
            session = BrokerSession(
                NAME,
                options,
                secrets,
                Mover("demo", {}),
                lambda: None,
                sampler=self.sampler,
            )
            session.wants(self.spec)
            tasks = [
                asyncio.create_task(session.run()),
                asyncio.create_task(self.sampler.run(session.access, session.doubt)),
            ]
            try:
                yield self.sampler
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)


async def access(cluster: Cluster) -> Access:
    secrets = await Secrets(cluster.base / "agent").of("", "")
    return Access(cluster.brokers[0].address, names.PORT_REPLICATION, *secrets)


async def test_nobody_but_the_operator_makes_the_topic(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spindle_agent.samples.sending._TIMEOUT", 5.0)
    where = await access(cluster)
    with pytest.raises(BrokerError, match=TOPIC):
        await asyncio.to_thread(send, where, 0, [(1, b"x")])

    assert cluster.partitions(TOPIC) == {}


def test_the_operator_makes_the_topic_as_it_should_be_and_sees_what_is_set(cluster: Cluster) -> None:
    # One copy each, so that the end of one broker is the end of its partitions for a while.
    rows = assign({0: "zone-0", 1: "zone-1"}, 2, 1, start=1)
    configs = {"cleanup.policy": "delete", "retention.ms": "86400000", "compression.type": "producer"}
    with operators_link(cluster) as link:
        kafka_commands.create_topic(link, TOPIC, rows, configs | {"min.insync.replicas": "1"})
        view = link.look(ask_rights=False)[0]
        with pytest.raises(kafka_commands.RejectedError, match="TopicAlreadyExists"):
            kafka_commands.create_topic(link, TOPIC, rows, configs)

    assert {p.index: p.replicas for p in view.partitions or () if p.topic == TOPIC} == {0: (1,), 1: (0,)}
    assert view.settings is not None
    assert view.settings["topic", TOPIC].get(RETENTION_MS) == "86400000"
    assert view.settings["topic", TOPIC].get(MAX_MESSAGE_BYTES) is None
    assert (view.min_isr or {})[TOPIC] == 1


async def test_what_the_broker_holds_comes_out_of_the_topic(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spindle_agent.broker.session.EVERY", 0.5)
    cluster.make_topic("led", [[0, 1]] * 3)
    cluster.make_topic("followed", [[1, 0]])
    cluster.produce("led", 0, [bytes(100_000)] * 10)
    stand = Stand(cluster)
    async with stand.agent() as sampler:
        await until("some samples are there", lambda: sampler.sent >= 2, seconds=60)
        written = asyncio.to_thread(cluster.produce, "led", 1, [bytes(100_000)] * 20)
        before = sampler.sent
        await written
        await until("another one", lambda: sampler.sent >= before + 3, seconds=60)

    records = read(cluster)
    assert {record.key for record in records} == {b"0"}
    samples = [decode(record.value) for record in records]
    last = samples[-1]
    assert (last.cluster_id, last.broker, last.rack) == (cluster.cluster_id, 0, "zone-0")
    rows = {(row["topic"], row["partition"]): row for row in last.replicas.to_pylist()}
    assert rows["led", 0]["leader"] is True
    assert rows["followed", 0]["leader"] is False
    assert rows["led", 0]["bytes"] > 1_000_000
    grown = sum(
        row["append_rate"] * sample.interval_s
        for sample in samples
        for row in sample.replicas.to_pylist()
        if (row["topic"], row["partition"]) == ("led", 1) and row["append_rate"]
    )
    assert grown == pytest.approx(rows["led", 1]["bytes"], rel=0.01)
    assert {row["dir"] for row in rows.values()} <= {disk.log_dir for disk in stand.disks}
    assert all(row["capacity"] > row["used"] > 0 for row in last.disks.to_pylist())


async def test_while_kafka_is_away_samples_are_kept_the_oldest_dropped_and_it_is_told(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("spindle_agent.broker.session.EVERY", 0.5)
    monkeypatch.setattr("spindle_agent.samples.sending._TIMEOUT", 3.0)
    monkeypatch.setattr(module, "_LONGEST", 1.0)
    caplog.set_level("INFO")
    await asyncio.to_thread(cluster.forget_admin)
    # The key of broker 0 belongs into partition 0, which broker 1 leads alone: broker 0 can be asked on.
    assert {record.partition for record in await asyncio.to_thread(read, cluster)} == {0}
    stand = Stand(cluster, Backlog(most_records=4))
    async with stand.agent() as sampler:
        await until("it works", lambda: sampler.sent >= 1, seconds=60)
        await asyncio.to_thread(cluster.nodes[1].kill)
        await until("some are dropped", lambda: stand.backlog.dropped >= 2, seconds=120)
        assert stand.backlog.kept == 4
        sent = sampler.sent
        cluster.nodes[1].up()  # not in a thread: the broker would end with it
        await asyncio.to_thread(cluster.nodes[1].wait_ready)
        await until("it works again", lambda: sampler.sent >= sent + 4, seconds=120)

    assert "sending samples failed; they are queued" in caplog.text
    assert "the queue of unsent samples is full" in caplog.text
    assert "samples are sent again" in caplog.text
    times = [decode(record.value).at_ms for record in read(cluster)]
    assert times == sorted(times)
    assert max(late - soon for soon, late in itertools.pairwise(times)) > 2000  # what was dropped


async def test_an_older_and_a_newer_record_and_one_that_is_none_in_the_same_topic(cluster: Cluster) -> None:
    here: Sample = decode(read(cluster)[-1].value)
    _, sections = unseal(_sealed(here, Version(1, 0)), 1)
    older = _sealed(dataclasses.replace(here, broker=90), Version(1, 0), without=("leader", "append_rate"))
    newer = _sealed(dataclasses.replace(here, broker=91), Version(1, 7), extra="heat")
    other = seal(Version(2, 0), [bytes(section) for section in sections])
    where = await access(cluster)
    # Times of now: alone in their partition, records of 1970 are gone with the next check of retention.
    now = here.at_ms
    records = [(now + 1, older), (now + 2, newer), (now + 3, b"nonsense"), (now + 4, other)]
    await asyncio.to_thread(send, where, 9, records)

    found: dict[int, Sample] = {}
    poison = []
    for record in read(cluster):
        if record.key == b"9":
            try:
                one = decode(record.value)
                found[one.broker] = one
            except Poison as error:
                poison.append(error.reason)
    assert found[90].replicas["leader"].null_count == here.replicas.num_rows
    assert found[90].replicas["bytes"] == here.replicas["bytes"]
    assert (found[91].version, found[91].replicas) == ((1, 7), here.replicas)
    assert poison == ["NotASample", "UnknownVersion"]


def _sealed(sample: Sample, version: Version, without: tuple[str, ...] = (), extra: str = "") -> bytes:
    """As another version of Spindle would have written it."""
    head = {key: getattr(sample, key) for key in ("cluster_id", "broker", "rack", "at_ms", "interval_s")}
    rows = sample.replicas.select([name for name in sample.replicas.schema.names if name not in without])
    if extra:
        head[extra] = 1
        rows = rows.append_column(extra, pa.array([1.5] * rows.num_rows))
    return seal(version, [json.dumps(head).encode(), pack(rows), pack(sample.disks)])
