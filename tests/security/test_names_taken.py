"""Somebody else's objects under the names that a KafkaCluster needs: an operator process leaves them alone and says so (rule 16)."""

import base64
import gzip
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kubernetes.config import new_client_from_config

from e2e.cluster.apiserver import ApiServer
from spindle.api import names
from spindle.manifests.common import drifted, with_applied
from spindle.manifests.cronjob import report_map
from spindle.model.actions import Apply, Create, IssueCa, IssueCertificate, KeepPassword
from spindle_operator.kinds import KINDS
from spindle_operator.kube import Kube
from spindle_rebalance.errors import RunError
from spindle_rebalance.kube import Kube as Proposals
from spindle_rebalance.publish import publish_report
from tests.kube.operator_process import OperatorProcess, until
from tests.kube.samples import bent
from tests.kube.samples import cluster as sample_cluster

pytestmark = pytest.mark.kube

Json = dict[str, Any]
Start = Callable[[], OperatorProcess]
JOB = names.rebalance_job("demo")
RBAC = "rbac.authorization.k8s.io"


def foreign(namespace: str, labels: dict[str, str]) -> list[Json]:
    """What somebody made before, each of a kind and a name that the KafkaCluster wants."""

    def made(version: str, kind: str, name: str, **rest: Any) -> Json:
        return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": labels}, **rest}

    admin = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
    account = {"kind": "ServiceAccount", "name": JOB, "namespace": namespace}
    return [
        made("v1", "Secret", names.admin_secret("demo"), stringData={"password": "theirs"}),
        made("v1", "ServiceAccount", JOB),
        made(f"{RBAC}/v1", "Role", JOB, rules=[]),
        made(f"{RBAC}/v1", "RoleBinding", JOB, roleRef=admin, subjects=[account]),
        made("v1", "Service", names.bootstrap_service("demo"), spec={"ports": [{"port": 80}]}),
        made(
            *("policy/v1", "PodDisruptionBudget", names.broker_budget("demo")),
            spec={"minAvailable": 1, "selector": {"matchLabels": {"app": "theirs"}}},
        ),
        made("v1", "ConfigMap", names.rebalance_report("demo"), data={"theirs": "yes"}),
        made("v1", "ConfigMap", names.pools_map("demo"), data={"theirs": "yes"}),
    ]


@pytest.fixture
def start(api_server: ApiServer, namespace: str, tmp_path: Path) -> Start:
    def make() -> OperatorProcess:
        more = ("--rebalance-image=example.org/rebalance:test", "--resync=2")
        return OperatorProcess(api_server.kubeconfig, namespace, tmp_path, *more)

    return make


def read(server: ApiServer, namespace: str, kind: str, name: str) -> Json | None:
    where = ("-n", namespace, "get", f"{KINDS[kind].plural}.{KINDS[kind].group}".rstrip("."), name)
    text = server.kubectl(*where, "-o", "json", "--ignore-not-found")
    return dict(json.loads(text)) if text.strip() else None


def substance(obj: Json | None) -> Json | None:
    """All of an object but what the API server counts; a budget's status is its controller's."""
    if obj is None:
        return None
    kept = {key: value for key, value in obj.items() if key != "status"}
    meta = {k: v for k, v in obj["metadata"].items() if k not in ("resourceVersion", "managedFields")}
    return {**kept, "metadata": meta}


def waits(server: ApiServer, namespace: str, reason: str) -> set[str]:
    found = read(server, namespace, "KafkaCluster", "demo") or {}
    waiting = (found.get("status") or {}).get("waiting") or ()
    return {str(wait["object"]) for wait in waiting if wait["reason"] == reason}


@pytest.mark.parametrize(
    "labels", [{}, {names.LABEL_CLUSTER: "demo", "whose": "theirs"}], ids=["seen at creation", "listed"]
)
def test_what_is_somebody_elses_is_not_taken_over_and_outlives_the_cluster(
    api_server: ApiServer, namespace: str, start: Start, labels: dict[str, str]
) -> None:
    theirs = foreign(namespace, labels)
    if labels:  # a ConfigMap of an earlier release has our label and no id: it is the one kind that cannot be told from ours
        theirs[-1]["metadata"]["annotations"] = {names.ANN_CLUSTER_ID: "A" * 22}
    api_server.kubectl(
        "-n",
        namespace,
        "create",
        "-f",
        "-",
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": theirs}),
    )
    things = {f"{obj['kind']}/{obj['metadata']['name']}": obj for obj in theirs}

    def seen() -> dict[str, Json | None]:
        return {
            thing: substance(read(api_server, namespace, obj["kind"], obj["metadata"]["name"]))
            for thing, obj in things.items()
        }

    before = seen()
    api_server.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(sample_cluster()))
    with start() as operator:
        until(
            "a wait for each",
            lambda: waits(api_server, namespace, "NameConflict") >= things.keys(),
            120,
            lambda: f"{waits(api_server, namespace, 'NameConflict')}\n{operator.log}",
        )
        assert seen() == before
        assert read(api_server, namespace, "CronJob", JOB) is None, (
            "no job runs under somebody else's account"
        )
        assert read(api_server, namespace, "Secret", names.operator_secret("demo")) is not None
        api_server.kubectl("-n", namespace, "delete", "kafkacluster", "demo", "--timeout=90s")
    assert seen() == before


def test_a_report_is_written_into_a_config_map_of_the_cluster_alone(
    api_server: ApiServer, namespace: str
) -> None:
    kube, name = Proposals(new_client_from_config(str(api_server.kubeconfig))), names.rebalance_report("demo")
    api_server.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(sample_cluster()))
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"theirs": "yes"}}
    api_server.kubectl("-n", namespace, "create", "-f", "-", stdin=json.dumps(theirs))
    before = read(api_server, namespace, "ConfigMap", name)
    assert not publish_report(kube, namespace, "demo", name, "<p>report</p>")
    assert read(api_server, namespace, "ConfigMap", name) == before

    api_server.kubectl("-n", namespace, "delete", "configmap", name)
    for page in ("<p>made</p>", "<p>written over</p>"):
        assert publish_report(kube, namespace, "demo", name, page)
        found = read(api_server, namespace, "ConfigMap", name) or {}
        packed = base64.b64decode(found["binaryData"][names.REPORT_KEY])
        assert gzip.decompress(packed).decode() == page
        assert found["metadata"]["ownerReferences"][0]["name"] == "demo"

    # Made anew by somebody else between the look and the write: it is not the one that was looked at.
    seen = kube.config_map(namespace, name) or {}
    api_server.kubectl("-n", namespace, "delete", "configmap", name)
    api_server.kubectl("-n", namespace, "create", "-f", "-", stdin=json.dumps(theirs))
    guard = {key: seen["metadata"][key] for key in ("name", "uid", "resourceVersion")}
    with pytest.raises(RunError, match="409"):
        kube.apply_config_map(namespace, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": guard})


def test_the_operator_finds_the_map_of_a_report_as_it_made_it(api_server: ApiServer, namespace: str) -> None:
    kube, name = Proposals(new_client_from_config(str(api_server.kubeconfig))), names.rebalance_report("demo")
    api_server.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(sample_cluster()))
    made = with_applied(report_map(read(api_server, namespace, "KafkaCluster", "demo") or {}))
    as_operator = ("apply", "--server-side", "--field-manager=spindle-operator", "-f", "-")
    api_server.kubectl("-n", namespace, *as_operator, stdin=json.dumps(made))

    for page in ("<p>first</p>", "<p>second</p>"):
        assert publish_report(kube, namespace, "demo", name, page)
        assert not drifted(made, read(api_server, namespace, "ConfigMap", name) or {})


def test_the_way_out_works(api_server: ApiServer, namespace: str, start: Start) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": JOB}}
    api_server.kubectl("-n", namespace, "create", "-f", "-", stdin=json.dumps(account))
    api_server.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(sample_cluster()))
    with start() as operator:
        taken = {f"ServiceAccount/{JOB}"}
        until(
            "the wait",
            lambda: waits(api_server, namespace, "NameConflict") == taken,
            90,
            lambda: operator.log,
        )
        api_server.kubectl("-n", namespace, "delete", "serviceaccount", JOB)
        until("the job", lambda: read(api_server, namespace, "CronJob", JOB), 90, lambda: operator.log)
        until("no wait", lambda: not waits(api_server, namespace, "NameConflict"), 90, lambda: operator.log)
    (owner,) = (read(api_server, namespace, "ServiceAccount", JOB) or {})["metadata"]["ownerReferences"]
    assert owner["kind"] == "KafkaCluster"


def test_what_a_deleted_cluster_of_the_name_left_is_awaited_and_not_taken_up(
    api_server: ApiServer, namespace: str, start: Start
) -> None:
    """No garbage collector runs here, so that it stays for as long as the test likes."""
    former = {
        "apiVersion": names.API_VERSION,
        "kind": "KafkaCluster",
        "name": "demo",
        "controller": True,
        "uid": "3f0f4f3e-5a0e-4a4e-9d7e-0c5a5f7d1b11",
    }
    labels = {names.LABEL_CLUSTER: "demo"}
    old = {
        "apiVersion": "v1",
        "kind": "Secret",
        "stringData": {"tls.key": "old"},
        "metadata": {"name": names.admin_secret("demo"), "labels": labels, "ownerReferences": [former]},
    }
    api_server.kubectl("-n", namespace, "create", "-f", "-", stdin=json.dumps(old))
    before = substance(read(api_server, namespace, "Secret", names.admin_secret("demo")))
    api_server.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(sample_cluster()))
    with start() as operator:
        gone = {f"Secret/{names.admin_secret('demo')}"}
        until(
            "the wait",
            lambda: waits(api_server, namespace, "OrphanedObject") == gone,
            90,
            lambda: operator.log,
        )
        assert substance(read(api_server, namespace, "Secret", names.admin_secret("demo"))) == before
        api_server.kubectl("-n", namespace, "delete", "secret", names.admin_secret("demo"))
        until(
            "a new one",
            lambda: read(api_server, namespace, "Secret", names.admin_secret("demo")),
            *(90, lambda: operator.log),
        )


def test_an_authority_from_a_backup_counts_by_its_uid_alone(
    api_server: ApiServer, namespace: str, start: Start
) -> None:
    api_server.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(sample_cluster()))
    name = names.ca_secret("demo")
    with start() as operator:
        until("an authority", lambda: read(api_server, namespace, "Secret", name), 90, lambda: operator.log)
        until(
            "certificates",
            lambda: read(api_server, namespace, "Secret", names.admin_secret("demo")),
            *(90, lambda: operator.log),
        )
        operator.stop(signal.SIGTERM)  # so that the next one leads at once
    kept = read(api_server, namespace, "Secret", name)
    assert kept is not None
    api_server.kubectl("-n", namespace, "delete", "secret", name)
    meta = {"name": name, "labels": kept["metadata"]["labels"]}
    api_server.kubectl("-n", namespace, "create", "-f", "-", stdin=json.dumps({**kept, "metadata": meta}))
    back = read(api_server, namespace, "Secret", name)
    assert back is not None
    with start() as operator:
        taken = {f"Secret/{name}"}
        until(
            "the wait",
            lambda: waits(api_server, namespace, "NameConflict") == taken,
            90,
            lambda: operator.log,
        )
        mine = f"{names.ANN_RESTORED}={back['metadata']['uid']}"
        api_server.kubectl("-n", namespace, "annotate", "kafkacluster", "demo", mine)
        until("no wait", lambda: not waits(api_server, namespace, "NameConflict"), 90, lambda: operator.log)
        assert not waits(api_server, namespace, "CaMissing")


def test_who_writes_a_kafkacluster_alone_cannot_call_somebodys_secret_restored(
    api_server: ApiServer, namespace: str, start: Start
) -> None:
    """Its UID is no secret: the wait itself tells it, for those whose Secret it is."""
    name = names.admin_secret("demo")
    theirs = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "stringData": {"password": "theirs"},
    }
    api_server.kubectl("-n", namespace, "create", "-f", "-", stdin=json.dumps(theirs))
    before = read(api_server, namespace, "Secret", name)
    assert before is not None
    made = sample_cluster()
    made["metadata"].setdefault("annotations", {})[names.ANN_RESTORED] = before["metadata"]["uid"]
    api_server.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(made))
    with start() as operator:
        taken = {f"Secret/{name}"}
        until(
            "the wait",
            lambda: waits(api_server, namespace, "NameConflict") == taken,
            90,
            lambda: operator.log,
        )
        until(
            "certificates of others",
            lambda: read(api_server, namespace, "Secret", names.operator_secret("demo")),
            *(90, lambda: operator.log),
        )
        assert substance(read(api_server, namespace, "Secret", name)) == substance(before)


# At the edge: whatever the plan saw


async def test_between_look_and_write_nothing_is_taken_over(kube: Kube, namespace: str, act: Any) -> None:
    """The plan saw nothing under these names, or another object than there is now."""
    labels = {names.LABEL_CLUSTER: "demo"}
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "m", "labels": labels},
        "data": {"a": "1"},
    }
    theirs = await kube.create(bent(config, {"data.a": "theirs"}), namespace)
    secret = await kube.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}, namespace)
    metadata = {"name": "s", "namespace": namespace, "labels": labels}
    stale = {"metadata": {**theirs["metadata"], "uid": "3f0f4f3e-5a0e-4a4e-9d7e-0c5a5f7d1b11"}}
    for action, outcome in (
        (Create(object=config), "taken"),
        (Apply(object=config), "taken"),
        (Apply(object=config, seen=stale), "conflict"),
        (IssueCa(secret="s", metadata=metadata), "taken"),  # noqa: S106 - a name
    ):
        assert await act(action) == [outcome]
    await act(IssueCa(secret="demo-ca", metadata={"name": "demo-ca", "namespace": namespace}))  # noqa: S106
    for write in (
        IssueCertificate(metadata=metadata, common_name="x"),
        KeepPassword(metadata=metadata, user="x", trusted=()),
    ):
        assert await act(write) == ["taken"]
    assert await kube.get(KINDS["ConfigMap"], namespace, "m") == theirs
    assert await kube.get(KINDS["Secret"], namespace, "s") == secret


async def test_a_field_that_is_not_wanted_any_more_goes_also_where_it_was_created(
    kube: Kube, namespace: str, cluster: Json, act: Any
) -> None:
    owner = {key: cluster["metadata"][key] for key in ("name", "uid")}
    owners = [{"apiVersion": names.API_VERSION, "kind": "KafkaCluster", **owner}]
    notes = {"theirs/cloud": "internal", names.ANN_ADVERTISED: "host:1"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "ownerReferences": owners, "annotations": notes},
        "spec": {"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]},
    }
    assert await act(Apply(object=service)) == ["done"]
    live = await kube.get(KINDS["Service"], namespace, "s")
    less = bent(service, {"spec.ports": [{"name": "a", "port": 1}], "metadata.annotations": {}})
    assert await act(Apply(object=less, seen=live)) == ["done"]
    live = await kube.get(KINDS["Service"], namespace, "s")
    assert [port["name"] for port in live["spec"]["ports"]] == ["a"]
    assert live["metadata"]["annotations"] == {names.ANN_ADVERTISED: "host:1"}, "that one is set by patches"
