"""KafkaTopics over whole passes on the model cluster: creation, take-over, growth, settings, and deletion of nothing but what is on record."""

import copy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from spindle.api import names
from spindle.api.cluster import KafkaClusterSpec
from spindle.model.actions import AddPartitions, ConfigureTopic, CreateTopic, DeleteTopic
from spindle.reconcile.plan import plan
from spindle.topics.preview import preview_topic
from spindle_cli.errors import ClientError
from spindle_cli.preview import read_topics
from tests.model.failing import Failing
from tests.model.many_topics import changed, conditions, told, with_topics
from tests.unit.test_healing_plan import until
from tests.unit.test_thresholds_plan import full_cluster


def topic(name: str = "orders", **spec: Any) -> dict[str, Any]:
    return {
        "kind": "KafkaTopic",
        "metadata": {"name": name, "namespace": "kafka", "generation": 1},
        "spec": {"cluster": "demo", **spec},
    }


def cluster(zones: str = "abc") -> Failing:
    """A running cluster of its own."""
    return copy.deepcopy(_settled(zones))


@cache
def _settled(zones: str) -> Failing:
    pool = {
        "name": "main",
        "replicas": len(zones),
        "disks": {"count": 2, "size": "100Gi", "storageClass": "local-disks"},
    }
    world = Failing.of(zones, brokerPools=[pool])
    world.settle(80)
    return world


def running(*topics: dict[str, Any], zones: str = "abc") -> Failing:
    world = cluster(zones)
    for each in topics:
        world.put(each)
    world.settle()
    return world


def condition(world: Failing, name: str = "orders") -> tuple[str, str]:
    found, _ = world.get("KafkaTopic", name)["status"]["conditions"]
    return found["status"], found["reason"]


def message(world: Failing, name: str = "orders") -> str:
    return str(world.get("KafkaTopic", name)["status"]["conditions"][0]["message"])


def rows(world: Failing, name: str = "orders") -> list[tuple[int, ...]]:
    return [state.replicas for (each, _), state in sorted(world.kafkas.partitions.items()) if each == name]


def delete(world: Failing, name: str = "orders") -> None:
    world.get("KafkaTopic", name)["metadata"]["deletionTimestamp"] = "now"


def test_a_topic_is_created_with_its_settings_even_over_racks_brokers_and_dirs() -> None:
    world = running(topic(partitions=6, replicas=3, config={"retention.ms": "1000"}), zones="aabbcc")
    assert condition(world) == ("True", "SpecApplied")
    assert len(rows(world)) == 6
    for row in rows(world):
        assert {world.kafkas.racks[broker] for broker in row} == set(world.kafkas.racks.values())
    assert sorted(row[0] for row in rows(world)) == [0, 1, 2, 3, 4, 5]
    assert world.kafkas.settings["topic", "orders"] == {"retention.ms": "1000"}
    for process in world.kafkas.running.values():
        counts = [len(volume.logs) for volume in process.live().values()]
        assert max(counts) - min(counts) <= 1
    status = world.get("KafkaTopic", "orders")["status"]
    assert status["topicId"] == world.kafkas.ids["orders"]
    assert (status["partitions"], status["replicas"], status["outOfPlace"]) == (6, 3, 0)
    assert [(each["replicas"], each["leaders"]) for each in status["racks"]] == [(6, 2)] * 3
    assert status["bytes"] == 1800
    assert not world.get("KafkaTopic", "orders")["metadata"]["finalizers"]
    assert not world.reconcile().actions


def test_defaults_are_those_of_the_cluster() -> None:
    world = running(topic())
    assert [len(row) for row in rows(world)] == [3]


def test_the_brokers_take_the_dirs_that_were_chosen() -> None:
    world = cluster()
    full = world.disk(0, "disk0")
    full.others = 7000
    world.put(topic(partitions=4))
    world.settle()
    assert not [key for key in full.logs if key[0] == "orders"], "the emptier dir takes all"
    assert len([key for key in world.disk(0, "disk1").logs if key[0] == "orders"]) == 4


def test_a_topic_that_exists_is_left_alone_until_its_adoption_is_asked_for() -> None:
    world = cluster()
    world.kafkas.make_topic("orders", ((0, 1, 2),), {"retention.ms": "5"})
    world.put(topic(config={"retention.ms": "1000"}, deletionPolicy="Delete"))
    made = world.settle()
    assert condition(world) == ("False", "NameTaken")
    assert "spec.adopt" in message(world)
    assert not made.actions
    assert world.kafkas.settings["topic", "orders"] == {"retention.ms": "5"}
    assert names.FINALIZER_TOPIC not in world.get("KafkaTopic", "orders")["metadata"].get("finalizers", [])
    delete(world)
    world.settle()
    assert "orders" in world.kafkas.ids
    world.put(topic(config={"retention.ms": "1000"}, adopt=True))
    world.settle()
    assert condition(world) == ("True", "SpecApplied")
    assert world.kafkas.settings["topic", "orders"] == {"retention.ms": "1000"}


def test_topics_without_a_kafka_topic_are_left_alone() -> None:
    world = cluster()
    world.kafkas.make_topic("elsewhere", ((0, 1, 2),), {"retention.ms": "5"})
    world.put(topic())
    world.settle()
    assert world.kafkas.settings["topic", "elsewhere"] == {"retention.ms": "5"}
    assert rows(world, "elsewhere") == [(0, 1, 2)]


@pytest.mark.parametrize("stop", ["before", "after"])
def test_an_operator_that_ends_at_the_creation_is_followed_by_one_that_goes_on(stop: str) -> None:
    world = cluster()
    world.put(topic(partitions=3))
    made = world.reconcile(stop_after=0)
    (create,) = [each for each in made.actions if isinstance(each, CreateTopic)]
    if stop == "before":
        assert create.record is not None
        world.act(create.record)
    else:
        world.act(create)
    world.settle()
    assert condition(world) == ("True", "SpecApplied")
    assert len(rows(world)) == 3


def test_a_topic_that_somebody_else_created_meanwhile_is_not_taken_for_ones_own() -> None:
    world = cluster()
    world.put(topic(partitions=1))
    made = world.reconcile(stop_after=0)
    (create,) = [each for each in made.actions if isinstance(each, CreateTopic)]
    world.kafkas.make_topic("orders", create.assignments, {})
    world.act(create)
    assert world.rejected
    world.reconcile()
    assert condition(world) == ("False", "NameTaken")
    world.settle()
    assert condition(world) == ("False", "NameTaken")


def test_of_two_for_one_topic_the_older_has_it() -> None:
    world = cluster()
    world.put(topic())
    world.now += 60
    world.put(topic("second", topicName="orders", config={"retention.ms": "7"}, deletionPolicy="Delete"))
    world.settle()
    assert condition(world) == ("True", "SpecApplied")
    assert condition(world, "second") == ("False", "NameTaken")
    assert "KafkaTopic orders, which is older" in message(world, "second")
    assert world.kafkas.settings["topic", "orders"] == {}
    delete(world, "second")
    world.settle()
    assert "orders" in world.kafkas.ids
    assert ("KafkaTopic", "second") not in world.objects or not world.get("KafkaTopic", "second")[
        "metadata"
    ].get("finalizers")


def test_partitions_grow_and_never_shrink() -> None:
    world = running(topic(partitions=3), zones="aabbcc")
    before = rows(world)
    world.get("KafkaTopic", "orders")["spec"]["partitions"] = 6
    world.settle()
    assert condition(world) == ("True", "SpecApplied")
    assert rows(world)[:3] == before
    held = [sum(broker in row for row in rows(world)) for broker in range(6)]
    assert held == [3] * 6
    world.get("KafkaTopic", "orders")["spec"]["partitions"] = 2
    made = world.settle()
    assert condition(world) == ("False", "PartitionsCannotShrink")
    assert "set spec.partitions to 6" in message(world)
    assert not made.actions
    world.get("KafkaTopic", "orders")["spec"]["partitions"] = 6
    world.settle()
    assert condition(world) == ("True", "SpecApplied")


def test_settings_that_others_change_are_set_again_and_theirs_stay() -> None:
    world = running(topic(config={"retention.ms": "1000", "cleanup.policy": "compact, delete"}))
    world.kafkas.configure(
        "topic", "orders", {"retention.ms": "9", "segment.ms": "77", "cleanup.policy": "compact,delete"}
    )
    made = world.reconcile()
    (change,) = [each for each in made.actions if isinstance(each, ConfigureTopic)]
    assert change.values == {"retention.ms": "1000"}, "another form of the same value is no drift"
    assert world.get("KafkaTopic", "orders")["status"]["drift"] == [
        {"key": "retention.ms", "wanted": "1000", "found": "9"}
    ]
    world.settle()
    assert world.kafkas.settings["topic", "orders"]["segment.ms"] == "77"
    assert "drift" not in world.get("KafkaTopic", "orders")["status"]
    world.get("KafkaTopic", "orders")["spec"]["config"] = {}
    world.settle()
    assert world.kafkas.settings["topic", "orders"] == {"segment.ms": "77"}
    assert "config" not in world.get("KafkaTopic", "orders")["status"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"retention.msx": "1"}, "use retention.ms or remove"),
        ({"retention.ms": "soon"}, "a whole number"),
        ({"segment.bytes": "1"}, "1048576"),
        ({"min.insync.replicas": "4"}, "set min.insync.replicas to 2"),
        ({"leader.replication.throttled.replicas": "0:1"}, "remove leader.replication.throttled.replicas"),
        (
            {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"},
            "set max.compaction.lag.ms to 5 or more",
        ),
        ({"remote.copy.lag.ms": "1"}, "it is one in 4.4"),
    ],
)
def test_nonsense_is_refused_with_what_to_write_instead(config: dict[str, str], said: str) -> None:
    world = running(topic(config=config))
    assert condition(world) == ("False", "InvalidSpec")
    assert said in message(world)
    assert "orders" not in world.kafkas.ids
    world.get("KafkaTopic", "orders")["spec"]["config"] = {}
    world.settle()
    assert condition(world) == ("True", "SpecApplied")


@pytest.mark.parametrize("name", ["__consumer_offsets", names.TOPIC_SAMPLES, "a b", ".."])
def test_names_of_others_are_refused(name: str) -> None:
    world = cluster()
    before = dict(world.kafkas.ids)
    world.put(topic(topicName=name, adopt=True, deletionPolicy="Delete"))
    world.settle()
    assert condition(world) == ("False", "InvalidSpec")
    delete(world)
    world.settle()
    assert world.kafkas.ids == before


def test_what_a_full_disk_changes_for_a_while_is_no_drift() -> None:
    world = full_cluster(96, lastResortActions={"reduceRetention": True, "blockProducers": True})
    mine = {"retention.ms": "1000000", "max.message.bytes": "5000", "segment.ms": "9"}
    world.put(topic(topicName="big-disk0", adopt=True, config=mine))
    world.kafkas.min_isr = 3  # so that nothing can be shed
    settings = world.kafkas.settings
    until(
        world,
        lambda: (
            settings.get(("topic", "big-disk0"), {}).get("max.message.bytes") == "100"
            and settings["topic", "big-disk0"].get("segment.ms") == "9"
            and settings["topic", "big-disk0"].get("retention.ms") not in (None, mine["retention.ms"])
        ),
    )
    settings["topic", "big-disk0"]["segment.ms"] = "77"
    for _ in range(4):
        made = world.reconcile()
        for change in made.actions:
            assert not isinstance(change, ConfigureTopic) or change.values == {"segment.ms": "9"}
        world.breathe()
    assert condition(world) == ("True", "SpecApplied")
    status = world.get("KafkaTopic", "orders")["status"]
    assert status["held"] == ["max.message.bytes", "retention.ms"]
    assert "drift" not in status
    for name in list(world.kafkas.sizes):
        world.kafkas.sizes[name] //= 4
    until(world, lambda: settings["topic", "big-disk0"] == mine, 80)
    world.settle()
    assert "held" not in world.get("KafkaTopic", "orders")["status"]


def test_what_kafka_rejects_is_told_and_ends_nothing() -> None:
    world = cluster()
    world.kafkas.refuses = "no more topics"
    world.put(topic())
    world.put(topic("other"))
    for _ in range(2):
        world.reconcile()
        world.breathe()
    made = world.reconcile()
    assert len([each for each in made.actions if isinstance(each, CreateTopic)]) == 2
    assert condition(world) == ("False", "TopicRejected")
    assert "no more topics" in message(world)
    world.kafkas.refuses = ""
    world.settle()
    assert condition(world) == condition(world, "other") == ("True", "SpecApplied")


def test_while_a_rack_is_away_no_topic_is_created_on_fewer() -> None:
    world = cluster()
    world.kafkas.running.pop(2)
    world.put(topic())
    made = world.reconcile()
    assert not [each for each in made.actions if isinstance(each, CreateTopic)]
    assert condition(world) == ("False", "WaitingForBrokers")
    assert "these are: 0, 1" in message(world)


# -- deletion ----------------------------------------------------------------------------------------------------------


def with_delete() -> Failing:
    world = running(topic(deletionPolicy="Delete"))
    assert names.FINALIZER_TOPIC in world.get("KafkaTopic", "orders")["metadata"]["finalizers"]
    return world


def gone(world: Failing, name: str = "orders") -> bool:
    return not world.objects.get(("KafkaTopic", name), {"metadata": {}})["metadata"].get("finalizers")


def test_a_topic_is_deleted_if_that_is_asked_for() -> None:
    world = with_delete()
    delete(world)
    world.settle()
    assert "orders" not in world.kafkas.ids
    assert gone(world)


@pytest.mark.parametrize("case", ["retain", "retain later", "made again", "namespace", "cluster"])
def test_a_topic_stays_unless_it_is_the_one_on_record_and_nothing_else_goes(case: str) -> None:
    world = running(topic()) if case == "retain" else with_delete()
    if case == "retain later":
        world.get("KafkaTopic", "orders")["spec"]["deletionPolicy"] = "Retain"
    if case == "made again":
        world.kafkas.delete_topic(world.kafkas.ids["orders"])
        world.kafkas.make_topic("orders", ((0, 1, 2),), {})
    if case == "namespace":
        world.namespace_ends = True
    if case == "cluster":
        world.cluster["metadata"]["deletionTimestamp"] = "now"
    delete(world)
    made = world.reconcile()
    assert not [each for each in made.actions if isinstance(each, DeleteTopic)]
    assert gone(world)
    assert "orders" in world.kafkas.ids


@pytest.mark.parametrize("case", ["namespace", "kafka"])
def test_while_it_is_unknown_what_goes_nothing_is_deleted_and_a_way_out_is_told(case: str) -> None:
    world = with_delete()
    if case == "namespace":
        world.namespace_ends = None
    else:
        world.kafka_up = False
    delete(world)
    made = world.reconcile()
    assert not [each for each in made.actions if isinstance(each, DeleteTopic)]
    assert not gone(world)
    assert condition(world) == ("False", "Deleting")
    assert "set spec.deletionPolicy to Retain" in message(world)
    world.get("KafkaTopic", "orders")["spec"]["deletionPolicy"] = "Retain"
    world.reconcile()
    assert gone(world)
    assert "orders" in world.kafkas.ids


def test_a_topic_that_another_one_has_taken_over_stays() -> None:
    world = with_delete()
    delete(world)
    world.put(topic("second", topicName="orders", adopt=True))
    world.namespace_ends = None
    world.reconcile()
    world.namespace_ends = False
    world.reconcile()
    assert "orders" in world.kafkas.ids
    assert gone(world)


def test_a_topic_that_was_deleted_elsewhere_is_created_again() -> None:
    world = running(topic(partitions=2))
    world.kafkas.delete_topic(world.kafkas.ids["orders"])
    world.settle()
    assert condition(world) == ("True", "SpecApplied")
    assert len(rows(world)) == 2
    assert world.get("KafkaTopic", "orders")["status"]["topicId"] == world.kafkas.ids["orders"]


def test_while_kafka_topics_cannot_be_listed_their_cluster_does_not_go() -> None:
    world = with_delete()
    world.unknown = frozenset({"kafkatopics"})
    world.cluster["metadata"]["deletionTimestamp"] = "now"
    for _ in range(20):
        assert not world.reconcile().finished
        world.breathe()
    assert ("TopicsUnknown", "KafkaCluster/demo") in [
        (wait["reason"], wait["object"]) for wait in world.cluster["status"]["waiting"]
    ]


def test_many_are_created_a_few_at_a_time() -> None:
    world = cluster()
    for number in range(120):
        world.put(topic(f"t{number}", replicas=1))
    most = 0
    for _ in range(8):
        made = world.reconcile()
        most = max(most, len([each for each in made.actions if isinstance(each, CreateTopic)]))
        world.breathe()
    assert most == 50
    assert {condition(world, f"t{number}") for number in range(120)} == {("True", "SpecApplied")}
    assert not [each for each in world.reconcile().actions if isinstance(each, (CreateTopic, AddPartitions))]


def test_a_thousand_that_are_as_they_should_be_cost_one_action_for_a_change_of_one() -> None:
    world = cluster()
    seen = with_topics(world, 1000)
    first = plan(seen, world.now)
    assert conditions(first.topic_statuses) == ["SpecApplied"]
    assert not [action for action in first.actions if isinstance(action, (CreateTopic, ConfigureTopic))]
    seen = told(seen, first.topic_statuses)
    assert plan(seen, world.now + 60).topic_statuses == first.topic_statuses, "nothing is to be written"
    made = plan(changed(seen, 500, {"retention.ms": "7"}), world.now + 60)
    (change,) = [action for action in made.actions if isinstance(action, ConfigureTopic)]
    assert (change.topic, change.values) == ("topic-00500", {"retention.ms": "7"})
    differ = [name for name, status in made.topic_statuses.items() if status != first.topic_statuses[name]]
    assert differ == ["topic-00500"]


# -- preview -----------------------------------------------------------------------------------------------------------


def what(
    new: dict[str, Any], old: dict[str, Any] | None = None
) -> tuple[tuple[str, ...], list[tuple[str, str]]]:
    spec = KafkaClusterSpec.model_validate(cluster().cluster["spec"])
    refused, changes = preview_topic(new, old, spec)
    return refused, [(change.what, change.how) for change in changes]


def test_preview_says_what_would_be_created() -> None:
    refused, ((created, how),) = what(topic(partitions=6))
    assert not refused
    assert created == "topic orders"
    assert "partitions: 6, replicas: 3" in how
    assert "left alone (NameTaken)" in how
    _, ((_, adopted),) = what(topic(adopt=True))
    assert "if it exists already: taken over" in adopted


def test_preview_says_what_would_change_and_what_would_be_refused() -> None:
    old = {
        **topic(partitions=6, config={"retention.ms": "1", "segment.ms": "5"}),
        "status": {"topicId": "x", "partitions": 6, "replicas": 3},
    }
    refused, changes = what(topic(partitions=9, config={"retention.ms": "2"}, deletionPolicy="Delete"), old)
    assert not refused
    assert [each for each, _ in changes] == [
        "partitions: 6 to 9",
        "retention.ms: 1 to 2",
        "segment.ms: 5 to the default",
        "deletionPolicy: Retain to Delete",
    ]
    assert dict(changes)["retention.ms: 1 to 2"] == "without a restart"
    _, changes = what(topic(partitions=3, replicas=1, config=old["spec"]["config"]), old)
    assert [how.partition(":")[0] for _, how in changes] == ["refused", "refused"]
    old["status"]["bytes"] = 6_000_000_000
    for wish, said in ((2, "about 2.0 GB become free"), (4, "waits: the cluster has 3 brokers")):
        _, ((changed, how),) = what(topic(replicas=wish, config=old["spec"]["config"]), old)
        assert changed == f"replicas: 3 to {wish}"
        assert said in how
    old["status"]["replicas"] = 2
    _, ((changed, how),) = what(topic(replicas=3, config=old["spec"]["config"]), old)
    assert (changed, how.partition(" are")[0]) == ("replicas: 2 to 3", "about 3.0 GB")
    assert what(old, old) == ((), [])
    refused, changes = what(topic(config={"min.insync.replicas": "4"}), old)
    assert "set min.insync.replicas to 1" in refused[0]
    assert not changes
    refused, _ = what(topic(config={"retention.msx": "4"}))
    assert "use retention.ms" in refused[0]


def test_preview_reads_the_topics_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "topics.yaml"
    file.write_text(yaml.safe_dump_all([topic(), {"kind": "ConfigMap"}, topic("other")]))
    assert [each["metadata"]["name"] for each in read_topics(file)] == ["orders", "other"]
    file.write_text(yaml.safe_dump_all([topic(), {"kind": "KafkaCluster"}]))
    assert read_topics(file) == [], "the cluster comes first"
    file.write_text(yaml.safe_dump({"kind": "KafkaTopic"}))
    with pytest.raises(ClientError, match="without metadata"):
        read_topics(file)
