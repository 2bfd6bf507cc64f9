"""The steps of docs/uninstall.md in their order, and what is left after each."""

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any, Final

import pytest

from e2e.cluster.build import ensure_helm
from e2e.cluster.target import Target
from e2e.cluster.testbed import Testbed
from e2e.scenarios.install import AGENTS, install
from e2e.scenarios.lab import CLUSTER, SYSTEM, Lab
from e2e.scenarios.stand import Stand

pytestmark = pytest.mark.e2e

# Kubernetes makes these itself, in each namespace or for other objects.
_NOT_OURS: Final = (
    "events",
    "events.events.k8s.io",
    "endpointslices.discovery.k8s.io",
    "endpoints",
    "podmetrics",
    "apiservices.apiregistration.k8s.io",  # one for each group and version of a definition
)
_OF_EACH_NAMESPACE: Final = {"configmaps kube-root-ca.crt", "serviceaccounts default"}
_CRDS: Final = tuple(
    f"kafka{kind}.spindle.dev" for kind in ("clusters", "brokers", "rebalances", "topics", "users")
)


@pytest.fixture
def leaving(installed: Target, stands: Stand, running: Lab) -> Iterator[Lab]:
    """The shared cluster, which ends here; Spindle is installed again afterwards."""
    if not isinstance(installed, Testbed):
        pytest.skip("removes all definitions: only on the testbed")
    yield running
    install(installed)
    stands.close()


def kinds(lab: Lab, *, namespaced: bool) -> list[str]:
    """Every kind of object that the API server can list."""
    options = ("--verbs=list,delete", f"--namespaced={str(namespaced).lower()}", "-o", "name")
    return [kind for kind in lab.kubectl("api-resources", *options).split() if kind not in _NOT_OURS]


def in_namespace(lab: Lab) -> set[str]:
    """What exists in its namespace: kind and name."""
    found = json.loads(lab.kubectl("get", ",".join(kinds(lab, namespaced=True)), "-o", "json"))["items"]
    return {f"{each['kind'].lower()}s {each['metadata']['name']}" for each in found} - _OF_EACH_NAMESPACE


def of_the_cluster(lab: Lab) -> set[str]:
    """Objects without a namespace that have Spindle in their name or labels, namespaces and volumes aside."""
    chosen = [
        kind
        for kind in kinds(lab, namespaced=False)
        if kind not in ("namespaces", "nodes", "persistentvolumes")
    ]
    found = json.loads(lab.kubectl("get", ",".join(chosen), "-o", "json"))["items"]
    return {f"{each['kind']} {each['metadata']['name']}" for each in found if _is_ours(each["metadata"])}


def _is_ours(metadata: dict[str, Any]) -> bool:
    labels = metadata.get("labels") or {}
    return "spindle" in metadata["name"] or any("spindle" in text for each in labels.items() for text in each)


def helm(lab: Lab, *args: str) -> None:
    environment = {**os.environ, "KUBECONFIG": str(lab.kubeconfig)}
    subprocess.run([str(ensure_helm()), *args], env=environment, check=True)


def test_the_steps_of_the_page_remove_everything_in_their_order(leaving: Lab) -> None:
    lab, here = leaving, ("-n", leaving.namespace)
    lab.apply(
        {
            "apiVersion": "spindle.dev/v1alpha1",
            "kind": "KafkaUser",
            "metadata": {"name": "orders"},
            "spec": {"cluster": CLUSTER, "authentication": "mtls"},
        },
        {
            "apiVersion": "spindle.dev/v1alpha1",
            "kind": "KafkaTopic",
            "metadata": {"name": "kept"},
            "spec": {"cluster": CLUSTER, "partitions": 3, "replicas": 3},
        },
    )
    lab.until("the topic exists", lambda: lab.the("kafkatopic", "kept")["status"]["topicId"])
    lab.until("the user has a Secret", lambda: lab.get("secret", f"{CLUSTER}.user.orders"))

    backup = lab.spindle("backup", CLUSTER, *here, "--secrets")
    assert "kind: KafkaCluster" in backup or '"KafkaCluster"' in backup
    lab.spindle("delete-claims", CLUSTER, *here, "--name", CLUSTER)
    lab.kubectl("delete", "skc", CLUSTER, timeout=240)
    lab.kubectl("delete", "skt,sku,skr", "--all", timeout=120)
    lab.until("nothing is left in the namespace", lambda: not in_namespace(lab), 120)

    system, agents = (Lab(lab.kubectl_command, lab.kubeconfig, each) for each in (SYSTEM, AGENTS))
    helm(lab, "uninstall", "spindle", "--namespace", SYSTEM, "--wait")
    system.until("no pod is left", lambda: not system.list("pods"), 120)
    assert in_namespace(system) == {"leases spindle-operator"}
    agents.until("no agent is left", lambda: not agents.list("pods"), 120)
    assert of_the_cluster(lab) == {f"CustomResourceDefinition {name}" for name in _CRDS}

    system.kubectl("delete", "lease", "spindle-operator")
    lab.kubectl("delete", "namespace", AGENTS, timeout=120)
    lab.kubectl("delete", "crd", *_CRDS, timeout=120)
    assert not of_the_cluster(lab)
    volumes = [each["status"]["phase"] for each in lab.list("persistentvolumes")]
    assert volumes
    assert "Bound" not in volumes
