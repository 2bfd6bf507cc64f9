"""Other files fill a disk: gradually on a disk with a ballast file, and completely at once."""

import pytest

from e2e.scenarios.disk_slot import Slot, choose, conclude
from e2e.scenarios.load import Topic, load
from e2e.scenarios.machine import Machine
from e2e.scenarios.stand import Stand, until_well
from e2e.scenarios.test_fill_one import small
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e

SIZE = 64 << 20
BALLASTED = small(3, ballast="64Mi")


def ballast_on(machine: Machine, slot: Slot) -> int:
    """Bytes of the ballast file on a disk; 0 for none."""
    status = slot.status()
    command = f"stat --format=%s {status['path']}/.spindle-ballast 2>/dev/null || echo 0"
    return int(machine.run(status["node"], "sh", "-c", command).strip())


def test_a_neighbour_fills_the_disk_to_the_brim(stand: Stand, machine: Machine, spindle_image: str) -> None:
    lab = stand.get(BALLASTED)
    with (
        Timeline(lab) as timeline,
        load(lab, spindle_image, Topic("brim", partitions=6), fill=120) as running,
    ):
        slot = choose(lab, running)
        lab.until("the ballast file exists", lambda: ballast_on(machine, slot) == SIZE)
        began = timeline.mark(f"{slot.subject} is filled up to 92 %")
        machine.disk("fill", slot.volume, 92)
        timeline.until("usage", "^(RejectMoves|DropReplicas)", slot.subject, since=began, seconds=90)
        brim = timeline.mark("filled completely")
        machine.disk("fill", slot.volume, 100)
        lab.until("the ballast file is deleted", lambda: ballast_on(machine, slot) == 0, 30)
        # Together with the other replicas, whether or not Kafka took the dir offline.
        running.until_all_writable(180)
        timeline.mark("filled again, beyond the space of the ballast file")
        machine.disk("fill", slot.volume, 100)
        running.until_more(300, 120)
        freed = timeline.mark("space is freed")
        machine.disk("fill", slot.volume, 1)
        until_well(lab, 600)
        lab.until("the ballast file exists again", lambda: ballast_on(machine, slot) == SIZE)
        running.until_all_writable(120)
        print(f"well again {timeline.mark('well again') - freed:.0f} s after space was freed")
        conclude(running, timeline, brim)
