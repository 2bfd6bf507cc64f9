"""When a node counts as gone for good, and its volumes with it."""

from typing import Any

import pytest

from spindle.model.node_loss import (
    OUT_OF_SERVICE,
    NodeLossClaim,
    NodeLossEvidence,
    find_evidence,
    is_left_behind,
)


def node(name: str, *taints: str, host: str | None = None) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": host or name}},
        "spec": {"taints": [{"key": key, "effect": "NoExecute"} for key in taints]},
    }


def nodes(*made: dict[str, Any]) -> dict[str, Any]:
    return {each["metadata"]["name"]: each for each in made}


def local(*hosts: str) -> dict[str, Any]:
    part = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(hosts)}
    return {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [part]}]}}}}


@pytest.mark.parametrize(
    ("there", "found"),
    [
        pytest.param(nodes(node("n1"), node("n2")), None, id="there"),
        pytest.param(nodes(node("n1", "node.kubernetes.io/unreachable"), node("n2")), None, id="silent"),
        pytest.param(nodes(node("n2")), NodeLossEvidence.DELETED, id="deleted"),
        pytest.param(nodes(node("n1", OUT_OF_SERVICE)), NodeLossEvidence.OUT_OF_SERVICE, id="tainted"),
        pytest.param({}, None, id="no node at all is no answer"),
        pytest.param(None, None, id="not listed"),
    ],
)
def test_evidence(there: dict[str, Any] | None, found: NodeLossEvidence | None) -> None:
    assert find_evidence("n1", there) is found


def test_nobody_knows_where_a_broker_without_a_node_was() -> None:
    assert find_evidence(None, nodes(node("n2"))) is None


@pytest.mark.parametrize(
    ("volume", "left"),
    [
        pytest.param(local("n1"), True, id="local"),
        pytest.param(local("n2"), False, id="of another node"),
        pytest.param(local("n1", "n2"), False, id="of two nodes"),
        pytest.param({"spec": {}}, False, id="network"),
        pytest.param({"spec": {"nodeAffinity": {"required": None}}}, False, id="network, said"),
    ],
)
@pytest.mark.parametrize("deleted", [True, False])
def test_volumes_that_only_the_node_had(volume: dict[str, Any], left: bool, *, deleted: bool) -> None:
    there = nodes(node("n2")) if deleted else nodes(node("n1", OUT_OF_SERVICE), node("n2"))
    assert is_left_behind(volume, "n1", there) is left


@pytest.mark.parametrize(
    ("facts", "agreed"),
    [
        pytest.param({}, False, id="evidence alone"),
        pytest.param({"statement": "n1"}, True, id="a person agrees"),
        pytest.param({"statement": "n2"}, False, id="a word about another node"),
        pytest.param({"statement": "n1", "evidence": None}, False, id="a word without evidence"),
        pytest.param({"statement": "n1", "answers": True}, False, id="something answers"),
        pytest.param({"grace": 60.0, "waited": 59.0}, False, id="not yet"),
        pytest.param({"grace": 60.0, "waited": 60.0}, True, id="the time has passed"),
        pytest.param({"grace": 60.0, "waited": 999.0, "evidence": None}, False, id="time alone"),
        pytest.param({"waited": 1e9}, False, id="no time is set"),
    ],
)
def test_agreement(facts: dict[str, Any], agreed: bool) -> None:
    said = NodeLossClaim(**{"node": "n1", "evidence": NodeLossEvidence.DELETED, **facts})
    assert said.agreed is agreed
