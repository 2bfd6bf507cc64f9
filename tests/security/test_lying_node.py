"""What a compromised node reports of its own broker does not keep the rest of the cluster from being looked after."""

import pytest

from spindle.api import names
from spindle_operator.kinds import KAFKA_BROKER, KAFKA_CLUSTER
from spindle_operator.kube import Kube
from tests.kube.api import Resources
from tests.kube.samples import broker as sample_broker
from tests.kube.samples import cluster as sample
from tests.security.test_tenants import a_pass

pytestmark = pytest.mark.kube

LONGEST = "x" * 32768  # as long as the definition of a KafkaBroker lets the agent's message be


async def test_the_longest_message_that_an_agent_may_write_does_not_end_the_pass(
    kube: Kube, namespace: str, resources: Resources
) -> None:
    cluster = await kube.create(sample(), namespace)
    owner = {key: cluster[key] for key in ("apiVersion", "kind")} | {
        key: cluster["metadata"][key] for key in ("name", "uid")
    }
    for broker_id in range(2):
        broker = sample_broker()
        broker["metadata"] |= {"name": f"demo-broker-{broker_id}", "ownerReferences": [owner]}
        broker["spec"]["id"] = broker_id
        await kube.create(broker, namespace)
    lie = {"verdict": "Failed", "reason": "ProbeError", "message": LONGEST, "since": "2026-01-01T00:00:00Z"}
    observed = {"node": "node1", "disks": [{"name": name, **lie} for name in ("disk0", "disk1")]}
    report = {"apiVersion": names.API_VERSION, "kind": "KafkaBroker", "metadata": {"name": "demo-broker-0"}}
    resources.report({**report, "status": {"observed": observed}}, names.FIELD_MANAGER_AGENT)

    await a_pass(kube, namespace)

    quoted = (await kube.get(KAFKA_BROKER, namespace, "demo-broker-0"))["status"]["disks"][0]["message"]
    assert "xxx" in quoted
    assert (await kube.get(KAFKA_BROKER, namespace, "demo-broker-1"))["status"]["state"]
    assert (await kube.get(KAFKA_CLUSTER, namespace, "demo"))["status"]["conditions"]
