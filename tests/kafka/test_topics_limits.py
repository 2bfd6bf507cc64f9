"""Names and values at their limits, on real brokers: what the check of a KafkaTopic lets through, Kafka takes, and it is no drift afterwards."""

from collections.abc import Callable

import pytest

from spindle.model.actions import ConfigureTopic, CreateTopic
from spindle.topics.observed import ObservedTopics, differing
from spindle.topics.wanted import settings_problems
from spindle_operator.connection import Access
from spindle_operator.kafka_commands import RejectedError
from spindle_operator.kafka_executor import KafkaExecutor
from tests.kafka.cluster import Cluster

pytestmark = pytest.mark.slow

VALUES: dict[str, tuple[str, ...]] = {
    "retention.ms": (" 1000 ", "+5", "007", "-1", "9223372036854775807"),
    "max.message.bytes": ("0", "2147483647"),
    "min.cleanable.dirty.ratio": ("1", ".5", "1e-1", "0.5f", "5E-1d", "0.30000000000000004", "0.1"),
    "preallocate": ("TRUE", " false "),
    "cleanup.policy": ("compact , delete", "delete,compact", "compact", "compact,compact", ""),
    "compression.type": ("gzip", "uncompressed", "zstd", "none"),
    "message.timestamp.type": ("LogAppendTime",),
    "compression.gzip.level": ("-1", "9", "0"),
    "compression.zstd.level": ("-131072", "22"),
    "unclean.leader.election.enable": ("True",),
    "segment.bytes": ("1048576",),
    "index.interval.bytes": ("0",),
    "file.delete.delay.ms": ("0",),
    "min.insync.replicas": ("1", "2147483647"),
}


async def test_what_the_check_lets_through_kafka_takes(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(brokers=1, disks=1)
    cluster.up()
    gate = KafkaExecutor("test/demo", 5.0)
    pems = ((cluster.operator / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key"))
    access = Access({node.node_id: node.address for node in cluster.brokers}, *pems)
    try:
        await gate.look(access)
        long = "n" * 249
        for name in ("a.b", long):
            await gate.carry_out(CreateTopic(topic=name, assignments=((0,),), configs={}))
        with pytest.raises(RejectedError, match="InvalidTopic"):
            await gate.carry_out(CreateTopic(topic="a_b", assignments=((0,),), configs={}))
        wrong: list[tuple[object, ...]] = []
        for key, value in ((key, value) for key, values in VALUES.items() for value in values):
            accepted = not settings_problems({key: value}, "4.3.1")
            refusal = ""
            try:
                await gate.carry_out(ConfigureTopic(topic="a.b", values={key: value}))
            except RejectedError as error:
                refusal = str(error)
            view, _ = await gate.look(access, managed={"a.b": (key,)})
            own = (view.managed or {})["a.b"]
            if accepted != (not refusal):
                wrong.append((key, value, accepted, refusal))
            elif accepted and differing({key: value}, own, "4.3.1"):
                wrong.append((key, value, "drift", str(own.get(key))))
            await gate.carry_out(ConfigureTopic(topic="a.b", values={key: None}))
        assert not wrong
        view, _ = await gate.look(access)
        assert ObservedTopics(view).id(long)
    finally:
        await gate.shutdown()
