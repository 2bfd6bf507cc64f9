"""Rate of moves: not above the limit, almost at the limit, and lower while a disk is under load."""

import json
import time
from typing import Any

import pytest

from e2e.scenarios.disk_slot import (
    Slot,
    assert_spread,
    choose,
    conclude,
    dies,
    replace,
    slots,
    until_evacuated,
)
from e2e.scenarios.lab import CLUSTER, Lab, pause
from e2e.scenarios.load import Load, Topic, load
from e2e.scenarios.machine import Machine
from e2e.scenarios.moving import assert_nothing_left, drain, moves, target, throttle, until_drained, use_again
from e2e.scenarios.stand import Kind, Stand
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e

CAP = 4_000_000
CAPPED = Kind(3, policy={"moveBytesPerSecond": CAP, "moveBytesPerSecondMin": CAP})
MOST, LEAST = 6_000_000, 500_000
STEERED = Kind(3, policy={"moveBytesPerSecond": MOST, "moveBytesPerSecondMin": LEAST})
ACROSS = 2_000_000
STEERED_SIX = Kind(6, policy={"moveBytesPerSecond": ACROSS, "moveBytesPerSecondMin": 250_000})


def off_disk(running: Load, slot: Slot) -> tuple[float, int]:
    """The time, and the bytes of the load on the broker's other disks, including copies in progress."""
    at, logs = running.logs()
    return at, sum(r.bytes for r, _ in logs if r.broker == slot.broker and r.disk != slot.disk)


def test_moves_between_disks_are_as_fast_as_they_may_be(stand: Stand, spindle_image: str) -> None:
    lab = stand.get(CAPPED)
    topic = Topic("capped", partitions=8)
    with Timeline(lab) as timeline, load(lab, spindle_image, topic, rate=1, fill=600) as running:
        slot = choose(lab, running, lambda found: sum(r.bytes for r in found) > 280 << 20)
        began = drain(timeline, slot)
        samples = [off_disk(running, slot)]
        shown: list[dict[str, Any]] = []
        while samples[-1][0] - samples[0][0] < 60 and moves(slot, "Copying"):
            pause(5)
            samples.append(off_disk(running, slot))
            shown += moves(slot, "Copying")
        (start, first), (end, last) = samples[0], samples[-1]
        rate = (last - first) / (end - start)
        print(f"{last - first} bytes in {end - start:.1f} s: {rate:.0f} bytes/s, {rate / CAP:.1%} of the cap")
        assert end - start >= 55, f"the moves completed too early: {samples}"
        assert 0.9 * CAP <= rate <= 1.1 * CAP
        # A copy that has just started has not been observed yet.
        assert all(move.get("bytes") and ("lagOffsets" in move or not move["copied"]) for move in shown), (
            shown
        )
        assert any(move.get("bytesPerSecond") and move.get("eta") for move in shown), shown
        until_drained(timeline, began, slot)
        assert_nothing_left(running)
        use_again(timeline, slot)
        assert_spread(running)
        conclude(running, timeline, began)


def test_a_slow_disk_slows_its_moves_down_until_it_is_well(
    stand: Stand, machine: Machine, spindle_image: str
) -> None:
    lab = stand.get(STEERED)
    topic = Topic("steered", partitions=4)
    with Timeline(lab) as timeline, load(lab, spindle_image, topic, rate=5, fill=960) as running:
        slot = choose(lab, running, lambda found: sum(r.bytes for r in found) > 320 << 20)
        began = drain(timeline, slot)
        other = target(slot, moves(slot, "Copying")[0])
        machine.disk("slow", other.volume, 200)
        slowed = timeline.mark(f"{other.subject} takes 200 ms longer for each request")
        lab.until("the throttle is a quarter at most", lambda: 0 < throttle(slot) <= MOST // 4, 120)
        timeline.mark(f"the throttle is {throttle(slot)}")
        down = time.time() - slowed
        lowest = throttle(slot)
        machine.disk("heal", other.volume)
        healed = timeline.mark("it is well again")
        lab.until("the throttle rises", lambda: throttle(slot) >= lowest + 2 * (MOST - LEAST) // 10, 120)
        timeline.mark(f"the throttle is {throttle(slot)}")
        print(
            f"down to a quarter after {down:.0f} s, two steps up {time.time() - healed:.0f} s after it was healed"
        )
        until_drained(timeline, began, slot)
        assert_nothing_left(running)
        use_again(timeline, slot)
        conclude(running, timeline, began)


def rates(lab: Lab, broker: int) -> list[int]:
    """The replication throttles of a broker in the operator's journal."""
    journal = json.loads(
        (lab.get("configmap", f"{CLUSTER}-moves") or {}).get("data", {}).get("journal", "{}")
    )
    return [
        int(entry[4])
        for entry in journal.get("settings", ())
        if entry[0] == "broker" and entry[1] == str(broker) and entry[2].endswith("throttled.rate")
    ]


def targets(lab: Lab) -> set[tuple[int, str]]:
    """(broker, disk) of each move between brokers in progress."""
    journal = json.loads(
        (lab.get("configmap", f"{CLUSTER}-moves") or {}).get("data", {}).get("journal", "{}")
    )
    words = journal.get("words", [])
    return {
        (int(move[4]), str(words[move[5]]).split("/")[-2])
        for move in journal.get("moves", ())
        if move[2] != move[4]
    }


def test_a_slow_disk_slows_moves_from_other_brokers_down(
    stand: Stand, machine: Machine, spindle_image: str
) -> None:
    lab = stand.get(STEERED_SIX)
    topic = Topic("across", partitions=6)
    with Timeline(lab) as timeline, load(lab, spindle_image, topic, rate=5, fill=600) as running:
        source = choose(lab, running)
        died = dies(timeline, machine, source)
        lab.until("replicas move to other brokers", lambda: targets(lab), 180)
        broker, disk = min(targets(lab))
        slow = slots(lab)[broker, disk]
        machine.disk("slow", slow.volume, 200)
        slowed = timeline.mark(f"{slow.subject} takes 200 ms longer for each request")
        lab.until(
            "its broker is throttled to a half at most",
            lambda: rates(lab, broker) and max(rates(lab, broker)) <= ACROSS // 2,
            120,
        )
        print(f"slowed to {rates(lab, broker)} after {time.time() - slowed:.0f} s")
        machine.disk("heal", slow.volume)
        timeline.mark("it is well again")
        until_evacuated(timeline, died, source, 600)
        replace(timeline, machine, source)
        assert_nothing_left(running)
        conclude(running, timeline, died)
