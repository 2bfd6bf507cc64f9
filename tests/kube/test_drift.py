"""Every object that Spindle makes, through a real API server: what it adds and rewrites is never taken for drift."""

import json
from typing import Any

import pytest

from e2e.cluster.apiserver import ApiServer
from spindle.api.names import FIELD_MANAGER
from spindle.manifests import budgets, services
from spindle.manifests.brokers import kafka_broker
from spindle.manifests.claims import ClaimedDisk, ClaimingCluster, claim
from spindle.manifests.common import drifted, with_applied
from spindle.manifests.config_maps import node_config_map
from spindle.manifests.pods import broker_pod, controller_pod
from spindle.manifests.secrets import secret_metadata
from spindle.model.cluster_identity import ConfiguredVoter, NodeIdentity, identity_map, parse_identity
from spindle.model.node_inputs import ClusterInputs, DiskInputs, NodeInputs, Zone

pytestmark = pytest.mark.kube

ID, DIR = "4L6g3nShT-eMCtK--X86sw", "JVxZHnT9SEmo7qMPv1p0Yw"
VOTERS = (ConfiguredVoter(9000, DIR),)
IDENTITY = NodeIdentity(ID, VOTERS, {DIR: {"claim": "c", "pvUid": "p", "fsUuid": "f"}})


def objects(namespace: str) -> list[dict[str, Any]]:
    """One of each kind."""
    uid = "3f0f3f6e-8d0f-4f57-9b0a-0d6a4e2c7b11"
    cluster = {"metadata": {"name": "demo", "namespace": namespace, "uid": uid}}
    inputs = ClusterInputs(
        name="demo",
        namespace=namespace,
        uid=uid,
        cluster_id=ID,
        version="4.3.1",
        spindle_image="spindle:test",
        tolerations=({"key": "gpu", "operator": "Exists"},),
        pull_secrets=("registry",),
        node_selector={"disk": "nvme"},
    )
    broker = NodeInputs(
        node_id=0,
        server_properties="node.id=0\n",
        disks=(DiskInputs(name="disk0", claim="data-disk0-demo-0", directory_id=DIR),),
        resources={"requests": {"cpu": "1000m", "memory": "2048Mi"}, "limits": {"cpu": 2, "memory": "4Gi"}},
        zone=Zone(topology_key="topology.kubernetes.io/zone", value="a"),
        pool="main",
    )
    controller = NodeInputs(
        node_id=9000,
        server_properties="node.id=9000\n",
        disks=(DiskInputs(name="metadata", claim="data-metadata-demo-9000", directory_id=DIR),),
    )
    claiming = ClaimingCluster("demo", namespace, ID, VOTERS)
    disk = ClaimedDisk(node_id=0, name="disk0", directory_id=DIR, size="1024Mi", pool="main", rack="a")
    metadata = ClaimedDisk(
        node_id=9000, name="metadata", directory_id=DIR, size="1.5Gi", storage_class="local"
    )
    return [
        *services.services(cluster),
        budgets.broker_budget(cluster, 3),
        budgets.broker_budget(cluster, 1) | {"metadata": {"name": "none", "namespace": namespace}},
        identity_map("demo", namespace, IDENTITY),
        claim(claiming, disk),
        claim(claiming, metadata),
        {"apiVersion": "v1", "kind": "Secret", "metadata": secret_metadata(cluster, "demo-ca")},
        kafka_broker(cluster, 0, "main", [{"name": "disk0", "claim": "c", "directoryId": DIR}], rack="a"),
        node_config_map(inputs, broker),
        broker_pod(inputs, broker),
        controller_pod(inputs, controller),
    ]


def apply(api: ApiServer, thing: dict[str, Any]) -> dict[str, Any]:
    """Server-side apply as the operator does it; the object as it then lives."""
    text = api.kubectl(
        "apply", "--server-side", "--force-conflicts", f"--field-manager={FIELD_MANAGER}", "--validate=strict",
        "-o", "json", "-f", "-", stdin=json.dumps(thing),
    )  # fmt: skip
    live: dict[str, Any] = json.loads(text)
    return live


def test_what_the_api_server_makes_of_our_objects_is_no_drift(api_server: ApiServer, namespace: str) -> None:
    for thing in objects(namespace):
        desired = with_applied(thing)
        live = apply(api_server, desired)
        assert not drifted(desired, live), f"{thing['kind']}/{thing['metadata']['name']}"


def test_a_hand_that_edits_is_noticed_and_applying_mends_it(api_server: ApiServer, namespace: str) -> None:
    desired = with_applied(
        services.bootstrap_service({"metadata": {"name": "demo", "namespace": namespace, "uid": "u"}})
    )
    apply(api_server, desired)
    edit = {"spec": {"selector": {"spindle.dev/role": "controller"}}}
    live = json.loads(
        api_server.kubectl(
            "patch",
            "service",
            "demo-bootstrap",
            "-n",
            namespace,
            "--type=merge",
            "-p",
            json.dumps(edit),
            "-o",
            "json",
        )
    )
    assert drifted(desired, live)
    assert not drifted(desired, apply(api_server, desired))


def test_a_field_that_we_no_longer_want_goes_by_applying(api_server: ApiServer, namespace: str) -> None:
    thing = budgets.broker_budget({"metadata": {"name": "demo", "namespace": namespace, "uid": "u"}}, 3)
    thing["metadata"]["labels"]["former"] = "yes"
    live = apply(api_server, with_applied(thing))
    del thing["metadata"]["labels"]["former"]
    desired = with_applied(thing)
    assert drifted(desired, live)
    assert "former" not in apply(api_server, desired)["metadata"]["labels"]


def test_a_mark_that_a_broker_was_created_with_goes_once_it_is_applied_as_false(
    api_server: ApiServer, namespace: str
) -> None:
    cluster = {"metadata": {"name": "demo", "namespace": namespace, "uid": "u"}}

    def broker(*, joining: bool | None) -> dict[str, Any]:
        disks = [{"name": "disk0", "claim": "c", "directoryId": DIR}]
        return kafka_broker(cluster, 0, "main", disks, rack="a", joining=joining)

    created = ("create", f"--field-manager={FIELD_MANAGER}", "-f", "-")
    api_server.kubectl(*created, stdin=json.dumps(broker(joining=True)))
    # Creation counts as an owner of its own, so leaving the field out changes nothing.
    assert apply(api_server, broker(joining=None))["spec"]["joining"] is True
    assert apply(api_server, broker(joining=False))["spec"]["joining"] is False
    assert "joining" not in apply(api_server, broker(joining=None))["spec"]


def test_the_record_comes_back_as_it_was_written(api_server: ApiServer, namespace: str) -> None:
    assert parse_identity(apply(api_server, identity_map("demo", namespace, IDENTITY))) == IDENTITY
