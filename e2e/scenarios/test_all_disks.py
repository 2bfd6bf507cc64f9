"""``disks.all`` under load: nodes with different numbers and sizes of disks, a disk is added and filled by its size, one dies and is replaced, one is removed."""

import json
from dataclasses import replace as changed

import pytest

from e2e.cluster.disks import Disk, Rack
from e2e.cluster.layout import DISK_CLASS
from e2e.scenarios.disk_slot import (
    assert_spread,
    assert_used,
    conclude,
    dies,
    replace,
    slots,
    until_evacuated,
)
from e2e.scenarios.lab import CLUSTER, Lab, light, sample
from e2e.scenarios.load import Load, Topic, load
from e2e.scenarios.machine import Machine
from e2e.scenarios.stand import until_well
from e2e.scenarios.timeline import Timeline
from spindle.api import names

pytestmark = pytest.mark.e2e

GIB = 1 << 30
# Node → the sizes of its disks in GiB. The others have none, so that they get no broker.
NODES = {1: (1, 1), 2: (1, 2, 1), 3: (2, 2), 4: (), 5: (), 6: ()}


def put(lab: Lab, machine: Machine, index: int, number: int, gib: int) -> Disk:
    """Put a blank disk of this size into a slot, with a new PersistentVolume."""
    node = machine.testbed.node(index)
    rack = Rack(node.layout)
    take(lab, machine, index, number)
    rack.place(changed(rack.get(f"disk{number}"), size=gib * GIB))
    disk = machine.testbed.disk_swap(index, number)
    lab.apply(disk.persistent_volume(node.layout))
    return disk


def take(lab: Lab, machine: Machine, index: int, number: int) -> None:
    """Remove the PersistentVolume of a disk."""
    volume = Rack(machine.testbed.node(index).layout).get(f"disk{number}").volume
    lab.kubectl("delete", "pv", volume, "--ignore-not-found")


def disks_by_node(lab: Lab) -> dict[str, int]:
    """Node → number of its broker's disks that are in use."""
    return {
        b["spec"]["node"]: sum(d.get("state") == "Active" for d in b["status"].get("disks", ()))
        for b in lab.list("kafkabrokers")
    }


def forget_a_volume(lab: Lab) -> None:
    """The volume of a new disk is gone for good before the disk has its claim; that moment is too short to hit, so its record is written here."""
    broker = lab.list("kafkabrokers")[0]
    name, disks = broker["metadata"]["name"], broker["spec"]["disks"]
    claim = names.claim_name(CLUSTER, broker["spec"]["id"], "disk9")
    new = {
        "name": "disk9",
        "claim": claim,
        "directoryId": "Jm5Xk0aMTq2sVYbE7pWc1A",
        "pv": "gone",
        "mode": "Absent",
        "added": True,
    }
    body = json.dumps({"spec": {"disks": [*disks, new]}})
    lab.kubectl(
        "patch", "kafkabroker", name, "--type=merge", f"--field-manager={names.FIELD_MANAGER}", "-p", body
    )
    missed = lab.until("its volume is missed", lambda: "VolumeUnavailable" in lab.waits(), 60)
    assert "spindle volume forget gone" in lab.waits()["VolumeUnavailable"]["unblockedBy"]
    lab.spindle("volume", "forget", "gone", "--broker", name, "-n", lab.namespace)
    gone = lab.until(
        "the disk is forgotten", lambda: lab.the("kafkabroker", name)["spec"]["disks"] == disks, 60
    )
    print(f"missed after {missed:.0f} s, forgotten after {gone:.0f} s")
    until_well(lab, 60)


def bytes_on(running: Load, broker: int) -> dict[str, int]:
    """Disk of a broker → bytes of the load."""
    found: dict[str, int] = {}
    for replica in running.placement():
        if replica.broker == broker:
            found[replica.disk] = found.get(replica.disk, 0) + replica.bytes
    return found


def test_all_disks_of_the_nodes(lab: Lab, machine: Machine, spindle_image: str) -> None:
    for index, gib in NODES.items():
        for number in range(3):
            if number < len(gib):
                put(lab, machine, index, number, gib[number])
            else:
                take(lab, machine, index, number)
    pool = light(3) | {"disks": {"all": True, "storageClass": DISK_CLASS}}
    lab.apply(
        sample(
            brokerPools=[pool],
            disks={"automaticShare": 100, "hungAfterSeconds": 30},
            config={"log.segment.bytes": "8388608", "log.index.size.max.bytes": "1048576"},
        )
    )
    print(f"ready after {lab.until_ready(600):.0f} s")
    assert disks_by_node(lab) == {"node1": 2, "node2": 3, "node3": 2}
    assert not [e for e in lab.list("events") if e["reason"] == "DisksAdded"], (
        "a broker started without some of its disks"
    )
    for claim in lab.list("pvc", "spindle.dev/role=broker"):
        volume = lab.the("pv", claim["spec"]["volumeName"])
        assert claim["spec"]["resources"]["requests"] == volume["spec"]["capacity"]

    forget_a_volume(lab)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("every", 24), fill=240) as running:
        began = timeline.mark("a disk of 2 GiB is added to node1, whose others have 1 each")
        put(lab, machine, 1, 2, 2)
        added = lab.until("it is used", lambda: disks_by_node(lab)["node1"] == 3, 600) + until_well(lab, 600)
        found = slots(lab)
        on_first = {s.volume: s for s in found.values() if s.node() == "node1"}
        new = on_first["node1-disk2"]
        assert_used(new)
        sizes = {s.disk: int(s.status()["capacityBytes"]) for s in on_first.values()}
        there = bytes_on(running, new.broker)
        print(f"added after {added:.0f} s; bytes {there} on disks of {sizes}")
        smallest = on_first["node1-disk0"].disk
        share = there[new.disk] / sum(there.values())
        assert 0.35 < share < 0.65, "the new disk is half of the broker's space"
        assert there[new.disk] > there.get(smallest, 0)
        running.until_all_writable()

        dead = next(s for s in found.values() if s.volume == "node2-disk1")
        died = dies(timeline, machine, dead)
        until_evacuated(timeline, died, dead)
        assert len([s for s in slots(lab).values() if s.broker == dead.broker]) == 3, (
            "a dead disk was forgotten"
        )
        replaced = replace(timeline, machine, dead)
        print(f"replaced after {replaced:.0f} s")

        gone = next(s for s in slots(lab).values() if s.volume == "node3-disk1")
        timeline.mark(f"{gone.subject} is to be removed")
        gone.ask_for("Drained")
        lab.until("it is drained", lambda: gone.state() == "Drained", 300)
        lab.kubectl("delete", "pvc", f"data-{gone.disk}-{CLUSTER}-{gone.broker}", "--wait=false")
        removed = lab.until("it is removed", lambda: not gone.spec(), 300)
        gone.withdraw()
        removed += until_well(lab, 300)
        print(f"removed after {removed:.0f} s")
        assert disks_by_node(lab) == {"node1": 3, "node2": 3, "node3": 1}
        assert lab.the("pv", gone.volume)["status"]["phase"] == "Released"
        assert_spread(running)
        report = conclude(running, timeline, began)
    print(f"longest gaps {report.gaps(began)}")
