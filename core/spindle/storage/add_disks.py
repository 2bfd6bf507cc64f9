"""Adds disks to existing brokers: each disk is provisioned on its broker's node before the pod is recreated.

Spindle first records the disk on the KafkaBroker as not in use. Then it gets the claim bound: to a free local volume that a
claimRef reserves, or to a volume from a provisioner, for which a short-lived pod takes the claim to the broker's node. The disk
is put into use only when the volume exists and the agent reports it blank and healthy; the broker then restarts to use it, under
"no restart below min.insync.replicas" (`docs/safety.md`, rule 2).

The claim of an evacuated disk is bound in the same way if it was recreated and no pod mounts it: with volumeBindingMode
WaitForFirstConsumer nothing else would bind it, and the replacement disk would have no volume.
"""

from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from typing import Final

from spindle.api import names
from spindle.api.cluster import BrokerPool
from spindle.api.enums import DiskState
from spindle.brokers.all_disks import NodeVolumes, may_become, new_names, node_of_broker, waiting_for_volumes
from spindle.brokers.claims import claim_of, request_volume
from spindle.brokers.records import new_disk
from spindle.brokers.volume_choice import carry_out, choose
from spindle.brokers.volume_room import class_of, is_free, is_static, reachable
from spindle.disks.broker_disks import BrokerDisk, unbound
from spindle.disks.disk_inventory import DiskInventory
from spindle.model import disk_facts, objects
from spindle.model.actions import Create
from spindle.model.broker_disks import disks_of
from spindle.model.broker_records import BrokerRecords
from spindle.model.claim_release import annotate_refusal
from spindle.model.claim_volumes import kept_volumes, left_volumes, note_volume, reserve
from spindle.model.cluster_identity import NodeIdentity
from spindle.model.events import Event
from spindle.model.lost_brokers import node_is_lost
from spindle.model.maintenance import disk_requests
from spindle.model.nodes import section
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.stale_records import is_readopted, is_stale
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting, counted, some

_ADD: Final = "AddDisk"
_NEEDED: Final = frozenset({"nodes", "persistentvolumes", "storageclasses"})
_INSPECTION_SECONDS: Final = (
    30.0  # how long to wait for the agent's report before a local volume is used without it
)
_COMING_SECONDS: Final = (
    120.0  # how long one disk of a broker waits for another, so that one restart serves both
)
_AT_ONCE: Final = "Immediate"
_JOINED: Final = frozenset(DiskState) - {DiskState.PROVISIONING, DiskState.REMOVED}


@dataclass(frozen=True)
class _Adding:
    """What the steps of all disks share in one pass."""

    inventory: DiskInventory
    builder: PlanBuilder
    records: BrokerRecords
    identity: NodeIdentity
    free: NodeVolumes

    @property
    def state(self) -> ClusterState:
        return self.inventory.state


class _VolumeState(Enum):
    """Progress of the volume of a disk that is being added."""

    READY = "ready"
    COMING = "coming"
    STUCK = "stuck"


def reconcile_added_disks(
    inventory: DiskInventory, builder: PlanBuilder, records: BrokerRecords, identity: NodeIdentity
) -> None:
    """Add the disks that a pool specifies and its brokers do not have yet."""
    state = inventory.state
    if state.snap.unknown & _NEEDED:
        return  # already reported
    free = NodeVolumes.of(state)
    adding = _Adding(inventory, builder, records, identity, free)
    for broker_id, broker in state.brokers.items():
        pool = state.pool_of(broker)
        going = broker_id in inventory.scaling_in or node_is_lost(state, broker_id)
        if pool is None or objects.deleting(broker) or going:
            continue
        _add(state, builder, records, pool, broker, free)
        mine = [slot for slot in inventory.by_broker.get(broker_id, ()) if slot.key not in inventory.removing]
        _provision_disks(adding, pool, mine)
        if broker["spec"].get("joining") and mine and all(slot.recorded in _JOINED for slot in mine):
            records.note(broker_id, joining=False)  # not None: the record was created with it
        for slot in mine:
            # From now on it is an ordinary disk.
            if slot.added and slot.disk.get("fsUuid") and slot.recorded in _JOINED:
                records.note_disk(broker_id, slot.name, added=None)


def _provision_disks(adding: _Adding, pool: BrokerPool, mine: list[BrokerDisk]) -> None:
    """Get volumes for the disks of a broker that have none; new disks are put into use together, to need one restart."""
    # A re-adopted broker first shows all its replicas on its other disks: until then, its claims may be too old to say which disk was used.
    state = adding.state
    readopted = bool(mine) and is_readopted(state, state.brokers[mine[0].broker])
    coming = [slot for slot in mine if slot.never_used and not readopted]
    how = {slot.name: _provision(adding, pool, slot) for slot in coming}
    if _VolumeState.COMING not in how.values():
        for slot in coming:
            if how[slot.name] is _VolumeState.READY:
                _put_into_use(state, adding.records, slot)
    for slot in mine:
        if not slot.never_used:
            _rebind(adding, pool, slot)


def _add(
    state: ClusterState,
    builder: PlanBuilder,
    records: BrokerRecords,
    pool: BrokerPool,
    broker: SnapshotObject,
    free: NodeVolumes,
) -> None:
    """Record missing disks, each with its own directory id; skipped while the record is stale, as the missing ones are not known then."""
    if is_stale(state, broker):
        return
    broker_id, having = int(broker["spec"]["id"]), {disk["name"] for disk in disks_of(broker)}
    drained = {disk for disk, request in disk_requests(broker).items() if request.drained}
    volumes: list[str] = []
    if pool.disks.all:
        mine = [objects.name(volume) for volume in free.of_brokers.get(broker_id, ())]
        wanted, volumes = new_names(state, broker, len(mine)), mine[waiting_for_volumes(state, broker) :]
        why = f"pool {pool.name} uses all volumes of class {pool.disks.storage_class} on {node_of_broker(state, broker_id)}."
    else:
        wanted = [name for i in range(pool.disks.most) if (name := names.disk_name(i)) not in having]
        why = f"pool {pool.name} specifies {counted(pool.disks.most, 'disk')} per broker."
    found = []
    for name in wanted:
        there = state.claims.get(names.claim_name(state.name, broker_id, name))
        if there is not None:
            builder.wait(_claim_conflict(broker, name, there))
        elif name not in drained:
            found.append(name)
    # A broker that never had a volume gets this one with its others, on whichever node its pod is scheduled.
    ran = any(disk.get("pvUid") for disk in disks_of(broker))
    free.given.update(volumes)
    for name, volume in zip_longest(found, volumes[: len(found)]):
        entry = new_disk(state, broker_id, name, volume)
        records.add_disk(broker_id, entry | {"mode": disk_facts.ABSENT, "added": True} if ran else entry)
    if found:
        builder.events.append(
            Event(
                "Normal",
                "DisksAdded",
                f"Adding {some(found)} to {objects.name(broker)}: {why}",
                "KafkaCluster",
                state.name,
                objects.uid(state.cluster),
            )
        )


def _claim_conflict(broker: SnapshotObject, name: str, there: SnapshotObject) -> Waiting:
    going = objects.deleting(there)
    return Waiting(
        _ADD,
        f"KafkaBroker/{objects.name(broker)}/{name}",
        "ClaimNameConflict",
        f"{name} cannot be added to {objects.name(broker)} yet: claim {objects.name(there)} "
        + (
            "of a former disk is still being deleted."
            if going
            else "exists already and does not belong to a disk of this broker."
        ),
        "Nothing to do: Spindle continues when the claim is deleted."
        if going
        else f"Delete claim {objects.name(there)} if the data on its volume is not needed.",
        quiet=going,
    )


def _put_into_use(state: ClusterState, records: BrokerRecords, slot: BrokerDisk) -> None:
    volume = state.volume(state.claims.get(slot.disk["claim"]))
    if volume is not None:
        records.note_disk(
            slot.broker, slot.name, mode=disk_facts.ACTIVE, pv=objects.name(volume), pvUid=objects.uid(volume)
        )


def _provision(adding: _Adding, pool: BrokerPool, slot: BrokerDisk) -> _VolumeState:
    """Take the next step towards a volume for one disk."""
    state, inventory, builder = adding.state, adding.inventory, adding.builder
    node = _node(state, slot.broker)
    if node is None:
        builder.wait(_no_node(inventory, slot))
        return _VolumeState.STUCK
    there = state.claims.get(slot.disk["claim"])
    if there is None:
        return _begin(adding, pool, slot, node)
    if objects.deleting(there):
        builder.wait(_claim_conflict(state.brokers[slot.broker], slot.name, there))
        return _VolumeState.STUCK
    if objects.lost(there):
        builder.wait(_not_on_node(inventory, pool, slot, there, node))
        return _VolumeState.STUCK
    if not objects.bound_volume(there):
        return _request_volume(inventory, builder, adding.identity, slot, there, node)
    pod = claim_pod_of(state, slot)
    if pod is not None:
        end_claim_pod(builder, pod)
        return _VolumeState.COMING
    return _inspect(inventory, builder, pool, slot, there, node)


def _rebind(adding: _Adding, pool: BrokerPool, slot: BrokerDisk) -> None:
    """Get a volume for the claim of an evacuated disk; its content is then checked like that of any new disk."""
    state, inventory, builder = adding.state, adding.inventory, adding.builder
    evacuated = slot.mode == disk_facts.ABSENT and inventory.state_of(slot) is DiskState.EVACUATED
    pod = claim_pod_of(state, slot)
    if pod is None and not evacuated:
        return
    there = state.claims.get(slot.disk["claim"])
    if there is None or not unbound(state, slot):
        if pod is not None:
            end_claim_pod(builder, pod)
        return
    if not evacuated:
        return
    node = _node(state, slot.broker)
    if node is None:
        builder.wait(_no_node(inventory, slot))
        return
    found = class_of((there.get("spec") or {}).get("storageClassName"), state.snap.storage_classes)
    if is_static(found) and not kept_volumes(state, slot.disk["claim"]):
        _reserve(adding, pool, slot, there, node)
    else:
        _request_volume(inventory, builder, adding.identity, slot, there, node)


def _node(state: ClusterState, broker_id: int) -> SnapshotObject | None:
    """The node of the broker's volumes, else of its pod, else the node on record."""
    return state.nodes.get(node_of_broker(state, broker_id) or "")


def _begin(adding: _Adding, pool: BrokerPool, slot: BrokerDisk, node: SnapshotObject) -> _VolumeState:
    """Create the claim; with a class that has no provisioner, record a volume and reserve it first."""
    state, builder, broker = adding.state, adding.builder, adding.state.brokers[slot.broker]
    if not is_static(class_of(pool.disks.storage_class, state.snap.storage_classes)):
        builder.do(Create(object=claim_of(state, adding.identity, broker, pool, slot.disk)))
        return _VolumeState.COMING
    choice = choose(adding.free, broker, slot.disk)
    if choice.claim is not None:
        builder.do(Create(object=claim_of(state, adding.identity, broker, pool, slot.disk, choice.claim)))
    if not carry_out(choice, state, builder, adding.records, broker, slot.disk):
        builder.wait(_no_volume(adding.inventory, pool, slot, node))
        return _VolumeState.STUCK
    return _VolumeState.STUCK if choice.later else _VolumeState.COMING


def _reserve(
    adding: _Adding, pool: BrokerPool, slot: BrokerDisk, there: SnapshotObject, node: SnapshotObject
) -> None:
    """Note a free volume of the node on a claim, then reserve it; the patch fails if another claim has taken the volume in the meantime.

    The record of an evacuated disk keeps the volume that it had, which tells whether another one is in its place.
    """
    state, builder, broker = adding.state, adding.builder, adding.state.brokers[slot.broker]
    noted = objects.annotation(there, names.ANN_VOLUME)
    volume = state.volumes.get(noted or "")
    if noted and volume is None:
        builder.wait(_not_listed(adding.inventory, slot, noted))
    elif volume is not None and is_free(volume) and may_become(state, broker, slot.disk, volume):
        adding.free.given.add(objects.name(volume))
        builder.do(reserve(state, volume, slot.disk["claim"]))
    elif (found := adding.free.give(broker)) is not None:
        builder.do(note_volume(there, found))
    else:
        builder.wait(_no_volume(adding.inventory, pool, slot, node))


def _request_volume(
    inventory: DiskInventory,
    builder: PlanBuilder,
    identity: NodeIdentity,
    slot: BrokerDisk,
    there: SnapshotObject,
    node: SnapshotObject,
) -> _VolumeState:
    """Wait for the volume; with WaitForFirstConsumer, create the pod that makes the provisioner act."""
    state = inventory.state
    wanted = (there.get("spec") or {}).get("storageClassName")
    found = class_of(wanted, state.snap.storage_classes)
    unschedulable = ""
    if found is not None and not is_static(found) and found.get("volumeBindingMode") != _AT_ONCE:
        pod = claim_pod_of(state, slot)
        if pod is None:
            builder.do(request_volume(state, identity, slot.disk["claim"], objects.name(node)))
        elif objects.is_over(pod):
            end_claim_pod(builder, pod)
        else:
            scheduled = objects.condition(pod, "PodScheduled") or {}
            unschedulable = str(scheduled.get("message") or "") if scheduled.get("status") == "False" else ""
    wait = Waiting(
        _ADD,
        inventory.object_name(slot),
        "VolumeNotBound",
        f"Claim {slot.disk['claim']} of class {wanted or '(default)'} is not bound to a volume on node {objects.name(node)} yet. "
        f"{'The scheduler reports: ' + unschedulable if unschedulable else ''}".rstrip(),
        "Nothing to do: Spindle continues when the provisioner has created a volume or the reserved volume is bound."
        if not unschedulable
        else "Resolve what the scheduler reports. Spindle continues when the claim is bound.",
        quiet=not unschedulable,
    )
    builder.wait(wait)
    return _VolumeState.STUCK if state.waited(wait.key) > _COMING_SECONDS else _VolumeState.COMING


def _inspect(
    inventory: DiskInventory,
    builder: PlanBuilder,
    pool: BrokerPool,
    slot: BrokerDisk,
    there: SnapshotObject,
    node: SnapshotObject,
) -> _VolumeState:
    """Whether a bound volume may be mounted in its broker's pod."""
    state = inventory.state
    volume = state.volume(there)
    if volume is None or not reachable(volume, node):
        builder.wait(_not_on_node(inventory, pool, slot, there, node))
        return _VolumeState.STUCK
    refused = objects.annotation(there, names.ANN_REFUSED)
    usable = slot.health.well and slot.health.content in (disk_facts.BLANK, disk_facts.OURS)
    if slot.watched and usable:
        if refused is not None:
            builder.do(annotate_refusal(there, None))
        return _VolumeState.READY
    bad = slot.watched and (slot.health.bad or slot.health.content == disk_facts.FOREIGN)
    if refused is not None or bad:
        problem = refused or slot.health.message or "the disk is not blank"
        builder.wait(_unusable(inventory, pool, slot, problem))
        return _VolumeState.STUCK
    local = bool(section(volume, "spec", "local"))
    agent = state.snap.agents.get(objects.name(node))
    if not slot.watched and (not local or agent is None):
        return _VolumeState.READY  # only preflight can inspect it
    wait = Waiting(
        _ADD,
        inventory.object_name(slot),
        "DiskInspectionPending",
        f"The agent on node {objects.name(node)} has not reported the state of {slot.name} yet.",
        f"Nothing to do: Spindle continues when the agent reports, or after {_INSPECTION_SECONDS:.0f} s.",
        quiet=True,
    )
    builder.wait(wait)
    waited = state.waited(wait.key)
    if waited <= _INSPECTION_SECONDS:
        return _VolumeState.COMING
    # An operator that has just started waits longer: the agent may not have renewed its Lease since then.
    unheard = not (agent is None or agent.alive or agent.silent) and "leases" not in state.snap.unknown
    if not slot.watched and not unheard:
        return _VolumeState.READY
    return _VolumeState.COMING if waited <= _COMING_SECONDS else _VolumeState.STUCK


def claim_pod_of(state: ClusterState, slot: BrokerDisk) -> SnapshotObject | None:
    """The pod that makes the provisioner create the disk's volume."""
    return state.pod_by_name.get(slot.disk["claim"])


def end_claim_pod(builder: PlanBuilder, pod: SnapshotObject) -> None:
    """Delete a pod that was created only to get a claim bound."""
    builder.delete("Pod", pod)


def _no_node(inventory: DiskInventory, slot: BrokerDisk) -> Waiting:
    return Waiting(
        _ADD,
        inventory.object_name(slot),
        "NodeUnknown",
        f"{slot.name} cannot be added to broker {slot.broker}: the node with its disks is not known or does not exist.",
        "Bring the node back.",
    )


def _no_volume(inventory: DiskInventory, pool: BrokerPool, slot: BrokerDisk, node: SnapshotObject) -> Waiting:
    disks = pool.disks
    left = [objects.name(volume) for volume in left_volumes(inventory.state, slot.disk["claim"])]
    hint = (
        f" To use {some(left)} again, which was {slot.name} of this broker before and was retained: if the data on it is not needed, "
        "wipe it, then run: spindle volume reuse VOLUME (removes its spec.claimRef)."
        if left
        else ""
    )
    having = len([s for s in inventory.by_broker[slot.broker] if not s.never_used])
    otherwise = "" if disks.all else f" Or set disks.count of pool {pool.name} back to {having}."
    size = "" if disks.all else f" with at least {disks.size}"
    return Waiting(
        _ADD,
        inventory.object_name(slot),
        "InsufficientVolumesOnNode",
        f"{slot.name} cannot be added to broker {slot.broker}: node {objects.name(node)} has no free volume of class "
        f"{disks.storage_class or '(default)'}{size}.",
        f"Provide such a volume on {objects.name(node)}.{hint}{otherwise}",
    )


def _not_listed(inventory: DiskInventory, slot: BrokerDisk, volume: str) -> Waiting:
    claim = slot.disk["claim"]
    return Waiting(
        _ADD,
        inventory.object_name(slot),
        "VolumeUnavailable",
        f"Claim {claim} of {slot.name} of broker {slot.broker} gets volume {volume}, which is not in the list of PersistentVolumes. It may be reserved for this "
        "claim, so Spindle does not choose another one.",
        f"Nothing to do if {volume} is listed again soon. If it was deleted, delete the claim: kubectl delete pvc {claim}. Spindle then uses another volume "
        f"for {slot.name}.",
    )


def _not_on_node(
    inventory: DiskInventory, pool: BrokerPool, slot: BrokerDisk, there: SnapshotObject, node: SnapshotObject
) -> Waiting:
    bound, listed = section(there, "spec").get("volumeName"), inventory.state.volume(there) is not None
    if objects.lost(there) or not listed:
        state = (
            "is Lost: that volume does not exist, or belongs to another claim."
            if objects.lost(there)
            else "cannot be used: that volume is not listed."
        )
        way_out = (
            f"Nothing to do if {bound} is listed again soon. If it was deleted, delete the claim: kubectl delete pvc {objects.name(there)}. Spindle then "
            f"uses another volume for {slot.name}{', if the node has a free one' if pool.disks.all else ''}."
        )
    else:
        state = f"is bound to it, and it cannot be mounted on {objects.name(node)}, the node of broker {slot.broker}."
        way_out = (
            f"If {bound} is a disk of {objects.name(node)}, restore the labels of the node that the volume's nodeAffinity names. If not, set the "
            f"volume's persistentVolumeReclaimPolicy to Retain and delete the claim: kubectl delete pvc {objects.name(there)}. Spindle then uses another "
            f"volume for {slot.name}, if the node has a free one."
            if pool.disks.all
            else "Use a StorageClass with volumeBindingMode WaitForFirstConsumer: lower disks.count, change the class, then raise disks.count again."
        )
    return Waiting(
        _ADD,
        inventory.object_name(slot),
        "VolumeNotOnNode",
        f"Claim {objects.name(there)} of {slot.name} names volume {bound}. The claim {state}",
        way_out,
    )


def _unusable(inventory: DiskInventory, pool: BrokerPool, slot: BrokerDisk, problem: str) -> Waiting:
    bound = objects.bound_volume(inventory.state.claims[slot.disk["claim"]])
    leave_out = (
        f" To leave the volume out, set persistentVolumeReclaimPolicy of {bound} to Retain and delete claim {slot.disk['claim']}: the volume is then Released, "
        "and Spindle does not use it."
        if pool.disks.all
        else ""
    )
    return Waiting(
        _ADD,
        inventory.object_name(slot),
        "DiskUnusable",
        f"{slot.name} of broker {slot.broker} is not used: {problem.rstrip('.')}. The broker keeps running without it.",
        "Mount the right disk, with an empty file system. If no agent watches the disk, then remove the annotation "
        f"{names.ANN_REFUSED} from claim {slot.disk['claim']}.{leave_out}",
    )
