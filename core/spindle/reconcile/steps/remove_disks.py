"""Disks that the spec has no more: the highest of each broker are emptied like drained ones, taken out, and then released.

None begins to leave unless everything on it has a place elsewhere. Its claim goes last, and only when its volume is set to
Retain: what was on a disk is its owner's to throw away.
"""

from collections.abc import Iterable
from typing import Final

from spindle.cluster import names
from spindle.cluster.waiting import Waiting, counted, some
from spindle.disks import facts
from spindle.disks.lifecycle import DiskState
from spindle.healing.evacuate import evacuate
from spindle.healing.replica_index import Key, names_of
from spindle.manifests.identity import NodeIdentity
from spindle.moves.journal import Journal
from spindle.reconcile import objects
from spindle.reconcile.actions import Delete, Patch
from spindle.reconcile.broker_disks import BrokerDisk
from spindle.reconcile.claim_annotations import list_on
from spindle.reconcile.disk_inventory import OUT, DiskInventory
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.state import ClusterState
from spindle.reconcile.steps.add_disks import claim_pod_of, end_claim_pod, kept_volumes, left_volumes, refer
from spindle.reconcile.steps.brokers import BrokerRecords
from spindle.reconcile.steps.disk_replacement import retire
from spindle.reconcile.steps.evacuation import bad_dirs, offline_brokers

_REMOVE: Final = "RemoveDisk"
_RETAIN: Final = "Retain"
# Whoever is here has begun to leave, or has nothing left to find a place for.
BEGUN: Final = frozenset({DiskState.DRAINING, DiskState.FAILED, DiskState.EVACUATING, *OUT})
_SHUT: Final = frozenset({DiskState.CORDONED, DiskState.FAILED, DiskState.EVACUATING, DiskState.DRAINING})
_GB: Final = 1e9


def find_leaving(
    inventory: DiskInventory, builder: PlanBuilder, *, acting: bool
) -> frozenset[tuple[int, str]]:
    """The disks that are on their way out; says of those that may not begin why not."""
    leaving = {slot.key for slot in inventory.slots if _past_return(inventory.state, slot)}
    leaving |= {slot.key for slot in inventory.slots if slot.broker in inventory.scaling_in}
    unwanted = [
        slot for slot in inventory.slots if _unwanted(inventory.state, slot) and slot.key not in leaving
    ]
    leaving |= {slot.key for slot in unwanted if slot.never_used or slot.recorded in BEGUN}
    asking = [slot for slot in unwanted if slot.key not in leaving]
    if acting and asking:
        leaving |= _admitted(inventory, builder, asking, frozenset(leaving))
    return frozenset(leaving)


def _unwanted(state: ClusterState, slot: BrokerDisk) -> bool:
    """Whether the spec has no such disk."""
    pool = state.pool_of(state.brokers[slot.broker])
    if pool is None:
        return False
    return slot.name not in {names.disk_name(index) for index in range(pool.disks.count)}


def _past_return(state: ClusterState, slot: BrokerDisk) -> bool:
    """Whether the disk's claim is gone, or going, with nothing on it: then there is no way but out, whatever is wanted now."""
    there = state.claims.get(slot.disk["claim"])
    return (
        slot.mode == facts.ABSENT
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
    """Those of the disks whose broker finds a place for all that is on them; one plan for all, so they compete for room."""
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
            # A broker that restarts is no target, and will be one in a moment.
            builder.wait(
                _not_known(inventory, slot) if silent else _no_room(inventory, slot, stuck[slot.key], out)
            )
    return {slot.key for slot in known if slot.broker not in refused}


def find_stuck(
    inventory: DiskInventory, journal: Journal, asking: list[BrokerDisk], going: list[BrokerDisk]
) -> dict[tuple[int, str], set[Key]] | None:
    """What on each of these disks would find no place elsewhere, if all of ``going`` were emptied; None if that cannot be told."""
    out = frozenset((slot.broker, slot.path) for slot in going)
    shut = frozenset((slot.broker, slot.path) for slot in inventory.slots if slot.recorded in _SHUT)
    dirs = [
        (slot.broker, slot.path) for slot in going if inventory.partitions_on(slot) and not slot.health.bad
    ]
    plan = evacuate(
        inventory.for_planning,
        (),
        dirs,
        avoid=bad_dirs(inventory),
        closed=(shut | out | offline_brokers(inventory)) - frozenset(dirs),
        incoming_limit=inventory.limit,
    )
    if plan.problem is not None:
        return None
    moving = {(move.source, move.key) for move in (*plan.moves, *journal.moves)}
    return {
        slot.key: {key for key in inventory.partitions_on(slot) or () if (slot.broker, key) not in moving}
        for slot in asking
    }


def _not_known(inventory: DiskInventory, slot: BrokerDisk) -> Waiting:
    return Waiting(
        _REMOVE,
        inventory.object_name(slot),
        "PlanPending",
        f"The spec has {slot.name} of broker {slot.broker} no more. Whether what stands on it finds a place elsewhere is not known "
        "yet.",
        "Kafka and all its brokers say what stands where; that is asked for again and again.",
        quiet=True,
    )


def _no_room(
    inventory: DiskInventory, slot: BrokerDisk, stuck: set[Key], out: frozenset[tuple[int, str]]
) -> Waiting:
    """The refusal, with the numbers behind it."""
    state, standing = inventory.state, inventory.partitions_on(slot) or frozenset()
    size, left = (sum(map(inventory.replica_index.size, keys)) / _GB for keys in (standing, stuck))
    own = room_of(inventory, [slot.broker], out) / _GB
    others = room_of(inventory, [b for b in state.brokers if b != slot.broker], out) / _GB
    pool = state.pool_of(state.brokers[slot.broker])
    count = sum(1 for s in inventory.by_broker[slot.broker] if not s.never_used)
    return Waiting(
        _REMOVE,
        inventory.object_name(slot),
        "InsufficientSpaceForDiskRemoval",
        f"{slot.name} of broker {slot.broker} stays: {len(stuck)} of {counted(len(standing), 'replica')} on it ({left:.1f} of "
        f"{size:.1f} GB) find no place elsewhere: {some(names_of(stuck))}. Up to {inventory.limit:.0%} of each, its broker's other disks "
        f"could take {own:.1f} GB, those of other brokers {others:.1f} GB.",
        "Free space, or add brokers or disks in racks that can take them; or set disks.count of pool "
        f"{pool.name if pool else '?'} back to {count}.",
    )


def room_of(inventory: DiskInventory, brokers: Iterable[int], out: frozenset[tuple[int, str]]) -> float:
    """Bytes that dirs could take up to the incoming limit; those that leave do not count."""
    return sum(
        max(0.0, inventory.limit * d.total_bytes - (d.total_bytes - d.usable_bytes))
        for broker in brokers
        for d in inventory.planning_index.dirs(broker) or ()
        if (broker, d.path) not in out
        and not d.error
        and d.total_bytes is not None
        and d.usable_bytes is not None
    )


def reconcile_removed_disks(
    inventory: DiskInventory, builder: PlanBuilder, records: BrokerRecords, identity: NodeIdentity
) -> None:
    """Release the disks that are out, and forget those whose claim is gone."""
    for slot in inventory.slots:
        if slot.key not in inventory.removing or slot.broker in inventory.scaling_in:
            continue
        now = inventory.state_of(slot)
        if slot.never_used:
            _undo(inventory, builder, records, identity, slot)
        elif now in (DiskState.DRAINED, DiskState.EVACUATED) and slot.mode == facts.ABSENT:
            _release(inventory, builder, identity, slot)
        # The step to Removed is told in the pass before: one that changes a KafkaBroker does not write its status.
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
    """Give back what was taken for a disk that no pod ever had."""
    state = inventory.state
    pod = claim_pod_of(state, slot)
    if pod is not None:
        end_claim_pod(builder, pod)
    elif slot.disk["claim"] in state.claims:
        _release(inventory, builder, identity, slot)
    elif "persistentvolumes" not in state.snap.unknown:
        kept = [*kept_volumes(state, slot.disk["claim"]), *_blank(state, slot)]
        for volume in kept:
            builder.do(refer(volume, None))
        if not kept:
            records.drop_disk(slot.broker, slot.name)


def _blank(state: ClusterState, slot: BrokerDisk) -> list[SnapshotObject]:
    """The local volume that the slot had, and that nothing was ever written to: another claim may have it."""
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
        return  # first the other claims are told that this dir is no more
    there = inventory.state.claims.get(slot.disk["claim"])
    why = f"nothing stands on {slot.name}, and the spec has it no more"
    release(inventory.state, builder, identity, there, inventory.object_name(slot), why)


def release(
    state: ClusterState,
    builder: PlanBuilder,
    identity: NodeIdentity,
    there: SnapshotObject | None,
    thing: str,
    why: str,
) -> None:
    """Rule 5: the volume is set to Retain, then the claim goes. A claim that is not ours stays (rule 11).

    ``why`` is a clause for the event: "nothing stands on disk1".
    """
    if there is None:
        return
    if objects.deleting(there):
        builder.wait(
            Waiting(
                _REMOVE,
                thing,
                "ClaimBeingDeleted",
                f"Claim {objects.name(there)} is being deleted.",
                "Nothing uses it any more, and Kubernetes lets it go.",
                quiet=True,
            )
        )
        return
    if objects.annotation(there, names.ANN_CLUSTER_ID) != identity.cluster_id:
        return  # `settle_claims` says so
    bound = str((there.get("spec") or {}).get("volumeName") or "")
    if bound and "persistentvolumes" in state.snap.unknown:
        return  # said already (rule 8)
    volume = state.volumes.get(bound)
    if bound and volume is None and not objects.lost(there):
        return  # made since volumes were listed; the next pass sees it
    if volume is not None and not _retained(volume):
        builder.do(
            Patch(
                kind="PersistentVolume",
                name=bound,
                uid=objects.uid(volume),
                body={"spec": {"persistentVolumeReclaimPolicy": _RETAIN}},
                reason="VolumeRetained",
                message=f"{bound} is set to Retain: its claim goes, what is on it is kept for its owner.",
            )
        )
        return
    kept = f" {bound} is kept." if volume is not None else ""
    builder.do(
        Delete(
            kind="PersistentVolumeClaim",
            name=objects.name(there),
            uid=objects.uid(there),
            reason="ClaimDeleted",
            message=f"{objects.name(there)} is deleted: {why}.{kept}",
        )
    )


def _retained(volume: SnapshotObject) -> bool:
    return (volume.get("spec") or {}).get("persistentVolumeReclaimPolicy") == _RETAIN
