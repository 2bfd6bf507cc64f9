"""Leadership is moved off disks that serve, but badly, and off brokers that go down; it comes back when they are well, or back.

Kafka's controlled shutdown hands leaders over as well, when the process has been told to end. Done before, a broker that hangs in
its shutdown, or is ended before it is through, leaves no partition without a leader.
"""

from collections.abc import Mapping
from typing import Final

from spindle.cluster import names
from spindle.cluster.refusal import counted, some
from spindle.disks import facts, flock
from spindle.disks.findings import BY_KAFKA
from spindle.disks.lifecycle import DiskState
from spindle.disks.signals import DiskVerdict
from spindle.healing.lead import lead_elsewhere
from spindle.healing.standing import Key, names_of
from spindle.reconcile import objects
from spindle.reconcile.draft import Draft, Wait
from spindle.reconcile.slots import HUNG, Slot
from spindle.reconcile.state import State
from spindle.reconcile.steps.away import down, given_to_drain, on_closed_node, standing_marks
from spindle.reconcile.times import seconds
from spindle.reconcile.ward import Ward

SUSPECT_FOR: Final = 60.0  # seconds for which a disk must be suspect
_PATIENCE: Final = (
    30.0  # seconds that a broker waits for others to lead; then Kafka's own shutdown sees to the rest
)
_DOUBTFUL: Final = (DiskVerdict.SLOW, DiskVerdict.SUSPECT)
# Of these a leader is no better off elsewhere: its followers write as much.
_NO_MATTER: Final = frozenset({"Full", "NotPermitted", *BY_KAFKA})


def settle_leaders(ward: Ward, draft: Draft) -> Mapping[Key, int | None]:
    """Who is to lead what stands on disks that are not well, and what brokers lead that go down, for the executor."""
    unwell, leaving = [slot for slot in ward.slots if _unwell(ward, slot)], _leaving(ward.state)
    if ward.journal is None:
        return {}
    keep: dict[Key, int | None] = {}
    if "nodes" in ward.state.snap.unknown:  # who is on a closed node is not known: what was moved stays
        keep = {order.key: None for order in ward.journal.orders}
    if not (unwell or leaving):
        return keep
    disks = ward.state.spec.disks
    sick = {slot.key: slot.health.since for slot in unwell if slot.health.verdict in _DOUBTFUL}
    refusal = flock.may_act(
        {**ward.bad_since, **sick}, len(ward.slots), ward.state.now, disks.automatic_share / 100
    )
    if unwell and refusal is not None:
        wished = [slot for slot in unwell if slot.wish.drained]
        if len(wished) < len(unwell):
            draft.wait(Wait.refused("MoveLeaders", f"KafkaCluster/{ward.state.name}", refusal))
        # What stands as it is: putting back is no less an action than moving.
        keep |= dict.fromkeys(key for slot in unwell for key in ward.looked.on(slot.broker, slot.path) or ())
        unwell = wished
    return {**keep, **_lead(ward, unwell, leaving)}


def still_leading(ward: Ward, draft: Draft, leads: Mapping[Key, int | None]) -> frozenset[int]:
    """Marked brokers that are not evicted in this pass, because others are about to lead what they lead."""
    found = set()
    for mark in standing_marks(ward.state):
        node_id, since = int(mark["nodeId"]), seconds(mark.get("since"))
        pod = ward.state.pods.get(node_id)
        if pod is None or objects.uid(pod) != mark["uid"] or since is None:
            continue
        if objects.deleting(pod) or ward.state.now - since >= _PATIENCE:
            continue
        left = [
            key
            for key, to in leads.items()
            if to is not None and ward.looked.partitions[key].leader == node_id != to
        ]
        if left:
            found.add(node_id)
            draft.wait(_hands_over(objects.name(pod), left))
    return frozenset(found)


def _hands_over(pod: str, left: list[Key]) -> Wait:
    return Wait(
        "TakeDown",
        f"Pod/{pod}",
        "LeadersLeave",
        f"{pod} is taken down when others lead its {counted(len(left), 'partition')}: {some(names_of(left))}.",
        f"They do; after {_PATIENCE:g} s it goes all the same, and Kafka hands over what is left as it stops.",
        quiet=True,
    )


def _leaving(state: State) -> frozenset[int]:
    """Brokers that are to lead nothing: taken down by our hand and not back yet, or on nodes that somebody has closed."""
    marked = {int(mark["nodeId"]) for mark in standing_marks(state)}
    closed = {i for i in state.brokers if given_to_drain(state, i) or on_closed_node(state, i)}
    return frozenset(node for node in marked | closed if node < names.FIRST_CONTROLLER_ID)


def _lead(ward: Ward, unwell: list[Slot], leaving: frozenset[int]) -> Mapping[Key, int | None]:
    away = {node for node in down(ward.state) if node < names.FIRST_CONTROLLER_ID}
    sick = {
        slot.broker
        for slot in ward.slots
        if slot.mode != facts.ABSENT and (slot.health.bad or slot.health.verdict in _DOUBTFUL)
    }
    emptied = {slot.broker for slot in ward.within(DiskState.DRAINING)}
    return lead_elsewhere(
        ward.looked,
        [(slot.broker, slot.path) for slot in unwell],
        frozenset(away | sick | emptied),
        leaving,
    )


def _unwell(ward: Ward, slot: Slot) -> bool:
    """Whether a disk serves, and is to lead nothing. A hung one is left to the one who stops its broker."""
    health = slot.health
    if slot.mode != facts.ACTIVE or not slot.online or not health.fresh:
        return False
    if ward.now(slot) is DiskState.DRAINING or health.verdict == DiskVerdict.SLOW:
        return True
    if health.verdict == DiskVerdict.SUSPECT:
        return health.reason not in _NO_MATTER and ward.state.now - health.since >= SUSPECT_FOR
    return health.bad and health.reason != HUNG and health.reason not in BY_KAFKA
