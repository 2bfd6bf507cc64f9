"""A disk hangs: Kafka itself does not notice, and its partitions do not accept writes. Spindle must stop the broker."""

import pytest

from e2e.scenarios.disk_slot import Slot, assert_spread, choose, conclude, dies, replace, until_used_again
from e2e.scenarios.lab import CLUSTER, Lab, pause
from e2e.scenarios.load import Topic, load
from e2e.scenarios.machine import Machine
from e2e.scenarios.stand import SIX, THREE, Stand, until_well
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e


def _processes(lab: Lab, machine: Machine, slot: Slot) -> int:
    """Number of Kafka processes of a broker on its node; one that waits for a disk cannot be killed and still counts."""
    node = lab.the("kafkabroker", slot.owner)["spec"]["node"]
    script = "grep -l kafka.Kafka /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3 | while read p; do "
    script += f"tr '\\0' '\\n' < /proc/$p/environ 2>/dev/null | grep -qx HOSTNAME={slot.owner} && echo $p; "
    return int(machine.run(node, "sh", "-c", script + "done | sort -u | wc -l"))


def test_without_spindle_nobody_can_write_until_it_answers(
    stand: Stand, machine: Machine, spindle_image: str
) -> None:
    lab = stand.get(THREE)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("baseline", 12)) as running:
        slot = choose(lab, running)
        lab.patch("kafkacluster", CLUSTER, {"spec": {"paused": True}})
        froze = dies(timeline, machine, slot, "freeze")
        pause(60)
        assert running.silent()
        timeline.mark("thawed")
        machine.disk("heal", slot.volume)
        running.until_all_writable()
        report = running.finish()
        lab.patch("kafkacluster", CLUSTER, {"spec": {"paused": False}})
        until_well(lab)
    print(f"without Spindle no acknowledgements for {report.silent_until(froze)}; {report.summary(froze)}")
    assert not report.lost


@pytest.mark.parametrize("how", ["freeze", "hang"])
def test_its_broker_is_fenced_and_comes_back_when_it_answers(
    stand: Stand, machine: Machine, spindle_image: str, how: str
) -> None:
    lab = stand.get(THREE)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic(f"fenced{how}", 12)) as running:
        slot = choose(lab, running)
        froze = dies(timeline, machine, slot, how)
        timeline.until("verdict", "^Failed IOHung", slot.subject, since=froze)
        timeline.until("pod", "being deleted", slot.owner, since=froze)
        lab.until("all partitions accept writes", lambda: not running.silent(), 90)
        assert _processes(lab, machine, slot) <= 1
        timeline.mark("it answers again")
        machine.disk("heal", slot.volume)
        until_used_again(timeline, machine, slot, froze)
        timeline.mark("well again")
        assert _processes(lab, machine, slot) == 1
        assert_spread(running)
        report = conclude(running, timeline, froze)
    assert max(report.silent_until(froze).values(), default=0) < 60


def test_past_the_grace_time_its_broker_counts_as_lost(
    stand: Stand, machine: Machine, spindle_image: str
) -> None:
    lab = stand.get(SIX)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("lost", 12)) as running:
        slot = choose(lab, running)
        froze = dies(timeline, machine, slot, "freeze")
        timeline.until("pod", "being deleted", slot.owner, since=froze)

        def moved_away() -> bool:
            assigned = [replicas for _, _, replicas in running.partitions().values()]
            return not any(slot.broker in replicas for replicas in assigned) and not running.silent()

        lab.until("its replicas are elsewhere", moved_away, 240)
        timeline.mark("thawed")
        machine.disk("heal", slot.volume)
        # Its replicas were rebuilt elsewhere. If that was complete before it answered, it is retired like a dead disk.
        until_used_again(timeline, machine, slot, froze)
        assert _processes(lab, machine, slot) == 1
        conclude(running, timeline, froze)


def test_a_hung_disk_that_is_replaced(stand: Stand, machine: Machine, spindle_image: str) -> None:
    lab = stand.get(THREE)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("pulled", 12)) as running:
        slot = choose(lab, running)
        froze = dies(timeline, machine, slot, "hang")
        timeline.until("pod", "being deleted", slot.owner, since=froze)
        timeline.mark("its cable is pulled: it answers with errors from now on")
        machine.disk("error", slot.volume)
        timeline.until("pod", "Ready", slot.owner, since=froze + 30, seconds=240)
        machine.disk("heal", slot.volume)
        replace(timeline, machine, slot)
        assert_spread(running)
        conclude(running, timeline, froze)
