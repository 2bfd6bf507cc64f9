"""Leadership is moved off disks that serve, but badly, and off brokers that go down; it comes back when they are well, or back.

Kafka's controlled shutdown hands leaders over as well, when the process has been told to end. Done before, a broker that hangs in
its shutdown, or is ended before it is through, leaves no partition without a leader.
"""

from collections.abc import Mapping
from typing import Final

from spindle.cluster import names
from spindle.cluster.waiting import Waiting, counted, some
from spindle.disks import correlated_failures, facts
from spindle.disks.findings import BY_KAFKA
from spindle.disks.lifecycle import DiskState
from spindle.disks.signals import DiskVerdict
from spindle.healing.leadership import move_leadership
from spindle.healing.replica_index import Key, names_of
from spindle.reconcile import objects
from spindle.reconcile.broker_disks import HUNG, BrokerDisk
from spindle.reconcile.disk_inventory import DiskInventory
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.state import ClusterState
from spindle.reconcile.steps.unavailable import (
    current_records,
    evicted_for_drain,
    on_closed_node,
    unavailable,
)
from spindle.reconcile.times import seconds

SUSPECT_FOR: Final = 60.0  # seconds for which a disk must be suspect
_PATIENCE: Final = (
    30.0  # seconds that a broker waits for others to lead; then Kafka's own shutdown sees to the rest
)
_DOUBTFUL: Final = (DiskVerdict.SLOW, DiskVerdict.SUSPECT)
# Of these a leader is no better off elsewhere: its followers write as much.
_NO_MATTER: Final = frozenset({"Full", "NotPermitted", *BY_KAFKA})


def reconcile_leadership(inventory: DiskInventory, builder: PlanBuilder) -> Mapping[Key, int | None]:
    """Who is to lead what stands on disks that are not well, and what brokers lead that go down, for the executor."""
    unwell, leaving = (
        [slot for slot in inventory.slots if _unwell(inventory, slot)],
        _leaving(inventory.state),
    )
    if inventory.journal is None:
        return {}
    keep: dict[Key, int | None] = {}
    if "nodes" in inventory.state.snap.unknown:  # who is on a closed node is not known: what was moved stays
        keep = {order.key: None for order in inventory.journal.leadership}
    if not (unwell or leaving):
        return keep
    disks = inventory.state.spec.disks
    sick = {slot.key: slot.health.since for slot in unwell if slot.health.verdict in _DOUBTFUL}
    refusal = correlated_failures.may_act_on_failures(
        {**inventory.bad_since, **sick},
        len(inventory.slots),
        inventory.state.now,
        disks.automatic_share / 100,
    )
    if unwell and refusal is not None:
        wished = [slot for slot in unwell if slot.request.drained]
        if len(wished) < len(unwell):
            builder.wait(Waiting.of("MoveLeaders", f"KafkaCluster/{inventory.state.name}", refusal))
        # What stands as it is: putting back is no less an action than moving.
        keep |= dict.fromkeys(
            key for slot in unwell for key in inventory.replica_index.on(slot.broker, slot.path) or ()
        )
        unwell = wished
    return {**keep, **_lead(inventory, unwell, leaving)}


def still_leads(
    inventory: DiskInventory, builder: PlanBuilder, leads: Mapping[Key, int | None]
) -> frozenset[int]:
    """Marked brokers that are not evicted in this pass, because others are about to lead what they lead."""
    found = set()
    for mark in current_records(inventory.state):
        node_id, since = int(mark["nodeId"]), seconds(mark.get("since"))
        pod = inventory.state.pods.get(node_id)
        if pod is None or objects.uid(pod) != mark["uid"] or since is None:
            continue
        if objects.deleting(pod) or inventory.state.now - since >= _PATIENCE:
            continue
        left = [
            key
            for key, to in leads.items()
            if to is not None and inventory.replica_index.partitions[key].leader == node_id != to
        ]
        if left:
            found.add(node_id)
            builder.wait(_hands_over(objects.name(pod), left))
    return frozenset(found)


def _hands_over(pod: str, left: list[Key]) -> Waiting:
    return Waiting(
        "RestartPod",
        f"Pod/{pod}",
        "LeadershipMoving",
        f"{pod} is taken down when others lead its {counted(len(left), 'partition')}: {some(names_of(left))}.",
        f"They do; after {_PATIENCE:g} s it goes all the same, and Kafka hands over what is left as it stops.",
        quiet=True,
    )


def _leaving(state: ClusterState) -> frozenset[int]:
    """Brokers that are to lead nothing: taken down by our hand and not back yet, or on nodes that somebody has closed."""
    marked = {int(mark["nodeId"]) for mark in current_records(state)}
    closed = {i for i in state.brokers if evicted_for_drain(state, i) or on_closed_node(state, i)}
    return frozenset(node for node in marked | closed if node < names.FIRST_CONTROLLER_ID)


def _lead(
    inventory: DiskInventory, unwell: list[BrokerDisk], leaving: frozenset[int]
) -> Mapping[Key, int | None]:
    away = {node for node in unavailable(inventory.state) if node < names.FIRST_CONTROLLER_ID}
    sick = {
        slot.broker
        for slot in inventory.slots
        if slot.mode != facts.ABSENT and (slot.health.bad or slot.health.verdict in _DOUBTFUL)
    }
    emptied = {slot.broker for slot in inventory.in_states(DiskState.DRAINING)}
    return move_leadership(
        inventory.replica_index,
        [(slot.broker, slot.path) for slot in unwell],
        frozenset(away | sick | emptied),
        leaving,
    )


def _unwell(inventory: DiskInventory, slot: BrokerDisk) -> bool:
    """Whether a disk serves, and is to lead nothing. A hung one is left to the one who stops its broker."""
    health = slot.health
    if slot.mode != facts.ACTIVE or not slot.online or not health.fresh:
        return False
    if inventory.state_of(slot) is DiskState.DRAINING or health.verdict == DiskVerdict.SLOW:
        return True
    if health.verdict == DiskVerdict.SUSPECT:
        return health.reason not in _NO_MATTER and inventory.state.now - health.since >= SUSPECT_FOR
    return health.bad and health.reason != HUNG and health.reason not in BY_KAFKA
