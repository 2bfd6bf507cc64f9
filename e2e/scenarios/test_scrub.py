"""A bit in an inactive segment is flipped: Spindle finds and reports it, and re-replicates the replica from the others."""

import random
from typing import Any

import pytest

from e2e.scenarios.disk_slot import Slot, choose, conclude
from e2e.scenarios.load import Replica, Topic, load
from e2e.scenarios.machine import Machine
from e2e.scenarios.stand import Kind, Stand
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e

_FOUND_WITHIN = 600  # seconds: two minutes without writes, one pass over the disk, two reads
CHECKED = Kind(
    3,
    policy={"scrub": {"bytesPerSecond": 50_000_000, "everyDays": 1, "repair": True}},
    config={"log.segment.bytes": "8388608", "log.index.size.max.bytes": "1048576"},
)


def observed(slot: Slot) -> dict[str, Any]:
    """The agent's report on a disk."""
    status = slot.lab.the("kafkabroker", slot.owner)["status"]
    disks = (status.get("observed") or {}).get("disks") or ()
    return dict(next((disk for disk in disks if disk["name"] == slot.disk), {}))


def flip(machine: Machine, slot: Slot, replica: Replica) -> str:
    """Flip a bit in the first segment of a replica, while the broker runs; returns the segment's file."""
    folder = f"{slot.status()['path']}/log/{replica.name}"
    logs = sorted(machine.run(slot.node(), "sh", "-c", f"ls {folder}/*.log").split())
    assert len(logs) > 1, f"{replica.name} has no inactive segment yet"
    at = random.randrange(4096, 4 << 20)
    script = (
        f"b=$(od -An -tu1 -j{at} -N1 {logs[0]}); "
        f'printf "\\\\$(printf %03o $((b ^ 16)))" | dd of={logs[0]} bs=1 seek={at} conv=notrunc status=none; sync'
    )
    machine.run(slot.node(), "sh", "-c", script)
    return logs[0]


def test_a_flipped_bit_is_found_and_its_replica_made_anew(
    stand: Stand, machine: Machine, spindle_image: str
) -> None:
    lab = stand.get(CHECKED)
    with (
        Timeline(lab) as timeline,
        load(lab, spindle_image, Topic("kept", partitions=3), fill=160) as running,
    ):
        slot = choose(lab, running, lambda found: any(replica.bytes > 24 << 20 for replica in found))
        replica = max(
            (r for r in running.placement() if (r.broker, r.disk) == (slot.broker, slot.disk)),
            key=lambda r: r.bytes,
        )
        assert not observed(slot).get("corrupt")
        file = flip(machine, slot, replica)
        began = timeline.mark(f"a bit of {file} is flipped")
        lab.until(f"{slot.subject} is reported", lambda: observed(slot).get("corrupt"), _FOUND_WITHIN)
        entry = observed(slot)["corrupt"][0]
        assert (entry["topic"], entry["partition"]) == (replica.topic, replica.partition)
        timeline.mark(f"found: {entry}")
        timeline.until("event", "^CorruptReplicasDropped", since=began, seconds=120)
        lab.until(
            "the replica is back and nothing is corrupt",
            lambda: (
                not observed(slot).get("corrupt")
                and all(len(isr) == 3 for _, isr, _ in running.partitions().values())
            ),
            400,
        )
        lab.until("it is no longer reported", lambda: "CorruptSegment" not in lab.waits(), 120)
        conclude(running, timeline, began)
