"""The local volume of a new disk: first its name is recorded on the KafkaBroker, then it is reserved, then its claim is created.

The record tells which volume may be reserved for a disk while a list lacks that volume: then no second one is reserved; with ``disks.all``, neither the
broker moves to another node nor is the disk forgotten; and no volume stays reserved for a disk that nobody has ("unknown is not absent",
`docs/safety.md`, rule 8).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spindle.brokers.all_disks import NodeVolumes, chosen, may_become
from spindle.brokers.volume_room import is_free
from spindle.model import objects
from spindle.model.broker_records import BrokerRecords
from spindle.model.claim_volumes import kept_volumes, refer, reserve
from spindle.model.nodes import section
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting


@dataclass(frozen=True)
class VolumeChoice:
    """The next step towards the volume of one disk; all empty if its node has no volume for it.

    Attributes:
        claim: the volume that is reserved for the disk: its claim can be created.
        reserve: the volume on record, which is free.
        surplus: volumes that are reserved for the disk and are not the one that it gets.
        record: the free volume to record.
        later: whether the volume on record is not listed, or cannot be reserved now.
    """

    claim: SnapshotObject | None = None
    reserve: SnapshotObject | None = None
    surplus: tuple[SnapshotObject, ...] = ()
    record: SnapshotObject | None = None
    later: bool = False


def choose(free: NodeVolumes, broker: SnapshotObject, disk: Mapping[str, Any]) -> VolumeChoice:
    """Find the next step towards a volume for a disk that has no claim.

    Args:
        free: the free volumes; those that are given here are noted in it.
        broker: the KafkaBroker.
        disk: its entry of the disk.
    """
    state, name = free.state, chosen(free.state, broker, disk)
    kept = [v for v in kept_volumes(state, disk["claim"]) if not objects.deleting(v)]
    fitting = [v for v in kept if may_become(state, broker, disk, v)]
    if kept:
        best = min(fitting, key=lambda v: objects.name(v) != name, default=None)
        return VolumeChoice(claim=best, surplus=tuple(v for v in kept if v is not best))
    if name is None:
        return VolumeChoice(record=free.give(broker))
    volume = state.volumes.get(name)
    if volume is None or not is_free(volume) or name in free.given:
        return VolumeChoice(later=True)
    free.given.add(name)
    return VolumeChoice(reserve=volume)


def carry_out(
    choice: VolumeChoice,
    state: ClusterState,
    builder: PlanBuilder,
    records: BrokerRecords,
    broker: SnapshotObject,
    disk: Mapping[str, Any],
) -> bool:
    """Record, reserve and release volumes as chosen; whether anything was done or must be waited for. The claim is left to the caller."""
    for volume in choice.surplus:
        builder.do(refer(volume, None))
    if choice.reserve is not None:
        builder.do(reserve(state, choice.reserve, disk["claim"]))
    if choice.record is not None:
        records.note_disk(int(broker["spec"]["id"]), disk["name"], pv=objects.name(choice.record), pvUid=None)
    if choice.later:
        builder.wait(unavailable(state, broker, disk))
    return choice != VolumeChoice()


def may_be_reserved(state: ClusterState, broker: SnapshotObject, disk: Mapping[str, Any]) -> bool:
    """Whether the volume on record for a disk is not listed, so that it is not known whether it is reserved."""
    name = chosen(state, broker, disk)
    return name is not None and name not in state.volumes


def unavailable(state: ClusterState, broker: SnapshotObject, disk: Mapping[str, Any]) -> Waiting:
    """The volume on record for a new disk is not listed, or cannot be reserved now."""
    name, volume = str(disk["pv"]), state.volumes.get(str(disk["pv"]))
    if volume is None:
        problem = "is not in the list of PersistentVolumes"
    elif objects.deleting(volume):
        problem = "is being deleted"
    else:
        phase = section(volume, "status").get("phase") or "without a phase"
        problem = f"cannot be reserved now (it is {phase})"
    there = volume is not None and not objects.deleting(volume)
    return Waiting(
        "AddDisk",
        f"KafkaBroker/{objects.name(broker)}/{disk['name']}",
        "VolumeUnavailable",
        f"{disk['name']} of {objects.name(broker)} gets volume {name}, which {problem}. It may be reserved for this disk, so the disk stays on record with it.",
        "Nothing to do: Spindle continues when the volume is Available, or bound to the claim of this disk."
        if there
        else f"Nothing to do if {name} is listed again soon. If it was deleted, create it again with the same name; or, if it is gone for good, a cluster "
        f"administrator removes it from the record: spindle volume forget {name}. Spindle then chooses another volume, or none.",
        quiet=there,
    )
