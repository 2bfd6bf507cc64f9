"""Spindle takes over a cluster that Strimzi created, with its disks; an unexpected finding stops that, and it is rolled back."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from e2e.scenarios.lab import CLUSTER, Lab, LabError
from e2e.scenarios.machine import Machine
from e2e.scenarios.records import read
from e2e.scenarios.strimzi_cluster import (
    BROKERS,
    CLUSTER_ID,
    CONTROLLERS,
    RECORDS,
    StrimziCluster,
    definitions,
)

pytestmark = pytest.mark.e2e


@pytest.fixture
def theirs(lab: Lab, spindle_image: str) -> Iterator[StrimziCluster]:
    """The cluster, running, with records: in each zone a broker and a controller."""
    zones: dict[str, list[str]] = {}
    for node in lab.list("nodes"):
        zone = node["metadata"]["labels"]["topology.kubernetes.io/zone"]
        zones.setdefault(zone, []).append(node["metadata"]["name"])
    pairs = [sorted(names)[:2] for _, names in sorted(zones.items())]
    hosts = {node: pair[0] for node, pair in zip(BROKERS, pairs, strict=True)}
    hosts |= {node: pair[1] for node, pair in zip(CONTROLLERS, pairs, strict=True)}
    made = StrimziCluster(lab, spindle_image, hosts)
    made.make()
    made.write()
    try:
        yield made
    finally:
        for definition in definitions():
            lab.kubectl("delete", "crd", definition["metadata"]["name"], "--wait=false")


def is_ready(found: Mapping[str, Any]) -> bool:
    """Whether its condition Ready is True."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in found["status"]["conditions"])


def test_a_cluster_of_strimzis_is_taken_over_with_every_record(
    lab: Lab, theirs: StrimziCluster, machine: Machine, spindle_image: str
) -> None:
    here = ("-n", lab.namespace)
    page = lab.spindle("takeover", "plan", CLUSTER, *here)
    print(page)
    manifest = yaml.safe_load(page.split("KafkaCluster that it applies:\n", 1)[1])
    assert [pool["name"] for pool in manifest["spec"]["brokerPools"]] == ["broker"]
    before = {claim["metadata"]["name"]: claim["spec"]["volumeName"] for claim in lab.list("pvc")}

    # A folder in place of the log dir: nothing of that node is changed, and everything is rolled back.
    odd = before[theirs.claim(1, 1)]
    path = lab.the("persistentvolume", odd)["spec"]["local"]["path"]
    machine.run(theirs.hosts[1], "mkdir", f"{path}/log")
    with pytest.raises(LabError, match="folder log already"):
        lab.spindle("takeover", "run", CLUSTER, "--yes", *here, timeout=600)
    assert lab.get("kafkacluster", CLUSTER) is None
    print(lab.spindle("takeover", "undo", CLUSTER, *here, timeout=600))
    assert {claim["metadata"]["name"]: claim["spec"]["volumeName"] for claim in lab.list("pvc")} == before
    assert "strimzi.io/pause-reconciliation" not in lab.the("kafka", CLUSTER)["metadata"].get(
        "annotations", {}
    )
    machine.run(theirs.hosts[1], "rmdir", f"{path}/log")
    theirs.start()
    assert theirs.read() == RECORDS

    print(lab.spindle("takeover", "run", CLUSTER, "--yes", *here, timeout=900))
    lab.until_ready(600)
    assert lab.status()["clusterId"] == CLUSTER_ID
    lab.until(
        "the quorum is dynamic",
        lambda: lab.the("configmap", f"{CLUSTER}-identity")["data"].get("quorum") == "dynamic",
        300,
    )
    lab.until_ready(600)
    lab.until("status.waiting is empty", lambda: not lab.waits(), 300)
    volumes = {claim["spec"]["volumeName"] for claim in lab.list("pvc")}
    assert volumes == set(before.values())
    assert "DiskCleared" not in {event["reason"] for event in lab.list("events")}, "nothing is formatted"
    assert read(lab, spindle_image, "orders", 6, RECORDS) == RECORDS
    lab.spindle("verify", *here, "-c", CLUSTER, "--messages", "2000")

    objects = lab.spindle("takeover", "convert", CLUSTER, *here)
    print(objects)
    lab.kubectl("apply", "-f", "-", stdin=objects)
    lab.until("the topic is ready", lambda: is_ready(lab.the("kafkatopics.spindle.dev", "orders")), 120)
    lab.until("the user is ready", lambda: is_ready(lab.the("kafkausers.spindle.dev", "reader")), 120)
    assert lab.the("kafkatopics.spindle.dev", "orders")["status"]["partitions"] == 6
    assert lab.get("secret", f"{CLUSTER}.user.reader") is not None
    assert read(lab, spindle_image, "orders", 6, RECORDS) == RECORDS

    lab.kubectl("delete", "kafka", CLUSTER)
    with pytest.raises(LabError, match="KafkaCluster"):
        lab.spindle("takeover", "undo", CLUSTER, *here)
