"""Drift: what counts as still saying the same."""

from typing import Any

import pytest

from spindle.api import names
from spindle.manifests.common import applied_hash, drifted, with_applied
from spindle.model.metadata import labels, owner_reference

CLUSTER = {"metadata": {"name": "demo", "namespace": "kafka", "uid": "u-1"}}


def test_labels_say_only_what_is_known() -> None:
    assert names.LABEL_ROLE not in labels("demo")
    full = labels("demo", role="broker", node_id=3, pool="main")
    assert full[names.LABEL_CLUSTER] == "demo"
    assert full[names.LABEL_NODE_ID] == "3"


def test_the_cluster_is_the_controller_owner() -> None:
    owner = owner_reference(CLUSTER)
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == (
        "KafkaCluster",
        "demo",
        "u-1",
        True,
    )


@pytest.mark.parametrize(
    ("desired", "live", "expected"),
    [
        pytest.param({"a": 1}, {"a": 1, "b": 2}, False, id="more-is-there"),
        pytest.param({"a": 1}, {"a": 2}, True, id="another-value"),
        pytest.param({"a": {"b": 1}}, {"a": None}, True, id="section-gone"),
        pytest.param({"a": {"b": ""}, "c": [], "d": {}}, {}, False, id="empty-is-absent"),
        pytest.param({"a": None}, {"a": 1}, False, id="null-asks-for-nothing"),
        pytest.param({"a": False}, {"a": True}, True, id="false-is-not-true"),
        pytest.param({"a": True}, {"a": 1}, True, id="a-flag-is-no-number"),
        pytest.param({"port": 9092}, {"port": "9092"}, False, id="int-or-string"),
        pytest.param(
            {"resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}}},
            {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
            False,
            id="quantity-in-other-words",
        ),
        pytest.param(
            {"resources": {"requests": {"cpu": "1"}}},
            {"resources": {"requests": {"cpu": "2"}}},
            True,
            id="more-cpu",
        ),
        pytest.param({"data": {"x": "1000m"}}, {"data": {"x": "1"}}, True, id="text-is-no-quantity"),
        pytest.param(
            {"ports": [{"name": "b", "port": 2}, {"name": "a", "port": 1}]},
            {"ports": [{"name": "a", "port": 1, "protocol": "TCP"}, {"name": "b", "port": 2}, {"name": "c"}]},
            False,
            id="by-name",
        ),
        pytest.param(
            {"ports": [{"name": "a", "port": 1}]}, {"ports": [{"name": "a", "port": 2}]}, True, id="port"
        ),
        pytest.param({"ports": [{"name": "a"}]}, {"ports": [{"name": "b"}]}, True, id="entry-gone"),
        pytest.param({"ports": [{"name": "a"}]}, {}, True, id="list-gone"),
        pytest.param(
            {"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]},
            {"volumeMounts": [{"name": "v", "mountPath": "/b"}, {"name": "v", "mountPath": "/a"}]},
            False,
            id="mounts-of-one-volume",
        ),
        pytest.param(
            {"tolerations": [{"key": "a"}, {"key": "b"}]},
            {"tolerations": [{"key": "a"}, {"key": "b"}, {"key": "not-ready"}]},
            False,
            id="tolerations-added-behind",
        ),
        pytest.param({"args": ["a", "b"]}, {"args": ["b", "a"]}, True, id="order-of-text"),
        pytest.param({"args": ["a"]}, {"args": ["a", "b"]}, True, id="text-added"),
        pytest.param({"finalizers": ["a"]}, {"finalizers": ["x", "a"]}, False, id="finalizer-added"),
        pytest.param({"finalizers": ["a"]}, {"finalizers": ["x"]}, True, id="finalizer-gone"),
    ],
)
def test_drift(desired: dict[str, Any], live: dict[str, Any], expected: bool) -> None:
    assert drifted(desired, live) is expected


def test_a_field_that_is_no_longer_desired_is_drift() -> None:
    before = with_applied({"kind": "Service", "metadata": {"name": "x", "labels": {"a": "1", "b": "2"}}})
    after = with_applied({"kind": "Service", "metadata": {"name": "x", "labels": {"a": "1"}}})
    assert not drifted(before, before)
    assert drifted(after, before)


def test_the_hash_does_not_hash_itself() -> None:
    plain = {"metadata": {"name": "x"}}
    assert applied_hash(with_applied(plain)) == applied_hash(plain)
    assert applied_hash({"metadata": {"name": "y"}}) != applied_hash(plain)
