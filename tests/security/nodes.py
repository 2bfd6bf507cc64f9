"""Nodes of an API server that has none, with storage to be had: enough for the operator to plan pods on."""

import json
from collections.abc import Iterator

from e2e.cluster.apiserver import ApiServer

_LABEL = "spindle.test/made"


def some_nodes(server: ApiServer, count: int) -> Iterator[None]:
    """So many, in three zones in turn; gone afterwards."""
    made = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"node-{index}",
                "labels": {_LABEL: "true", "topology.kubernetes.io/zone": f"zone-{index % 3}"},
            },
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
        for index in range(count)
    ]
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "local-disks",
            "labels": {_LABEL: "true"},
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "test.invalid/any",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    listed = {"apiVersion": "v1", "kind": "List", "items": [storage, *made]}
    try:
        server.kubectl("create", "-f", "-", stdin=json.dumps(listed))
        # The API server itself marks each new node as not ready; a kubelet's word takes that away.
        server.kubectl("taint", "nodes", f"--selector={_LABEL}", "node.kubernetes.io/not-ready:NoSchedule-")
        yield
    finally:
        server.kubectl("delete", "nodes,storageclasses", f"--selector={_LABEL}", "--wait=false")
