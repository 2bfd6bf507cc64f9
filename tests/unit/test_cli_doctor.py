"""The checks of ``spindle doctor``: from objects to findings, each with its way out."""

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from spindle.api.cluster import KafkaCluster
from spindle.api.crd import crds
from spindle.disks import agent_health
from spindle_cli import main
from spindle_cli.doctor import installation, places, reading
from spindle_cli.doctor.command import findings
from spindle_cli.doctor.facts import Facts, Finding, Level, Right
from spindle_cli.kube import Kube
from tests.unit import cli_samples as samples

NOW = 1_800_000_000.0
ZONE = "topology.kubernetes.io/zone"


def node(name: str, zone: str | None = "a", **spec: Any) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name} | ({ZONE: zone} if zone else {})
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": ready}


def storage_class(name: str = "local", *, default: bool = False, **more: Any) -> dict[str, Any]:
    notes = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    return {
        "metadata": {"name": name, "annotations": notes},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
        **more,
    }


def volume(name: str, on: str, size: str = "100Gi", **spec: Any) -> dict[str, Any]:
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}
    kept = {"storageClassName": "local", "capacity": {"storage": size}, "nodeAffinity": affinity, **spec}
    return {"metadata": {"name": name}, "spec": kept, "status": {"phase": "Available"}}


def lease(name: str, at: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"renewTime": at}}


def operator(*arguments: str, ready: int = 1, version: str = "0.1.0") -> dict[str, Any]:
    box = {"command": ["spindle-operator"], "args": list(arguments)}
    return {
        "metadata": {
            "name": "spindle",
            "namespace": "spindle",
            "labels": {"app.kubernetes.io/version": version},
        },
        "spec": {"template": {"spec": {"containers": [box]}}},
        "status": {"readyReplicas": ready},
    }


def agent(on: str, *, ready: bool = True) -> dict[str, Any]:
    made = samples.pod(f"agent-{on}", ready=ready, node=on)
    return {**made, "metadata": {"name": f"agent-{on}", "namespace": "spindle-agents"}}


def wanted(**spec: Any) -> KafkaCluster:
    raw = samples.cluster()
    raw["spec"]["controllers"]["storage"]["storageClass"] = "local"
    raw["spec"] |= spec
    return KafkaCluster.parse(raw)


MADE = {each["metadata"]["name"]: each for each in crds().values()}
GOOD = Facts(
    namespace="kafka",
    program="0.1.0",
    kubernetes="v1.33.1",
    server_time=NOW,
    own_time=NOW,
    clusters=(wanted(),),
    nodes=[node("node1", "a"), node("node2", "b"), node("node3", "c")],
    classes=[storage_class(default=True)],
    volumes=[volume(f"{on}-{i}", on) for on in ("node1", "node2", "node3") for i in range(2)],
    leases=[lease("node1", "2027-01-15T08:00:00.000000Z")],  # NOW
    operators=[operator("--namespace=kafka")],
    agents=[agent("node1"), agent("node2"), agent("node3")],
    definitions=MADE,
    schemas=MADE,
    rights={Right("create", "kafkaclusters", "spindle.dev", "to apply a KafkaCluster", vital=True): True},
)


def only(facts: Facts, check: str) -> Finding:
    """The one finding of a check that is not Ok."""
    (found,) = [each for each in findings(facts) if each.level is not Level.OK]
    assert found.check == check
    assert found.way_out
    return found


def test_a_cluster_with_everything_has_no_finding_but_every_check_says_so() -> None:
    found = findings(GOOD)

    assert {each.level for each in found} == {Level.OK}
    assert {each.check for each in found} == {
        "Kubernetes",
        "Definitions",
        "Operator",
        "Rights",
        "StorageClass",
        "Volumes",
        "Nodes",
        "Zones",
        "Agents",
        "Clocks",
    }


@pytest.mark.parametrize(
    ("changes", "check", "level", "said"),
    [
        ({"kubernetes": "v1.29.8"}, "Kubernetes", Level.PROBLEM, "v1.29.8"),
        ({"operators": []}, "Operator", Level.PROBLEM, "no operator is installed"),
        ({"operators": [operator("--namespace=other")]}, "Operator", Level.PROBLEM, "no operator manages namespace kafka"),
        ({"operators": [operator(ready=0)]}, "Operator", Level.PROBLEM, "not ready"),
        ({"operators": [operator(), operator("--namespace=kafka")]}, "Operator", Level.PROBLEM, "all manage"),
        ({"operators": [operator(version="0.0.9")]}, "Operator", Level.WARNING, "0.0.9"),
        ({"agents": []}, "Agents", Level.WARNING, "no agent runs"),
        ({"agents": [agent("node1"), agent("node2", ready=False), agent("node3")]}, "Agents", Level.WARNING, "node2"),
        ({"own_time": NOW + 60}, "Clocks", Level.WARNING, "60 s ahead of"),
        ({"leases": [lease("node1", "2027-01-15T08:00:30.5Z")]}, "Clocks", Level.WARNING, "node1 is 30 s ahead of"),
        ({"leases": [lease("node1", "2027-01-15T07:57:00Z")]}, "Clocks", Level.WARNING, "node1 is 140 s behind"),
        ({"nodes": [node("node1", "a"), node("node2", "b"), node("node3", None)]}, "Zones", Level.WARNING, "node3 has no label"),
        ({"nodes": [node(f"node{i}", None) for i in (1, 2, 3)]}, "Zones", Level.WARNING, "no racks"),
        ({"nodes": [node(f"node{i}") for i in (1, 2, 3)]}, "Zones", Level.WARNING, "all nodes are in zone a"),
        ({"classes": [storage_class(volumeBindingMode="Immediate")]}, "StorageClass", Level.WARNING, "binds claims at once"),
        ({"unreadable": {"leases": "forbidden"}, "leases": []}, "Rights", Level.WARNING, "leases (forbidden)"),
        ({"volumes": [*GOOD.volumes[:-1], volume("small", "node3", "99Gi")]}, "Volumes", Level.PROBLEM, "there are 2: node1 2, node2 2, node3 1"),
        ({"volumes": [*GOOD.volumes[:-1], volume("bound", "node3", claimRef={"name": "x"})]}, "Volumes", Level.PROBLEM, "node3 1"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found_with_its_way_out(
    changes: dict[str, Any], check: str, level: Level, said: str
) -> None:
    found = {each for each in findings(replace(GOOD, **changes)) if each.level is not Level.OK}

    assert {(each.check, each.level) for each in found} == {(check, level)}
    assert any(said in each.message for each in found)
    assert all(each.way_out for each in found)


@pytest.mark.parametrize(
    ("chart", "package"),
    [("1.2.3-rc.1", "1.2.3rc1"), ("1.2.3-alpha.2", "1.2.3a2"), ("1.2.3-beta.10", "1.2.3b10")],
)
def test_a_chart_and_a_package_of_one_prerelease_have_the_same_version(chart: str, package: str) -> None:
    facts = replace(GOOD, operators=[operator(version=chart)], program=package)
    assert all(each.level is Level.OK for each in findings(facts))
    assert only(replace(facts, program="1.2.3"), "Operator").level is Level.WARNING


def test_too_few_nodes_are_counted_as_brokers_can_be_scheduled() -> None:
    there = [node("node1"), node("node2", "b"), node("node3", "c", unschedulable=True)]
    few = replace(GOOD, nodes=there, classes=[storage_class(provisioner="csi.example")])

    assert "needs 3 nodes" in only(few, "Nodes").message
    shared = replace(few, clusters=(wanted(scheduling={"sharedNodes": True}),))
    assert [each for each in findings(shared) if each.level is not Level.OK] == []


@pytest.mark.parametrize("named", [None, "fast"])
def test_a_storage_class_that_is_not_there(named: str | None) -> None:
    storage = {"size": "1Gi"} | ({"storageClass": named} if named else {})
    cluster = wanted(controllers={"replicas": 3, "storage": storage})

    found = only(replace(GOOD, clusters=(cluster,), classes=[storage_class()]), "StorageClass")

    assert found.level is Level.PROBLEM
    assert "local" in found.way_out


def test_volumes_of_a_cluster_that_exists_are_not_counted() -> None:
    running = replace(GOOD, volumes=[], existing=frozenset({"demo"}))
    assert not list(places.volumes(running))


def test_definitions_of_an_older_version_lack_fields_by_name() -> None:
    older = copy.deepcopy(MADE)
    schema = older["kafkaclusters.spindle.dev"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["rolling"]["properties"]["restart"]

    assert "spec.rolling.restart" in only(replace(GOOD, definitions=older), "Definitions").message
    gone = {name: each for name, each in MADE.items() if not name.startswith("kafkausers")}
    assert only(replace(GOOD, definitions=gone), "Definitions").level is Level.PROBLEM


@pytest.mark.parametrize("seen", [{"node2": 25.0}, {"node1": 25.0, "node2": -90.0}])
def test_clocks_that_differ_by_the_agents_reports(seen: dict[str, float]) -> None:
    said = agent_health._off(seen)
    state = {
        "conditions": [{"type": "ClocksAgree", "status": "False", "reason": "ClockSkew", "message": said}]
    }
    cluster = KafkaCluster.parse({**wanted().to_dict(), "status": state})

    found = only(replace(GOOD, clusters=(cluster,)), "Clocks")

    assert found.level is Level.WARNING
    assert all(each in found.message for each in seen)
    assert found.way_out.startswith("Synchronize the clock of node")
    assert found.way_out.endswith("with NTP (for example chrony).")


def test_a_missing_right_is_a_problem_only_where_nothing_works_without_it() -> None:
    vital, other = (
        Right("create", "kafkaclusters", "spindle.dev", "a", vital=True),
        Right("get", "secrets", "", "b"),
    )
    found = list(installation.rights(replace(GOOD, rights={vital: False, other: False})))
    assert [each.level for each in found] == [Level.PROBLEM, Level.WARNING]


@pytest.mark.parametrize(
    ("facts", "code"), [(GOOD, 0), (replace(GOOD, agents=[]), 0), (replace(GOOD, operators=[]), 1)]
)
def test_the_exit_code_says_whether_something_prevents_a_cluster(
    monkeypatch: pytest.MonkeyPatch, facts: Facts, code: int
) -> None:
    monkeypatch.setattr(Kube, "connect", lambda namespace=None: None)
    monkeypatch.setattr(reading, "read", lambda kube, wanted: facts)

    shown = RUNNER.invoke(main.app, ["doctor", "-o", "json"])
    text = RUNNER.invoke(main.app, ["doctor"])

    assert (shown.exit_code, text.exit_code) == (code, code)
    assert [each["check"] for each in json.loads(shown.stdout)] == [each.check for each in findings(facts)]
    assert ("to resolve: " in text.stdout) is (facts is not GOOD)


RUNNER = CliRunner()


def all_disks() -> KafkaCluster:
    pool = {"name": "main", "replicas": 3, "disks": {"all": True, "storageClass": "local"}}
    return wanted(brokerPools=[pool])


def test_with_all_disks_the_volumes_of_each_node_are_told() -> None:
    facts = replace(GOOD, clusters=(all_disks(),), volumes=[*GOOD.volumes, volume("more", "node2", "1Gi")])
    (found, _) = places.volumes(facts)
    assert found.level is Level.OK
    assert "node1 2, node2 3, node3 2" in found.message


def test_with_all_disks_a_node_without_a_volume_runs_no_broker() -> None:
    facts = replace(GOOD, clusters=(all_disks(),), volumes=GOOD.volumes[:-2])
    found = next(each for each in places.volumes(facts) if each.level is not Level.OK)
    assert "there are 2: node1 2, node2 2, node3 0" in found.message


@pytest.mark.parametrize("changes", [{"volumeBindingMode": "Immediate"}, {"provisioner": "csi.example"}])
def test_with_all_disks_a_class_whose_volumes_belong_to_no_node(changes: dict[str, Any]) -> None:
    facts = replace(GOOD, clusters=(all_disks(),), classes=[storage_class(**changes)])
    found = next(each for each in places.storage_classes(facts) if each.level is Level.PROBLEM)
    assert "disks.all" in found.message
    assert "disks.count" in found.way_out
