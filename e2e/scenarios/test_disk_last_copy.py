"""The last copy of a partition was on a disk that was replaced ("no format over the last copy", docs/safety.md, rule 1): the refusal, and two ways to resolve it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e.scenarios.disk_slot import Slot, choose, conclude, dies, slots
from e2e.scenarios.lab import Lab
from e2e.scenarios.load import FLUSHED, Load, Topic, load
from e2e.scenarios.machine import Machine
from e2e.scenarios.stand import THREE, Stand, until_well
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e


def _lose(
    lab: Lab, machine: Machine, timeline: Timeline, running: Load, name: str
) -> tuple[Slot, float, int]:
    """Replace the only disk with the latest records, while the other replica is down. Returns the disk, the time of its failure, its serial number."""
    slot = choose(lab, running)
    other = next(r.broker for r in running.placement() if r.broker != slot.broker)
    follower = next(s for (broker, _), s in slots(lab).items() if broker == other).owner
    running.until_more(100)
    timeline.mark(f"{follower} is stopped")
    lab.spindle("stop", follower, "-n", lab.namespace)
    lab.until("it is stopped", lambda: lab.get("pod", follower) is None, 120)
    running.until_more(100)
    serial = machine.serial(slot.volume)
    died = dies(timeline, machine, slot)
    timeline.until("condition", f"^True.*{name}-0", "DataAtRisk", since=died)
    timeline.mark(f"{follower} is started")
    lab.spindle("start", follower, "-n", lab.namespace)
    # It cannot get in sync, because there is no leader.
    lab.until("Kafka runs", lambda: lab.the("pod", follower)["status"]["containerStatuses"][0]["ready"], 180)
    timeline.mark("the disk is replaced by a blank one")
    machine.new_disk(slot.volume, keep=True)
    return slot, died, serial


@contextmanager
def _replaced_last_copy(
    lab: Lab, machine: Machine, image: str, name: str
) -> Iterator[tuple[Load, Timeline, Slot, float, int]]:
    """One of two replicas is down while the other one's disk, the only one with the latest records, fails and is replaced.

    Yields:
        the load, the timeline, the disk, the time of its failure, and the serial number of the old disk.
    """
    with (
        Timeline(lab) as timeline,
        load(lab, image, Topic(name, 1, replicas=2, min_isr=1, config=FLUSHED)) as running,
    ):
        slot, died, serial = _lose(lab, machine, timeline, running, name)
        yield running, timeline, slot, died, serial


def test_the_old_disk_comes_back(stand: Stand, machine: Machine, spindle_image: str) -> None:
    lab = stand.get(THREE)
    with _replaced_last_copy(lab, machine, spindle_image, "kept") as (running, timeline, slot, died, serial):
        entry = lab.until_waiting("LastReplicaAtRisk", 180)
        print(entry)
        assert "kept-0" in entry["message"]
        assert slot.spec()["directoryId"] == slot.directory_id
        timeline.mark("the old disk is put back")
        machine.old_disk(slot.volume, serial)
        until_well(lab)
        running.until_all_writable()
        conclude(running, timeline, died)


def test_the_loss_is_accepted(stand: Stand, machine: Machine, spindle_image: str) -> None:
    lab = stand.get(THREE)
    with _replaced_last_copy(lab, machine, spindle_image, "given") as (running, timeline, slot, died, _):
        lab.until_waiting("LastReplicaAtRisk", 180)
        message = lab.condition("DataAtRisk")["message"]
        token = re.search(r"[A-Za-z0-9_-]{22}:[0-9a-f]{8,64}", message)
        assert token, message
        timeline.mark(f"acceptDataLoss: {token[0]}")
        slot.accept_loss(token[0])
        running.until_all_writable(240)
        slot.withdraw()
        until_well(lab)
        report = running.finish()
        timeline.add_kafka(running.lines())
        print(timeline.table(), report.summary(died))
        (line,) = report.partitions.values()
        # The follower's records from before its stop are still there; later ones could not be kept.
        assert min(line["lostNumbers"], default=10**9) >= 100


def test_an_acceptance_of_an_earlier_loss_gives_nothing_else_up(
    stand: Stand, machine: Machine, spindle_image: str
) -> None:
    lab = stand.get(THREE)
    with _replaced_last_copy(lab, machine, spindle_image, "twice") as (running, timeline, slot, _, _):
        lab.until_waiting("LastReplicaAtRisk", 180)
        token = re.search(r"[A-Za-z0-9_-]{22}:[0-9a-f]{8,64}", lab.condition("DataAtRisk")["message"])
        assert token
        slot.accept_loss(token[0])
        running.until_all_writable(240)
        lab.until("the new disk is in use", lambda: slot.state() == "Active", 300)
        again, died, serial = _lose(lab, machine, timeline, running, "twice")
        again.accept_loss(token[0])
        entry = lab.until_waiting("AcceptanceOutdated", 180)
        assert again.disk in entry["object"]
        assert again.spec()["directoryId"] == again.directory_id
        timeline.mark("the old disk is put back")
        again.withdraw()
        slot.withdraw()
        machine.old_disk(again.volume, serial)
        until_well(lab)
        running.until_all_writable()
        report = running.finish()
        timeline.add_kafka(running.lines())
        print(timeline.table(), report.summary(died))
