"""The chart on a real API server: every object is taken, the rights suffice and end where they should."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from e2e.cluster.apiserver import ApiServer
from e2e.cluster.build import ensure_helm
from spindle_cli import helper_pod
from tests.kube.conftest import ROOT

pytestmark = pytest.mark.kube

CHART = str(ROOT / "charts/spindle")
DEFINITIONS = {"kafkabrokers.spindle.dev", "kafkaclusters.spindle.dev", "kafkarebalances.spindle.dev"}

Helm = Callable[..., str]


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    """An API server without anything of Spindle's: the chart is to bring it."""
    with ApiServer() as fresh:
        yield fresh


@pytest.fixture(scope="module")
def helm(server: ApiServer) -> Helm:
    program = ensure_helm()

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [program, *arguments, "--namespace", "system"],
            env={**os.environ, "KUBECONFIG": str(server.kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def installed(server: ApiServer, helm: Helm) -> ApiServer:
    """The server with the chart installed for two namespaces."""
    for namespace in ("one", "two"):
        server.kubectl("create", "namespace", namespace)
    helm("install", "spindle", CHART, "--create-namespace", "--set", "watch.namespaces={one,two}")
    server.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", *sorted(DEFINITIONS))
    return server


def may(server: ApiServer, verb: str, resource: str, namespace: str | None) -> bool:
    """Whether the operator's account may; ``pods/eviction`` is a subresource, ``leases:name`` one object."""
    resource, _, subresource = resource.partition("/")
    part = [f"--subresource={subresource}"] if subresource else []
    resource = resource.replace(":", "/")  # as kubectl writes it
    where = ["--all-namespaces"] if namespace is None else ["--namespace", namespace]
    account = "system:serviceaccount:system:spindle"
    return (
        server.kubectl("auth", "can-i", verb, resource, *part, *where, "--as", account, check=False).strip()
        == "yes"
    )


# What the operator's code does, kind by kind.
USED = [
    ("patch", "kafkaclusters.spindle.dev"),
    ("patch", "kafkaclusters.spindle.dev/status"),
    ("create", "kafkabrokers.spindle.dev"),
    ("delete", "kafkabrokers.spindle.dev"),
    ("patch", "kafkabrokers.spindle.dev/status"),
    ("create", "pods"),
    ("patch", "pods"),
    ("delete", "pods"),
    ("patch", "pods/status"),
    ("create", "pods/eviction"),
    ("create", "persistentvolumeclaims"),
    ("patch", "persistentvolumeclaims"),
    ("delete", "persistentvolumeclaims"),
    ("create", "configmaps"),
    ("patch", "configmaps"),
    ("delete", "configmaps"),
    ("patch", "services"),
    ("create", "secrets"),
    ("patch", "secrets"),
    ("patch", "poddisruptionbudgets.policy"),
    ("create", "events"),
]


@pytest.mark.parametrize(("verb", "resource"), USED, ids=str)
def test_the_operator_may_do_its_work(installed: ApiServer, verb: str, resource: str) -> None:
    assert may(installed, verb, resource, "one")
    assert not may(installed, verb, resource, "default")


@pytest.mark.parametrize(
    ("verb", "resource", "namespace", "allowed"),
    [
        pytest.param("watch", "nodes", None, True, id="sees nodes"),
        pytest.param("list", "persistentvolumes", None, True, id="sees volumes"),
        pytest.param("list", "storageclasses.storage.k8s.io", None, True, id="sees classes"),
        pytest.param("patch", "nodes", None, False, id="changes no node"),
        pytest.param("delete", "persistentvolumes", None, False, id="deletes no volume"),
        pytest.param("get", "secrets", "kube-system", False, id="no secrets elsewhere"),
        pytest.param("delete", "secrets", "one", False, id="deletes no secret"),
        pytest.param("create", "pods/exec", "one", False, id="enters no pod"),
        pytest.param("create", "leases.coordination.k8s.io", "system", True, id="leads in its namespace"),
        pytest.param("update", "leases.coordination.k8s.io:spindle-operator", "system", True, id="its lease"),
        pytest.param("update", "leases.coordination.k8s.io:other", "system", False, id="nobody else's lease"),
        pytest.param("create", "leases.coordination.k8s.io", "one", False, id="leads nowhere else"),
        pytest.param("create", "clusterroles.rbac.authorization.k8s.io", None, False, id="gives no rights"),
    ],
)
def test_the_rights_end_where_they_should(
    installed: ApiServer, verb: str, resource: str, namespace: str | None, *, allowed: bool
) -> None:
    assert may(installed, verb, resource, namespace) is allowed


def test_operator_and_helper_pods_satisfy_the_strictest_pod_security(installed: ApiServer) -> None:
    strict = "pod-security.kubernetes.io/enforce=restricted"
    installed.kubectl("create", "namespace", "strict")
    installed.kubectl("label", "namespace", "strict", strict)
    deployment = json.loads(
        installed.kubectl("get", "deployment", "spindle", "--namespace", "system", "--output", "json")
    )
    operator = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "operator"},
        "spec": deployment["spec"]["template"]["spec"],
    }
    helper = helper_pod.manifest("helper", "demo", "demo:9092", "spindle:1", ["status"], 100)

    for pod in (operator, helper):
        installed.kubectl("create", "--namespace", "strict", "--filename=-", stdin=json.dumps(pod))


def test_uninstalling_keeps_clusters_and_installing_again_finds_them(server: ApiServer, helm: Helm) -> None:
    # Last in this file: it takes the release away and brings another.
    server.kubectl("apply", "--namespace", "one", "--filename", str(ROOT / "examples/quickstart.yaml"))

    helm("uninstall", "spindle")

    assert "demo" in server.kubectl("get", "kafkaclusters", "--namespace", "one", "--output", "name")
    assert server.kubectl("get", "deployments", "--namespace", "system", "--output", "name") == ""

    helm("install", "spindle", CHART)
    helm("upgrade", "spindle", CHART, "--set", "log.json=true")

    found = server.kubectl("get", "crd", "--output", "name").split()
    assert {
        name.removeprefix("customresourcedefinition.apiextensions.k8s.io/") for name in found
    } >= DEFINITIONS
    assert "demo" in server.kubectl("get", "kafkaclusters", "--namespace", "one", "--output", "name")
    assert may(server, "create", "pods", "default")
