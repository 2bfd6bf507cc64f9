"""A volume is kept for one claim, set to Retain and given free, on a real API server."""

import time
from typing import Any

import pytest

from spindle.api import names
from spindle.model.actions import Patch
from spindle.model.claim_volumes import is_reserved
from spindle.model.freshness import FactsRead
from spindle_operator.act import CONFLICT, DONE, Actor
from spindle_operator.kafka_executor import KafkaExecutor
from spindle_operator.kinds import KAFKA_BROKER, VOLUME
from spindle_operator.kube import Kube
from tests.kube.samples import broker, cluster, volume

pytestmark = pytest.mark.kube


def local(name: str) -> dict[str, Any]:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node1"]}
    return volume(
        name,
        storageClassName="local-disks",
        local={"path": "/mnt/disks/disk0"},
        nodeAffinity={"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    )


async def test_it_is_kept_for_whoever_comes_first(kube: Kube, namespace: str) -> None:
    owner = await kube.create(cluster(), namespace)
    made = await kube.create(local(f"{namespace}-disk0"), None)
    name, uid = made["metadata"]["name"], made["metadata"]["uid"]
    gate = KafkaExecutor("test", 1)
    actor = Actor(kube, owner, gate, lambda: True, look=FactsRead(listed=True, at=time.monotonic()))

    async def act(version: str | None, spec: dict[str, Any]) -> str:
        patch = Patch(
            kind="PersistentVolume", name=name, uid=uid, resource_version=version, body={"spec": spec}
        )
        return (await actor.run([patch]))[0].outcome

    ours = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace,
        "name": "data-disk2-demo-0",
        "fieldPath": names.RESERVED,
    }
    seen = made["metadata"]["resourceVersion"]
    assert await act(seen, {"claimRef": ours}) == DONE
    assert await act(seen, {"claimRef": ours | {"name": "somebody-elses"}}) == CONFLICT
    assert await act(None, {"persistentVolumeReclaimPolicy": "Retain"}) == DONE
    kept = await kube.get(VOLUME, None, name)
    assert kept["spec"]["claimRef"] == ours
    assert is_reserved(kept)
    assert kept["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert await act(None, {"claimRef": None}) == DONE
    assert "claimRef" not in (await kube.get(VOLUME, None, name))["spec"]
    await gate.shutdown()


async def test_a_broker_takes_one_more_disk_and_loses_it_again(kube: Kube, namespace: str) -> None:
    two = broker()
    three = broker()
    third = dict(three["spec"]["disks"][0]) | {
        "name": "disk2",
        "claim": "data-disk2-demo-0",
        "mode": "Absent",
        "added": True,
    }
    three["spec"]["disks"].append(third)
    for wanted in (two, three, two):
        await kube.apply(wanted, namespace)
        found = await kube.get(KAFKA_BROKER, namespace, "demo-broker-0")
        assert [disk["name"] for disk in found["spec"]["disks"]] == [
            disk["name"] for disk in wanted["spec"]["disks"]
        ]
        assert [disk.get("added") for disk in found["spec"]["disks"]] == [
            disk.get("added") for disk in wanted["spec"]["disks"]
        ]
