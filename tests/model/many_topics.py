"""A settled model cluster with any number of KafkaTopics, whose topics exist: for passes that have little to do with much."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spindle.model.snapshot import ClusterSnapshot
from spindle.model.view import Broker, Partition
from tests.model.failing import Failing

_PARTITIONS = 3


def with_topics(world: Failing, count: int) -> ClusterSnapshot:
    """A snapshot with so many KafkaTopics, of three partitions on three brokers each, that were created by them."""
    seen = world.snapshot()
    brokers = sorted((seen.kafka.brokers or {}).items())[:3]
    ids = [broker for broker, _ in brokers]
    orders = [tuple(ids[i:] + ids[:i]) for i in range(len(ids))]
    names = [f"topic-{number:05}" for number in range(count)]
    partitions = tuple(
        Partition(name, index, orders[index][0], orders[index], orders[index], ())
        for name in names
        for index in range(_PARTITIONS)
    )
    held = {(partition.topic, partition.index): 1 for partition in partitions}
    view = replace(
        seen.kafka,
        partitions=(*(seen.kafka.partitions or ()), *partitions),
        topic_ids={**(seen.kafka.topic_ids or {}), **{name: f"id-{name}" for name in names}},
        managed={name: {"retention.ms": "1000"} for name in names},
        topics={name: {} for name in names},
        settings={**(seen.kafka.settings or {}), **{("topic", name): {} for name in names}},
        min_isr=dict.fromkeys(names, 1),
        brokers={broker: _with(each, held) for broker, each in (seen.kafka.brokers or {}).items()},
    )
    return replace(seen, kafka=view, topics=tuple(_topic(name) for name in names))


def _with(broker: Broker, held: Mapping[tuple[str, int], int]) -> Broker:
    first, *others = broker.log_dirs or ()
    return replace(broker, log_dirs=(replace(first, replicas={**first.replicas, **held}), *others))


def _topic(name: str) -> dict[str, Any]:
    return {
        "kind": "KafkaTopic",
        "metadata": {
            "name": name,
            "namespace": "kafka",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"cluster": "demo", "partitions": _PARTITIONS, "config": {"retention.ms": "1000"}},
        "status": {"topicId": f"id-{name}"},
    }


def told(seen: ClusterSnapshot, statuses: Mapping[str, Mapping[str, Any]]) -> ClusterSnapshot:
    """The same after the statuses were written."""
    return replace(
        seen,
        topics=tuple({**topic, "status": dict(statuses[topic["metadata"]["name"]])} for topic in seen.topics),
    )


def changed(seen: ClusterSnapshot, number: int, config: Mapping[str, str]) -> ClusterSnapshot:
    """The same after a user changed one of them."""
    topics: list[Any] = list(seen.topics)
    one = topics[number]
    topics[number] = {
        **one,
        "metadata": {**one["metadata"], "generation": 2, "resourceVersion": "2"},
        "spec": {**one["spec"], "config": dict(config)},
    }
    return replace(seen, topics=tuple(topics))


def conditions(statuses: Mapping[str, Mapping[str, Any]]) -> Sequence[str]:
    """All reasons of Ready that there are."""
    return sorted({str(status["conditions"][0]["reason"]) for status in statuses.values()})
