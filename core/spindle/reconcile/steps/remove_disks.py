"""Disk removal: when ``disks.count`` is lowered, the highest disks of each broker are drained, removed from ``log.dirs`` and released.

A removal starts only if every replica on the disk has a place elsewhere. The claim is deleted last, and only once its volume is set to
Retain: the data on a disk is its owner's to delete.
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

REMOVE_DISK: Final = "RemoveDisk"
_RETAIN: Final = "Retain"
# States of disks whose removal has started, or that hold nothing that needs a place elsewhere.
BEGUN: Final = frozenset({DiskState.DRAINING, DiskState.FAILED, DiskState.EVACUATING, *OUT})
SHUT: Final = frozenset({DiskState.CORDONED, DiskState.FAILED, DiskState.EVACUATING, DiskState.DRAINING})
_GB: Final = 1e9


def find_leaving(
    inventory: DiskInventory, builder: PlanBuilder, *, acting: bool
) -> frozenset[tuple[int, str]]:
    """The disks that are being removed; adds a wait for each whose removal may not start yet."""
    leaving = {slot.key for slot in inventory.slots if _cannot_stay(inventory.state, slot)}
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


def _cannot_stay(state: ClusterState, slot: BrokerDisk) -> bool:
    """Whether the empty disk's claim is deleted or being deleted: then its removal cannot be cancelled any more."""
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


def find_stuck(
    inventory: DiskInventory, journal: Journal, asking: list[BrokerDisk], going: list[BrokerDisk]
) -> dict[tuple[int, str], set[Key]] | None:
    """The partitions on each of these disks that find no place elsewhere if all of ``going`` are drained; None if that is unknown."""
    out = frozenset((slot.broker, slot.path) for slot in going)
    shut = frozenset((slot.broker, slot.path) for slot in inventory.slots if slot.recorded in SHUT)
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
    count = sum(1 for s in inventory.by_broker[slot.broker] if not s.never_used)
    return Waiting(
        REMOVE_DISK,
        inventory.object_name(slot),
        "InsufficientSpaceForDiskRemoval",
        f"{slot.name} of broker {slot.broker} is not removed: {len(stuck)} of {counted(len(standing), 'replica')} on it ({left:.1f} of "
        f"{size:.1f} GB) {'fits' if len(stuck) == 1 else 'fit'} nowhere else: {some(names_of(stuck))}. Filled to {inventory.limit:.0%}, the "
        f"broker's other disks could take {own:.1f} GB and those of other brokers {others:.1f} GB.",
        "Free space, add brokers or disks in racks that can take the replicas, or set disks.count of pool "
        f"{pool.name if pool else '?'} back to {count}.",
    )


def room_of(inventory: DiskInventory, brokers: Iterable[int], out: frozenset[tuple[int, str]]) -> float:
    """Bytes that the brokers' log dirs could take up to the incoming limit, without the dirs in ``out``."""
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
    """Delete the claims of disks that are out of use, and drop the record of those whose claim is gone."""
    for slot in inventory.slots:
        if slot.key not in inventory.removing or slot.broker in inventory.scaling_in:
            continue
        now = inventory.state_of(slot)
        if slot.never_used:
            _undo(inventory, builder, records, identity, slot)
        elif now in (DiskState.DRAINED, DiskState.EVACUATED) and slot.mode == facts.ABSENT:
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
        kept = [*kept_volumes(state, slot.disk["claim"]), *_blank(state, slot)]
        for volume in kept:
            builder.do(refer(volume, None))
        if not kept:
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


def release(
    state: ClusterState,
    builder: PlanBuilder,
    identity: NodeIdentity,
    there: SnapshotObject | None,
    object_name: str,
    why: str,
) -> None:
    """Set the claim's volume to Retain, then delete the claim.

    Safety rule "no log dir removed with replicas on it" (``docs/safety.md``). A claim of another cluster stays (safety rule "no data
    deleted unless requested"). ``why`` is a clause for the event: "disk1 holds no replicas".
    """
    if there is None:
        return
    if objects.deleting(there):
        builder.wait(
            Waiting(
                REMOVE_DISK,
                object_name,
                "ClaimBeingDeleted",
                f"Claim {objects.name(there)} is being deleted.",
                "Nothing to do: Spindle continues when no pod uses the claim and Kubernetes has removed it.",
                quiet=True,
            )
        )
        return
    if objects.annotation(there, names.ANN_CLUSTER_ID) != identity.cluster_id:
        return  # `reconcile_claims` reports it
    bound = str((there.get("spec") or {}).get("volumeName") or "")
    if bound and "persistentvolumes" in state.snap.unknown:
        return  # reported already (safety rule "unknown is not absent", docs/safety.md)
    volume = state.volumes.get(bound)
    if bound and volume is None and not objects.lost(there):
        return  # created since volumes were listed; the next pass sees it
    if volume is not None and not objects.claimed_by(volume, there):
        volume = None  # a claim can name any volume; Spindle changes only the one that belongs to it
    if volume is not None and not _retained(volume):
        builder.do(
            Patch(
                kind="PersistentVolume",
                name=bound,
                uid=objects.uid(volume),
                body={"spec": {"persistentVolumeReclaimPolicy": _RETAIN}},
                reason="VolumeRetained",
                message=f"Set volume {bound} to Retain: its claim will be deleted, and its data is kept for its owner.",
            )
        )
        return
    kept = f" Volume {bound} is kept." if volume is not None else ""
    builder.do(
        Delete(
            kind="PersistentVolumeClaim",
            name=objects.name(there),
            uid=objects.uid(there),
            reason="ClaimDeleted",
            message=f"Deleted claim {objects.name(there)}: {why}.{kept}",
        )
    )


def _retained(volume: SnapshotObject) -> bool:
    return (volume.get("spec") or {}).get("persistentVolumeReclaimPolicy") == _RETAIN
