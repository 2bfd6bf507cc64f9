"""Taints, selectors and volume affinities, by Kubernetes' own rules."""

from typing import Any

import pytest

from spindle.model.nodes import admits, belongs, matches_selector, selected, tolerated, zone

TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}, True),
        ({"key": "k", "operator": "Equal", "value": "other"}, False),
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"value": "v"}, False),
        ({"key": "k", "operator": "Near"}, False),
        ({"key": "k", "value": "v", "tolerationSeconds": 0}, True),
        ({}, False),
    ],
)
def test_tolerations(toleration: dict[str, Any], expected: bool) -> None:
    assert tolerated(TAINT, [toleration]) is expected


def test_what_keeps_a_pod_out() -> None:
    def tainted(effect: str) -> dict[str, Any]:
        return {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "k", "effect": effect}]}}

    assert not admits(tainted("NoSchedule"), [])
    assert not admits(tainted("NoExecute"), [])
    assert admits(tainted("PreferNoSchedule"), [])
    assert admits(tainted("NoSchedule"), [{"key": "k", "operator": "Exists"}])
    passing = {
        "metadata": {"name": "n"},
        "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
    }
    assert not admits(passing, [])
    assert belongs(passing, {}, [])
    assert not belongs(tainted("NoSchedule"), {}, [])


def test_a_selector_wants_all_its_labels() -> None:
    having = {"metadata": {"name": "n", "labels": {"a": "1", "b": "2"}}}
    assert selected(having, {})
    assert selected(having, {"a": "1", "b": "2"})
    assert not selected(having, {"a": "1", "c": "3"})


def test_an_empty_zone_label_is_none() -> None:
    assert zone({"metadata": {"labels": {"z": ""}}}, "z") is None
    assert zone({"metadata": {"labels": {"z": "a"}}}, "z") == "a"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"key": "h", "operator": "In", "values": ["x", "y"]}, True),
        ({"key": "h", "operator": "In", "values": ["z"]}, False),
        ({"key": "none", "operator": "In", "values": ["x"]}, False),
        ({"key": "h", "operator": "NotIn", "values": ["x"]}, False),
        ({"key": "none", "operator": "NotIn", "values": ["x"]}, True),
        ({"key": "h", "operator": "Exists"}, True),
        ({"key": "none", "operator": "Exists"}, False),
        ({"key": "none", "operator": "DoesNotExist"}, True),
        ({"key": "h", "operator": "DoesNotExist"}, False),
        ({"key": "n", "operator": "Gt", "values": ["4"]}, True),
        ({"key": "n", "operator": "Lt", "values": ["4"]}, False),
        ({"key": "h", "operator": "Gt", "values": ["4"]}, False),
        ({"key": "h", "operator": "Odd", "values": ["x"]}, False),
        ({"key": "h"}, False),
    ],
)
def test_node_selector_requirements(expression: dict[str, Any], expected: bool) -> None:
    node = {"metadata": {"name": "x", "labels": {"h": "x", "n": "5"}}}
    assert matches_selector(node, {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}) is expected


def test_terms_are_alternatives_and_their_parts_are_not() -> None:
    node = {"metadata": {"name": "x", "labels": {"h": "x"}}}
    yes = {"key": "h", "operator": "Exists"}
    no = {"key": "h", "operator": "DoesNotExist"}
    assert matches_selector(
        node, {"nodeSelectorTerms": [{"matchExpressions": [no]}, {"matchExpressions": [yes]}]}
    )
    assert not matches_selector(node, {"nodeSelectorTerms": [{"matchExpressions": [yes, no]}]})
    assert matches_selector(
        node,
        {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["x"]}]}
            ]
        },
    )
    assert not matches_selector(node, {"nodeSelectorTerms": [{}]})
    assert not matches_selector(node, {"nodeSelectorTerms": []})
    assert not matches_selector(node, None)
