"""Spindle's labels on somebody's own objects wake no cluster of another namespace. The operator's process, on a real API server."""

import json
import re
from functools import partial
from pathlib import Path

import pytest

from e2e.cluster.apiserver import ApiServer
from tests.kube.operator_process import OperatorProcess, until
from tests.kube.samples import cluster

pytestmark = pytest.mark.kube


def passes(operator: OperatorProcess, namespace: str) -> int:
    found = re.findall(
        rf'^spindle_reconciles_total\{{cluster="{namespace}/demo".*\}} (\S+)$',
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
