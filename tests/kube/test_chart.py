"""The chart on a real API server: every object is taken, the rights suffice and end where they should."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator

import pytest
import yaml

from e2e.cluster.apiserver import ApiServer, KubectlError
from e2e.cluster.build import ensure_helm
from spindle.api.cluster import KafkaClusterSpec
from spindle.manifests.cronjob import rebalance_objects
from spindle_cli import helper_pod
from tests.kube.conftest import ROOT

pytestmark = pytest.mark.kube

CHART = str(ROOT / "charts/spindle")
DEFINITIONS = {
    "kafkabrokers.spindle.dev",
    "kafkaclusters.spindle.dev",
    "kafkarebalances.spindle.dev",
    "kafkausers.spindle.dev",
    "kafkatopics.spindle.dev",
}

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
    server.wait_established("crd", *sorted(DEFINITIONS))
    return server


OPERATOR = "system:serviceaccount:system:spindle"
AGENT = "system:serviceaccount:spindle-agents:spindle-agent"


def may(server: ApiServer, verb: str, resource: str, namespace: str | None, account: str = OPERATOR) -> bool:
    """Whether an account may; ``pods/eviction`` is a subresource, ``leases:name`` one object."""
    resource, _, subresource = resource.partition("/")
    part = [f"--subresource={subresource}"] if subresource else []
    resource = resource.replace(":", "/")  # as kubectl writes it
    where = ["--all-namespaces"] if namespace is None else ["--namespace", namespace]
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
    ("watch", "kafkarebalances.spindle.dev"),
    ("delete", "kafkarebalances.spindle.dev"),
    ("patch", "kafkarebalances.spindle.dev/status"),
    ("create", "cronjobs.batch"),
    ("patch", "cronjobs.batch"),
    ("delete", "cronjobs.batch"),
    ("watch", "jobs.batch"),
    ("create", "serviceaccounts"),
    ("patch", "serviceaccounts"),
    ("create", "roles.rbac.authorization.k8s.io"),
    ("patch", "roles.rbac.authorization.k8s.io"),
    ("create", "rolebindings.rbac.authorization.k8s.io"),
    ("patch", "rolebindings.rbac.authorization.k8s.io"),
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
        pytest.param("patch", "persistentvolumes", None, True, id="keeps volumes"),
        pytest.param("delete", "persistentvolumes", None, False, id="deletes no volume"),
        pytest.param("get", "secrets", "kube-system", False, id="no secrets elsewhere"),
        pytest.param("delete", "secrets", "one", False, id="deletes no secret"),
        pytest.param("create", "pods/exec", "one", False, id="enters no pod"),
        pytest.param(
            "escalate", "roles.rbac.authorization.k8s.io", "one", False, id="gives nothing it lacks"
        ),
        pytest.param("bind", "roles.rbac.authorization.k8s.io", "one", False, id="binds nothing it lacks"),
        pytest.param("delete", "jobs.batch", "one", False, id="ends no run"),
        pytest.param("create", "leases.coordination.k8s.io", "system", True, id="leads in its namespace"),
        pytest.param("update", "leases.coordination.k8s.io:spindle-operator", "system", True, id="its lease"),
        pytest.param("update", "leases.coordination.k8s.io:other", "system", False, id="nobody else's lease"),
        pytest.param("create", "leases.coordination.k8s.io", "one", False, id="leads nowhere else"),
        pytest.param("create", "clusterroles.rbac.authorization.k8s.io", None, False, id="gives no rights"),
        pytest.param("get", "secrets", "spindle-agents", True, id="sees what agents of before have"),
        pytest.param("list", "secrets", "spindle-agents", False, id="only by name"),
        pytest.param("create", "secrets", "spindle-agents", False, id="gives them no more"),
        pytest.param("delete", "secrets", "spindle-agents", True, id="takes theirs back"),
        pytest.param("patch", "configmaps", "spindle-agents", True, id="gives agents their certificates"),
        pytest.param("delete", "configmaps", "spindle-agents", True, id="takes them back"),
        pytest.param(
            "list", "leases.coordination.k8s.io", "spindle-agents", True, id="sees which agents live"
        ),
        pytest.param(
            "update", "leases.coordination.k8s.io", "spindle-agents", False, id="speaks for no agent"
        ),
    ],
)
def test_the_rights_end_where_they_should(
    installed: ApiServer, verb: str, resource: str, namespace: str | None, *, allowed: bool
) -> None:
    assert may(installed, verb, resource, namespace) is allowed


@pytest.mark.parametrize(
    ("verb", "resource", "namespace", "allowed"),
    [
        pytest.param("watch", "kafkabrokers.spindle.dev", "one", True, id="sees brokers"),
        pytest.param("watch", "kafkabrokers.spindle.dev", None, False, id="where Spindle serves"),
        pytest.param("get", "kafkaclusters.spindle.dev", "one", True, id="how disks are to be probed"),
        pytest.param("patch", "kafkabrokers.spindle.dev/status", "one", True, id="reports"),
        pytest.param(
            "patch", "kafkabrokers.spindle.dev/status", "default", False, id="only where Spindle serves"
        ),
        pytest.param("patch", "kafkabrokers.spindle.dev", "one", False, id="changes no spec"),
        pytest.param("patch", "kafkaclusters.spindle.dev/status", "one", False, id="no cluster's status"),
        pytest.param("get", "configmaps", "spindle-agents", True, id="its certificates"),
        pytest.param("get", "secrets", "spindle-agents", False, id="no secret"),
        pytest.param("list", "secrets", "spindle-agents", False, id="by name"),
        pytest.param("patch", "secrets", "spindle-agents", False, id="changes none"),
        pytest.param("get", "secrets", "one", False, id="no secrets of clusters"),
        pytest.param("patch", "leases.coordination.k8s.io", "spindle-agents", True, id="its heartbeat"),
        pytest.param("patch", "leases.coordination.k8s.io", "system", False, id="not the operator's"),
        pytest.param("list", "pods", "one", False, id="no pods"),
        pytest.param("get", "nodes", None, False, id="no nodes"),
    ],
)
def test_an_agent_may_do_little(
    installed: ApiServer, verb: str, resource: str, namespace: str | None, *, allowed: bool
) -> None:
    assert may(installed, verb, resource, namespace, AGENT) is allowed


JOBS = {"metadata": {"name": "demo", "namespace": "one", "uid": "5c9f7d0e-1111-4222-8333-444455556666"}}


@pytest.mark.parametrize("engine", [{}, {"executors": {"count": 2}}], ids=["one pod", "executors"])
def test_the_operator_may_make_the_rebalance_job_with_all_its_rights(
    installed: ApiServer, engine: dict[str, object]
) -> None:
    """Kubernetes lets it hand on only what it has itself."""
    quickstart = yaml.safe_load((ROOT / "examples/quickstart.yaml").read_text())
    spec = KafkaClusterSpec.model_validate({**quickstart["spec"], "rebalance": {"engine": engine}})
    for made in rebalance_objects(JOBS, spec, "example.org/rebalance:1"):
        installed.kubectl(
            "apply",
            "--server-side",
            "--filename=-",
            "--as",
            OPERATOR,
            "--namespace=one",
            stdin=json.dumps(made),
        )

    more = {
        **rebalance_objects(JOBS, spec, "x")[1],
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["delete"]}],
    }
    with pytest.raises(KubectlError, match="attempting to grant RBAC permissions not currently held"):
        installed.kubectl(
            "apply",
            "--server-side",
            "--force-conflicts",
            "--filename=-",
            "--as",
            OPERATOR,
            "--namespace=one",
            stdin=json.dumps(more),
        )


def test_an_agent_is_let_in_to_its_own_namespace_and_asks_for_nothing_but_the_disks(
    installed: ApiServer,
) -> None:
    found = installed.kubectl("get", "daemonset", "spindle-agent", "--namespace=spindle-agents", "-o", "json")
    spec = json.loads(found)["spec"]["template"]["spec"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "agent"}, "spec": spec}
    installed.kubectl("create", "--namespace=spindle-agents", "--filename=-", stdin=json.dumps(pod))

    installed.kubectl("create", "namespace", "narrow")
    level = "pod-security.kubernetes.io/enforce=restricted"
    installed.kubectl("label", "namespace", "narrow", level)
    with pytest.raises(KubectlError) as caught:
        installed.kubectl("create", "--namespace=narrow", "--filename=-", stdin=json.dumps(pod))
    complaints = caught.value.stderr.partition("violates PodSecurity")[2]
    assert complaints.count("hostPath") >= 1
    for other in ("securityContext", "capabilities", "seccompProfile", "runAsNonRoot", "host namespaces"):
        assert other not in complaints


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

    helm("install", "spindle", CHART, "--set", "watch.all=true")
    helm("upgrade", "spindle", CHART, "--reuse-values", "--set", "log.json=true")

    found = server.kubectl("get", "crd", "--output", "name").split()
    assert {
        name.removeprefix("customresourcedefinition.apiextensions.k8s.io/") for name in found
    } >= DEFINITIONS
    assert "demo" in server.kubectl("get", "kafkaclusters", "--namespace", "one", "--output", "name")
    assert may(server, "create", "pods", "default")
