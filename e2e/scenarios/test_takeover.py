"""Spindle takes over a cluster that Strimzi created, with its disks; an unexpected finding stops that, and it is rolled back."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
import yaml

from e2e.scenarios.lab import CLUSTER, Lab, LabError, client_pod, run_client
from e2e.scenarios.machine import Machine
from e2e.scenarios.records import CONNECT
from e2e.scenarios.strimzi_cluster import (
    BROKERS,
    CLUSTER_ID,
    CONTROLLERS,
    RECORDS,
    WRITE_ON,
    Acknowledged,
    StrimziCluster,
    definitions,
)

pytestmark = pytest.mark.e2e
_LATER: Final = 1_000_000  # the first number that is written with Spindle


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


def acknowledged(lab: Lab, writer: str) -> Acknowledged:
    """What a writer's pod has printed so far."""
    return Acknowledged.of(lab.kubectl("logs", writer, check=False))


def lost(lab: Lab, image: str, acked: list[range]) -> int:
    """How many of these numbers are not in the topic."""
    program = f"""{CONNECT}
c = KafkaConsumer(**S, consumer_timeout_ms=15000)
c.assign([TopicPartition("orders", n) for n in range(6)])
c.seek_to_beginning()
found = {{int(record.value) for record in c}}
print("RESULT", sum(n not in found for numbers in {acked} for n in numbers))
"""
    return int(run_client(lab, "reads-all", image, program).split("RESULT ", 1)[1].split()[0])


def outage(lab: Lab, promised: str) -> list[range]:
    """End both writers, and hold the outage against what the plan said; returns all numbers that were acknowledged."""
    before, after = acknowledged(lab, "before"), acknowledged(lab, "after")
    lab.kubectl("delete", "pod", "before", "after")
    down = min(after.times.values()) - max(before.times.values())
    minutes = re.search(r"Kafka is down for at most (\d+) minutes", promised)
    assert minutes is not None
    acked = [range(RECORDS), before.numbers, after.numbers]
    print(
        f"{sum(map(len, acked))} acknowledged, down for {down:.1f} s of at most {minutes[1]} min, then for at most {after.longest_gap:.1f} s"
    )
    assert down <= 60 * int(minutes[1])
    return acked


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
    with theirs.reconciled(), pytest.raises(LabError, match="folder log already"):
        lab.spindle("takeover", "run", CLUSTER, "--yes", *here, timeout=600)
    assert lab.get("kafkacluster", CLUSTER) is None
    print(lab.spindle("takeover", "undo", CLUSTER, *here, timeout=600))
    with pytest.raises(LabError, match="still reports a pause that has ended"):
        lab.spindle("takeover", "run", CLUSTER, "--yes", *here)
    assert {claim["metadata"]["name"]: claim["spec"]["volumeName"] for claim in lab.list("pvc")} == before
    assert "strimzi.io/pause-reconciliation" not in lab.the("kafka", CLUSTER)["metadata"].get(
        "annotations", {}
    )
    machine.run(theirs.hosts[1], "rmdir", f"{path}/log")
    theirs.start()
    assert theirs.read() == RECORDS

    theirs.write_on("before")
    lab.until("the load runs", lambda: len(acknowledged(lab, "before").times) > 100, 120)
    with theirs.reconciled():
        print(lab.spindle("takeover", "run", CLUSTER, "--yes", *here, timeout=900))
    lab.until("status has the address", lambda: bool(lab.status().get("bootstrap")), 120)
    lab.apply(client_pod(lab, "after", spindle_image, f"FIRST = {_LATER}\n{CONNECT}{WRITE_ON}", {}))
    lab.until_ready(600)
    assert lab.status()["clusterId"] == CLUSTER_ID
    lab.until(
        "the quorum is dynamic",
        lambda: lab.the("configmap", f"{CLUSTER}-identity")["data"].get("quorum") == "dynamic",
        300,
    )
    lab.until_ready(600)
    lab.until("status.waiting is empty", lambda: not lab.waits(), 300)
    acked = outage(lab, page)
    volumes = {claim["spec"]["volumeName"] for claim in lab.list("pvc")}
    assert volumes == set(before.values())
    assert "DiskCleared" not in {event["reason"] for event in lab.list("events")}, "nothing is formatted"
    assert lost(lab, spindle_image, acked) == 0
    lab.spindle("verify", *here, "-c", CLUSTER, "--messages", "2000")

    objects = lab.spindle("takeover", "convert", CLUSTER, *here)
    print(objects)
    lab.kubectl("apply", "-f", "-", stdin=objects)
    lab.until("the topic is ready", lambda: is_ready(lab.the("kafkatopics.spindle.dev", "orders")), 120)
    lab.until("the user is ready", lambda: is_ready(lab.the("kafkausers.spindle.dev", "reader")), 120)
    assert lab.the("kafkatopics.spindle.dev", "orders")["status"]["partitions"] == 6
    assert lab.get("secret", f"{CLUSTER}.user.reader") is not None
    assert lost(lab, spindle_image, acked) == 0

    lab.kubectl("delete", "kafka", CLUSTER)
    with pytest.raises(LabError, match="KafkaCluster"):
        lab.spindle("takeover", "undo", CLUSTER, *here)
