"""A broker whose node is gone for good: its replicas are made anew elsewhere, then its claims go, and it starts anew on another node.

The replicas leave like those of any broker of which all disks are dead (see `spindle.reconcile.steps.evacuation`). Here it is told what is
waited for, and what is left of the broker is let go when nothing stands on it any more (rule 5): its volumes are kept, set to Retain,
for their owner.
"""

from typing import Final

from spindle.cluster.ids import uuid_from_entropy
from spindle.cluster.waiting import Waiting, some
from spindle.disks import facts
from spindle.healing.node_loss import OUT_OF_SERVICE, NodeLossClaim, NodeLossEvidence
from spindle.manifests.identity import NodeIdentity
from spindle.reconcile import objects
from spindle.reconcile.actions import Delete
from spindle.reconcile.broker_disks import BrokerDisk
from spindle.reconcile.disk_inventory import DiskInventory
from spindle.reconcile.events import Event
from spindle.reconcile.node_loss import ACTION, REASON, claimed_lost
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.state import ClusterState
from spindle.reconcile.steps.brokers import BrokerLocation, BrokerRecords, find_location
from spindle.reconcile.steps.disk_replacement import retire
from spindle.reconcile.steps.disk_states import stands_empty
from spindle.reconcile.steps.remove_disks import release

_GRACE: Final = 1  # seconds; on a node that is gone nothing is left to end


def reconcile_node_loss(
    inventory: DiskInventory, builder: PlanBuilder, records: BrokerRecords, identity: NodeIdentity
) -> None:
    """Say of each node that seems to be gone what is waited for, and go on with those that are."""
    leaving = False
    for node_id in inventory.state.brokers:
        said = claimed_lost(inventory.state, node_id)
        if said is None:
            continue
        if not said.agreed:
            builder.wait(_not_agreed(inventory.state, node_id, said))
        elif (home := _ready(inventory, builder, node_id, said)) is not None and not leaving:
            leaving = True  # one at a time, so that no two count on the same place
            _move_out(inventory, builder, records, identity, node_id, said, home)


def _ready(
    inventory: DiskInventory, builder: PlanBuilder, node_id: int, said: NodeLossClaim
) -> BrokerLocation | None:
    """A place where the broker can start anew, once nothing is left of it on the old node; None before that."""
    state = inventory.state
    left = [slot for slot in inventory.by_broker.get(node_id, ()) if not stands_empty(inventory, slot)]
    home, pod = find_location(state, node_id), state.pods.get(node_id)
    builder.wait(_under_way(state, node_id, said, left, home))
    if pod is not None:
        _end(builder, pod, said.node)
    return home if home.found and pod is None and not left else None


def _end(builder: PlanBuilder, pod: SnapshotObject, node: str) -> None:
    """Kubernetes ends the pods of a node that is gone when they are asked to go."""
    if not objects.deleting(pod):
        builder.do(
            Delete(
                kind="Pod",
                name=objects.name(pod),
                uid=objects.uid(pod),
                grace_seconds=_GRACE,
                reason="NodeLost",
                message=f"{objects.name(pod)} is deleted: node {node} is gone for good.",
            )
        )


def _move_out(
    inventory: DiskInventory,
    builder: PlanBuilder,
    records: BrokerRecords,
    identity: NodeIdentity,
    node_id: int,
    said: NodeLossClaim,
    home: BrokerLocation,
) -> None:
    """The claims go; when they are gone, the record is another one."""
    state = inventory.state
    mine = [state.claims.get(slot.disk["claim"]) for slot in inventory.by_broker.get(node_id, ())]
    claims = [claim for claim in mine if claim is not None]
    if not claims:
        _start_anew(inventory, builder, records, node_id, said, home)
    for claim in claims:
        why = f"node {said.node} is gone for good, and nothing stands on its disks"
        release(state, builder, identity, claim, f"KafkaBroker/{objects.name(state.brokers[node_id])}", why)


def _start_anew(
    inventory: DiskInventory,
    builder: PlanBuilder,
    records: BrokerRecords,
    node_id: int,
    said: NodeLossClaim,
    home: BrokerLocation,
) -> None:
    """The same broker with new disks: nothing on record about them is true any more, and their ids are given up for good."""
    state = inventory.state
    for slot in inventory.by_broker.get(node_id, ()):
        retire(inventory, records, slot)
        fresh = uuid_from_entropy(
            state.snap.entropy, "broker", str(node_id), slot.name, slot.disk["directoryId"]
        )
        nothing = {"fsUuid": None, "pv": None, "pvUid": None, "added": None}
        records.note_disk(node_id, slot.name, mode=facts.ACTIVE, directoryId=fresh, **nothing)
    records.note(node_id, node=None, rack=home.zone)
    broker = state.brokers[node_id]
    where = f" in zone {home.zone}" if home.zone else ""
    builder.events.append(
        Event(
            type="Normal",
            reason="BrokerRecreated",
            message=f"{objects.name(broker)} starts anew on another node{where}: {said.node} is gone for good, and nothing stood on its "
            "disks any more.",
            kind="KafkaCluster",
            name=state.name,
            uid=objects.uid(state.cluster),
        )
    )


def _not_agreed(state: ClusterState, node_id: int, said: NodeLossClaim) -> Waiting:
    name = objects.name(state.brokers[node_id])
    thing, gone = f"KafkaBroker/{name}", _says(said)
    if said.answers:
        return Waiting(
            ACTION,
            thing,
            "NodeStillReachable",
            f"{gone}; but {said.node} is ready, or Kafka still hears {name}. Nothing of it is given up.",
            f"Take the taint off node {said.node}, or switch it off.",
        )
    word = f'kubectl patch kafkabroker {name} --type merge -p \'{{"spec":{{"acceptDataLoss":{{"node":"{said.node}"}}}}}}\''
    grace = (
        f" Or {said.grace - said.waited:.0f} s more pass (spec.disks.nodeGoneAfterSeconds)."
        if said.grace is not None
        else ""
    )
    return Waiting(
        ACTION,
        thing,
        REASON,
        f"{gone}, and the disks of {name} with it. They are not given up yet: its replicas stay where they are, one copy short.",
        f"The node comes back as it was; or, if its disks are lost, agree to that: {word}.{grace}",
    )


def _says(said: NodeLossClaim) -> str:
    if said.evidence is NodeLossEvidence.DELETED:
        return f"Node {said.node} no longer exists"
    return f"Node {said.node} is tainted {OUT_OF_SERVICE}"


def _under_way(
    state: ClusterState, node_id: int, said: NodeLossClaim, left: list[BrokerDisk], home: BrokerLocation
) -> Waiting:
    """Stays as long as the node is gone: since when it is there is what the grace time is counted by."""
    name = objects.name(state.brokers[node_id])
    if left:
        what = (
            f"Its replicas are made anew on other disks; {some([slot.name for slot in left])} still has some"
        )
        out = "They are copied from the others. What keeps one of them is said beside this."
    elif not home.found:
        what = "Nothing stands on its disks any more. It starts anew, with new disks, on a node with room, and there is none"
        out = home.way_out
    else:
        what = "Nothing stands on its disks any more. Its claims go, its volumes are kept, and it starts anew on another node"
        out = "That takes some passes."
    return Waiting(
        ACTION,
        f"KafkaBroker/{name}",
        REASON,
        f"{_says(said)}, and it is agreed that the disks of {name} are lost. {what}.",
        out,
        quiet=True,
    )
