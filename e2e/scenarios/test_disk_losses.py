"""What an accepted loss includes and what it does not; and a topic whose name is too long for moves between log dirs."""

import re

import pytest

from e2e.scenarios.disk_slot import assert_spread, choose, conclude, dies, replace, slots, until_evacuated
from e2e.scenarios.lab import CLUSTER, Lab
from e2e.scenarios.load import FLUSHED, Topic, load
from e2e.scenarios.machine import Machine
from e2e.scenarios.stand import THREE, Kind, Stand, until_well
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e

_LONGEST = 249
_DISKS = Kind(3, disks=3)


def _token(lab: Lab, directory_id: str) -> str:
    """The token that accepts the loss of one disk, from the condition that names it."""
    message = lab.condition("DataAtRisk")["message"]
    found = re.search(rf"{re.escape(directory_id)}:[0-9a-f]{{8,64}}", message)
    assert found, message
    return found[0]


def test_one_disk_given_up_gives_up_no_other(stand: Stand, machine: Machine, spindle_image: str) -> None:
    """Two disks of a broker are bad, one permanently and one because of its cable: only the loss of the first is accepted."""
    lab = stand.get(_DISKS)
    with (
        Timeline(lab) as timeline,
        load(lab, spindle_image, Topic("pair", 18, replicas=1, min_isr=1, config=FLUSHED)) as running,
    ):
        dead = choose(lab, running)
        standing = {replica.name: (replica.broker, replica.disk) for replica in running.placement()}
        unplugged = next(
            slots(lab)[key]
            for key in sorted(set(standing.values()))
            if key[0] == dead.broker and key[1] != dead.disk
        )
        running.until_more(100)
        # Not pulled out: Kafka would go on serving its replicas, and they would be moved to other disks.
        unplugged_at = dies(timeline, machine, unplugged)
        timeline.until("verdict", "^Failed", unplugged.subject, since=unplugged_at)
        died = dies(timeline, machine, dead)
        timeline.until("verdict", "^Failed", dead.subject, since=died)
        lab.until(
            "its loss can be accepted", lambda: dead.directory_id in lab.condition("DataAtRisk")["message"]
        )
        token = _token(lab, dead.directory_id)
        timeline.mark(f"acceptDataLoss: {token}")
        dead.accept_loss(token)
        entry = lab.until_waiting("OtherDiskMayHoldReplica", 180)
        assert unplugged.disk in f"{entry['message']} {entry['unblockedBy']}"
        timeline.mark("the cable is plugged in again")
        machine.disk("heal", unplugged.volume)
        running.until_all_writable(400)
        assert unplugged.spec()["directoryId"] == unplugged.directory_id
        dead.withdraw()
        timeline.mark("a blank disk for the dead one")
        machine.new_disk(dead.volume)
        until_well(lab)
        report = running.finish()
        timeline.add_kafka(running.lines())
        print(timeline.table(), report.summary(died))
        given_up = {name for name, where in standing.items() if where == (dead.broker, dead.disk)}
        assert given_up >= set(report.lost)


def test_a_broker_with_one_disk_starts_again_once_its_loss_is_accepted(
    stand: Stand, machine: Machine, spindle_image: str
) -> None:
    lab = stand.get(Kind(3, disks=1))
    with (
        Timeline(lab) as timeline,
        load(lab, spindle_image, Topic("single", 6, replicas=1, min_isr=1, config=FLUSHED)) as running,
    ):
        slot = choose(lab, running)
        standing = {replica.name: replica.broker for replica in running.placement()}
        running.until_more(100)
        died = dies(timeline, machine, slot)
        timeline.until("condition", "^True.*single", "DataAtRisk", since=died)
        token = _token(lab, slot.directory_id)
        timeline.mark("a blank disk for the dead one")
        machine.new_disk(slot.volume)
        lab.until_waiting("LastReplicaAtRisk", 180)
        timeline.mark(f"acceptDataLoss: {token}")
        slot.accept_loss(token)
        running.until_all_writable(300)
        slot.withdraw()
        until_well(lab)
        report = running.finish()
        timeline.add_kafka(running.lines())
        print(timeline.table(), report.summary(died))
        assert {name for name, broker in standing.items() if broker == slot.broker} >= set(report.lost)


def test_the_longest_name_of_a_topic_is_evacuated_too(
    stand: Stand, machine: Machine, spindle_image: str
) -> None:
    lab = stand.get(THREE)
    longest = Topic("n" * _LONGEST, 12)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("short", 6), longest) as running:
        slot = choose(lab, running, lambda replicas: any(r.topic == longest.name for r in replicas))
        died = dies(timeline, machine, slot)
        until_evacuated(timeline, died, slot)
        replace(timeline, machine, slot)
        assert_spread(running)
        conclude(running, timeline, died)


def test_nobody_is_stopped_while_partitions_are_a_replica_short(
    stand: Stand, machine: Machine, spindle_image: str
) -> None:
    """Spindle itself dropped the dead disk's replicas; two of three are left, and two must be in sync."""
    lab = stand.get(Kind(3, policy={"moveBytesPerSecond": 1_000_000}))
    with (
        Timeline(lab) as timeline,
        load(lab, spindle_image, Topic("twoofthree", 12), fill=96) as running,
    ):
        slot = choose(lab, running)
        other = next(s for s in slots(lab).values() if s.broker != slot.broker)
        died = dies(timeline, machine, slot)
        lab.until(
            "replicas were dropped",
            lambda: '"shrunk":[[' in lab.the("configmap", f"{CLUSTER}-moves")["data"]["journal"],
            180,
        )
        asked = timeline.mark(f"{other.owner} should stop")
        lab.spindle("stop", other.owner, "-n", lab.namespace)
        lab.until("it is stopped", lambda: lab.get("pod", other.owner) is None, 600)
        timeline.mark("it is stopped")
        running.until_more(100)
        short = {name: isr for name, (_, isr, _) in running.partitions().items() if len(isr) < 2}
        assert not short, f"fewer than two are in sync: {short}"
        lab.spindle("start", other.owner, "-n", lab.namespace)
        replace(timeline, machine, slot)
        assert_spread(running)
        report = conclude(running, timeline, died)
        assert max(report.gaps(asked).values(), default=0) < 30, report.gaps(asked)
