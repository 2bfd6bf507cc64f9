"""A broker whose node is gone for good: its replicas are made anew elsewhere, then its claims go, and it starts anew on another node.

The replicas leave like those of any broker of which all disks are dead (see `spindle.reconcile.steps.emptying`). Here it is told what is
waited for, and what is left of the broker is let go when nothing stands on it any more (rule 5): its volumes are kept, set to Retain,
for their owner.
"""

from typing import Final

from spindle.cluster.ids import uuid_from_entropy
from spindle.cluster.refusal import some
from spindle.disks import facts
from spindle.healing.gone import OUT_OF_SERVICE, Claimed, Evidence
from spindle.manifests.identity import Identity
from spindle.reconcile import objects
from spindle.reconcile.actions import Delete
from spindle.reconcile.draft import Draft, Wait
from spindle.reconcile.events import Event
from spindle.reconcile.gone import ACTION, REASON, claimed_gone
from spindle.reconcile.slots import Slot
from spindle.reconcile.snapshot import Object
from spindle.reconcile.state import State
from spindle.reconcile.steps.brokers import Home, Records, find_home
from spindle.reconcile.steps.lives import stands_empty
from spindle.reconcile.steps.refilling import retire
from spindle.reconcile.steps.shrinking import release
from spindle.reconcile.ward import Ward

_GRACE: Final = 1  # seconds; on a node that is gone nothing is left to end


def settle_gone_for_good(ward: Ward, draft: Draft, records: Records, identity: Identity) -> None:
    """Say of each node that seems to be gone what is waited for, and go on with those that are."""
    leaving = False
    for node_id in ward.state.brokers:
        said = claimed_gone(ward.state, node_id)
        if said is None:
            continue
        if not said.agreed:
            draft.wait(_not_agreed(ward.state, node_id, said))
        elif (home := _ready(ward, draft, node_id, said)) is not None and not leaving:
            leaving = True  # one at a time, so that no two count on the same place
            _move_out(ward, draft, records, identity, node_id, said, home)


def _ready(ward: Ward, draft: Draft, node_id: int, said: Claimed) -> Home | None:
    """A place where the broker can start anew, once nothing is left of it on the old node; None before that."""
    state = ward.state
    left = [slot for slot in ward.by_broker.get(node_id, ()) if not stands_empty(ward, slot)]
    home, pod = find_home(state, node_id), state.pods.get(node_id)
    draft.wait(_under_way(state, node_id, said, left, home))
    if pod is not None:
        _end(draft, pod, said.node)
    return home if home.found and pod is None and not left else None


def _end(draft: Draft, pod: Object, node: str) -> None:
    """Kubernetes ends the pods of a node that is gone when they are asked to go."""
    if not objects.deleting(pod):
        draft.do(
            Delete(
                kind="Pod",
                name=objects.name(pod),
                uid=objects.uid(pod),
                grace_seconds=_GRACE,
                reason="NodeGone",
                message=f"{objects.name(pod)} is deleted: node {node} is gone for good.",
            )
        )


def _move_out(
    ward: Ward, draft: Draft, records: Records, identity: Identity, node_id: int, said: Claimed, home: Home
) -> None:
    """The claims go; when they are gone, the record is another one."""
    state = ward.state
    mine = [state.claims.get(slot.disk["claim"]) for slot in ward.by_broker.get(node_id, ())]
    claims = [claim for claim in mine if claim is not None]
    if not claims:
        _start_anew(ward, draft, records, node_id, said, home)
    for claim in claims:
        why = f"node {said.node} is gone for good, and nothing stands on its disks"
        release(state, draft, identity, claim, f"KafkaBroker/{objects.name(state.brokers[node_id])}", why)


def _start_anew(ward: Ward, draft: Draft, records: Records, node_id: int, said: Claimed, home: Home) -> None:
    """The same broker with new disks: nothing on record about them is true any more, and their ids are given up for good."""
    state = ward.state
    for slot in ward.by_broker.get(node_id, ()):
        retire(ward, records, slot)
        fresh = uuid_from_entropy(
            state.snap.entropy, "broker", str(node_id), slot.name, slot.disk["directoryId"]
        )
        nothing = {"fsUuid": None, "pv": None, "pvUid": None, "added": None}
        records.note_disk(node_id, slot.name, mode=facts.ACTIVE, directoryId=fresh, **nothing)
    records.note(node_id, node=None, rack=home.zone)
    broker = state.brokers[node_id]
    where = f" in zone {home.zone}" if home.zone else ""
    draft.events.append(
        Event(
            type="Normal",
            reason="BrokerStartsAnew",
            message=f"{objects.name(broker)} starts anew on another node{where}: {said.node} is gone for good, and nothing stood on its "
            "disks any more.",
            kind="KafkaCluster",
            name=state.name,
            uid=objects.uid(state.cluster),
        )
    )


def _not_agreed(state: State, node_id: int, said: Claimed) -> Wait:
    name = objects.name(state.brokers[node_id])
    thing, gone = f"KafkaBroker/{name}", _says(said)
    if said.answers:
        return Wait(
            ACTION,
            thing,
            "NodeAnswers",
            f"{gone}; but {said.node} is ready, or Kafka still hears {name}. Nothing of it is given up.",
            f"Take the taint off node {said.node}, or switch it off.",
        )
    word = f'kubectl patch kafkabroker {name} --type merge -p \'{{"spec":{{"nodeGone":"{said.node}"}}}}\''
    grace = (
        f" Or {said.grace - said.waited:.0f} s more pass (spec.disks.nodeGoneAfterSeconds)."
        if said.grace is not None
        else ""
    )
    return Wait(
        ACTION,
        thing,
        REASON,
        f"{gone}, and the disks of {name} with it. They are not given up yet: its replicas stay where they are, one copy short.",
        f"The node comes back as it was; or, if its disks are lost, agree to that: {word}.{grace}",
    )


def _says(said: Claimed) -> str:
    if said.evidence is Evidence.DELETED:
        return f"Node {said.node} no longer exists"
    return f"Node {said.node} is tainted {OUT_OF_SERVICE}"


def _under_way(state: State, node_id: int, said: Claimed, left: list[Slot], home: Home) -> Wait:
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
    return Wait(
        ACTION,
        f"KafkaBroker/{name}",
        REASON,
        f"{_says(said)}, and it is agreed that the disks of {name} are lost. {what}.",
        out,
        quiet=True,
    )
