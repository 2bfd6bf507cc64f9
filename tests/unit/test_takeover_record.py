"""The record of a take-over is one ConfigMap, however many volumes there are."""

import base64
import random
import uuid
from dataclasses import replace
from typing import Any

import pytest

from spindle.takeover import manifests
from spindle.takeover.plan import DiskPlan, NodePlan, TakeoverPlan, TakeoverRecord

MANY = 10_000
HOLDS = 1 << 20  # bytes; of one ConfigMap, by Kubernetes


def record(volumes: int, **annotations: str) -> TakeoverRecord:
    """Brokers with 20 volumes each, whose names have nothing in common, as provisioners choose them."""
    chance = random.Random(1)
    claims: dict[str, Any] = {}
    nodes = []
    for node in range(volumes // 20):
        disks = []
        for n in range(20):
            claim, volume = f"data-{n}-demo-broker-{node}", f"pvc-{uuid.UUID(int=chance.getrandbits(128))}"
            disks.append(
                DiskPlan(
                    claim, f"data-disk{n}-demo-{node}", volume, f"kafka-log{node}", f"disk{n}", "4Ti", "fast"
                )
            )
            meta = {
                "name": claim,
                "labels": {"strimzi.io/cluster": "demo", "strimzi.io/pool-name": "broker"},
            }
            spec = {"accessModes": ["ReadWriteOnce"], "volumeName": volume, "storageClassName": "fast"}
            claims[claim] = {"metadata": {**meta, "annotations": annotations}, "spec": spec}
        nodes.append(NodePlan(node, node, f"demo-broker-{node}", "broker", f"zone-{node % 3}", tuple(disks)))
    plan = TakeoverPlan("demo", "kafka", "3Db5QLSqSZieL3rJBUUegA", tuple(nodes), {"kind": "KafkaCluster"})
    return TakeoverRecord(plan, claims, {d.volume: "Delete" for each in nodes for d in each.disks})


def test_the_record_of_many_volumes_is_one_object() -> None:
    kept = record(MANY)
    assert len(kept.text()) > 5 * HOLDS
    written = manifests.record_map(kept)
    sizes = [len(base64.b64decode(value)) for value in written.get("binaryData", {}).values()]
    sizes += [len(value) for value in written.get("data", {}).values()]
    assert sum(sizes) < HOLDS
    assert manifests.recorded(written) == kept


def test_a_larger_one_is_refused_with_the_way_out() -> None:
    kept = record(1000)
    noise = random.Random(2)
    odd = {
        name: {**claim, "metadata": {"annotations": {"odd": noise.randbytes(1000).hex()}}}
        for name, claim in kept.claims.items()
    }
    assert manifests.record_map(replace(kept, claims=dict(list(odd.items())[:500])))
    with pytest.raises(ValueError, match=r"1000 claims.*at most 1047552.*kubectl annotate pvc"):
        manifests.record_map(replace(kept, claims=odd))


@pytest.mark.parametrize("packed", ["", "bm8=", base64.b64encode(b"\x1f\x8b\x08").decode()])
def test_one_that_somebody_changed_is_told(packed: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be parsed|Expecting"):
        manifests.recorded({"binaryData": {manifests.RECORD_KEY: packed}})
