"""Which topic is a KafkaTopic's own: after copies, stale answers and rejections, and when one KafkaTopic follows on another."""

import copy
from dataclasses import replace

from spindle.api import names
from spindle.model.actions import CreateTopic, DeleteTopic
from spindle.reconcile.plan import plan
from tests.unit.test_topics import cluster, condition, delete, gone, message, rows, running, topic


def test_a_topic_that_a_new_kafka_topic_takes_over_stays_when_the_old_one_is_deleted() -> None:
    """Both in one moment, as who renames a KafkaTopic does."""
    world = running(topic(deletionPolicy="Delete"))
    first = world.kafkas.ids["orders"]
    world.now += 60
    world.put(topic("renamed", topicName="orders", adopt=True, deletionPolicy="Delete"))
    delete(world)
    made = world.reconcile()
    assert not [each for each in made.actions if isinstance(each, DeleteTopic)]
    assert gone(world)
    assert [e.message for e in made.events if e.reason == "TopicRetained"] == [
        "Topic orders stays: KafkaTopic renamed takes it over."
    ]
    world.settle()
    assert world.kafkas.ids["orders"] == first
    assert condition(world, "renamed") == ("True", "SpecApplied")
    assert world.get("KafkaTopic", "renamed")["status"]["topicId"] == first


def test_a_kafka_topic_that_does_not_ask_for_the_topic_does_not_keep_it() -> None:
    world = running(topic(deletionPolicy="Delete"))
    first = world.kafkas.ids["orders"]
    world.now += 60
    world.put(topic("second", topicName="orders"))
    delete(world)
    world.settle()
    assert gone(world)
    assert world.kafkas.ids["orders"] != first
    assert condition(world, "second") == ("True", "SpecApplied")


def test_a_list_that_names_something_twice_is_no_drift() -> None:
    """Kafka stores it once: else Spindle would set it in each pass."""
    world = running(topic(config={"cleanup.policy": "compact,compact"}))
    world.kafkas.configure("topic", "orders", {"cleanup.policy": "compact"})
    assert not world.settle().actions
    assert condition(world) == ("True", "SpecApplied")


def test_the_copy_of_a_kafka_topic_is_no_record_of_a_creation() -> None:
    """Also not where the topic of the other cluster has the same replicas; annotations are copied, statuses are not."""
    made = running(topic(partitions=1)).get("KafkaTopic", "orders")
    assert names.ANN_CREATING in made["metadata"]["annotations"]
    world = cluster()
    there = running(topic(partitions=1))
    world.kafkas.make_topic("orders", tuple(rows(there)), {})
    copied = topic(partitions=1, deletionPolicy="Delete")
    copied["metadata"]["uid"] = "of another cluster"
    copied["metadata"]["annotations"] = copy.deepcopy(made["metadata"]["annotations"])
    world.put(copied)
    world.settle()
    assert condition(world) == ("False", "NameTaken")


def test_a_topic_that_brokers_do_not_report_yet_is_not_created_twice() -> None:
    world = cluster()
    before = world.snapshot().kafka
    world.put(topic(partitions=1))
    (create,) = [each for each in world.reconcile().actions if isinstance(each, CreateTopic)]
    late = replace(world.snapshot(), kafka=before, created=frozenset({"orders"}))
    made = plan(late, world.now)
    assert not [each for each in made.actions if isinstance(each, CreateTopic)]
    said = made.topic_statuses["orders"]["conditions"][0]
    assert (said["reason"], said["status"]) == ("TopicPending", "False")
    assert not made.settled
    world.settle()
    assert condition(world) == ("True", "SpecApplied")
    assert rows(world) == list(create.assignments)


def test_a_topic_that_somebody_created_after_kafka_had_refused_it_is_not_taken_for_ones_own() -> None:
    world = cluster()
    world.kafkas.refuses = "no such names"
    world.put(topic(partitions=1))
    (create,) = [each for each in world.reconcile().actions if isinstance(each, CreateTopic)]
    world.breathe()
    world.kafkas.refuses = ""
    world.kafkas.make_topic("orders", create.assignments, {})
    world.settle()
    assert condition(world) == ("False", "NameTaken")
    assert "did not create it" in message(world)
