"""The operator's observe, act and report against a real API server."""

import base64
import dataclasses
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.apiserver import ApiServer
from spindle.api import names
from spindle.config.dynamic_config_record import ANN_DYNAMIC_CONFIG
from spindle.model.actions import (
    Apply,
    Create,
    Delete,
    Evict,
    IssueCa,
    IssueCertificate,
    MarkDown,
    Patch,
    SetPodCondition,
)
from spindle.model.freshness import FactsRead
from spindle.reconcile.plan import Event, ReconcilePlan, plan
from spindle_operator.act import CONFLICT, DONE, GONE, REFUSED, TAKEN, Actor
from spindle_operator.handlers import registry
from spindle_operator.kafka_executor import KafkaExecutor
from spindle_operator.kinds import (
    CONFIG_MAP,
    EVENT,
    KAFKA_BROKER,
    KAFKA_CLUSTER,
    KAFKA_REBALANCE,
    NODE,
    POD,
    SECRET,
    SERVICE,
    kind_of,
)
from spindle_operator.kube import Kube, connect
from spindle_operator.observe import Surroundings, observe
from spindle_operator.report import Events, Written, report
from spindle_shared.api_answers import ApiError
from tests.kube.samples import broker as sample_broker
from tests.kube.samples import cluster as sample_cluster

pytestmark = pytest.mark.kube

LABELS = {names.LABEL_CLUSTER: "demo"}


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": LABELS},
        "data": data,
    }


def pod(name: str, **labels: str) -> dict[str, Any]:
    container = {"name": "kafka", "image": "example.org/kafka", "terminationMessagePolicy": "File"}
    meta = {"name": name, "labels": {**LABELS, **labels}}
    spec = {"containers": [container], "readinessGates": [{"conditionType": names.READINESS_GATE}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


async def test_lists_come_in_pages_and_whole(
    kube: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spindle_operator.kube._PAGE", 10)
    for number in range(35):
        await kube.create(config_map(f"m{number}"), namespace)
    await kube.create({**config_map("other"), "metadata": {"name": "other"}}, namespace)
    found = await kube.items(CONFIG_MAP, namespace, selector=f"{names.LABEL_CLUSTER}=demo")
    assert len({item["metadata"]["name"] for item in found}) == len(found) == 35
    assert all(item["kind"] == "ConfigMap" and item["apiVersion"] == "v1" for item in found)
    assert all("managedFields" not in item["metadata"] for item in found)


async def test_creation_never_overwrites_and_ends_the_pass(kube: Kube, namespace: str, act: Any) -> None:
    assert await act(Create(object=config_map("m", a="1"))) == [DONE]
    assert await act(Create(object=config_map("m", a="2")), Apply(object=config_map("n"))) == [TAKEN]
    assert (await kube.get(CONFIG_MAP, namespace, "m"))["data"] == {"a": "1"}
    assert await kube.find(CONFIG_MAP, namespace, "n") is None


async def test_apply_takes_back_its_own_fields_and_leaves_others(
    kube: Kube, namespace: str, act: Any, api_server: ApiServer
) -> None:
    await act(Apply(object=config_map("m", ours="1")))
    theirs = {"data": {"ours": "edited", "theirs": "2"}}
    api_server.kubectl("-n", namespace, "patch", "cm", "m", "--type=merge", "-p", json.dumps(theirs))
    live = await kube.get(CONFIG_MAP, namespace, "m")
    assert await act(Apply(object=config_map("m", ours="1"), seen=live)) == [DONE]
    assert (await kube.get(CONFIG_MAP, namespace, "m"))["data"] == {"ours": "1", "theirs": "2"}


async def test_applying_the_same_again_writes_nothing(kube: Kube, namespace: str, act: Any) -> None:
    await act(Apply(object=config_map("m", a="1")))
    live = await kube.get(CONFIG_MAP, namespace, "m")
    assert await act(Apply(object=config_map("m", a="1"), seen=live)) == [DONE]
    before = await kube.get(CONFIG_MAP, namespace, "m")
    assert await act(Apply(object=config_map("m", a="1"), seen=before)) == [DONE]
    after = await kube.get(CONFIG_MAP, namespace, "m")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_a_patch_is_for_one_object_in_one_state(kube: Kube, namespace: str, act: Any) -> None:
    meta = (await kube.create(config_map("m"), namespace))["metadata"]
    note = {"metadata": {"annotations": {"a": "b"}}}
    right = Patch(
        kind="ConfigMap", name="m", uid=meta["uid"], resource_version=meta["resourceVersion"], body=note
    )
    assert await act(dataclasses.replace(right, uid="11111111-2222-3333-4444-555555555555")) == [CONFLICT]
    assert await act(right) == [DONE]
    assert await act(right) == [CONFLICT], "its resourceVersion is an old one now"
    assert await act(dataclasses.replace(right, resource_version=None)) == [DONE]
    assert await act(dataclasses.replace(right, name="none")) == [CONFLICT]


async def test_deletion_is_for_one_object(kube: Kube, namespace: str, act: Any) -> None:
    uid = (await kube.create(config_map("m"), namespace))["metadata"]["uid"]
    wrong = Delete(kind="ConfigMap", name="m", uid="11111111-2222-3333-4444-555555555555")
    right = Delete(kind="ConfigMap", name="m", uid=uid)
    assert await act(wrong, right, right) == [CONFLICT, DONE, GONE]


async def test_the_readiness_gate(kube: Kube, namespace: str, act: Any) -> None:
    uid = (await kube.create(pod("p"), namespace))["metadata"]["uid"]
    gate = SetPodCondition(pod="p", uid=uid, type=names.READINESS_GATE, status=True, why="in every ISR")
    assert await act(gate) == [DONE]
    conditions = (await kube.get(POD, namespace, "p"))["status"]["conditions"]
    assert [(c["type"], c["status"], c["message"]) for c in conditions if c["type"] == gate.type] == [
        (gate.type, "True", "in every ISR")
    ]
    assert await act(dataclasses.replace(gate, uid="11111111-2222-3333-4444-555555555555")) == [CONFLICT]


async def test_an_eviction_is_for_the_pod_as_it_was_seen(kube: Kube, namespace: str, act: Any) -> None:
    meta = (await kube.create(pod("p"), namespace))["metadata"]
    seen = Evict(pod="p", uid=meta["uid"], resource_version=meta["resourceVersion"])
    touched = Patch(kind="Pod", name="p", uid=meta["uid"], body={"metadata": {"annotations": {"a": "b"}}})
    assert await act(touched, seen) == [DONE, CONFLICT], "withdrawing a mark changes the pod first: rule 2"
    fresh = (await kube.get(POD, namespace, "p"))["metadata"]
    assert await act(dataclasses.replace(seen, resource_version=fresh["resourceVersion"])) == [DONE]
    assert await act(seen) == [GONE]


async def test_a_budget_can_forbid_an_eviction(kube: Kube, namespace: str, act: Any) -> None:
    made = await kube.create(pod("p", budget="b"), namespace)
    # A pod that waits for its node may always be evicted; this one runs.
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    meta = (await kube.patch(POD, namespace, "p", running, subresource="status"))["metadata"]
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"budget": "b"}}},
    }
    await kube.create(budget, namespace)
    evict = Evict(pod="p", uid=made["metadata"]["uid"], resource_version=meta["resourceVersion"])
    assert await act(evict) == [REFUSED]


async def test_of_two_that_mark_by_the_same_state_one_wins(
    kube: Kube, namespace: str, cluster: dict[str, Any]
) -> None:
    version = cluster["metadata"]["resourceVersion"]
    outcomes = []
    for name in ("a", "b"):
        actor = Actor(
            kube,
            cluster,
            KafkaExecutor("test", 1),
            lambda: True,
            look=FactsRead(listed=True, at=time.monotonic()),
        )
        entry = {"pod": name, "uid": "u", "nodeId": 0, "since": "2026-01-01T00:00:00Z", "reason": "Restart"}
        results = await actor.run([MarkDown(resource_version=version, entries=(entry,))])
        outcomes.append(results[0].outcome)
    assert outcomes == [DONE, CONFLICT]
    marks = (await kube.get(KAFKA_CLUSTER, namespace, "demo"))["status"]["takingDown"]
    assert [mark["pod"] for mark in marks] == ["a"]


async def test_marks_outlive_reports_and_reports_of_the_same_write_nothing(
    kube: Kube, namespace: str, cluster: dict[str, Any], act: Any
) -> None:
    entry = {"pod": "a", "uid": "u", "nodeId": 0, "since": "2026-01-01T00:00:00Z", "reason": "Restart"}
    await act(MarkDown(resource_version=cluster["metadata"]["resourceVersion"], entries=(entry,)))
    made = await kube.create(sample_broker(), namespace)
    ready = {"type": "Ready", "status": "True", "reason": "AllInSync", "message": "fine"}
    for second in (1, 2):
        stamped = {**ready, "lastTransitionTime": f"2026-01-01T00:00:0{second}Z"}
        told = ReconcilePlan(
            status={"observedGeneration": 1, "phase": "Fine.", "conditions": [stamped]},
            broker_statuses={made["metadata"]["name"]: {"state": "Ready"}},
        )
        standing = await kube.get(KAFKA_CLUSTER, namespace, "demo")
        brokers = await kube.items(sample_kind(made), namespace)
        assert await report(kube, standing, brokers, told) == Written(2 if second == 1 else 0)
    status = (await kube.get(KAFKA_CLUSTER, namespace, "demo"))["status"]
    assert [mark["pod"] for mark in status["takingDown"]] == ["a"]
    assert status["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:01Z"


def sample_kind(obj: dict[str, Any]) -> Any:
    return kind_of(obj)


async def test_a_status_never_lands_on_a_successor_of_the_same_name(
    kube: Kube, namespace: str, cluster: dict[str, Any]
) -> None:
    await kube.delete(KAFKA_CLUSTER, namespace, "demo", cluster["metadata"]["uid"])
    await kube.create(sample_cluster(), namespace)
    assert await report(kube, cluster, [], ReconcilePlan(status={"phase": "old"})) == Written(skipped=1)
    assert "phase" not in (await kube.get(KAFKA_CLUSTER, namespace, "demo")).get("status", {})


async def test_certificates_go_into_secrets_and_come_back_as_facts_only(
    kube: Kube, namespace: str, cluster: dict[str, Any], act: Any
) -> None:
    authority = IssueCa(secret="demo-ca", metadata={"name": "demo-ca", "labels": LABELS})  # noqa: S106 - a name
    admin = IssueCertificate(
        metadata={"name": "demo-admin", "labels": LABELS},
        common_name="admin",
        dns_names=("a.example",),
        client_properties="demo-bootstrap:9092",
        days=10,
    )
    assert await act(authority, admin) == [DONE, DONE]
    assert await act(authority) == [TAKEN], "a CA is never replaced"
    stored = await kube.get(SECRET, namespace, "demo-admin")
    assert {"ca.crt", "tls.crt", "tls.key", "keystore.pem", "client.properties"} <= set(stored["data"])
    assert b"demo-bootstrap:9092" in base64.b64decode(stored["data"]["client.properties"])
    seen = await observe(kube, cluster, KafkaExecutor("test", 1), Surroundings("image"))
    views = {view.metadata["name"]: view for view in seen.snapshot.secrets}
    ca, leaf = views["demo-ca"].certificate, views["demo-admin"].certificate
    assert ca is not None
    assert leaf is not None
    assert (leaf.common_name, leaf.dns_names, leaf.issuer) == ("admin", ("a.example",), ca.fingerprint)
    assert 0 < leaf.not_after - time.time() < 11 * 86400
    assert "PRIVATE" not in repr(seen.snapshot)


async def test_a_look_sees_ours_and_not_the_neighbours(
    kube: Kube, namespace: str, cluster: dict[str, Any]
) -> None:
    await kube.create(pod("demo-broker-0"), namespace)
    await kube.create(
        {**pod("other"), "metadata": {"name": "other", "labels": {names.LABEL_CLUSTER: "other"}}}, namespace
    )
    await kube.create(sample_broker(), namespace)
    seen = await observe(kube, cluster, KafkaExecutor("test", 1), Surroundings("image"))
    assert [item["metadata"]["name"] for item in seen.snapshot.pods] == ["demo-broker-0"]
    assert [item["metadata"]["name"] for item in seen.snapshot.brokers] == ["demo-broker-0"]
    assert seen.snapshot.unknown == frozenset()
    assert seen.snapshot.kafka.error == "no broker runs yet"
    assert plan(seen.snapshot, time.time()).status


@pytest.fixture
async def narrow(
    api_server: ApiServer, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Kube]:
    """A connection with the rights of an operator for one namespace: nothing that is cluster-scoped."""
    run = api_server.kubectl
    run("-n", namespace, "create", "serviceaccount", "narrow")
    run(
        "-n",
        namespace,
        "create",
        "rolebinding",
        "narrow",
        "--clusterrole=admin",
        f"--serviceaccount={namespace}:narrow",
    )
    run(
        "-n", namespace, "create", "role", "ours", "--verb=*",
        "--resource=kafkaclusters.spindle.dev,kafkabrokers.spindle.dev,secrets,poddisruptionbudgets.policy",
    )  # fmt: skip
    run(
        "-n",
        namespace,
        "create",
        "rolebinding",
        "ours",
        "--role=ours",
        f"--serviceaccount={namespace}:narrow",
    )
    token = run("-n", namespace, "create", "token", "narrow").strip()
    config = json.loads(run("config", "view", "--raw", "-o", "json"))
    config["users"][0]["user"] = {"token": token}
    path = tmp_path / "narrow.conf"
    path.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(path))
    async with connect() as kube:
        yield kube


async def test_without_rights_over_nodes_they_are_unknown_and_not_watched(
    narrow: Kube, cluster: dict[str, Any], namespace: str
) -> None:
    assert await narrow.token()
    seen = await observe(narrow, cluster, KafkaExecutor("test", 1), Surroundings("image"))
    # Aggregated roles need a controller, which does not run here: "admin" is empty of rules but for those of ours.
    assert {"nodes", "persistentvolumes", "storageclasses"} <= seen.snapshot.unknown
    assert "kafkabrokers" not in seen.snapshot.unknown
    assert all("orbidden" in why for why in seen.problems.values())
    handlers = await registry(narrow, None, [namespace])  # type: ignore[arg-type]
    watched = {
        selector.any_name or selector.plural
        for handler in handlers._watching.get_all_handlers()
        if (selector := handler.selector) is not None
    }
    assert "nodes" not in watched
    assert {"kafkaclusters", "kafkabrokers", "secrets"} <= watched


async def test_events_are_seen_by_whoever_describes_the_cluster(
    kube: Kube, namespace: str, cluster: dict[str, Any], api_server: ApiServer
) -> None:
    event = Event(
        "Warning", "InsufficientNodes", "No place. " * 200, "KafkaCluster", "demo", cluster["metadata"]["uid"]
    )
    await Events(kube, "operator-0").post(namespace, [event, event])
    assert len(await kube.items(EVENT, namespace)) == 1
    assert "InsufficientNodes" in api_server.kubectl("-n", namespace, "describe", "skc", "demo")


async def test_refusals_carry_the_servers_words(kube: Kube, namespace: str) -> None:
    with pytest.raises(ApiError) as caught:
        await kube.create({**config_map("m"), "metadata": {"name": "NOT A NAME"}}, namespace)
    assert caught.value.status == 422
    assert "NOT A NAME" in caught.value.message
    assert await kube.find(SERVICE, namespace, "none") is None
    assert await kube.probe(KAFKA_REBALANCE, namespace)
    assert await kube.probe(NODE, None)


async def test_an_api_server_that_is_away_is_an_api_error(
    api_server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = api_server.kubeconfig.read_text().replace(api_server.url, "https://127.0.0.1:9")
    path = tmp_path / "away.conf"
    path.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(path))
    async with connect() as kube:
        with pytest.raises(ApiError) as caught:
            await kube.create(config_map("m"), "default")
    assert caught.value.status == 0


@pytest.mark.parametrize("killed", [False, True], ids=["made", "killed-in-between"])
async def test_an_apply_takes_away_what_a_creation_set(
    kube: Kube, namespace: str, act: Any, killed: bool
) -> None:
    """A field and an entry of a list; the operator may have been killed right after the creation."""
    made = sample_broker()
    made["metadata"]["labels"] = LABELS
    made["spec"]["disks"][0]["fsUuid"] = "before"
    if killed:
        await kube.create(made, namespace)
    else:
        assert await act(Create(object=made)) == [DONE]
    live = await kube.get(KAFKA_BROKER, namespace, "demo-broker-0")
    await kube.patch(KAFKA_BROKER, namespace, "demo-broker-0", {"metadata": {"annotations": {"noted": "1"}}})
    wanted = sample_broker()
    wanted["metadata"]["labels"] = LABELS
    del wanted["spec"]["disks"][1]
    assert await act(Apply(object=wanted, seen=live)) == [DONE]
    after = await kube.get(KAFKA_BROKER, namespace, "demo-broker-0")
    assert [(disk["name"], disk.get("fsUuid")) for disk in after["spec"]["disks"]] == [("disk0", None)]
    assert after["metadata"]["annotations"] == {"noted": "1"}
    assert await act(Apply(object=wanted, seen=after)) == [DONE]
    again = await kube.get(KAFKA_BROKER, namespace, "demo-broker-0")
    assert again["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]


async def test_what_a_broker_was_created_with_beside_its_spec_stays(
    kube: Kube, namespace: str, act: Any
) -> None:
    """A re-adopted broker is created with the record of settings that Spindle has changed: the first apply must not remove it."""
    made = sample_broker()
    made["metadata"] |= {"labels": LABELS, "annotations": {ANN_DYNAMIC_CONFIG: "{}"}}
    assert await act(Create(object=made)) == [DONE]
    live = await kube.get(KAFKA_BROKER, namespace, "demo-broker-0")
    wanted = sample_broker()
    wanted["metadata"]["labels"] = LABELS
    wanted["spec"]["node"] = "node1"
    assert await act(Apply(object=wanted, seen=live)) == [DONE]
    after = await kube.get(KAFKA_BROKER, namespace, "demo-broker-0")
    assert after["spec"]["node"] == "node1"
    assert after["metadata"]["annotations"] == {ANN_DYNAMIC_CONFIG: "{}"}
