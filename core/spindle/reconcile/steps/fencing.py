"""Brokers that a disk keeps from running: a hung one is stopped at once, a dead one is left out when its broker starts."""

from typing import Final

from spindle.cluster import names
from spindle.cluster.waiting import Waiting, counted, some
from spindle.disks import correlated_failures, facts
from spindle.disks.lifecycle import DiskState
from spindle.healing.fence import SHARED_FOR_SECONDS, may_fence, stalls_alone
from spindle.healing.hang import HangEvidence, confirms, ends, later, moved, parse, render
from spindle.moves.missing_replicas import meant
from spindle.reconcile import objects
from spindle.reconcile.actions import Delete, Patch
from spindle.reconcile.broker_disks import CORRELATED_STALLS, HUNG, BrokerDisk, many_brokers, stalled_together
from spindle.reconcile.disk_inventory import DiskInventory
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.steps.brokers import BrokerRecords
from spindle.reconcile.steps.eviction import RestartRequest
from spindle.reconcile.steps.unavailable import unavailable
from spindle.reconcile.times import seconds

ANN_HANGS: Final = f"{names.GROUP}/hangs"
_FENCE: Final = "StopBroker"
_GRACE: Final = 1  # seconds; never 0, which would let a successor start beside a process that still runs


def reconcile_fences(inventory: DiskInventory, builder: PlanBuilder, records: BrokerRecords) -> list[Delete]:
    """Stop brokers with a hung disk, one at a time. The deletions are to follow on the records."""
    deletions: list[Delete] = []
    _tell_starved(inventory, builder)
    away = {node for node in unavailable(inventory.state) if node < names.FIRST_CONTROLLER_ID}
    for broker, mine in inventory.by_broker.items():
        hung = [slot for slot in mine if _hung(slot)]
        again = _looked_again(inventory, builder, broker, hung)
        pod = mine[0].pod
        if not hung or pod is None or objects.deleting(pod) or not mine[0].running:
            continue
        refusal = _refusal(inventory, broker, hung, frozenset(away))
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
                records.note_disk(broker, slot.name, mode=facts.PLACEHOLDER)
        deletions.append(_delete(inventory, broker, hung))
    return deletions


def _tell_starved(inventory: DiskInventory, builder: PlanBuilder) -> None:
    """Stalls of disks of several nodes are one finding: nobody is stopped for it, and nothing is emptied."""
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
            f"Writes to {counted(len(together), 'disk')} of {counted(len(where), 'node')} are stalled at the same time: {some(each)}. That is hardly "
            "the disks, but what the machines share. No disk counts as failed for it, no broker is stopped, and nothing is moved away.",
            "The disks answer: look for what keeps the machines or their storage busy."
            if many_brokers(inventory.state, inventory.slots, together)
            else "The disks answer: look for what keeps the machines or their storage busy. A write that is still pending after "
            f"{SHARED_FOR_SECONDS:g} s counts as a hang of its disk all the same.",
        )
    )


def _looked_again(
    inventory: DiskInventory, builder: PlanBuilder, broker: int, hung: list[BrokerDisk]
) -> Waiting | None:
    """Note what this look shows of disks that are called hung, and why that is not enough yet; None if it is."""
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
            f"A write to {named} of {objects.name(there)} has been pending for long, but what the broker leads from there still grows: it is slow, "
            "not hung. The broker is not stopped for it.",
            "The disk answers: look for what keeps it or its machine busy. It counts as hung when nothing grows there any more.",
        )
    if any(each.write is None for each in now.values()):
        return _too_old(inventory, broker, named)
    return Waiting(
        _FENCE,
        f"KafkaBroker/{objects.name(there)}",
        "HangUnconfirmed",
        f"{named} of {objects.name(there)} does not answer. The broker is stopped for it when the same write is still pending in another look.",
        "Nothing needs to be done: the agent says so within some seconds, or the disk answers.",
        quiet=True,
    )


def _too_old(inventory: DiskInventory, broker: int, named: str) -> Waiting:
    """An agent that does not say which write is pending: two looks of it cannot be told from two writes that took long."""
    there = inventory.state.brokers[broker]
    return Waiting(
        _FENCE,
        f"KafkaBroker/{objects.name(there)}",
        "AgentTooOld",
        f"{named} of {objects.name(there)} does not answer, but the agent on {there['spec'].get('node')} is of an older version that does not say "
        "which write is pending: it may be another one each time. The broker is not stopped for it.",
        "The agent is of the operator's version (upgrade the chart, and see that its DaemonSet is rolled out), or the disk answers. If it is sure "
        f"that the disk hangs, delete pod {objects.name(there)} with `kubectl delete pod --grace-period=1`: it then starts without the disk.",
    )


def _evidence(inventory: DiskInventory, slot: BrokerDisk) -> HangEvidence:
    write = slot.observed.get("pendingWrite")
    return HangEvidence(
        int(write) if write is not None else None,
        int(slot.observed.get("pendingSeconds") or 0),
        ends(inventory.state.kafka, slot.broker, slot.path),
    )


def _hung(slot: BrokerDisk) -> bool:
    """Whether it hangs now: the verdict lasts for a while after the disk has answered."""
    health = slot.health
    return slot.mode == facts.ACTIVE and health.surely_bad and health.reason == HUNG and health.stalled


def _refusal(
    inventory: DiskInventory, broker: int, hung: list[BrokerDisk], away: frozenset[int]
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
    before = meant(inventory.journal, inventory.state.kafka.partitions)
    return may_fence(inventory.replica_index, broker, [slot.path for slot in hung], away, before)


def _delete(inventory: DiskInventory, broker: int, hung: list[BrokerDisk]) -> Delete:
    pod = inventory.state.pods[broker]
    disks = ", ".join(slot.name for slot in hung)
    return Delete(
        kind="Pod",
        name=objects.name(pod),
        uid=objects.uid(pod),
        grace_seconds=_GRACE,
        reason="BrokerStoppedForHungDisk",
        message=f"{objects.name(pod)} is stopped at once: {disks} does not answer, and nobody could write to what it leads. It starts "
        "again without the disk as soon as the old process is gone.",
    )


def reconcile_starts(
    inventory: DiskInventory, records: BrokerRecords, wanted: dict[int, RestartRequest]
) -> None:
    """A broker in whose pod Kafka does not run starts without its bad disks, emptied or not: nothing depends on it now."""
    for slot in inventory.slots:
        broker = inventory.state.brokers[slot.broker]
        if objects.kept_down(broker) or slot.mode != facts.ACTIVE or slot.running:
            continue
        pod = slot.pod
        if pod is not None and objects.deleting(pod):
            continue
        # A slot that was never formatted holds nothing; its broker waits for the right disk.
        bad = slot.health.surely_bad and slot.health.source != "kafka"
        if bad and slot.disk.get("fsUuid") and inventory.others(slot):
            records.note_disk(slot.broker, slot.name, mode=facts.PLACEHOLDER)
            if pod is not None:
                wanted.setdefault(
                    slot.broker, RestartRequest("DiskUnusable", f"it starts without {slot.name}")
                )


def brokers_without_disks(inventory: DiskInventory, builder: PlanBuilder) -> frozenset[int]:
    """Brokers that are not waited for: all their disks are dead, or a hung one keeps their process for too long."""
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
        builder.wait(_lingers(inventory, hung, over=over))
    return frozenset(found)


def _lingers(inventory: DiskInventory, hung: list[BrokerDisk], *, over: bool) -> Waiting:
    slot = hung[0]
    name = objects.name(inventory.state.brokers[slot.broker])
    then = (
        "It counts as lost, and its replicas are made anew on other brokers."
        if over
        else f"After {inventory.state.spec.disks.grace_seconds} s it counts as lost, and its replicas are made anew elsewhere."
    )
    return Waiting(
        "StartBroker",
        f"KafkaBroker/{name}/{slot.name}",
        "ProcessHung",
        f"The process of {name} was stopped, but waits in the kernel for {slot.name}. No other one is started before it is gone. "
        f"{then}",
        f"{slot.name} answers again or is taken away, or the node is restarted.",
    )
