"""Spindle's labels on somebody's own objects wake no cluster of another namespace, and make no pod a broker. On a real API server."""

import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from e2e.cluster.apiserver import ApiServer
from spindle.model.view import KafkaView
from spindle_operator.connection import Access
from spindle_operator.kafka_executor import KafkaExecutor
from spindle_operator.kinds import KAFKA_CLUSTER, POD
from spindle_operator.kube import Kube
from spindle_operator.observe import Surroundings, observe
from tests.kube.operator_process import OperatorProcess, until
from tests.kube.samples import cluster

pytestmark = pytest.mark.kube


def passes(operator: OperatorProcess, namespace: str) -> int:
    found = re.findall(
        rf'^spindle_reconciles_total\{{kafka_cluster="demo",namespace="{namespace}".*\}} (\S+)$',
        operator.get("/metrics")[1],
        re.MULTILINE,
    )
    return int(sum(float(number) for number in found))


def more_passes(operator: OperatorProcess, namespace: str, before: int) -> bool:
    return passes(operator, namespace) > before


def test_a_label_wakes_no_cluster_of_another_namespace(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    kubectl, tenant = api_server.kubectl, f"{namespace}-tenant"
    kubectl("create", "namespace", tenant)
    # Paused clusters are looked at when they are woken, and at each resync.
    paused = cluster()
    paused["spec"]["paused"] = True
    for home in (namespace, tenant):
        kubectl("-n", home, "create", "-f", "-", stdin=json.dumps(paused))
    labels = {"spindle.dev/cluster": "demo", "spindle.dev/namespace": namespace}
    bait = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bait", "labels": labels}}
    kubectl("-n", tenant, "create", "-f", "-", stdin=json.dumps(bait))
    arguments = (f"--namespace={tenant}", "--resync=3600")
    with OperatorProcess(api_server.kubeconfig, namespace, tmp_path, *arguments) as operator:
        until(
            "a first pass of both",
            lambda: passes(operator, namespace) and passes(operator, tenant),
            detail=lambda: operator.log,
        )
        victim = 0
        for turn in range(3):
            victim, own = passes(operator, namespace), passes(operator, tenant)
            body = json.dumps({"data": {"turn": str(turn)}})
            kubectl("-n", tenant, "patch", "configmap", "bait", "--type=merge", "-p", body)
            until(
                "its own namespace's cluster is woken",
                partial(more_passes, operator, tenant, own),
                detail=lambda: operator.log,
            )
        assert passes(operator, namespace) == victim


class Recorded(KafkaExecutor):
    """Connects to nobody, and keeps whom it should have connected to."""

    hosts: Mapping[int, str]

    async def look(self, access: Access | str, **_: object) -> tuple[KafkaView, bool | None]:
        self.hosts = access.hosts if isinstance(access, Access) else {}
        return KafkaView(error=str(access)), None


async def test_a_pod_with_a_brokers_labels_is_no_broker(kube: Kube, namespace: str) -> None:
    """Whoever creates pods could otherwise have the operator look up and try any number of hosts, for which all clusters' look-ups wait."""
    made = await kube.create(cluster(), namespace)
    own = {key: made[key] for key in ("apiVersion", "kind")} | {
        key: made["metadata"][key] for key in ("name", "uid")
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "demo-operator",
            "labels": {"spindle.dev/cluster": "demo"},
            "ownerReferences": [own],
        },
        "stringData": dict.fromkeys(("ca.crt", "tls.crt", "tls.key"), "x"),
    }
    await kube.create(secret, namespace)
    for node_id, owners in ((0, [own]), (7, [])):
        labels = {
            "spindle.dev/cluster": "demo",
            "spindle.dev/role": "broker",
            "spindle.dev/node-id": str(node_id),
        }
        meta = {"name": f"demo-broker-{node_id}", "labels": labels, "ownerReferences": owners}
        spec = {"containers": [{"name": "kafka", "image": "kafka"}]}
        await kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, namespace)
        entry = {
            "name": "kafka",
            "image": "kafka",
            "imageID": "kafka",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {}},
        }
        body = {"status": {"containerStatuses": [entry]}}
        name = f"demo-broker-{node_id}"
        await kube.patch(POD, namespace, name, body, subresource="status")
    gate = Recorded("test", 1)
    await observe(kube, await kube.get(KAFKA_CLUSTER, namespace, "demo"), gate, Surroundings("spindle:test"))
    await gate.shutdown()
    assert set(gate.hosts) == {0}
