"""Disks that brokers are to get besides those that they have: each is provisioned on its broker's node before the pod is made anew.

A slot goes on record first, out of use. Its claim is bound: to a free local volume that is kept for it by a claimRef, or to one
that a provisioner makes, asked by a pod that takes the claim to the broker's node. Only when the volume is there, and the
agent that looks at it finds it blank and well, is the slot put into use; the broker then restarts for it under rule 2.

The same goes for the claim of a disk that was emptied, where the claim was made anew and no pod has it any more: with volumeBindingMode
WaitForFirstConsumer nobody else would ever bind it, and a disk that is to be replaced would have no place.
"""

from enum import Enum
from typing import Any, Final

from spindle.api.cluster import BrokerPool
from spindle.cluster import names
from spindle.cluster.waiting import Waiting, counted, some
from spindle.disks import facts
from spindle.disks.lifecycle import DiskState
from spindle.healing.maintenance import disk_requests
from spindle.manifests.claim_pods import claim_pod
from spindle.manifests.identity import NodeIdentity
from spindle.placement.nodes import section
from spindle.placement.room import DiskWant, class_of, free_volume, is_static, reachable
from spindle.reconcile import objects
from spindle.reconcile.actions import Create, Delete, Patch
from spindle.reconcile.broker_disks import BrokerDisk
from spindle.reconcile.disk_inventory import DiskInventory
from spindle.reconcile.events import Event
from spindle.reconcile.inputs import cluster_inputs, disks_of
from spindle.reconcile.node_loss import node_is_lost
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.stale_records import is_stale
from spindle.reconcile.state import ClusterState
from spindle.reconcile.steps.brokers import BrokerRecords, new_disk, node_of_volumes
from spindle.reconcile.steps.claims import claim_of

_ADD: Final = "AddDisk"
_NEEDED: Final = frozenset({"nodes", "persistentvolumes", "storageclasses"})
_LOOK_SECONDS: Final = 30.0  # that an agent may take before a local volume is used without its word
_COMING_SECONDS: Final = 120.0  # that one disk of a broker waits for another, so that one restart serves both
_AT_ONCE: Final = "Immediate"
_JOINED: Final = frozenset(DiskState) - {DiskState.PROVISIONING, DiskState.REMOVED}


class _VolumeState(Enum):
    """How far a disk is that is to be added."""

    READY = "ready"
    COMING = "coming"
    STUCK = "stuck"


def reconcile_added_disks(
    inventory: DiskInventory, builder: PlanBuilder, records: BrokerRecords, identity: NodeIdentity
) -> None:
    """Give brokers the disks that their pool asks for and that they lack."""
    state = inventory.state
    if state.snap.unknown & _NEEDED:
        return  # said already
    for broker_id, broker in state.brokers.items():
        pool = state.pool_of(broker)
        going = broker_id in inventory.scaling_in or node_is_lost(state, broker_id)
        if pool is None or objects.deleting(broker) or going:
            continue
        _add(state, builder, records, pool, broker)
        mine = [slot for slot in inventory.by_broker.get(broker_id, ()) if slot.key not in inventory.removing]
        _bring(inventory, builder, records, identity, pool, mine)
        if broker["spec"].get("joining") and mine and all(slot.recorded in _JOINED for slot in mine):
            records.note(broker_id, joining=False)  # not None: the record was created with it
        for slot in mine:
            # From now on it is a disk like all others.
            if slot.added and slot.disk.get("fsUuid") and slot.recorded in _JOINED:
                records.note_disk(broker_id, slot.name, added=None)


def _bring(
    inventory: DiskInventory,
    builder: PlanBuilder,
    records: BrokerRecords,
    identity: NodeIdentity,
    pool: BrokerPool,
    mine: list[BrokerDisk],
) -> None:
    """Volumes for those of a broker's slots that lack one; new ones that are ready together are put into use together."""
    coming = [slot for slot in mine if slot.never_used]
    how = {slot.name: _provision(inventory, builder, identity, pool, slot) for slot in coming}
    if _VolumeState.COMING not in how.values():
        for slot in coming:
            if how[slot.name] is _VolumeState.READY:
                _take_up(inventory.state, records, slot)
    for slot in mine:
        if not slot.never_used:
            _bind_again(inventory, builder, identity, pool, slot)


def _add(
    state: ClusterState,
    builder: PlanBuilder,
    records: BrokerRecords,
    pool: BrokerPool,
    broker: SnapshotObject,
) -> None:
    """Put missing slots on record, each with a directory id of its own; of a record that is behind nobody knows yet which are missing."""
    if is_stale(state, broker):
        return
    broker_id, having = int(broker["spec"]["id"]), {disk["name"] for disk in disks_of(broker)}
    drained = {disk for disk, request in disk_requests(broker).items() if request.drained}
    wanted = [name for i in range(pool.disks.count) if (name := names.disk_name(i)) not in having]
    found = []
    for name in wanted:
        there = state.claims.get(names.claim_name(state.name, broker_id, name))
        if there is not None:
            builder.wait(_in_the_way(broker, name, there))
        elif name not in drained:
            found.append(name)
    # A broker that never had a volume gets it with the others, wherever its pod is put.
    ran = any(disk.get("pvUid") for disk in disks_of(broker))
    for name in found:
        entry = new_disk(state, broker_id, name)
        records.add_disk(broker_id, entry | {"mode": facts.ABSENT, "added": True} if ran else entry)
    if found:
        builder.events.append(
            Event(
                "Normal",
                "DisksAdded",
                f"{objects.name(broker)} gets {some(found)}: pool {pool.name} asks for {counted(pool.disks.count, 'disk')}.",
                "KafkaCluster",
                state.name,
                objects.uid(state.cluster),
            )
        )


def _in_the_way(broker: SnapshotObject, name: str, there: SnapshotObject) -> Waiting:
    going = objects.deleting(there)
    return Waiting(
        _ADD,
        f"KafkaBroker/{objects.name(broker)}/{name}",
        "ClaimNameConflict",
        f"{objects.name(broker)} is to get {name}, but claim {objects.name(there)} "
        + (
            "of a former disk is still being deleted."
            if going
            else "is there already, and no disk on record has it."
        ),
        "The claim is gone; "
        + ("that takes a moment." if going else "delete it if nobody needs what is on its volume."),
        quiet=going,
    )


def _take_up(state: ClusterState, records: BrokerRecords, slot: BrokerDisk) -> None:
    volume = state.volume(state.claims.get(slot.disk["claim"]))
    if volume is not None:
        records.note_disk(
            slot.broker, slot.name, mode=facts.ACTIVE, pv=objects.name(volume), pvUid=objects.uid(volume)
        )


def _provision(
    inventory: DiskInventory, builder: PlanBuilder, identity: NodeIdentity, pool: BrokerPool, slot: BrokerDisk
) -> _VolumeState:
    """The next step towards a volume for one slot."""
    state = inventory.state
    node = _node(state, slot.broker)
    if node is None:
        builder.wait(_no_node(inventory, slot))
        return _VolumeState.STUCK
    there = state.claims.get(slot.disk["claim"])
    if there is None:
        return _begin(inventory, builder, identity, pool, slot, node)
    if objects.deleting(there):
        builder.wait(_in_the_way(state.brokers[slot.broker], slot.name, there))
        return _VolumeState.STUCK
    if not objects.bound_volume(there):
        return _ask(inventory, builder, identity, slot, there, node)
    pod = claim_pod_of(state, slot)
    if pod is not None:
        end_claim_pod(builder, pod)
        return _VolumeState.COMING
    return _look(inventory, builder, slot, there, node)


def unbound(state: ClusterState, slot: BrokerDisk) -> bool:
    """Whether a slot's claim is there and has no volume."""
    there = state.claims.get(slot.disk["claim"])
    return there is not None and not (
        objects.deleting(there) or objects.lost(there) or objects.bound_volume(there)
    )


def _bind_again(
    inventory: DiskInventory, builder: PlanBuilder, identity: NodeIdentity, pool: BrokerPool, slot: BrokerDisk
) -> None:
    """A volume for the claim of a disk that was emptied; what lies there is then judged as any other new disk."""
    state = inventory.state
    there, pod = state.claims.get(slot.disk["claim"]), claim_pod_of(state, slot)
    if there is None or not unbound(state, slot):
        if pod is not None:
            end_claim_pod(builder, pod)
        return
    if inventory.state_of(slot) is not DiskState.EVACUATED or slot.mode != facts.ABSENT:
        return
    node = _node(state, slot.broker)
    if node is None:
        builder.wait(_no_node(inventory, slot))
        return
    found = class_of((there.get("spec") or {}).get("storageClassName"), state.snap.storage_classes)
    if is_static(found) and not kept_volumes(state, slot.disk["claim"]):
        _keep(inventory, builder, pool, slot, node)
    else:
        _ask(inventory, builder, identity, slot, there, node)


def _node(state: ClusterState, broker_id: int) -> SnapshotObject | None:
    """The node that a broker's volumes, else its pod, are on."""
    broker = state.brokers[broker_id]
    name = node_of_volumes(state, broker) or state.node_of(broker_id) or broker["spec"].get("node")
    return state.nodes.get(str(name or ""))


def _begin(
    inventory: DiskInventory,
    builder: PlanBuilder,
    identity: NodeIdentity,
    pool: BrokerPool,
    slot: BrokerDisk,
    node: SnapshotObject,
) -> _VolumeState:
    """Keep a volume for the claim where volumes are not made on demand; then make the claim."""
    state, disks = inventory.state, pool.disks
    volume: str | None = None
    if is_static(class_of(disks.storage_class, state.snap.storage_classes)):
        kept = kept_volumes(state, slot.disk["claim"])
        if not kept:
            return _keep(inventory, builder, pool, slot, node)
        volume = objects.name(kept[0])
    broker = state.brokers[slot.broker]
    builder.do(Create(object=claim_of(state, identity, broker, pool, slot.disk, volume)))
    return _VolumeState.COMING


def _keep(
    inventory: DiskInventory, builder: PlanBuilder, pool: BrokerPool, slot: BrokerDisk, node: SnapshotObject
) -> _VolumeState:
    """Reserve a free volume on the node; whoever else took it in the meantime makes the patch fail."""
    state, disks = inventory.state, pool.disks
    want = DiskWant(disks.size, disks.storage_class)
    taken = {a.name for a in builder.actions if isinstance(a, Patch) and a.kind == "PersistentVolume"}
    free = [volume for volume in state.snap.volumes if objects.name(volume) not in taken]
    found = free_volume(node, free, state.snap.storage_classes, want)
    if found is None:
        builder.wait(_no_volume(inventory, pool, slot, node))
        return _VolumeState.STUCK
    claim_ref = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": state.namespace,
        "name": slot.disk["claim"],
    }
    builder.do(refer(found, claim_ref))
    return _VolumeState.COMING


def refer(volume: SnapshotObject, claim_ref: dict[str, str] | None) -> Patch:
    """Keep a volume for a claim, or for none any more; it fails where somebody else has changed the volume."""
    return Patch(
        kind="PersistentVolume",
        name=objects.name(volume),
        uid=objects.uid(volume),
        resource_version=objects.version(volume),
        body={"spec": {"claimRef": claim_ref}},
    )


def kept_volumes(state: ClusterState, claim_name: str) -> list[SnapshotObject]:
    """Volumes that are kept for a claim that does not have them yet."""
    return [
        volume
        for volume in state.volumes.values()
        if _kept_for(state, volume, claim_name) and not section(volume, "spec", "claimRef").get("uid")
    ]


def left_volumes(state: ClusterState, claim_name: str) -> list[SnapshotObject]:
    """Volumes that a claim of this name had, and that were kept when it went."""
    return [
        volume
        for volume in state.volumes.values()
        if _kept_for(state, volume, claim_name)
        and section(volume, "spec", "claimRef").get("uid")
        and section(volume, "status").get("phase") == "Released"
    ]


def _kept_for(state: ClusterState, volume: SnapshotObject, claim_name: str) -> bool:
    ref = section(volume, "spec", "claimRef")
    return (ref.get("namespace"), ref.get("name")) == (state.namespace, claim_name)


def _ask(
    inventory: DiskInventory,
    builder: PlanBuilder,
    identity: NodeIdentity,
    slot: BrokerDisk,
    there: SnapshotObject,
    node: SnapshotObject,
) -> _VolumeState:
    """Waiting for the volume; where its place is chosen by the pod that asks for it, see that one does."""
    state = inventory.state
    wanted = (there.get("spec") or {}).get("storageClassName")
    found = class_of(wanted, state.snap.storage_classes)
    said = ""
    if found is not None and not is_static(found) and found.get("volumeBindingMode") != _AT_ONCE:
        pod = claim_pod_of(state, slot)
        if pod is None:
            shared = cluster_inputs(state, identity)
            builder.do(Create(object=claim_pod(shared, slot.disk["claim"], objects.name(node))))
        elif objects.is_over(pod):
            end_claim_pod(builder, pod)
        else:
            scheduled = objects.condition(pod, "PodScheduled") or {}
            said = str(scheduled.get("message") or "") if scheduled.get("status") == "False" else ""
    wait = Waiting(
        _ADD,
        inventory.object_name(slot),
        "VolumeNotBound",
        f"Claim {slot.disk['claim']} of class {wanted or '(default)'} has no volume on {objects.name(node)} yet. "
        f"{'The scheduler says: ' + said if said else ''}".rstrip(),
        "Its provisioner makes one, or the volume that is kept for it is bound.",
        quiet=not said,
    )
    builder.wait(wait)
    return _VolumeState.STUCK if state.waited(wait.key) > _COMING_SECONDS else _VolumeState.COMING


def _look(
    inventory: DiskInventory,
    builder: PlanBuilder,
    slot: BrokerDisk,
    there: SnapshotObject,
    node: SnapshotObject,
) -> _VolumeState:
    """Whether a bound volume may be put into its broker's pod."""
    state = inventory.state
    volume = state.volume(there)
    if volume is None or not reachable(volume, node):
        builder.wait(_elsewhere(inventory, slot, there, node))
        return _VolumeState.STUCK
    refused = objects.annotation(there, names.ANN_REFUSED)
    good = slot.health.well and slot.health.content in (facts.BLANK, facts.OURS)
    if slot.watched and good:
        if refused is not None:
            builder.do(_annotate(there, None))
        return _VolumeState.READY
    bad = slot.watched and (slot.health.bad or slot.health.content == facts.FOREIGN)
    if refused is not None or bad:
        builder.wait(_unusable(inventory, slot, refused or slot.health.message or "it is not blank"))
        return _VolumeState.STUCK
    local = bool(section(volume, "spec", "local"))
    agent = state.snap.agents.get(objects.name(node))
    if not slot.watched and (not local or agent is None):
        return _VolumeState.READY  # nobody but preflight can tell
    wait = Waiting(
        _ADD,
        inventory.object_name(slot),
        "DiskInspectionPending",
        f"The agent on {objects.name(node)} has not said yet how {slot.name} is.",
        "It does, or half a minute has passed.",
        quiet=True,
    )
    builder.wait(wait)
    waited = state.waited(wait.key)
    if waited <= _LOOK_SECONDS:
        return _VolumeState.COMING
    # An operator that has just begun to listen gives the agent the time to be heard.
    unheard = not (agent is None or agent.alive or agent.silent) and "leases" not in state.snap.unknown
    if not slot.watched and not unheard:
        return _VolumeState.READY
    return _VolumeState.COMING if waited <= _COMING_SECONDS else _VolumeState.STUCK


def claim_pod_of(state: ClusterState, slot: BrokerDisk) -> SnapshotObject | None:
    """The pod that asks for a slot's volume."""
    return next((pod for pod in state.snap.pods if objects.name(pod) == slot.disk["claim"]), None)


def end_claim_pod(builder: PlanBuilder, pod: SnapshotObject) -> None:
    """Take a pod away that asked for a volume."""
    if not objects.deleting(pod):
        builder.do(Delete(kind="Pod", name=objects.name(pod), uid=objects.uid(pod)))


def refuse(found: SnapshotObject, problem: str) -> Patch:
    """Note on a claim why its volume was not taken, so that its broker is not restarted for it again and again."""
    return _annotate(found, problem[:1000])


def _annotate(found: SnapshotObject, text: str | None) -> Patch:
    body: dict[str, Any] = {"metadata": {"annotations": {names.ANN_REFUSED: text}}}
    return Patch(kind="PersistentVolumeClaim", name=objects.name(found), uid=objects.uid(found), body=body)


def _no_node(inventory: DiskInventory, slot: BrokerDisk) -> Waiting:
    return Waiting(
        _ADD,
        inventory.object_name(slot),
        "NodeUnknown",
        f"Broker {slot.broker} is to get {slot.name}, but the node that its disks are on is not known, or not there.",
        "The node is back.",
    )


def _no_volume(inventory: DiskInventory, pool: BrokerPool, slot: BrokerDisk, node: SnapshotObject) -> Waiting:
    disks = pool.disks
    left = [objects.name(volume) for volume in left_volumes(inventory.state, slot.disk["claim"])]
    hint = (
        f" {some(left)} was {slot.name} of this broker before and is kept: if nobody needs what is on it, wipe it and take its "
        "spec.claimRef away."
        if left
        else ""
    )
    having = len([s for s in inventory.by_broker[slot.broker] if not s.never_used])
    return Waiting(
        _ADD,
        inventory.object_name(slot),
        "InsufficientVolumesOnNode",
        f"Broker {slot.broker} is to get {slot.name}, and {objects.name(node)} has no free volume of class "
        f"{disks.storage_class or '(default)'} with at least {disks.size}.",
        f"Provide one there.{hint} Or set disks.count of pool {pool.name} back to {having}.",
    )


def _elsewhere(
    inventory: DiskInventory, slot: BrokerDisk, there: SnapshotObject, node: SnapshotObject
) -> Waiting:
    return Waiting(
        _ADD,
        inventory.object_name(slot),
        "VolumeNotOnNode",
        f"Claim {objects.name(there)} is bound to {objects.bound_volume(there)}, which cannot be read or cannot be mounted on "
        f"{objects.name(node)}, where broker {slot.broker} is.",
        "A StorageClass with volumeBindingMode WaitForFirstConsumer. Lower disks.count, and raise it again then.",
    )


def _unusable(inventory: DiskInventory, slot: BrokerDisk, problem: str) -> Waiting:
    return Waiting(
        _ADD,
        inventory.object_name(slot),
        "DiskUnusable",
        f"{slot.name} of broker {slot.broker} is not taken: {problem.rstrip('.')}. The broker goes on without it.",
        "Mount the right disk there, with an empty file system. Where no agent looks at it, then take the annotation "
        f"{names.ANN_REFUSED} off claim {slot.disk['claim']}.",
    )
