"""``spindle doctor`` against a real API server: what it reads is what the checks expect, also for a user with few rights."""

import time
from typing import Any

import pytest
from kubernetes import client

from spindle_cli.doctor import reading
from spindle_cli.doctor.command import findings
from spindle_cli.doctor.facts import Level
from spindle_cli.kube import Kube
from tests.kube.samples import cluster as sample_cluster
from tests.kube.samples import local_class, volume

pytestmark = pytest.mark.kube


def levels(kube: Kube) -> dict[str, Level]:
    """The worst level of each check."""
    order = list(Level)
    found: dict[str, Level] = {}
    for each in findings(reading.read(kube, ())):
        found[each.check] = max(found.get(each.check, Level.OK), each.level, key=order.index)
    return found


@pytest.fixture
def furnished(api_client: client.ApiClient, namespace: str) -> Any:
    """A node, a StorageClass and a volume, removed afterwards: they belong to no namespace."""
    core: Any = client.CoreV1Api(api_client)
    storage: Any = client.StorageV1Api(api_client)
    labels = {"topology.kubernetes.io/zone": "a", "kubernetes.io/hostname": namespace}
    core.create_node({"metadata": {"name": namespace, "labels": labels}})
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    core.patch_node(namespace, {"spec": {"taints": None}})  # the API server adds not-ready to a new node
    core.patch_node_status(namespace, {"status": {"conditions": [ready]}})
    storage.create_storage_class(local_class(namespace))
    core.create_persistent_volume(
        volume(namespace, hostPath={"path": "/nowhere"}, storageClassName=namespace)
    )
    yield namespace
    core.delete_persistent_volume(namespace)
    storage.delete_storage_class(namespace)
    core.delete_node(namespace)


def test_an_administrator_reads_everything(api_client: client.ApiClient, furnished: str) -> None:
    facts = reading.read(Kube(api_client, furnished), ())

    assert not facts.unreadable
    assert all(facts.rights.values())
    assert facts.server_time is not None
    assert abs(facts.server_time - time.time()) < 10
    assert facts.definitions.keys() == facts.schemas.keys()
    assert furnished in {each["metadata"]["name"] for each in facts.classes}
    assert furnished in {each["metadata"]["name"] for each in facts.volumes}
    found = levels(Kube(api_client, furnished))
    assert found["Kubernetes"] is Level.OK
    assert found["Definitions"] is Level.OK
    assert found["Operator"] is Level.PROBLEM
    assert found["Nodes"] is Level.OK


def test_a_cluster_is_checked_against_what_is_there(api_client: client.ApiClient, furnished: str) -> None:
    kube = Kube(api_client, furnished)
    wanted = sample_cluster()
    wanted["spec"]["brokerPools"][0]["disks"] |= {"count": 2, "storageClass": furnished, "size": "1Gi"}
    wanted["spec"]["controllers"]["storage"]["storageClass"] = "absent"
    client.CustomObjectsApi(api_client).create_namespaced_custom_object(
        "spindle.dev", "v1alpha1", furnished, "kafkaclusters", wanted
    )

    facts = reading.read(kube, ())
    said = [each.message for each in findings(facts) if each.check == "StorageClass"]

    assert facts.existing == {"demo"}
    assert any("names StorageClass absent, which does not exist" in each for each in said)


def test_a_user_with_few_rights_is_told_what_was_not_checked(
    api_client: client.ApiClient, namespace: str
) -> None:
    limited = client.ApiClient(api_client.configuration)
    limited.set_default_header("Impersonate-User", "somebody")

    facts = reading.read(Kube(limited, namespace), ())
    found = findings(facts)

    assert {"nodes", "volumes", "operators", "agents", "definitions"} <= facts.unreadable.keys()
    assert not any(facts.rights.values())
    assert any(each.check == "Rights" and each.level is Level.PROBLEM for each in found)
    assert not [each for each in found if each.check in ("Nodes", "Volumes", "Zones", "Agents", "Operator")]
    assert all(each.way_out for each in found if each.level is not Level.OK)
