"""Disks added and removed by ``kubectl apply`` under load: provisioned first, backfilled by planned moves, emptied before their removal, and kept."""

from typing import Any

import pytest

from e2e.scenarios.disk_slot import assert_spread, assert_used, conclude, slots
from e2e.scenarios.lab import CLUSTER, Lab
from e2e.scenarios.load import Load, Topic, load
from e2e.scenarios.stand import SHOWN, Kind, Stand, until_well
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e

TWO = Kind(3, disks=2)
EVERY = Kind(3, disks=3)  # all that the testbed's nodes have
SMALL = Kind(
    3,
    size="1Gi",
    config={"log.segment.bytes": "8388608", "log.index.size.max.bytes": "1048576"},
)


def want(lab: Lab, kind: Kind, count: int) -> None:
    """Request this number of disks, as a user does: the whole manifest with another number."""
    manifest = kind.manifest()
    manifest["spec"]["brokerPools"][0]["disks"]["count"] = count
    lab.apply(manifest)


def has(lab: Lab, count: int) -> bool:
    """Whether every broker has exactly this many disks, and all are in use."""
    states = [[d.get("state") for d in b["status"].get("disks", ())] for b in lab.list("kafkabrokers")]
    return all(found == ["Active"] * count for found in states) and len(slots_of_spec(lab)) == 3 * count


def slots_of_spec(lab: Lab) -> list[dict[str, Any]]:
    """Entries of all brokers' disks."""
    return [disk for broker in lab.list("kafkabrokers") for disk in broker["spec"]["disks"]]


def until_has(lab: Lab, count: int, seconds: float = 600) -> float:
    """Wait until every broker has this many disks and nothing is in progress."""
    took = lab.until(f"{count} disks on each broker", lambda: has(lab, count), seconds)
    return took + until_well(lab, seconds)


def claims_of(lab: Lab) -> set[str]:
    """Names of the brokers' claims."""
    return {c["metadata"]["name"] for c in lab.list("pvc", "spindle.dev/role=broker")}


def uids(lab: Lab) -> set[str]:
    """UIDs of the brokers' pods."""
    return {pod["metadata"]["uid"] for pod in lab.list("pods", "spindle.dev/role=broker")}


def used(load: Load) -> set[tuple[int, str]]:
    """Disks with replicas of the load."""
    return {(replica.broker, replica.disk) for replica in load.placement()}


@pytest.mark.spends
def test_a_disk_is_added_and_removed(running: Lab, stand: Stand, spindle_image: str) -> None:
    lab = running
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("changed", 12), fill=64) as writing:
        before = claims_of(lab)
        began = timeline.mark("a third disk for each broker")
        want(lab, SHOWN, 3)
        added = until_has(lab, 3)
        timeline.mark("each broker has three disks")
        assert_spread(writing)
        third = [slot for slot in slots(lab).values() if slot.disk == "disk2"]
        assert_used(*third)
        assert {
            slot.lab.the("pvc", f"data-disk2-{CLUSTER}-{slot.broker}")["status"]["phase"] for slot in third
        } == {"Bound"}
        writing.until_all_writable()

        timeline.mark("two disks again")
        want(lab, SHOWN, 2)
        removed = until_has(lab, 2)
        timeline.mark("each broker has two disks")
        assert claims_of(lab) == before
        for slot in third:
            volume = lab.the("pv", slot.volume)
            assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
            assert volume["status"]["phase"] == "Released"
            assert slot.retired()
        assert_spread(writing)
        writing.until_all_writable()
        report = conclude(writing, timeline, began)
    print(f"added after {added:.0f} s, removed after {removed:.0f} s, longest gaps {report.gaps(began)}")
    stand.close()  # its third disks are not blank any more


def test_minds_are_changed_in_the_middle(stand: Stand, spindle_image: str) -> None:
    lab = stand.get(EVERY)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("minds", 12), fill=256) as running:
        known = {key: slot.directory_id for key, slot in slots(lab).items()}
        pods = uids(lab)
        began = timeline.mark("one disk less")
        want(lab, EVERY, 2)
        timeline.until("disk", "^Draining", since=began, seconds=60)
        timeline.mark("no, all three")
        want(lab, EVERY, 3)
        until_has(lab, 3)
        now = slots(lab)
        # A disk that was still in the broker is unchanged; one that was removed is used again, or was released and is reported.
        kept = [key for key, slot in now.items() if slot.directory_id == known.get(key)]
        print(f"{len(kept)} of {len(known)} disks are the same, {len(uids(lab) & pods)} of 3 pods")
        assert len(kept) == len(known)

        pods = uids(lab)
        timeline.mark("a fourth, for which no node has space")
        want(lab, EVERY, 4)
        wait = lab.until_waiting("InsufficientVolumesOnNode")
        assert "set disks.count of pool main back to 3" in wait["unblockedBy"]
        want(lab, EVERY, 3)
        until_has(lab, 3)
        assert uids(lab) == pods, "a broker was restarted for a disk that it did not get"
        assert_spread(running)
        conclude(running, timeline, began)


def test_a_disk_stays_when_the_rest_has_no_room(stand: Stand, spindle_image: str) -> None:
    lab = stand.get(SMALL)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("tight", 12), fill=1000) as running:
        pods = uids(lab)
        began = timeline.mark("one disk instead of two")
        want(lab, SMALL, 1)
        wait = lab.until_waiting("InsufficientSpaceForDiskRemoval")
        print(wait["message"], wait["unblockedBy"])
        assert "GB) fit nowhere else" in wait["message"]
        assert all(slot.spec()["mode"] == "Active" for slot in slots(lab).values())
        want(lab, SMALL, 2)
        lab.until("nothing is held back", lambda: "InsufficientSpaceForDiskRemoval" not in lab.waits(), 60)
        assert uids(lab) == pods
        assert len(used(running)) == 6
        conclude(running, timeline, began)


@pytest.mark.spends
def test_a_size_that_local_volumes_cannot_have_is_told(stand: Stand, spindle_image: str) -> None:
    lab = stand.get(TWO)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("sized", 3)) as running:
        began = timeline.mark("a larger size")
        manifest = TWO.manifest()
        manifest["spec"]["brokerPools"][0]["disks"]["size"] = "1000Ti"
        lab.apply(manifest)
        wait = lab.until_waiting("ExpansionNotSupported")
        assert "does not allow volume expansion" in wait["message"]
        running.until_more()
        conclude(running, timeline, began)
    stand.close()  # a size cannot be decreased
