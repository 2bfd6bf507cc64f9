"""Volumes of a CSI driver, which the agents see below the kubelet's folder of pods: dead, hung, expanded, and moved to another node."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from e2e.cluster.csi import CSI_CLASS, CsiDriver, csi_driver
from e2e.cluster.target import Target
from e2e.cluster.testbed import Testbed
from e2e.scenarios.disk_slot import Slot, assert_spread, choose, conclude, until_evacuated
from e2e.scenarios.install import namespace, upgrade
from e2e.scenarios.lab import CLUSTER, Lab, light, sample
from e2e.scenarios.load import Topic, load
from e2e.scenarios.machine import Machine
from e2e.scenarios.stand import Stand, until_well
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e

_SIZE: Final = "1Gi"
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"


@pytest.fixture(scope="module")
def driver(installed: Target, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CsiDriver]:
    """The CSI driver, and agents that see its volumes."""
    if not isinstance(installed, Testbed):
        pytest.skip("needs the testbed")
    with csi_driver(installed, tmp_path_factory.mktemp("csi")) as driver:
        upgrade(installed, "--set=agent.kubeletPods=true")
        yield driver
        upgrade(installed)


@pytest.fixture(scope="module")
def lab(driver: CsiDriver, stands: Stand) -> Iterator[Lab]:
    """A cluster on volumes of the driver; controllers stay on local ones."""
    stands.close()
    with namespace(driver.testbed, "csi") as lab:
        pool = light(3)
        pool["disks"] = {"count": 2, "size": _SIZE, "storageClass": CSI_CLASS}
        lab.apply(sample(brokerPools=[pool], disks={"automaticShare": 100, "hungAfterSeconds": 20}))
        print(f"ready after {lab.until_ready(600):.0f} s")
        yield lab


def disks(lab: Lab) -> list[dict[str, Any]]:
    """The entries of all disks in the brokers' statuses."""
    return [disk for broker in lab.list("kafkabrokers") for disk in broker["status"]["disks"]]


def until_watched(lab: Lab) -> None:
    """Wait until agents report all disks."""
    lab.until("agents look at all disks", lambda: all(disk.get("watched") for disk in disks(lab)), 120)


def handle(lab: Lab, slot: Slot) -> str:
    """The driver's name of a disk's present volume."""
    claim = lab.the("pvc", str(slot.spec()["claim"]))
    return str(lab.the("pv", claim["spec"]["volumeName"])["spec"]["csi"]["volumeHandle"])


def mounted(lab: Lab, slot: Slot) -> Path:
    """Where the kubelet has mounted a disk's volume, on its node."""
    pod = lab.the("pod", slot.owner)["metadata"]["uid"]
    return Path(f"/var/lib/kubelet/pods/{pod}/volumes/kubernetes.io~csi/{slot.status()['pv']}/mount")


def replaced(lab: Lab, timeline: Timeline, slot: Slot, since: float) -> None:
    """A user deletes the claim of an evacuated disk: a new claim gets another volume from the class, which is filled."""
    before = slot.status()["pv"]
    wait = lab.until_waiting("ReplacementNeeded", 120)
    claim = slot.spec()["claim"]
    assert f"delete pvc {claim}." in wait["unblockedBy"]
    assert slot.retired()
    assert slot.status()["watched"] is False
    deleted = timeline.mark("a user deletes its claim")
    lab.kubectl("delete", "pvc", claim, "--wait=false")
    timeline.until("event", "^BackfillStarted", slot.owner, since=deleted, seconds=240)
    until_well(lab)
    until_watched(lab)
    assert slot.status()["pv"] != before
    assert slot.spec()["directoryId"] != slot.directory_id
    assert not {"DiskRecovered", "DiskRemovalCancelled"} & reasons(timeline, slot, since)
    lab.until("the volume before is deleted", lambda: lab.get("pv", before) is None, 60)


def reasons(timeline: Timeline, slot: Slot, since: float) -> set[str]:
    """Reasons of the events of a slot's broker."""
    told = [f for f in timeline.facts(since) if f.kind == "event" and slot.owner in f.subject]
    return {fact.text.partition(":")[0] for fact in told}


def test_a_dead_volume_is_replaced_by_a_new_claim(lab: Lab, driver: CsiDriver, spindle_image: str) -> None:
    until_watched(lab)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("dead", 12)) as running:
        slot = choose(lab, running)
        volume = handle(lab, slot)
        died = timeline.mark(f"{slot.subject} answers with errors")
        driver.order(volume, "error")
        timeline.until("verdict", "^Failed ProbeError", slot.subject, since=died, seconds=60)
        until_evacuated(timeline, died, slot)
        running.until_all_writable()
        replaced(lab, timeline, slot, died)
        assert_spread(running)
        conclude(running, timeline, died)


def test_a_volume_that_a_mount_repairs_is_not_used_again(
    lab: Lab, machine: Machine, spindle_image: str
) -> None:
    """Its file system has shut down; the volume below is well, so that any further mount would succeed."""
    until_watched(lab)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("repaired", 12)) as running:
        slot = choose(lab, running)
        died = timeline.mark(f"the file system of {slot.subject} shuts down")
        machine.run(slot.node(), "xfs_io", "-x", "-c", "shutdown", str(mounted(lab, slot)))
        timeline.until("verdict", "^Failed ProbeError", slot.subject, since=died, seconds=60)
        until_evacuated(timeline, died, slot)
        replaced(lab, timeline, slot, died)
        assert_spread(running)
        conclude(running, timeline, died)


def test_a_hung_volume_stops_its_broker_and_is_replaced(
    lab: Lab, driver: CsiDriver, spindle_image: str
) -> None:
    until_watched(lab)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("hung", 12)) as running:
        slot = choose(lab, running)
        volume = handle(lab, slot)
        hung = timeline.mark(f"{slot.subject} hangs")
        driver.order(volume, "hang")
        try:
            timeline.until("verdict", "^Failed IOHung", slot.subject, since=hung, seconds=120)
            timeline.until("pod", "being deleted", slot.owner, since=hung, seconds=240)
            lab.until("all partitions accept writes", lambda: not running.silent(), 120)
        finally:
            timeline.mark("it answers again")
            driver.order(volume, "well")
        # Its broker starts without it. It is not mounted then, so nobody sees that it answers: it is evacuated.
        until_evacuated(timeline, hung, slot)
        replaced(lab, timeline, slot, hung)
        assert_spread(running)
        conclude(running, timeline, hung)


def test_a_volume_grows_while_kafka_runs(lab: Lab, spindle_image: str) -> None:
    until_watched(lab)
    pods = {pod["metadata"]["uid"] for pod in lab.list("pods", "spindle.dev/role=broker")}
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("grows", 6)) as running:
        pool = lab.cluster()["spec"]["brokerPools"][0]
        pool["disks"]["size"] = "2Gi"
        began = timeline.mark("disks.size: 2Gi")
        lab.patch("kafkacluster", CLUSTER, {"spec": {"brokerPools": [pool]}})

        def grown() -> bool:
            seen = [
                disk for broker in lab.list("kafkabrokers") for disk in broker["status"]["observed"]["disks"]
            ]
            return all(disk["capacityBytes"] > 1.8 * 2**30 for disk in seen)

        print(f"grown after {lab.until('agents see the larger file systems', grown, 240):.0f} s")
        until_well(lab)
        assert {pod["metadata"]["uid"] for pod in lab.list("pods", "spindle.dev/role=broker")} == pods
        conclude(running, timeline, began)


def test_a_node_goes_and_its_broker_comes_back_on_another_with_its_volumes(
    lab: Lab, driver: CsiDriver, machine: Machine, spindle_image: str
) -> None:
    until_watched(lab)
    controllers = {pod["spec"]["nodeName"] for pod in lab.list("pods", "spindle.dev/role=controller")}
    brokers = {b["metadata"]["name"]: b["spec"]["node"] for b in lab.list("kafkabrokers")}
    # A controller there would stay away: its volume is local.
    name, node = max(brokers.items(), key=lambda each: (each[1] not in controllers, each[0]))
    held = volumes(lab, name)
    with (
        Timeline(lab) as timeline,
        load(lab, spindle_image, Topic("moves", 12), away_from=[node]) as running,
    ):
        gone = timeline.mark(f"{node}, with {name}, loses power for good")
        machine.node_off(node)
        try:
            lab.until_waiting("NodeNotReady", 120)
            timeline.mark("a user declares it lost")
            lab.kubectl("taint", "node", node, f"{OUT_OF_SERVICE}=off:NoExecute")
            lab.until(
                "its broker is ready on another node",
                lambda: lab.the("kafkabroker", name)["spec"]["node"] != node and brokers_ready(lab),
                300,
            )
            until_watched(lab)
            assert volumes(lab, name) == held, "the same volumes, and the same log dirs"
            assert "NodeLost" not in lab.waits()
        finally:
            timeline.mark(f"{node} is back")
            machine.node_on(node)
            driver.start_on(driver.testbed.node(int(node.removeprefix("node"))))
            lab.kubectl("taint", "node", node, f"{OUT_OF_SERVICE}-", check=False)
        until_well(lab)
        assert_spread(running)
        conclude(running, timeline, gone)


def volumes(lab: Lab, broker: str) -> dict[str, tuple[str, str]]:
    """Disk → its volume and Kafka's id of its log dir."""
    disks = lab.the("kafkabroker", broker)["spec"]["disks"]
    return {disk["name"]: (disk["pv"], disk["directoryId"]) for disk in disks}


def brokers_ready(lab: Lab) -> bool:
    """Whether all brokers are ready and nothing else is to be done for them."""
    brokers = lab.status()["brokers"]
    return bool(brokers["ready"] == brokers["total"])


def test_without_the_value_the_status_says_why_nobody_looks(installed: Target, lab: Lab) -> None:
    until_watched(lab)
    upgrade(installed, "--set=agent.kubeletPods=false")
    try:

        def unwatched() -> bool:
            return all(
                disk.get("watched") is False and "agent.kubeletPods=true" in disk["watchedMessage"]
                for disk in disks(lab)
            )

        lab.until("the status says why", unwatched, 180)
    finally:
        upgrade(installed, "--set=agent.kubeletPods=true")
    until_watched(lab)
