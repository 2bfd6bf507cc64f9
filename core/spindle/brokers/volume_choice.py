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
from spindle.model.claim_volumes import VOLUMES_UNREADABLE, is_reserved, kept_volumes, refer, reserve
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
        surplus: volumes that Spindle reserved for the disk and that are not the one that it gets.
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

    A volume that somebody else reserved for the claim is used if it can become the disk, and otherwise left alone: it may be kept with its data.

    Args:
        free: the free volumes; those that are given here are noted in it.
        broker: the KafkaBroker.
        disk: its entry of the disk.
    """
    state, name = free.state, chosen(free.state, broker, disk)
    kept = [v for v in kept_volumes(state, disk["claim"]) if not objects.deleting(v)]
    fitting = [v for v in kept if may_become(state, broker, disk, v)]
    best = min(fitting, key=lambda v: objects.name(v) != name, default=None)
    surplus = tuple(v for v in kept if v is not best and is_reserved(v))
    if best is not None or surplus:
        return VolumeChoice(claim=best, surplus=surplus)
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


def unavailable(
    state: ClusterState, broker: SnapshotObject, disk: Mapping[str, Any], *, goes: bool = False
) -> Waiting:
    """The volume on record for a new disk is not listed, or cannot be reserved now.

    Args:
        state: of the pass.
        broker: the KafkaBroker.
        disk: its entry of the disk.
        goes: whether the broker is removed, so that the volume must be released.
    """
    name, volume = str(disk["pv"]), state.volumes.get(str(disk["pv"]))
    there = volume is not None and not objects.deleting(volume)
    if "persistentvolumes" in state.snap.unknown:
        problem = "PersistentVolumes cannot be read"
    elif volume is None:
        problem = f"{name} is not in the list of PersistentVolumes"
    elif objects.deleting(volume):
        problem = f"{name} is being deleted"
    else:
        problem = f"{name} cannot be reserved now (it is {section(volume, 'status').get('phase') or 'without a phase'})"
    stays = (
        "It may be reserved for this disk and would stay so, so the KafkaBroker stays until the volume is released"
        if goes
        else "It may be reserved for this disk, so the disk stays on record with it"
    )
    return Waiting(
        "AddDisk",
        f"KafkaBroker/{objects.name(broker)}/{disk['name']}",
        "VolumeUnavailable",
        f"{disk['name']} of {objects.name(broker)} gets volume {name}, and {problem}. {stays}.",
        "Nothing to do: Spindle continues when the volume is Available, or bound to the claim of this disk."
        if there
        else _way_to_the_volume(state, name, goes=goes),
        quiet=there,
    )


def _way_to_the_volume(state: ClusterState, name: str, *, goes: bool) -> str:
    """What a user does about a volume that is not listed."""
    first = (
        VOLUMES_UNREADABLE
        if "persistentvolumes" in state.snap.unknown
        else f"Nothing to do if {name} is listed again soon."
    )
    gone = f"If {name} is" if goes else "If it was deleted, create it again with the same name; or, if it is"
    then = "removes the KafkaBroker" if goes else "chooses another volume, or none"
    return (
        f"{first} {gone} gone for good, a cluster administrator removes it from the record: spindle volume forget {name}. "
        f"Spindle then {then}."
    )
