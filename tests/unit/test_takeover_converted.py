"""KafkaTopics and KafkaUsers of Strimzi as those of Spindle."""

from typing import Any

import pytest

from spindle.takeover.converted import converted, topic, user
from spindle_cli.takeover_commands import manifests_text


def theirs(name: str, spec: dict[str, Any], **annotations: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}


def test_a_topic_is_adopted_with_its_settings_as_text() -> None:
    config = {
        "retention.ms": 7200000,
        "unclean.leader.election.enable": False,
        "cleanup.policy": ["compact", "delete"],
        "leader.replication.throttled.replicas": "*",
        "segment.bytes": None,
    }
    found = topic(
        "demo",
        theirs("orders", {"topicName": "Orders_v1", "partitions": 12, "replicas": 3, "config": config}),
    )
    assert found.manifest == {
        "apiVersion": "spindle.dev/v1alpha1",
        "kind": "KafkaTopic",
        "metadata": {"name": "orders"},
        "spec": {
            "cluster": "demo",
            "topicName": "Orders_v1",
            "partitions": 12,
            "replicas": 3,
            "config": {
                "retention.ms": "7200000",
                "unclean.leader.election.enable": "false",
                "cleanup.policy": "compact,delete",
            },
            "adopt": True,
        },
    }
    assert found.notes == (
        "leader.replication.throttled.replicas is left out, because Spindle sets it itself",
    )


@pytest.mark.parametrize(
    ("spec", "annotations", "why"),
    [
        ({}, {"strimzi.io/managed": "false"}, "does not manage"),
        ({}, {"strimzi.io/pause-reconciliation": "true"}, "does not manage"),
        ({"topicName": "__consumer_offsets"}, {}, "internal"),
        ({"partitions": 0}, {}, "spec.partitions"),
        ({"partitions": "many"}, {}, "spec.partitions"),
    ],
)
def test_topics_that_have_no_kafkatopic_say_why(
    spec: dict[str, Any], annotations: dict[str, str], why: str
) -> None:
    found = topic("demo", theirs("orders", spec, **annotations))
    assert found.manifest is None
    assert why in found.notes[0]


def test_a_name_that_strimzi_recorded_in_the_status_counts() -> None:
    found = topic("demo", theirs("orders", {}) | {"status": {"topicName": "Orders"}})
    assert found.manifest is not None
    assert found.manifest["spec"]["topicName"] == "Orders"


TOPIC = {"type": "topic", "name": "orders"}
ACLS = [
    {
        "resource": {"type": "topic", "name": "orders", "patternType": "prefix"},
        "operations": ["Read", "Describe"],
    },
    {"resource": {"type": "group", "name": "app", "patternType": "literal"}, "operation": "Read"},
    {"type": "allow", "resource": {"type": "cluster"}, "operations": ["IdempotentWrite"], "host": "10.0.0.1"},
]


def test_a_user_with_a_certificate_keeps_acls_and_quotas() -> None:
    spec = {
        "authentication": {"type": "tls"},
        "authorization": {"type": "simple", "acls": ACLS},
        "quotas": {"producerByteRate": 1048576, "requestPercentage": 55, "controllerMutationRate": 10},
    }
    found = user("demo", theirs("orders", spec))
    assert found.manifest is not None
    assert found.manifest["spec"] == {
        "cluster": "demo",
        "authentication": "mtls",
        "acls": [
            {
                "resource": "topic",
                "name": "orders",
                "pattern": "prefixed",
                "operations": ["Read", "Describe"],
            },
            {"resource": "group", "name": "app", "pattern": "literal", "operations": ["Read"]},
            {"resource": "cluster", "operations": ["IdempotentWrite"], "host": "10.0.0.1"},
        ],
        "quotas": {"producerBytesPerSecond": 1048576, "requestPercentage": 55},
    }
    assert found.notes == (
        "clients need the certificate of Secret demo.user.orders, which another authority signs",
        "quota controllerMutationRate is left out",
    )


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"authentication": {"type": "scram-sha-512"}}, "its password and its ACLs stay in Kafka"),
        ({"authentication": {"type": "tls-external"}}, "nothing for authentication tls-external"),
        ({"authorization": {"acls": [*ACLS, {**ACLS[0], "type": "deny"}]}}, "ACLs that deny"),
        ({"authorization": {"acls": ACLS * 43}}, "more than 128 ACLs"),
        (
            {"authorization": {"acls": [{"resource": {"type": "token", "name": "a"}, "operation": "Read"}]}},
            "spec.acls.0.resource",
        ),
        (
            {"authorization": {"acls": [{"resource": TOPIC | {"patternType": "any"}, "operation": "Read"}]}},
            "spec.acls.0.pattern",
        ),
        ({"authorization": {"acls": [*ACLS, {"resource": TOPIC}]}}, "acls.3 has no operations"),
        ({"authorization": {"acls": [{"resource": TOPIC, "operations": []}]}}, "acls.0 has no operations"),
        (
            {"authorization": {"acls": [{"resource": {"type": "topic"}, "operations": ["Read"]}]}},
            "acls.0.resource has no name",
        ),
        (
            {"authorization": {"acls": [{"resource": TOPIC | {"name": ""}, "operations": ["Read"]}]}},
            "acls.0.resource has no name",
        ),
        ({"quotas": {"producerByteRate": 0}}, "spec.quotas.producerBytesPerSecond"),
    ],
)
def test_users_that_have_no_kafkauser_say_why(spec: dict[str, Any], why: str) -> None:
    """Above all one with an ACL that denies, or of which Strimzi creates none: what Spindle allows would be more."""
    found = user("demo", theirs("orders", spec))
    assert found.manifest is None
    assert why in found.notes[0]


@pytest.mark.parametrize("name", ["orders.eu", "admin", "localhost", "spindle-orders", "a" * 64])
def test_users_whose_names_spindle_does_not_allow(name: str) -> None:
    found = user("demo", theirs(name, {"authentication": {"type": "tls"}}))
    assert found.manifest is None
    assert "another name" in found.notes[0]
    kept = user("demo", theirs(name, {"authentication": {"type": "scram-sha-512"}}))
    assert "its password and its ACLs stay in Kafka" in kept.notes[0]


@pytest.mark.parametrize("name", ["1e3", "12e10", "1.5e3", "0o7", "y", "n", "true", "123", "2026-01-02"])
def test_names_that_yaml_could_read_as_something_else_are_quoted(name: str) -> None:
    """PyYAML alone writes 1e3, 0o7 and y without quotes, which kubectl reads as numbers and as a boolean."""
    text = manifests_text([topic("demo", theirs(name, {}))])
    assert f"name: '{name}'\n" in text


def test_the_order_is_by_kind_and_name() -> None:
    found = converted("demo", [theirs("b", {}), theirs("a", {})], [theirs("a", {})])
    assert [each.was for each in found] == ["KafkaTopic a", "KafkaTopic b", "KafkaUser a"]
