"""Disks with other faults than a plain failure: read-only, full, back again, missing, exchanged, or flapping."""

import pytest

from e2e.scenarios.disk_slot import assert_spread, choose, conclude, dies, replace, slots, until_evacuated
from e2e.scenarios.lab import pause
from e2e.scenarios.load import Topic, load
from e2e.scenarios.machine import Machine
from e2e.scenarios.stand import THREE, Kind, Stand, is_well, until_well
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e

EXT4 = Kind(3, "ext4")


def test_a_read_only_disk_is_evacuated(stand: Stand, machine: Machine, spindle_image: str) -> None:
    lab = stand.get(EXT4)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("readonly", 12)) as running:
        slot = choose(lab, running)
        died = dies(timeline, machine, slot, "read_only")
        timeline.until("verdict", "^Failed ReadOnly", slot.subject, since=died)
        until_evacuated(timeline, died, slot)
        replace(timeline, machine, slot)
        assert_spread(running)
        conclude(running, timeline, died)


def test_a_full_disk_is_used_again_when_it_has_room(
    stand: Stand, machine: Machine, spindle_image: str
) -> None:
    lab = stand.get(THREE)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("full", 12), rate=20) as running:
        slot = choose(lab, running)
        filled = timeline.mark(f"{slot.subject} is filled completely")
        machine.disk("fill", slot.volume, 100)
        timeline.until("condition", "^False", "DisksHealthy", since=filled, seconds=120)
        timeline.mark("there is space again")
        machine.disk("heal", slot.volume)
        until_well(lab)
        timeline.mark("well again")
        assert slot.spec()["directoryId"] == slot.directory_id or slot.retired()
        assert_spread(running)
        conclude(running, timeline, filled)


def test_an_evacuated_disk_that_is_put_back_is_not_used(
    stand: Stand, machine: Machine, spindle_image: str
) -> None:
    lab = stand.get(THREE)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("putback", 12)) as running:
        slot = choose(lab, running)
        serial = machine.serial(slot.volume)
        died = dies(timeline, machine, slot)
        until_evacuated(timeline, died, slot)
        timeline.mark("the same disk is put back")
        machine.old_disk(slot.volume, serial)
        # The disk is unchanged; only the operator knows that its directory id is retired.
        assert slot.subject in lab.until_waiting("RetiredDiskReinserted", 120)["object"]
        pause(30)
        assert slot.spec()["mode"] != "Active"
        assert not [r for r in running.placement() if (r.broker, r.disk) == (slot.broker, slot.disk)]
        replace(timeline, machine, slot)
        assert_spread(running)
        conclude(running, timeline, died)


@pytest.mark.parametrize("restart", [False, True], ids=["alive", "restarted"])
def test_a_disk_that_is_not_mounted_gets_no_data(
    stand: Stand, machine: Machine, spindle_image: str, restart: bool
) -> None:
    lab = stand.get(THREE)
    topic = "unmounted" + "again" * restart
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic(topic, 12)) as running:
        slot = choose(lab, running)
        node, path = lab.the("kafkabroker", slot.owner)["spec"]["node"], slot.status()["path"]
        pulled = dies(timeline, machine, slot, "pull")
        if restart:
            lab.kubectl("delete", "pod", slot.owner, "--wait=false")
        timeline.until("verdict", "^Missing", slot.subject, since=pulled)
        timeline.until("condition", "^False", "DisksHealthy", since=pulled)
        pause(25)  # after a minute it counts as dead
        running.until_more()
        assert machine.run(node, "find", path) == f"{path}\n", "something was written below the mount point"
        timeline.mark("mounted again")
        machine.disk("put", slot.volume)
        lab.until("it is in use again, or empty", lambda: is_well(lab) or slot.state() == "Evacuated", 400)
        if not is_well(
            lab
        ):  # too late on a slow machine: it is empty already, and only another disk can be used
            replace(timeline, machine, slot)
        timeline.mark("well again")
        assert machine.run(node, "mountpoint", path)
        assert_spread(running)
        conclude(running, timeline, pulled)


def test_a_disk_that_was_exchanged_under_kafka(stand: Stand, machine: Machine, spindle_image: str) -> None:
    lab = stand.get(THREE)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("exchanged", 12)) as running:
        slot = choose(lab, running)
        swapped = timeline.mark(f"{slot.subject} is exchanged for a blank disk while Kafka uses the old one")
        machine.new_disk(slot.volume, keep=True)
        timeline.until("verdict", "^Swapped", slot.subject, since=swapped)
        timeline.until("condition", "^False", "DisksHealthy", since=swapped)
        until_well(lab)
        timeline.mark("well again")
        assert_spread(running)
        conclude(running, timeline, swapped)


def test_a_disk_that_flaps_ends_in_one_verdict(stand: Stand, machine: Machine, spindle_image: str) -> None:
    lab = stand.get(THREE)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("flapping", 12)) as running:
        slot = choose(lab, running)
        began = timeline.mark(f"{slot.subject} hangs for 13 s, answers for 13 s, six times")
        for _ in range(6):
            machine.disk("hang", slot.volume)
            pause(13)
            machine.disk("heal", slot.volume)
            pause(13)
        timeline.mark("it answers permanently")
        verdicts = [f for f in timeline.facts(began) if f.kind == "verdict" and f.subject == slot.subject]
        assert len([fact for fact in verdicts if fact.text.startswith("Failed")]) <= 4, verdicts
        lab.until("it is empty, or in use", lambda: slot.state() in {"Evacuated", "Active"}, 300)
        replace(timeline, machine, slot)
        assert_spread(running)
        conclude(running, timeline, began)


def test_a_node_that_reboots_between_clearance_and_format(
    stand: Stand, machine: Machine, spindle_image: str
) -> None:
    lab = stand.get(THREE)
    first = next(iter(slots(lab).values())).node()
    with (
        Timeline(lab) as timeline,
        load(lab, spindle_image, Topic("reboot", 12), away_from=[first]) as running,
    ):
        slot = next(s for s in slots(lab).values() if s.node() == first)
        died = dies(timeline, machine, slot)
        until_evacuated(timeline, died, slot)
        timeline.mark("swapped for a blank one")
        machine.new_disk(slot.volume, keep=True)
        timeline.until("event", f"^DiskCleared: {slot.owner}", since=died, seconds=180)
        timeline.mark("its node loses power")
        machine.node_off(first)
        pause(20)
        timeline.mark("power is back")
        machine.node_on(first)
        until_well(lab)
        timeline.mark("well again")
        assert slot.retired()
        assert slot.spec()["directoryId"] != slot.directory_id
        assert_spread(running)
        conclude(running, timeline, died)
