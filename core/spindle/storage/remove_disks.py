"""Disk removal: when ``disks.count`` is lowered, the highest disks of each broker are drained, removed from ``log.dirs`` and released.

A removal starts only if every replica on the disk has a place elsewhere. The claim is deleted last, and only once its volume is set to
Retain: the data on a disk is its owner's to delete.
"""

from functools import lru_cache
from typing import Final

from spindle.api import names
from spindle.api.enums import DiskState
from spindle.brokers.all_disks import NodeVolumes, class_problem, kept_names, without_volume
from spindle.brokers.claim_annotations import list_on
from spindle.brokers.reservations import release_disk
from spindle.disks.broker_disks import BrokerDisk
from spindle.disks.disk_inventory import BEGUN, OUT, DiskInventory
from spindle.evacuation.disk_replacement import retire
from spindle.evacuation.stuck import find_stuck, room_of
from spindle.model import disk_facts, objects
from spindle.model.broker_disks import disks_of
from spindle.model.broker_records import BrokerRecords
from spindle.model.claim_release import REMOVE_DISK, release
from spindle.model.claim_volumes import left_volumes, refer
from spindle.model.cluster_identity import NodeIdentity
from spindle.model.plan_builder import PlanBuilder
from spindle.model.replica_index import Key, names_of
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting, counted, some
from spindle.storage.add_disks import claim_pod_of, end_claim_pod

_GB: Final = 1e9
_NEEDED: Final = frozenset({"nodes", "persistentvolumes", "persistentvolumeclaims"})


def find_leaving(
    inventory: DiskInventory, builder: PlanBuilder, *, acting: bool
) -> frozenset[tuple[int, str]]:
    """The disks that are being removed; adds a wait for each whose removal may not start yet."""
    leaving = {slot.key for slot in inventory.slots if _cannot_stay(inventory.state, slot)}
    leaving |= {slot.key for slot in inventory.slots if slot.broker in inventory.scaling_in}
    unspecified = _unspecified(inventory.state)
    unwanted = [slot for slot in inventory.slots if slot.key in unspecified and slot.key not in leaving]
    leaving |= {slot.key for slot in unwanted if slot.never_used or slot.recorded in BEGUN}
    asking = [slot for slot in unwanted if slot.key not in leaving]
    if acting and asking:
        leaving |= _admitted(inventory, builder, asking, frozenset(leaving))
    return frozenset(leaving)


def _unspecified(state: ClusterState) -> frozenset[tuple[int, str]]:
    """The disks that the spec does not have: those above ``count`` or ``maxCount``, and added ones whose volume was bound by something else."""
    found: set[tuple[int, str]] = set()
    free = NodeVolumes.of(state)
    for broker_id, broker in state.brokers.items():
        pool = state.pool_of(broker)
        if pool is None:
            continue
        if not pool.disks.all:
            kept = _disk_names(pool.disks.most)
        else:
            kept = kept_names(pool, disks_of(broker))
            if not state.snap.unknown & _NEEDED and class_problem(state, pool) is None:
                kept -= without_volume(state, broker, len(free.of_brokers.get(broker_id, ())))
        found.update((broker_id, disk["name"]) for disk in disks_of(broker) if disk["name"] not in kept)
    return frozenset(found)


@lru_cache(maxsize=128)
def _disk_names(count: int) -> frozenset[str]:
    return frozenset(names.disk_name(index) for index in range(count))


def _cannot_stay(state: ClusterState, slot: BrokerDisk) -> bool:
    """Whether the empty disk's claim is deleted or being deleted: then its removal cannot be cancelled any more."""
    there = state.claims.get(slot.disk["claim"])
    return (
        slot.mode == disk_facts.ABSENT
        and not slot.added
        and slot.recorded in OUT
        and "persistentvolumeclaims" not in state.snap.unknown
        and (there is None or objects.deleting(there))
    )


def _admitted(
    inventory: DiskInventory,
    builder: PlanBuilder,
    asking: list[BrokerDisk],
    leaving: frozenset[tuple[int, str]],
) -> set[tuple[int, str]]:
    """The disks whose replicas all find a place elsewhere, by broker; one plan for all of them, since they compete for space."""
    going = [*asking, *(slot for slot in inventory.slots if slot.key in leaving)]
    silent = [
        b
        for b in inventory.state.brokers
        if b not in inventory.dead_brokers and inventory.replica_index.dirs(b) is None
    ]
    known = [
        slot for slot in asking if inventory.partitions_on(slot) is not None and inventory.replica_index.known
    ]
    builder.wait(*(_not_known(inventory, slot) for slot in asking if slot not in known))
    if inventory.journal is None or not known:
        return set()
    out = frozenset((slot.broker, slot.path) for slot in going)
    stuck = find_stuck(inventory, inventory.journal, known, going)
    if stuck is None:
        builder.wait(*(_not_known(inventory, slot) for slot in known))
        return set()
    refused = {broker for (broker, _), keys in stuck.items() if keys}
    for slot in known:
        if stuck[slot.key]:
            # A broker that is restarting is not a target now, and will be one in a moment.
            builder.wait(
                _not_known(inventory, slot) if silent else _no_room(inventory, slot, stuck[slot.key], out)
            )
    return {slot.key for slot in known if slot.broker not in refused}


def _not_known(inventory: DiskInventory, slot: BrokerDisk) -> Waiting:
    return Waiting(
        REMOVE_DISK,
        inventory.object_name(slot),
        "PlanPending",
        f"The spec no longer has {slot.name} of broker {slot.broker}. It is not known yet whether its replicas fit elsewhere.",
        "Nothing to do: Spindle continues when Kafka and all its brokers have reported their log dirs.",
        quiet=True,
    )


def _no_room(
    inventory: DiskInventory, slot: BrokerDisk, stuck: set[Key], out: frozenset[tuple[int, str]]
) -> Waiting:
    """Why the disk cannot be removed, with the space that is missing."""
    state, standing = inventory.state, inventory.partitions_on(slot) or frozenset()
    size, left = (sum(map(inventory.replica_index.size, keys)) / _GB for keys in (standing, stuck))
    own = room_of(inventory, [slot.broker], out) / _GB
    others = room_of(inventory, [b for b in state.brokers if b != slot.broker], out) / _GB
    pool = state.pool_of(state.brokers[slot.broker])
    field = "maxCount" if pool is not None and pool.disks.all else "count"
    count = sum(1 for s in inventory.by_broker[slot.broker] if not s.never_used)
    return Waiting(
        REMOVE_DISK,
        inventory.object_name(slot),
        "InsufficientSpaceForDiskRemoval",
        f"{slot.name} of broker {slot.broker} is not removed: {len(stuck)} of {counted(len(standing), 'replica')} on it ({left:.1f} of "
        f"{size:.1f} GB) {'fits' if len(stuck) == 1 else 'fit'} nowhere else: {some(names_of(stuck))}. Filled to {inventory.limit:.0%}, the "
        f"broker's other disks could take {own:.1f} GB and those of other brokers {others:.1f} GB.",
        "Free space, add brokers or disks in racks that can take the replicas, or set disks."
        f"{field} of pool {pool.name if pool else '?'} back to {count}.",
    )


def reconcile_removed_disks(
    inventory: DiskInventory, builder: PlanBuilder, records: BrokerRecords, identity: NodeIdentity
) -> None:
    """Delete the claims of disks that are out of use, and drop the record of those whose claim is gone."""
    for slot in inventory.slots:
        if slot.key not in inventory.removing or slot.broker in inventory.scaling_in:
            continue
        now = inventory.state_of(slot)
        if slot.never_used:
            _undo(inventory, builder, records, identity, slot)
        elif now in (DiskState.DRAINED, DiskState.EVACUATED) and slot.mode == disk_facts.ABSENT:
            _release(inventory, builder, identity, slot)
        # The pass before reported Removed: a pass that changes a KafkaBroker does not write its status.
        elif now is DiskState.REMOVED and slot.recorded is DiskState.REMOVED:
            retire(inventory, records, slot)
            records.drop_disk(slot.broker, slot.name)


def _undo(
    inventory: DiskInventory,
    builder: PlanBuilder,
    records: BrokerRecords,
    identity: NodeIdentity,
    slot: BrokerDisk,
) -> None:
    """Release what was reserved for a disk that no pod ever had."""
    state = inventory.state
    pod = claim_pod_of(state, slot)
    if pod is not None:
        end_claim_pod(builder, pod)
    elif slot.disk["claim"] in state.claims:
        _release(inventory, builder, identity, slot)
    elif "persistentvolumes" not in state.snap.unknown:
        pool = state.pool_of(state.brokers[slot.broker])
        # With disks.all, a volume that is free again would be added again. Whoever deletes its claim wants it to be left out.
        left_out = (
            pool is not None
            and pool.disks.all
            and slot.name in kept_names(pool, disks_of(state.brokers[slot.broker]))
        )
        blank = [] if left_out else _blank(state, slot)
        for volume in blank:
            builder.do(refer(volume, None))
        if not release_disk(state, builder, state.brokers[slot.broker], slot.disk) and not blank:
            records.drop_disk(slot.broker, slot.name)


def _blank(state: ClusterState, slot: BrokerDisk) -> list[SnapshotObject]:
    """The disk's local volume, to which nothing was ever written: another claim may use it."""
    return [
        volume
        for volume in left_volumes(state, slot.disk["claim"])
        if objects.uid(volume) == slot.disk.get("pvUid") and (volume.get("spec") or {}).get("local")
    ]


def _release(
    inventory: DiskInventory, builder: PlanBuilder, identity: NodeIdentity, slot: BrokerDisk
) -> None:
    mine = (inventory.state.claims.get(other.disk["claim"]) for other in inventory.by_broker[slot.broker])
    if slot.name in list_on(claim for claim in mine if claim is not None).dirs:
        return  # the other claims must drop this dir from their lists first
    there = inventory.state.claims.get(slot.disk["claim"])
    why = f"{slot.name} holds no replicas, and the spec no longer has it"
    release(inventory.state, builder, identity, there, inventory.object_name(slot), why)
