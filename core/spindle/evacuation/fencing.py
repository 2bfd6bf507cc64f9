"""Brokers that cannot run because of a disk: a broker with a hung disk is stopped at once; a failed disk is excluded when its broker starts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from spindle.api import names
from spindle.api.enums import DiskState
from spindle.disks import correlated_failures
from spindle.disks.broker_disks import CORRELATED_STALLS, HUNG, BrokerDisk, many_brokers, stalled_together
from spindle.disks.correlated_failures import SHARED_FOR_SECONDS
from spindle.disks.disk_inventory import DiskInventory
from spindle.evacuation.deadlocks import held_by, let_go
from spindle.evacuation.fence import may_fence, stalls_alone
from spindle.evacuation.hang import SURELY_SECONDS, HangEvidence, confirms, ends, later, moved, parse, render
from spindle.evacuation.served_alone import no_stop
from spindle.model import disk_facts, objects
from spindle.model.actions import Delete, Patch
from spindle.model.blockers import Blocked
from spindle.model.broker_records import BrokerRecords
from spindle.model.plan_builder import PlanBuilder
from spindle.model.reports import inspected
from spindle.model.requests import RestartRequest
from spindle.model.restart_safety import BELOW_MIN_ISR, TopicPartition
from spindle.model.restart_verdict import RestartVerdict
from spindle.model.snapshot import SnapshotObject
from spindle.model.times import seconds
from spindle.model.unavailable import current_records, unavailable, unavailable_with
from spindle.model.waiting import Waiting, counted, some
from spindle.moves.missing_replicas import meant

ANN_HANGS: Final = f"{names.GROUP}/hangs"
_FENCE: Final = "StopBroker"
_MOUNTED_SECONDS: Final = 60.0  # a pod that has the wrong disk again is not recreated more often
_GRACE: Final = 1  # seconds; never 0, which would let a successor start while the old process still runs


def reconcile_fences(
    inventory: DiskInventory, builder: PlanBuilder, records: BrokerRecords, blocked: dict[int, Blocked]
) -> list[Delete]:
    """Stop brokers with a hung disk, one at a time. The returned deletions must be carried out after the records are written.

    Those that may not be stopped because of min.insync.replicas are added to ``blocked``: others may wait for them.
    """
    deletions: list[Delete] = []
    before = meant(inventory.journal, inventory.state.kafka.partition_index.by_key)
    rolling = inventory.state.restart_safety.meaning(before)
    _report_correlated_stalls(inventory, builder)
    away = {
        node
        for node in unavailable(inventory.state)
        if node < names.FIRST_CONTROLLER_ID and not _never_started(inventory, node)
    }
    for broker, mine in inventory.by_broker.items():
        hung = [slot for slot in mine if _hung(slot)]
        again = _confirm_hang(inventory, builder, broker, hung)
        pod = mine[0].pod
        if not hung or pod is None or objects.deleting(pod) or not mine[0].running:
            continue
        others = frozenset(away) - _waiting_for(inventory, broker)
        refusal = _refusal(inventory, broker, hung, others, before)
        if refusal is not None and refusal.reason == BELOW_MIN_ISR:
            alone = rolling.left_alone(broker, _elsewhere(inventory, broker, hung), others)
            if not alone:
                refusal = let_go(inventory.state, rolling, broker, RestartVerdict(refusal), others).refusal
            if refusal is not None:
                blocked[broker] = replace(held_by(rolling, broker, refusal, others), alone=tuple(alone))
        if refusal is not None:
            thing = f"KafkaBroker/{objects.name(inventory.state.brokers[broker])}"
            builder.wait(Waiting.of(_FENCE, thing, refusal))
            continue
        if again is not None:
            builder.wait(again)
            continue
        away.add(broker)
        for slot in hung:
            if inventory.others(slot):
                records.note_disk(broker, slot.name, mode=disk_facts.PLACEHOLDER)
        deletions.append(_delete(inventory, broker, hung))
    return deletions


def _never_started(inventory: DiskInventory, broker: int) -> bool:
    """Whether a broker is new and none of its disks was formatted: nothing depends on it, and it may need the hung broker to start."""
    record = inventory.state.brokers.get(broker)
    return (
        record is not None
        and bool(record["spec"].get("joining"))
        and not any(slot.disk.get("fsUuid") for slot in inventory.by_broker.get(broker, ()))
    )


def _report_correlated_stalls(inventory: DiskInventory, builder: PlanBuilder) -> None:
    """Report stalls of disks of several nodes as one finding: no broker is stopped and no disk is evacuated for it."""
    together = stalled_together(inventory.state, inventory.slots)
    if not together:
        return
    where: dict[str, list[str]] = {}
    for slot in together:
        node = str(inventory.state.brokers[slot.broker]["spec"].get("node") or "unknown")
        where.setdefault(node, []).append(f"{slot.broker}/{slot.name}")
    each = [f"{node} ({some(sorted(disks), 3)})" for node, disks in sorted(where.items())]
    builder.wait(
        Waiting(
            _FENCE,
            f"KafkaCluster/{inventory.state.name}",
            CORRELATED_STALLS,
            f"Writes to {counted(len(together), 'disk')} of {counted(len(where), 'node')} are stalled at the same time: {some(each)}. The cause is "
            "probably not the disks but something that the machines share. So no disk counts as failed, no broker is stopped, and no replicas are "
            "moved.",
            "Check what keeps the machines or their storage busy. Spindle continues when the disks answer."
            if many_brokers(inventory.state, inventory.slots, together)
            else "Check what keeps the machines or their storage busy. Spindle continues when the disks answer; a disk with a write that is still "
            f"pending after {SHARED_FOR_SECONDS:g} s counts as hung.",
        )
    )


def _confirm_hang(
    inventory: DiskInventory, builder: PlanBuilder, broker: int, hung: list[BrokerDisk]
) -> Waiting | None:
    """Record this observation of disks reported as hung; returns why that is not sufficient yet, None if it is."""
    there = inventory.state.brokers[broker]
    text = objects.annotation(there, ANN_HANGS)
    before = parse(text)
    now = {slot.name: _evidence(inventory, slot) for slot in hung}
    noted = {disk: later(before.get(disk), each) for disk, each in now.items()}
    if noted != before:
        value = render(noted) if noted else None
        body = {"metadata": {"annotations": {ANN_HANGS: value}}}
        builder.do(Patch(kind="KafkaBroker", name=objects.name(there), uid=objects.uid(there), body=body))
    if not hung or all(confirms(before.get(disk), each) for disk, each in now.items()):
        return None
    named = ", ".join(now)
    if any(moved(before.get(disk), each) for disk, each in now.items()):
        return Waiting(
            _FENCE,
            f"KafkaBroker/{objects.name(there)}",
            "DiskStillServes",
            f"A write to {named} of {objects.name(there)} has been pending for a long time, but the partitions that the broker leads from there "
            "still grow: the disk may be slow and not hung. So the broker is not stopped.",
            "Check what keeps the disk or its machine busy. Spindle continues when the disk answers; the disk counts as hung when no partition "
            f"on it grows any more, or the write is pending for {SURELY_SECONDS} s: logs can grow in memory meanwhile.",
        )
    if any(each.write is None for each in now.values()):
        return _agent_too_old(inventory, broker, named)
    return Waiting(
        _FENCE,
        f"KafkaBroker/{objects.name(there)}",
        "HangUnconfirmed",
        f"{named} of {objects.name(there)} {'does' if len(now) == 1 else 'do'} not answer. Spindle stops the broker if the next observation shows "
        "that the same write is still pending.",
        "Nothing to do: Spindle continues when the agent confirms the hang, within some seconds, or the disk answers.",
        quiet=True,
    )


def _agent_too_old(inventory: DiskInventory, broker: int, named: str) -> Waiting:
    """The wait for an agent that does not report which write is pending: two reports may be about two different slow writes."""
    there = inventory.state.brokers[broker]
    return Waiting(
        _FENCE,
        f"KafkaBroker/{objects.name(there)}",
        "AgentTooOld",
        f"{named} of {objects.name(there)} {'do' if ', ' in named else 'does'} not answer, but the agent on {there['spec'].get('node')} has an older version that does not report "
        "which write is pending: it may be a different write each time. So the broker is not stopped.",
        "Upgrade the agent to the operator's version: upgrade the chart and check the rollout of the agent's DaemonSet. If you are sure "
        f"that the disk hangs, delete pod {objects.name(there)} with `kubectl delete pod --grace-period=1`: the broker then starts without the disk.",
    )


def _evidence(inventory: DiskInventory, slot: BrokerDisk) -> HangEvidence:
    write = slot.observed.get("pendingWrite")
    return HangEvidence(
        int(write) if write is not None else None,
        int(slot.observed.get("pendingSeconds") or 0),
        ends(inventory.state.kafka, slot.broker, slot.path),
    )


def _hung(slot: BrokerDisk) -> bool:
    """Whether the disk hangs now; the verdict alone lasts for a while after the disk has answered."""
    health = slot.health
    return slot.mode == disk_facts.ACTIVE and health.surely_bad and health.reason == HUNG and health.stalled


def _refusal(
    inventory: DiskInventory,
    broker: int,
    hung: list[BrokerDisk],
    away: frozenset[int],
    before: Mapping[TopicPartition, tuple[int, ...]],
) -> Waiting | None:
    if not all(inventory.may_act(slot) for slot in hung):
        return inventory.correlated_failures
    nodes = {b: known["spec"].get("node") for b, known in inventory.state.brokers.items()}
    alone = stalls_alone(
        broker,
        [slot.key for slot in inventory.slots if slot.health.fresh and slot.health.stalled],
        [b for b, node in nodes.items() if node == nodes[broker]],
        correlated_failures.limit(len(inventory.slots), inventory.state.spec.disks.automatic_share / 100),
        inventory.state.now - min(slot.health.since for slot in hung),
    )
    if alone is not None:
        return alone
    refusal = may_fence(inventory.replica_index, broker, [slot.path for slot in hung], away, before)
    return refusal or no_stop(inventory, broker)


def _elsewhere(inventory: DiskInventory, broker: int, hung: list[BrokerDisk]) -> list[str]:
    """Partitions of a broker that are not on its hung disks."""
    index = inventory.replica_index
    stuck = {key for slot in hung for key in index.on(broker, slot.path) or ()}
    return [p.name for p in index.assigned.get(broker, ()) if (p.topic, p.index) not in stuck]


def _waiting_for(inventory: DiskInventory, broker: int) -> frozenset[int]:
    """Brokers that run again after a restart and only lack replicas that this broker leads: they are not down.

    Their marks stay in `status.takingDown`, because nothing catches up from a leader that hangs: each would wait for the other.
    """
    state = inventory.state
    down = unavailable_with(state, ())
    return frozenset(
        node_id
        for mark in current_records(state)
        if (node_id := int(mark["nodeId"])) not in down
        and objects.uid(state.pods[node_id]) != mark["uid"]  # otherwise its restart is still to come
        and inventory.replica_index.dirs(node_id) is not None
        and state.restart_safety.in_sync_as_far_as_possible(node_id, broker) is True
    )


def _delete(inventory: DiskInventory, broker: int, hung: list[BrokerDisk]) -> Delete:
    pod = inventory.state.pods[broker]
    disks = ", ".join(slot.name for slot in hung)
    return Delete(
        kind="Pod",
        name=objects.name(pod),
        uid=objects.uid(pod),
        grace_seconds=_GRACE,
        reason="BrokerStoppedForHungDisk",
        message=f"Stopping {objects.name(pod)} at once: {disks} {'does' if len(hung) == 1 else 'do'} not answer, and producers cannot write to the "
        f"partitions that it leads there. It starts again without the {'disk' if len(hung) == 1 else 'disks'} as soon as the old process has ended.",
    )


def reconcile_starts(
    inventory: DiskInventory, records: BrokerRecords, wanted: dict[int, RestartRequest]
) -> None:
    """Exclude the failed disks of brokers in whose pods Kafka does not run, evacuated or not: nothing depends on the broker now."""
    for slot in inventory.slots:
        broker = inventory.state.brokers[slot.broker]
        if objects.kept_down(broker) or slot.mode != disk_facts.ACTIVE or slot.running:
            continue
        pod = slot.pod
        if pod is not None and objects.deleting(pod):
            continue
        if pod is not None and _came_back(inventory, slot, pod):
            why = f"{slot.name} was put back after the pod had been created"
            wanted.setdefault(slot.broker, RestartRequest("DiskReturned", why))
        # A disk that was never formatted holds no data; its broker waits for the right disk.
        bad = slot.health.surely_bad and slot.health.source != "kafka"
        if bad and slot.disk.get("fsUuid") and inventory.others(slot):
            records.note_disk(slot.broker, slot.name, mode=disk_facts.PLACEHOLDER)
            if pod is not None:
                wanted.setdefault(
                    slot.broker, RestartRequest("DiskUnusable", f"it starts without {slot.name}")
                )


def _came_back(inventory: DiskInventory, slot: BrokerDisk, pod: SnapshotObject) -> bool:
    """Whether the disk on record is in its slot, and the pod has another one: what is mounted in a pod is what was there when it was created."""
    mounted = inspected(pod).get(slot.name) or {}
    created = seconds(pod["metadata"].get("creationTimestamp"))
    there = (
        slot.health.well
        and slot.health.fs_uuid is not None
        and slot.health.fs_uuid == slot.disk.get("fsUuid")
    )
    other = mounted.get("fsUuid") not in (None, slot.health.fs_uuid)
    return there and other and created is not None and inventory.state.now - created >= _MOUNTED_SECONDS


def brokers_without_disks(inventory: DiskInventory, builder: PlanBuilder) -> frozenset[int]:
    """Brokers that count as lost: all their disks have failed, or a hung disk has kept their process from ending for too long."""
    grace = inventory.state.spec.disks.grace_seconds
    found = set()
    for broker, mine in inventory.by_broker.items():
        if broker in inventory.dead_brokers:
            if any(
                inventory.state_of(slot) is DiskState.EVACUATING and inventory.may_act(slot) for slot in mine
            ):
                found.add(broker)
            continue
        pod, hung = mine[0].pod, [s for s in mine if s.health.surely_bad and s.health.reason == HUNG]
        if pod is None or not objects.deleting(pod) or not hung:
            continue
        since = seconds(pod["metadata"].get("deletionTimestamp"))
        over = since is not None and inventory.state.now - since >= grace
        if over and all(inventory.may_act(slot) for slot in hung):
            found.add(broker)
        builder.wait(_process_hung(inventory, hung, over=over))
    return frozenset(found)


def _process_hung(inventory: DiskInventory, hung: list[BrokerDisk], *, over: bool) -> Waiting:
    slot = hung[0]
    name = objects.name(inventory.state.brokers[slot.broker])
    then = (
        "The broker counts as lost, and its partitions are re-replicated on other brokers."
        if over
        else f"After {inventory.state.spec.disks.grace_seconds} s the broker counts as lost, and its partitions are re-replicated on other brokers."
    )
    return Waiting(
        "StartBroker",
        f"KafkaBroker/{name}/{slot.name}",
        "ProcessHung",
        f"The process of {name} was stopped but has not ended: it waits in the kernel for I/O on {slot.name}. Spindle starts no other process before it "
        f"has ended. {then}",
        f"Remove {slot.name} from the machine, or restart the node. Spindle also continues when {slot.name} answers again.",
    )
