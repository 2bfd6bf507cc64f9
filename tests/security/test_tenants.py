"""Whoever may write a KafkaCluster owns neither its namespace's Secrets nor a program that runs in it."""

import time
from typing import Any

import pytest

from spindle.model.allowed import Allowed
from spindle.model.freshness import FactsRead
from spindle.reconcile.plan import ReconcilePlan, plan
from spindle_operator.act import Actor
from spindle_operator.kafka_executor import KafkaExecutor
from spindle_operator.kinds import CLAIM, CONFIG_MAP, KAFKA_CLUSTER, POD, SECRET, SERVICE
from spindle_operator.kube import Kube
from spindle_operator.observe import Surroundings, observe
from spindle_operator.report import report
from tests.kube.samples import cluster as sample

pytestmark = pytest.mark.kube

JDWP = "-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=*:5005"
KEY = "${file:/etc/spindle/tls/keystore.pem:x}"


async def a_pass(kube: Kube, namespace: str, allowed: Allowed | None = None) -> ReconcilePlan:
    """What the operator does once with the KafkaCluster ``demo``."""
    cluster = await kube.get(KAFKA_CLUSTER, namespace, "demo")
    gate = KafkaExecutor("test", 1)
    seen = await observe(kube, cluster, gate, Surroundings("spindle:test", allowed=allowed or Allowed()))
    wanted = plan(seen.snapshot, time.time())
    await Actor(kube, cluster, gate, lambda: True, look=FactsRead(listed=True, at=time.monotonic())).run(
        wanted.actions
    )
    cluster = await kube.get(KAFKA_CLUSTER, namespace, "demo")
    await report(kube, cluster, seen.snapshot.brokers, wanted)
    await gate.shutdown()
    return wanted


async def made(kube: Kube, namespace: str) -> int:
    """How many objects stand in the namespace that a cluster begins with."""
    return sum([len(await kube.items(kind, namespace)) for kind in (POD, SERVICE, CLAIM)])


def waiting(wanted: ReconcilePlan, reason: str = "SpecNotAllowed") -> list[str]:
    found = wanted.status.get("waiting") or ()
    return sorted(wait["message"].partition(":")[0] for wait in found if wait["reason"] == reason)


@pytest.mark.parametrize(
    ("field", "spec"),
    [
        pytest.param("spec.controllers.jvm.options", {"controllers": {"jvm": {"options": [JDWP]}}}, id="jdwp"),
        pytest.param(
            "spec.config",
            {
                "config": {
                    "config.providers": "file",
                    "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
                    "num.network.threads": KEY,
                }
            },
            id="the-nodes-key-into-the-log",
        ),
        pytest.param("spec.config", {"config": {"metric.reporters": "evil.Reporter"}}, id="a-class"),
        pytest.param("spec.config", {"config": {"max.connections": "0"}}, id="nobody-gets-in"),
        pytest.param("spec.image", {"image": "evil.example/kafka:4.3.1"}, id="an-image"),
        pytest.param(
            "spec.rebalance.engine.image", {"rebalance": {"engine": {"image": "evil.example/job:1"}}}, id="the-jobs-image"
        ),
        pytest.param(
            "spec.rebalance.rollup.secretName",
            {"rebalance": {"rollup": {"path": "s3a://evil/x", "secretName": "theirs"}}},
            id="a-secret-into-a-jobs-environment",
        ),
        pytest.param(
            "spec.rebalance.rollup.claimName",
            {"rebalance": {"rollup": {"path": "file:///var/lib/spindle/rollup", "claimName": "theirs"}}},
            id="a-claim",
        ),
        pytest.param(
            "spec.rebalance.rollup.settings",
            {"rebalance": {"rollup": {"path": "s3a://evil/x", "settings": {"fs.s3a.impl": "evil.FileSystem"}}}},
            id="a-class-into-the-job",
        ),
        pytest.param(
            "spec.rebalance.rollup.settings",
            {
                "rebalance": {
                    "rollup": {
                        "path": "abfss://c@evil.dfs.core.windows.net/x",
                        "settings": {
                            "fs.azure.account.keyprovider.evil": "org.apache.hadoop.fs.azurebfs.services.ShellDecryptionKeyProvider",
                            "fs.azure.shellkeyprovider.script": "/bin/sh",
                        },
                    }
                }
            },
            id="a-program-in-the-job",
        ),
        pytest.param("spec.security.caSecret", {"security": {"caSecret": "theirs"}}, id="an-authority"),
        pytest.param(
            "spec.listeners[out].annotations",
            {"listeners": [{"name": "out", "port": 9095, "type": "loadbalancer", "annotations": {"cloud/role": "admin"}}]},
            id="a-load-balancer",
        ),
    ],
)  # fmt: skip
async def test_a_tenant_reaches_no_further_than_kafka(
    kube: Kube, namespace: str, field: str, spec: dict[str, Any]
) -> None:
    """None of this is carried out, and each is told with its way out."""
    theirs = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "theirs"},
        "stringData": {"tls.key": "x"},
    }
    await kube.create(theirs, namespace)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await kube.create(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "theirs"}, "spec": claim},
        namespace,
    )
    wanted = sample()
    for key, value in spec.items():
        wanted["spec"][key] = {**wanted["spec"][key], **value} if key == "controllers" else value
    await kube.create(wanted, namespace)
    await a_pass(kube, namespace)
    outcome = await a_pass(kube, namespace)
    assert set(waiting(outcome)) == {field}
    assert await made(kube, namespace) == 1, "their claim, and nothing else"
    live = await kube.get(KAFKA_CLUSTER, namespace, "demo")
    told = [wait for wait in live["status"]["waiting"] if wait["reason"] == "SpecNotAllowed"]
    assert told
    assert all(wait["unblockedBy"] for wait in told)


async def test_a_running_cluster_gets_no_secret_by_a_change(kube: Kube, namespace: str) -> None:
    """A change to something that is not allowed leaves the cluster as it is; its owner's label lets it in."""
    await kube.create(sample(), namespace)
    for _ in range(3):
        await a_pass(kube, namespace)
    before = await kube.items(CONFIG_MAP, namespace)
    assert before
    theirs = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "theirs"}, "stringData": {"a": "b"}}
    await kube.create(theirs, namespace)
    rollup = {"path": "s3a://bucket/x", "secretName": "theirs"}
    body = {"spec": {"rebalance": {"rollup": rollup, "engine": {"image": "apache/kafka:job"}}}}
    await kube.patch(KAFKA_CLUSTER, namespace, "demo", body)
    assert waiting(await a_pass(kube, namespace)) == ["spec.rebalance.rollup.secretName"]
    assert not any("theirs" in str(obj) for obj in await kube.items(CONFIG_MAP, namespace))
    label = {"metadata": {"labels": {"spindle.dev/usable-by": "demo"}}}
    await kube.patch(SECRET, namespace, "theirs", label)
    assert waiting(await a_pass(kube, namespace)) == []
    record = await kube.get(CONFIG_MAP, namespace, "demo-pools")
    assert "theirs" in record["data"]["_accepted"]
