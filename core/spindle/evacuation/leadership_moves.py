"""Moves leadership off slow or failing disks and off brokers that go down, and back when they have recovered or restarted.

Kafka's controlled shutdown hands leaders over as well, once the process is told to stop. Moving them before that leaves no partition without a
leader if the broker hangs in its shutdown or is killed before it has finished.
"""

from collections.abc import Mapping
from typing import Final

from spindle.api import names
from spindle.api.enums import DiskState, DiskVerdict
from spindle.disks import correlated_failures
from spindle.disks.broker_disks import HUNG, BrokerDisk
from spindle.disks.disk_inventory import DiskInventory
from spindle.disks.findings import BY_KAFKA
from spindle.evacuation.leadership import move_leadership
from spindle.model import disk_facts, objects
from spindle.model.plan_builder import PlanBuilder
from spindle.model.replica_index import Key, names_of
from spindle.model.state import ClusterState
from spindle.model.times import seconds
from spindle.model.unavailable import current_records, evicted_for_drain, on_closed_node, unavailable
from spindle.model.waiting import Waiting, counted, some

SUSPECT_FOR: Final = 60.0  # seconds for which a disk must be suspect
_PATIENCE: Final = 30.0  # seconds that an eviction waits for the move of leaders; then Kafka's controlled shutdown moves the rest
_DOUBTFUL: Final = (DiskVerdict.SLOW, DiskVerdict.SUSPECT)
# For these reasons moving a leader does not help: followers write as much as leaders.
_LEADERS_STAY: Final = frozenset({"Full", "NotPermitted", *BY_KAFKA})


def reconcile_leadership(inventory: DiskInventory, builder: PlanBuilder) -> Mapping[Key, int | None]:
    """Requested leaders for partitions on unhealthy disks and on brokers that go down, for the executor.

    None as a leader means: keep the leadership as it is.
    """
    unwell, leaving = (
        [slot for slot in inventory.slots if _unwell(inventory, slot)],
        _leaving(inventory.state),
    )
    if inventory.journal is None:
        return {}
    keep: dict[Key, int | None] = {}
    if "nodes" in inventory.state.snap.unknown:  # cordoned nodes are not known: leaders that were moved stay
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
        requested = [slot for slot in unwell if slot.request.drained]
        if len(requested) < len(unwell):
            builder.wait(Waiting.of("MoveLeaders", f"KafkaCluster/{inventory.state.name}", refusal))
        # Leave leadership as it is: moving it back would be an action, too.
        keep |= dict.fromkeys(
            key for slot in unwell for key in inventory.replica_index.on(slot.broker, slot.path) or ()
        )
        unwell = requested
    return {**keep, **_lead(inventory, unwell, leaving)}


def still_leads(
    inventory: DiskInventory, builder: PlanBuilder, leads: Mapping[Key, int | None]
) -> frozenset[int]:
    """Marked brokers that are not evicted in this pass, because their leaders are being moved to other brokers."""
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
            builder.wait(_leaders_moving(objects.name(pod), left))
    return frozenset(found)


def _leaders_moving(pod: str, left: list[Key]) -> Waiting:
    return Waiting(
        "RestartPod",
        f"Pod/{pod}",
        "LeadershipMoving",
        f"{pod} is evicted after the leadership of {counted(len(left), 'partition')} has moved to other brokers: {some(names_of(left))}.",
        f"Nothing to do: Spindle continues when the leaders have moved, or after {_PATIENCE:g} s; Kafka's controlled shutdown then moves the rest.",
        quiet=True,
    )


def _leaving(state: ClusterState) -> frozenset[int]:
    """Brokers that must lead nothing: evicted by Spindle and not back yet, or on cordoned nodes."""
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
        if slot.mode != disk_facts.ABSENT and (slot.health.bad or slot.health.verdict in _DOUBTFUL)
    }
    emptied = {slot.broker for slot in inventory.in_states(DiskState.DRAINING)}
    return move_leadership(
        inventory.replica_index,
        [(slot.broker, slot.path) for slot in unwell],
        frozenset(away | sick | emptied),
        leaving,
    )


def _unwell(inventory: DiskInventory, slot: BrokerDisk) -> bool:
    """Whether a disk is online but must lead nothing. A hung disk is not included: its broker is stopped."""
    health = slot.health
    if slot.mode != disk_facts.ACTIVE or not slot.online or not health.fresh:
        return False
    if inventory.state_of(slot) is DiskState.DRAINING or health.verdict == DiskVerdict.SLOW:
        return True
    if health.verdict == DiskVerdict.SUSPECT:
        return health.reason not in _LEADERS_STAY and inventory.state.now - health.since >= SUSPECT_FOR
    return health.bad and health.reason != HUNG and health.reason not in BY_KAFKA
