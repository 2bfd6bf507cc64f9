"""One disk fills up, and a whole broker: cordoned, relieved by moves, and used again."""

from typing import Any

import pytest

from e2e.scenarios.disk_slot import Slot, choose, conclude, slots
from e2e.scenarios.lab import Lab
from e2e.scenarios.load import Load, Replica, Topic, load
from e2e.scenarios.machine import Machine
from e2e.scenarios.stand import Kind, Stand, until_well
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e


def small(brokers: int, **policy: Any) -> Kind:
    """Small disks and small segments, so that real data is a large part of a disk."""
    config = {"log.segment.bytes": "8388608", "log.index.size.max.bytes": "1048576"}
    return Kind(brokers, size="1Gi", policy=policy, config=config)


THREE = small(3)
SIX = small(6)


def full(slot: Slot) -> dict[str, object]:
    """Usage of a disk."""
    return dict(slot.status().get("usage") or {})


def used(slot: Slot) -> int:
    """Usage in per cent."""
    return int(str(full(slot).get("usedPercent", 100)))


def until_fine(lab: Lab, *chosen: Slot, below: int = 80, seconds: float = 400) -> float:
    """Wait until disks are below a usage and in use again."""
    return lab.until(
        f"{', '.join(slot.subject for slot in chosen)} below {below} % and in use",
        lambda: all(used(slot) < below and slot.state() == "Active" for slot in chosen),
        seconds,
    )


def cordoned(lab: Lab) -> set[str]:
    """Disks that are cordoned."""
    return {slot.subject for slot in slots(lab).values() if slot.state() == "Cordoned"}


def bytes_on(load: Load, slot: Slot) -> int:
    """Bytes of the load on a disk."""
    return sum(r.bytes for r in load.placement() if (r.broker, r.disk) == (slot.broker, slot.disk))


def test_one_disk_fills(stand: Stand, machine: Machine, spindle_image: str) -> None:
    lab = stand.get(THREE)
    with (
        Timeline(lab) as timeline,
        load(lab, spindle_image, Topic("one", partitions=12), fill=600) as running,
    ):
        slot = choose(lab, running, lambda found: sum(replica.bytes for replica in found) > 100 << 20)
        before = bytes_on(running, slot)
        began = timeline.mark(f"{slot.subject} is filled up to 87 %")
        machine.disk("fill", slot.volume, 87)
        timeline.until("usage", "^Cordon", slot.subject, since=began, seconds=90)
        timeline.until("disk", "^Cordoned", slot.subject, since=began, seconds=30)
        timeline.until("journal", "moves", since=began, seconds=60)
        until_fine(lab, slot)
        timeline.mark("below the level and in use again")
        after = bytes_on(running, slot)
        assert after < before, "no replica was moved away"
        assert {r.broker for r in running.placement()} == {0, 1, 2}
        lab.until("no cordon is left", lambda: not cordoned(lab))
        machine.disk("fill", slot.volume, 1)
        until_well(lab)
        conclude(running, timeline, began)


def test_a_broker_as_a_whole_fills(stand: Stand, machine: Machine, spindle_image: str) -> None:
    lab = stand.get(SIX)
    with (
        Timeline(lab) as timeline,
        load(lab, spindle_image, Topic("whole", partitions=24), fill=480) as running,
    ):

        def large(found: list[Replica]) -> bool:
            return sum(replica.bytes for replica in found) > 60 << 20

        first = choose(lab, running, large)
        both = [slot for (broker, _), slot in slots(lab).items() if broker == first.broker]
        before = {slot.subject: bytes_on(running, slot) for slot in both}
        began = timeline.mark(f"both disks of {first.owner} are filled up to 82 %")
        for slot in both:
            machine.disk("fill", slot.volume, 82)
        for slot in both:
            timeline.until("usage", "^Move", slot.subject, since=began, seconds=90)
        lab.until("both are below 80 %", lambda: all(used(slot) < 80 for slot in both), 400)
        after = {slot.subject: bytes_on(running, slot) for slot in both}
        left = sum(before.values()) - sum(after.values())
        print(f"{left / 1e6:.0f} MB left the broker, of {sum(before.values()) / 1e6:.0f}")
        assert left > 0, f"no replica left the broker: {before} {after}"
        # From 82 % to below 75 % on each, plus the last replica that was needed for that.
        assert left < len(both) * 110e6, f"more was moved off the broker than needed: {before} {after}"
        for slot in both:
            machine.disk("fill", slot.volume, 1)
        until_well(lab)
        conclude(running, timeline, began)
