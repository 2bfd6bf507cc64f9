"""The topic of the samples, over whole passes on the model cluster."""

from typing import Any

import pytest

from spindle.api import names
from spindle.api.policy import Rebalance
from spindle.model.actions import CreateTopic
from tests.model.failing import Failing
from tests.unit.test_healing_plan import reasons

TOPIC = names.TOPIC_SAMPLES
SETTINGS = ("topic", TOPIC)


def cluster(zones: str = "abc", brokers: int = 0, **samples: Any) -> Failing:
    pool = {
        "name": "main",
        "replicas": brokers or len(zones),
        "disks": {"count": 2, "size": "100Gi", "storageClass": "local-disks"},
    }
    world = Failing.of(zones, brokerPools=[pool])
    world.cluster["spec"]["rebalance"] = {"samples": {"enabled": True, **samples}}
    return world


def every(world: Failing) -> set[int | None]:
    return {broker["spec"].get("samplesEverySeconds") for broker in world.all("KafkaBroker")}


def rows(world: Failing) -> list[tuple[int, ...]]:
    return [state.replicas for (topic, _), state in world.kafkas.partitions.items() if topic == TOPIC]


@pytest.mark.parametrize(
    ("rebalance", "wanted"),
    [
        ({}, False),
        ({"schedule": "@daily"}, True),
        ({"schedule": "@daily", "samples": {"enabled": False}}, False),
        ({"samples": {"enabled": True}}, True),
    ],
)
def test_samples_are_wanted_where_plans_are_made(rebalance: dict[str, Any], wanted: bool) -> None:
    assert Rebalance.parse(rebalance).sampled is wanted


def test_the_topic_stands_on_three_racks_with_the_specs_retention_and_then_the_agents_are_told() -> None:
    world = cluster("aabbcc", retentionHours=48, retentionBytes="6Gi", intervalSeconds=60)
    world.settle(80)

    assert len(rows(world)) == 6
    for row in rows(world):
        assert {world.kafkas.racks[broker] for broker in row} == set(world.kafkas.racks.values())
    assert {row[0] for row in rows(world)} == set(range(6))
    settings = world.kafkas.settings[SETTINGS]
    assert settings["retention.ms"] == str(48 * 3_600_000)
    assert settings["retention.bytes"] == str(1 << 30)
    assert settings["cleanup.policy"] == "delete"
    assert settings["compression.type"] == "producer"
    assert settings["message.timestamp.type"] == "LogAppendTime"
    assert settings["min.insync.replicas"] == "2"
    assert every(world) == {60}


def test_a_cluster_of_one_broker_has_one_copy() -> None:
    world = cluster(brokers=1)
    world.settle(80)

    assert rows(world) == [(0,)]
    assert world.kafkas.settings[SETTINGS]["min.insync.replicas"] == "1"


def test_without_samples_there_is_no_topic() -> None:
    world = cluster(enabled=False)
    world.settle(80)

    assert rows(world) == []
    assert every(world) == {None}


def test_settings_that_somebody_changed_are_put_right_and_others_are_left() -> None:
    world = cluster()
    world.settle(80)
    before = dict(world.kafkas.settings[SETTINGS])
    world.kafkas.configure("topic", TOPIC, {"retention.ms": "1000", "retention.bytes": None, "flush.ms": "5"})
    world.settle(20)

    assert world.kafkas.settings[SETTINGS] == {**before, "flush.ms": "5"}


def test_the_spec_is_followed_when_it_changes() -> None:
    world = cluster()
    world.settle(80)
    world.cluster["spec"]["rebalance"]["samples"] |= {"retentionHours": 24, "intervalSeconds": 30}
    world.settle(20)

    assert world.kafkas.settings[SETTINGS]["retention.ms"] == str(24 * 3_600_000)
    assert every(world) == {30}

    world.cluster["spec"]["rebalance"]["samples"]["enabled"] = False
    world.settle(20)
    assert every(world) == {None}
    assert len(rows(world)) == 3  # what was sampled is not thrown away


def test_a_topic_that_somebody_else_made_is_left_alone() -> None:
    world = cluster(enabled=False)
    world.settle(80)
    world.kafkas.make_topic(TOPIC, ((0, 1),), {"cleanup.policy": "compact"})
    world.cluster["spec"]["rebalance"]["samples"]["enabled"] = True
    world.settle(20)

    assert "TopicNotManaged" in reasons(world)
    assert rows(world) == [(0, 1)]
    assert world.kafkas.settings[SETTINGS] == {"cleanup.policy": "compact"}
    assert every(world) == {None}


def test_a_topic_that_was_deleted_is_made_again() -> None:
    world = cluster()
    world.settle(80)
    for key in [key for key in world.kafkas.partitions if key[0] == TOPIC]:
        del world.kafkas.partitions[key]
    for volume in world.kafkas.volumes.values():
        volume.logs = {key: size for key, size in volume.logs.items() if key[0] != TOPIC}
    world.settle(20)

    assert len(rows(world)) == 3
    assert every(world) == {300}


def test_a_topic_of_ours_is_known_as_ours_by_the_record_that_outlives_the_cluster() -> None:
    world = cluster()
    world.settle(80)

    assert (
        names.GROUP + "/samples-topic" in world.get("ConfigMap", "demo-identity")["metadata"]["annotations"]
    )


def test_nothing_is_made_while_its_copies_would_share_a_rack() -> None:
    world = cluster("abc", enabled=False)
    world.settle(80)
    world.cluster["spec"]["rebalance"]["samples"]["enabled"] = True
    pod = world.get("Pod", "demo-broker-2")
    world._end(pod["metadata"]["uid"], clean=True)
    plan = world.reconcile()

    assert not [action for action in plan.actions if isinstance(action, CreateTopic)]
    assert "WaitingForBrokers" in {entry["reason"] for entry in plan.status["waiting"]}
