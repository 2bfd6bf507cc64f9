"""Commands for what is left after a deletion, against a real API server: finalizers, volumes, and claims that go with their cluster."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes import client
from typer.testing import CliRunner, Result

from e2e.cluster.apiserver import ApiServer
from spindle.api.names import FIELD_MANAGER, RESERVED
from spindle_cli import main
from spindle_cli.copied import Typed
from tests.kube.api import Resources
from tests.kube.samples import broker, cluster, volume

pytestmark = pytest.mark.kube

RUNNER = CliRunner()
Run = Callable[..., Result]


@pytest.fixture
def run(api_server: ApiServer, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in the test's namespace."""
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    monkeypatch.setattr(Typed, "context", None)

    def run(line: str, answer: str | None = None, *, here: bool = True) -> Result:
        words = [*line.split(), *(["-n", namespace] if here else [])]
        done = RUNNER.invoke(main.app, words, input=answer)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    return run


def refused(done: Result, why: str) -> None:
    assert done.exit_code == 1
    assert why in done.stderr


def held(thing: dict[str, Any], *finalizers: str) -> dict[str, Any]:
    return {**thing, "metadata": {**thing["metadata"], "finalizers": list(finalizers)}}


def user(**metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "spindle.dev/v1alpha1",
        "kind": "KafkaUser",
        "metadata": {"name": "orders", "finalizers": ["spindle.dev/user"], **metadata},
        "spec": {"cluster": "demo", "authentication": "scram"},
    }


def delete(api_client: client.ApiClient, namespace: str, plural: str, name: str) -> None:
    objects: Any = client.CustomObjectsApi(api_client)
    objects.delete_namespaced_custom_object("spindle.dev", "v1alpha1", namespace, plural, name)


def left(api_client: client.ApiClient, namespace: str) -> dict[str, list[str]]:
    """Each object of Spindle's in the namespace, and its finalizers."""
    objects: Any = client.CustomObjectsApi(api_client)
    return {
        each["metadata"]["name"]: each["metadata"].get("finalizers", [])
        for plural in ("kafkaclusters", "kafkabrokers", "kafkausers")
        for each in objects.list_namespaced_custom_object("spindle.dev", "v1alpha1", namespace, plural)[
            "items"
        ]
    }


@pytest.fixture
def operator(api_client: client.ApiClient, namespace: str) -> Iterator[Callable[[], None]]:
    """Installs an operator that manages the test's namespace, as the chart does."""
    apps: Any = client.AppsV1Api(api_client)
    labels = {"app.kubernetes.io/component": "operator"}
    container = {
        "name": "o",
        "image": "x",
        "command": ["spindle-operator"],
        "args": [f"--namespace={namespace}"],
    }
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    made = {
        "metadata": {"name": "spindle", "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": pod},
    }
    yield lambda: apps.create_namespaced_deployment(namespace, made)
    for each in apps.list_namespaced_deployment(namespace).items:
        apps.delete_namespaced_deployment(each.metadata.name, namespace)


def test_a_deletion_without_an_operator_ends(
    api_client: client.ApiClient, namespace: str, run: Run, operator: Callable[[], None]
) -> None:
    resources, core = Resources(api_client, namespace), client.CoreV1Api(api_client)
    resources.create(held(cluster(), "spindle.dev/finalizer", "example.org/theirs"))
    resources.create(held(broker(), "spindle.dev/identity"))
    resources.create(user())
    before = left(api_client, namespace)

    refused(run("abandon demo --name demo"), "is not being deleted; nothing was changed")
    delete(api_client, namespace, "kafkaclusters", "demo")
    pod: Any = {
        "metadata": {"name": "demo-broker-0", "labels": {"spindle.dev/cluster": "demo"}},
        "spec": {"containers": [{"name": "kafka", "image": "x"}]},
    }
    core.create_namespaced_pod(namespace, pod)
    refused(run("abandon demo --name demo"), "demo-broker-0 may still write to the disks")
    core.delete_namespaced_pod("demo-broker-0", namespace, grace_period_seconds=0)
    refused(run("abandon demo --name other"), "--name names other")
    assert "Nothing was changed." in run("abandon", "n\n").stdout
    operator()
    refused(run("abandon demo --name demo"), f"operator {namespace}/spindle manages namespace")
    assert left(api_client, namespace) == before

    done = run("abandon demo --name demo --no-operator")

    assert done.exit_code == 0, done.stderr
    assert "KafkaUser orders, KafkaBroker demo-broker-0, KafkaCluster demo" in done.stdout
    assert left(api_client, namespace) == {"demo": ["example.org/theirs"], "demo-broker-0": [], "orders": []}
    refused(run("abandon demo --name demo --no-operator"), "there is no KafkaCluster demo")


def test_what_a_lost_cluster_has_left_is_ended_although_an_operator_runs(
    api_client: client.ApiClient, namespace: str, run: Run, operator: Callable[[], None]
) -> None:
    """Somebody removed the finalizer of the KafkaCluster by hand: no operator looks at its topics any more, and their namespace could not go."""
    topic = {
        "apiVersion": "spindle.dev/v1alpha1",
        "kind": "KafkaTopic",
        "metadata": {"name": "orders", "finalizers": ["spindle.dev/topic"]},
        "spec": {"cluster": "demo", "deletionPolicy": "Delete"},
    }
    Resources(api_client, namespace).create(topic)
    operator()
    refused(run("abandon demo --name demo"), "there is no KafkaCluster demo")
    delete(api_client, namespace, "kafkatopics", "orders")
    done = run("abandon demo --name demo")
    assert done.exit_code == 0, done.stderr
    assert "KafkaTopic orders" in done.stdout
    objects: Any = client.CustomObjectsApi(api_client)
    found = objects.list_namespaced_custom_object("spindle.dev", "v1alpha1", namespace, "kafkatopics")
    assert not found["items"]


def test_a_user_is_abandoned_only_while_it_is_deleted(
    api_client: client.ApiClient, namespace: str, run: Run
) -> None:
    Resources(api_client, namespace).create(user())
    refused(run("user abandon orders --name orders"), f"kubectl delete sku orders -n {namespace}")
    delete(api_client, namespace, "kafkausers", "orders")

    done = run("user abandon orders", "y\n")

    assert done.exit_code == 0, done.stderr
    assert "its ACLs, quotas and password stay" in done.stdout
    assert left(api_client, namespace) == {}


def test_claims_go_with_their_cluster_only_after_consent(
    api_client: client.ApiClient, namespace: str, run: Run
) -> None:
    resources = Resources(api_client, namespace)
    resources.apply(cluster(), "argocd-controller")

    def wanted() -> bool:
        return bool(resources.get(cluster())["spec"].get("deleteClaims"))

    assert run("delete-claims", "n\n").exit_code == 1
    refused(run("delete-claims demo --name other"), "--name names other")
    assert not wanted()
    assert f"kubectl delete skc demo -n {namespace}" in run("delete-claims", "y\n").stdout
    assert wanted()
    assert run("delete-claims --undo").exit_code == 0
    assert not wanted()
    assert run("delete-claims demo --name demo").exit_code == 0
    assert wanted()


@pytest.fixture
def released(api_client: client.ApiClient, namespace: str) -> Iterator[Callable[..., str]]:
    """Makes volumes whose claims are gone; they belong to no namespace."""
    core: Any = client.CoreV1Api(api_client)
    made: list[str] = []

    def released(claim: str, phase: str = "Released", **reserved: str) -> str:
        name = f"{namespace}-{len(made)}"
        had = {"uid": "0f0f0f0f-0000-0000-0000-000000000000"}
        ref = {"namespace": namespace, "name": claim, **(reserved or had)}
        core.create_persistent_volume(
            volume(name, hostPath={"path": "/x"}, claimRef=ref, persistentVolumeReclaimPolicy="Delete")
        )
        core.patch_persistent_volume_status(name, {"status": {"phase": phase}})
        made.append(name)
        return name

    yield released
    for name in made:
        core.delete_persistent_volume(name)


def test_a_volume_of_a_removed_disk_is_used_again(
    api_client: client.ApiClient, namespace: str, run: Run, released: Callable[..., str]
) -> None:
    resources = Resources(api_client, namespace)
    core: Any = client.CoreV1Api(api_client)
    name, bound = released("data-disk2-demo-0"), released("data-disk1-demo-0", "Bound")
    theirs = released("postgres-0")

    refused(run("volume reuse nowhere", here=False), "there is no PersistentVolume nowhere")
    refused(run(f"volume reuse {bound} --claim data-disk1-demo-0", here=False), "is Bound, with claim")
    refused(run(f"volume reuse {theirs} --claim postgres-0", here=False), "which is no disk of a broker")
    refused(run(f"volume reuse {name} --claim data-disk1-demo-0", here=False), "nothing was changed")
    assert "Nothing was changed." in run(f"volume reuse {name}", "n\n", here=False).stdout
    assert core.read_persistent_volume(name).spec.claim_ref is not None

    waiting = {
        "action": "StartBrokers",
        "object": "KafkaCluster/demo",
        "reason": "AllDisksLost",
        "message": "All are blank.",
        "unblockedBy": f"Use data-disk2-demo-0 with spec.volumeName: {name}.",
    }
    made = resources.create(cluster())
    head = {key: made[key] for key in ("apiVersion", "kind")} | {"metadata": {"name": "demo"}}
    resources.report({**head, "status": {"waiting": [waiting]}}, "spindle-operator")
    refused(run(f"volume reuse {name} --claim data-disk2-demo-0", here=False), "waits for the data of")
    resources.report({**head, "status": {"waiting": []}}, "spindle-operator")

    assert run(f"volume reuse {name} --claim data-disk2-demo-0", here=False).exit_code == 0
    assert core.read_persistent_volume(name).spec.claim_ref is None
    refused(run(f"volume reuse {name}", here=False), "is reserved for no claim")


def test_a_volume_is_kept_for_its_restored_claim(
    api_client: client.ApiClient, run: Run, released: Callable[..., str]
) -> None:
    core: Any = client.CoreV1Api(api_client)
    name = released("data-disk2-demo-0")

    assert f"spec.volumeName: {name}" in run(f"volume rebind {name}", here=False).stdout
    kept = core.read_persistent_volume(name).spec.claim_ref
    assert (kept.name, kept.uid) == ("data-disk2-demo-0", None)
    assert "already; nothing was changed" in run(f"volume rebind {name}", here=False).stdout
    assert "which may have had it. Wipe" in run(f"volume reuse {name}", "n\n", here=False).stdout

    assert run(f"volume retain {name}", here=False).exit_code == 0
    assert core.read_persistent_volume(name).spec.persistent_volume_reclaim_policy == "Retain"
    assert "is retained already" in run(f"volume retain {name}", here=False).stdout


def test_a_volume_that_spindle_reserved(
    api_client: client.ApiClient, namespace: str, run: Run, released: Callable[..., str]
) -> None:
    resources = Resources(api_client, namespace)
    core: Any = client.CoreV1Api(api_client)
    awaited, left = (
        released(f"data-{disk}-demo-0", "Available", fieldPath=RESERVED) for disk in ("disk1", "disk7")
    )
    resources.create(cluster())
    resources.apply(broker(), FIELD_MANAGER)

    refused(
        run(f"volume reuse {awaited} --claim data-disk1-demo-0", here=False),
        "which Spindle creates for disk1 of demo-broker-0",
    )
    assert (
        "reserved it for a disk that no broker has" in run(f"volume reuse {left}", "n\n", here=False).stdout
    )
    assert core.read_persistent_volume(left).spec.claim_ref.field_path == RESERVED
    assert run(f"volume reuse {left} --claim data-disk7-demo-0", here=False).exit_code == 0
    assert core.read_persistent_volume(left).spec.claim_ref is None

    assert f"spec.volumeName: {awaited}" in run(f"volume rebind {awaited}", here=False).stdout
    kept = core.read_persistent_volume(awaited).spec.claim_ref
    assert (kept.name, kept.uid, kept.field_path) == ("data-disk1-demo-0", None, None)
    claim: Any = {
        "metadata": {"name": "data-disk1-demo-0"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": awaited,
        },
    }
    core.create_namespaced_persistent_volume_claim(namespace, claim)
    refused(run(f"volume reuse {awaited} --claim data-disk1-demo-0", here=False), "which exists and gets it")


def test_a_volume_that_is_gone_is_forgotten(
    api_client: client.ApiClient, namespace: str, run: Run, released: Callable[..., str]
) -> None:
    resources = Resources(api_client, namespace)
    there, gone, used = released("data-disk0-demo-0"), f"{namespace}-gone", f"{namespace}-used"
    record = broker()
    first, second = record["spec"]["disks"]
    record["spec"]["disks"] = [
        {**first, "pv": there},
        {**second, "pv": gone},
        {**second, "name": "disk2", "pv": used, "pvUid": "u"},
    ]
    resources.create(cluster())
    before = resources.apply(record, FIELD_MANAGER)["spec"]

    refused(
        run(f"volume forget {there} --broker demo-broker-0"), "exists (it is Released); nothing was changed"
    )
    refused(
        run(f"volume forget {used} --broker demo-broker-0"), "What the disk waits for: spindle status demo"
    )
    refused(run(f"volume forget {namespace}-other"), "no KafkaBroker in namespace")
    assert "Nothing was changed." in run(f"volume forget {gone}", "n\n").stdout
    assert resources.get(record)["spec"] == before

    done = run(f"volume forget {gone}", "y\n")

    assert done.exit_code == 0, done.stderr
    assert f"disk1 of demo-broker-0 was to get {gone}, which does not exist" in " ".join(done.stdout.split())
    del record["spec"]["disks"][1]["pv"], before["disks"][1]["pv"]
    assert resources.get(record)["spec"] == before
    refused(run(f"volume forget {gone} --broker demo-broker-0"), "has no disk with")
    # The operator's next write does not bring it back.
    assert resources.apply(record, FIELD_MANAGER, force=True)["spec"] == before
