"""The real scheduler keeps a broker without volumes off the nodes that its pod must avoid."""

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import programs
from e2e.cluster.apiserver import ApiServer, free_ports
from e2e.cluster.build import ensure_kubernetes
from e2e.cluster.procs import spawn
from e2e.cluster.waiting import wait_for
from spindle.manifests.pods import broker_pod
from spindle.model.node_inputs import ClusterInputs, DiskInputs, NodeInputs
from tests.kube.samples import local_class

pytestmark = pytest.mark.kube

NAMESPACE = "default"
CLUSTER = ClusterInputs(
    name="demo", namespace=NAMESPACE, uid="u", cluster_id="c", version="4.3.1", spindle_image="spindle:1"
)


def _broker(number: int) -> NodeInputs:
    claim = f"data-disk0-demo-{number}"
    disks = (DiskInputs(name="disk0", claim=claim, directory_id=f"d{number}"),)
    return NodeInputs(
        node_id=number,
        server_properties="",
        disks=disks,
        pool="main",
        resources={"requests": {"cpu": "10m", "memory": "1Mi"}},
    )


@pytest.fixture(scope="module")
def scheduled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A control plane with two nodes, a free local volume on each, and the scheduler."""
    folder = tmp_path_factory.mktemp("scheduler")
    with ApiServer(controllers=True) as server:
        (port,) = free_ports(1)
        command = [
            *programs.scheduler(ensure_kubernetes(), server.kubeconfig, folder),
            f"--secure-port={port}",
        ]
        process = spawn(command, Path(folder / "scheduler.log"), dies_with_us=True)
        try:
            _apply(server, local_class(), *(each for n in (1, 2) for each in (_node(n), _volume(n))))
            yield server
        finally:
            process.stop(grace=0)


def _apply(server: ApiServer, *objects: dict[str, Any]) -> None:
    for obj in objects:
        server.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(obj))


def _node(number: int) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": f"node{number}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node{number}", "labels": labels},
        "spec": {},
    }


def _volume(number: int) -> dict[str, Any]:
    term = {
        "matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [f"node{number}"]}]
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"node{number}-disk"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local-disks",
            "local": {"path": "/mnt/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
    }


def _claim(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"data-disk0-demo-{number}", "namespace": NAMESPACE},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local-disks",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def _ready(server: ApiServer, number: int, *, cordoned: bool) -> None:
    status = {
        "conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": ""}],
        "allocatable": {"cpu": "4", "memory": "4Gi", "pods": "20"},
        "capacity": {"cpu": "4", "memory": "4Gi", "pods": "20"},
    }
    name = f"node{number}"
    server.kubectl("patch", "node", name, "--subresource=status", "-p", json.dumps({"status": status}))
    server.kubectl(
        "patch", "node", name, "-p", json.dumps({"spec": {"unschedulable": cordoned, "taints": None}})
    )


def _pod(node: NodeInputs) -> dict[str, Any]:
    pod = copy.deepcopy(broker_pod(CLUSTER, node))
    del pod["metadata"]["ownerReferences"]
    return pod


def _look(server: ApiServer, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(server.kubectl("get", "pod", name, "-n", NAMESPACE, "-o", "json"))
    return found


def _unschedulable(server: ApiServer, name: str) -> bool:
    conditions = _look(server, name).get("status", {}).get("conditions") or ()
    return any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)


def test_a_broker_waits_rather_than_take_a_node_that_it_must_avoid(scheduled: ApiServer) -> None:
    """node1 has a free volume, and the volumes of a broker that is stopped; node2 is cordoned for a while."""
    server = scheduled
    for number in (1, 2):
        _ready(server, number, cordoned=number == 2)
    server.kubectl("create", "serviceaccount", "default", "-n", NAMESPACE, check=False)
    name = "demo-broker-1"
    _apply(server, _claim(1), _pod(replace(_broker(1), avoid=("node1",))))
    wait_for("the scheduler's verdict", lambda: _unschedulable(server, name), seconds=30)
    assert "nodeName" not in _look(server, name)["spec"]
    _ready(server, 2, cordoned=False)
    node = wait_for("a node", lambda: _look(server, name)["spec"].get("nodeName"), seconds=30)
    assert node == "node2"


def test_without_the_list_the_scheduler_takes_that_node(scheduled: ApiServer) -> None:
    server = scheduled
    for number in (1, 2):
        _ready(server, number, cordoned=number == 2)
    _apply(server, _claim(3), _pod(_broker(3)))
    node = wait_for("a node", lambda: _look(server, "demo-broker-3")["spec"].get("nodeName"), seconds=30)
    assert node == "node1"
