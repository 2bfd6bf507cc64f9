"""A broker whose node is permanently lost: its replicas are re-replicated elsewhere, its claims deleted, and it is recreated on another node.

The replicas move as for any broker whose disks are all dead (see `spindle.evacuation.requests`). This step reports what it waits
for, and deletes the claims once no replica is assigned to the broker (safety rule "no log dir removed with replicas on it",
``docs/safety.md``). The volumes are set to Retain and kept for their owner.
"""

from typing import Final

from spindle.brokers.records import BrokerLocation, find_location, new_disk
from spindle.disks.broker_disks import BrokerDisk
from spindle.disks.disk_inventory import DiskInventory
from spindle.disks.disk_states import stands_empty
from spindle.evacuation.disk_replacement import retire
from spindle.model import disk_facts, objects
from spindle.model.broker_records import BrokerRecords
from spindle.model.claim_release import release
from spindle.model.cluster_identity import NodeIdentity
from spindle.model.events import Event
from spindle.model.ids import uuid_from_entropy
from spindle.model.lost_brokers import ACTION, REASON, claimed_lost
from spindle.model.node_loss import OUT_OF_SERVICE, NodeLossClaim, NodeLossEvidence
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting, some

_GRACE: Final = 1  # seconds; no process is left on a node that is gone


def reconcile_node_loss(
    inventory: DiskInventory, builder: PlanBuilder, records: BrokerRecords, identity: NodeIdentity
) -> None:
    """Report what each node that seems to be gone waits for, and release the brokers of those that are gone for good."""
    leaving = False
    for node_id in inventory.state.brokers:
        loss = claimed_lost(inventory.state, node_id)
        if loss is None:
            continue
        if not loss.agreed:
            builder.wait(_not_agreed(inventory.state, node_id, loss))
        elif (location := _ready(inventory, builder, node_id, loss)) is not None and not leaving:
            leaving = True  # one at a time, so that no two are planned for the same node
            _move_out(inventory, builder, records, identity, node_id, loss, location)


def _ready(
    inventory: DiskInventory, builder: PlanBuilder, node_id: int, loss: NodeLossClaim
) -> BrokerLocation | None:
    """Where the broker can be recreated, once nothing of it is left on the old node; None before that."""
    state = inventory.state
    remaining = [slot for slot in inventory.by_broker.get(node_id, ()) if not stands_empty(inventory, slot)]
    location, pod = find_location(state, node_id), state.pods.get(node_id)
    builder.wait(_under_way(state, node_id, loss, remaining, location))
    if pod is not None:
        _delete_pod(builder, pod, loss.node)
    return location if location.found and pod is None and not remaining else None


def _delete_pod(builder: PlanBuilder, pod: SnapshotObject, node: str) -> None:
    """Delete the pod; Kubernetes removes the pods of a node that is gone once they are deleted."""
    message = f"Deleted pod {objects.name(pod)}: node {node} is permanently lost."
    builder.delete("Pod", pod, "NodeLost", message, grace_seconds=_GRACE)


def _move_out(
    inventory: DiskInventory,
    builder: PlanBuilder,
    records: BrokerRecords,
    identity: NodeIdentity,
    node_id: int,
    loss: NodeLossClaim,
    location: BrokerLocation,
) -> None:
    """Delete the claims; once they are gone, rewrite the broker's record."""
    state = inventory.state
    mine = [state.claims.get(slot.disk["claim"]) for slot in inventory.by_broker.get(node_id, ())]
    claims = [claim for claim in mine if claim is not None]
    if not claims:
        _recreate_broker(inventory, builder, records, node_id, loss, location)
    for claim in claims:
        why = f"node {loss.node} is permanently lost, and its disks hold no replicas any more"
        release(state, builder, identity, claim, f"KafkaBroker/{objects.name(state.brokers[node_id])}", why)


def _recreate_broker(
    inventory: DiskInventory,
    builder: PlanBuilder,
    records: BrokerRecords,
    node_id: int,
    loss: NodeLossClaim,
    location: BrokerLocation,
) -> None:
    """Recreate the broker with new disks: what is on record about the old ones is dropped, and their directory ids are retired for good."""
    state, there = inventory.state, [slot.name for slot in inventory.by_broker.get(node_id, ())]
    for slot in inventory.by_broker.get(node_id, ()):
        retire(inventory, records, slot)
        fresh = uuid_from_entropy(
            state.snap.entropy, "broker", str(node_id), slot.name, slot.disk["directoryId"]
        )
        # One that the new node has no volume for becomes an added disk without a volume, which is dropped once the list of log dirs is without it.
        gone = bool(location.disks) and slot.name not in location.disks
        nothing = {"fsUuid": None, "pv": None, "pvUid": None, "added": gone or None}
        mode = disk_facts.ABSENT if gone else disk_facts.ACTIVE
        records.note_disk(node_id, slot.name, mode=mode, directoryId=fresh, **nothing)
    for name in location.disks:
        if name not in there:
            records.add_disk(node_id, new_disk(state, node_id, name))
    records.note(node_id, node=location.node, rack=location.zone)
    broker = state.brokers[node_id]
    where = f" in zone {location.zone}" if location.zone else ""
    builder.events.append(
        Event(
            type="Normal",
            reason="BrokerRecreated",
            message=f"{objects.name(broker)} is recreated on another node{where}: {loss.node} is permanently lost, and its disks held no "
            "replicas any more.",
            kind="KafkaCluster",
            name=state.name,
            uid=objects.uid(state.cluster),
        )
    )


def _not_agreed(state: ClusterState, node_id: int, loss: NodeLossClaim) -> Waiting:
    name = objects.name(state.brokers[node_id])
    object_name, gone = f"KafkaBroker/{name}", _evidence_text(loss)
    if loss.answers:
        return Waiting(
            ACTION,
            object_name,
            "NodeStillReachable",
            f"{gone}, but {loss.node} is Ready, or {name} is not fenced in Kafka. Spindle does not treat the node as lost.",
            f"Remove the taint from node {loss.node}, or shut the node down.",
            asks=True,
        )
    command = f"spindle broker node-lost {name}"
    grace = (
        f" Without that, Spindle treats them as lost in {loss.grace - loss.waited:.0f} s (spec.disks.nodeGoneAfterSeconds)."
        if loss.grace is not None
        else ""
    )
    return Waiting(
        ACTION,
        object_name,
        REASON,
        f"{gone}, and the disks of {name} with it. Spindle does not treat them as lost yet: the partitions of {name} stay one replica short.",
        f"Bring the node back with its disks. If the disks are lost, accept that: {command}.{grace}",
        asks=True,
    )


def _evidence_text(loss: NodeLossClaim) -> str:
    if loss.evidence is NodeLossEvidence.DELETED:
        return f"Node {loss.node} no longer exists"
    return f"Node {loss.node} is tainted {OUT_OF_SERVICE}"


def _under_way(
    state: ClusterState,
    node_id: int,
    loss: NodeLossClaim,
    remaining: list[BrokerDisk],
    location: BrokerLocation,
) -> Waiting:
    """The wait that stays while the node is gone; the grace time counts from its ``since``."""
    name = objects.name(state.brokers[node_id])
    if remaining:
        what = f"Its replicas are re-replicated to other disks; some are still assigned to {some([slot.name for slot in remaining])}"
        out = (
            "Nothing to do: Spindle continues when the replicas are copied from the others. Other entries of status.waiting say what holds "
            "back a single one."
        )
    elif not location.found:
        what = (
            "Its disks hold no replicas any more. It needs a node with room for new disks, and there is none"
        )
        out = location.way_out
    else:
        what = "Its disks hold no replicas any more. Spindle deletes its claims, keeps its volumes and recreates it on another node"
        out = "Nothing to do: Spindle continues within a few reconciliations."
    return Waiting(
        ACTION,
        f"KafkaBroker/{name}",
        REASON,
        f"{_evidence_text(loss)}, and the loss of the disks of {name} is accepted. {what}.",
        out,
        quiet=True,
    )
