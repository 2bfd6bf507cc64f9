"""The API server takes our pods as they are, in a namespace that enforces the strictest pod security."""

from dataclasses import replace
from typing import Any

import pytest
from kubernetes import client

from spindle.config.server_properties import broker_settings, controller_settings, node_config, render
from spindle.manifests.claim_pods import claim_pod
from spindle.manifests.config_maps import node_config_map
from spindle.manifests.pods import broker_pod, controller_pod
from spindle.model.node_inputs import PLACEHOLDER, ClusterInputs, DiskInputs, NodeInputs, VoterInputs, Zone

pytestmark = pytest.mark.kube

DISKS = tuple(
    DiskInputs(
        name=f"disk{i}",
        claim=f"data-disk{i}-demo-0",
        directory_id=f"dir{i}",
        mode=PLACEHOLDER if i == 3 else "Active",
    )
    for i in range(64)
)
BROKER = NodeInputs(
    node_id=0,
    server_properties=render(
        broker_settings(node_config("demo", "x", 0, controllers=(9000,), brokers=3), rack="a")
    ),
    disks=DISKS,
    zone=Zone(topology_key="topology.kubernetes.io/zone", value="a"),
    pool="main",
)
CONTROLLER = NodeInputs(
    node_id=9000,
    server_properties=render(
        controller_settings(node_config("demo", "x", 9000, controllers=(9000,), brokers=3))
    ),
    disks=(DiskInputs(name="metadata", claim="data-metadata-demo-9000", directory_id="m"),),
    resources={"limits": {"cpu": "1", "memory": "1Gi"}},
)


def test_pods_and_config_maps_are_taken_as_they_are(api_client: client.ApiClient, namespace: str) -> None:
    core: Any = client.CoreV1Api(api_client)  # it takes dicts, though its types don't say so
    core.patch_namespace(
        namespace, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    )
    core.create_namespaced_service_account(namespace, {"metadata": {"name": "default"}})
    cluster = ClusterInputs(
        name="demo",
        namespace=namespace,
        uid="5b4e1f5e-0000-4000-8000-000000000000",
        cluster_id="cid",
        version="4.3.1",
        spindle_image="spindle:1",
        tolerations=({"key": "dedicated", "operator": "Exists"},),
        pull_secrets=("pull",),
        node_selector={"disk": "nvme"},
    )
    voters = (VoterInputs(node_id=9000, directory_id="m"),)
    for pod in (
        broker_pod(cluster, BROKER),
        broker_pod(replace(cluster, shared_nodes=True), replace(BROKER, zone=None, node_id=1)),
        controller_pod(cluster, CONTROLLER),
        claim_pod(cluster, "data-disk2-demo-0", "node1"),
    ):
        core.create_namespaced_pod(namespace, pod, dry_run="All", field_validation="Strict")
    for made in (node_config_map(cluster, BROKER), node_config_map(cluster, CONTROLLER, voters)):
        core.create_namespaced_config_map(namespace, made, dry_run="All", field_validation="Strict")
