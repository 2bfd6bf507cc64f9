"""Advances the state of each disk by the transition table, with an event for each transition."""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from spindle.api import names
from spindle.api.enums import DiskState, DiskVerdict
from spindle.api.thresholds import UsageLevel
from spindle.disks.broker_disks import HUNG, BrokerDisk
from spindle.disks.disk_inventory import DiskInventory, StateRecord
from spindle.disks.disk_slot import SlotContent as Place
from spindle.disks.disk_slot import SlotObservation, classify_slot
from spindle.disks.health import KAFKA_OFFLINE, PREFLIGHT, UNKNOWN
from spindle.disks.lifecycle import MEANINGS, DiskFacts, Transition, initial, step
from spindle.disks.remedy import RecoveryTimers, Remedy, remedy
from spindle.disks.remove_dir import may_remove_dir
from spindle.model import disk_facts, objects
from spindle.model.actions import Patch
from spindle.model.broker_disks import in_use_before
from spindle.model.events import Event
from spindle.model.plan_builder import PlanBuilder
from spindle.model.state import ClusterState
from spindle.model.times import seconds

_UNSEEN_AFTER: Final = 60.0  # seconds for which a disk must have been bad if only preflight has inspected it
_MOST_STEPS: Final = 8
_HOUR: Final = 3600
_IN_BROKER: Final = (DiskState.PROVISIONING, DiskState.ACTIVE, DiskState.CORDONED, DiskState.BACKFILLING)
ANN_RESTARTS: Final = f"{names.GROUP}/disk-restarts"  # restarts per disk, with their time: disk1=1790000000,…


def advance_states(
    inventory: DiskInventory, builder: PlanBuilder, *, acting: bool, filled: Collection[tuple[int, str]] = ()
) -> dict[tuple[int, str], StateRecord]:
    """Advance the state of every disk as far as the known facts allow; returns the states by (broker, disk).

    Args:
        inventory: all disks, with their losses, removals and scale-ins decided.
        builder: receives an event for each transition.
        acting: whether Spindle may act (False while paused or while it cannot observe the cluster).
        filled: (broker, disk) of new disks whose backfill is complete.
    """
    states: dict[tuple[int, str], StateRecord] = {}
    for slot in inventory.slots:
        known = _facts(inventory, slot, acting=acting, filled=slot.key in filled)
        recorded = slot.recorded if _fits(inventory, slot) else None
        if _exchanged(slot):
            recorded = (
                DiskState.EVACUATED
            )  # the recorded state is that of the former disk, which is out of use
        at = recorded or _found_again(inventory, slot, known)
        since = seconds(slot.before.get("since")) if recorded else None
        reason = str(slot.before.get("reason") or "") if recorded else ""
        for _ in range(_MOST_STEPS):
            row = step(at, known)
            if row is None:
                break
            builder.events.append(_event(inventory.state, slot, row))
            if row.reason == "DiskRecovered" and acting and not _noted(inventory.state, slot):
                builder.do(_note_restart(inventory.state, slot, inventory.state.now))
            at, since, reason = row.target, inventory.state.now, row.reason
        began = inventory.state.now if since is None else since
        if acting and at is DiskState.FAILED and _restarted_in_vain(inventory.state, slot, began):
            builder.do(_note_restart(inventory.state, slot, slot.started or inventory.state.now))
        states[slot.key] = StateRecord(at, began, reason, _message(slot, at))
    return states


def remedy_of(inventory: DiskInventory, slot: BrokerDisk) -> Remedy:
    """The remedy for a bad disk, before the safety rules are applied."""
    now = inventory.state.now
    # A node that boots may mount its disks after its agent has started to probe them.
    if slot.health.source == PREFLIGHT or slot.health.verdict == DiskVerdict.MISSING:
        if not slot.health.surely_bad:
            return Remedy.NOTHING
        return Remedy.EVACUATE if now - slot.health.since >= _UNSEEN_AFTER else Remedy.WAIT
    if (
        slot.health.reason == HUNG
        and slot.broker not in inventory.dead_brokers
        and slot.in_pod == disk_facts.ACTIVE
    ):
        return Remedy.WAIT  # its broker is stopped first
    patience = RecoveryTimers(
        agent=slot.watched,
        restart_count=restarts(inventory.state, slot),
        grace=float(inventory.state.spec.disks.grace_seconds),
    )
    health = slot.health
    if health.reason == KAFKA_OFFLINE and slot.started is not None:
        # The grace period starts again with each Kafka process.
        health = replace(health, since=max(health.since, slot.started))
    return remedy(health, now, patience)


def restarts(state: ClusterState, slot: BrokerDisk) -> int:
    """How often the broker was restarted for this disk within the last hour, successfully or not."""
    return sum(disk == slot.name and state.now - at < _HOUR for disk, at in _on_record(state, slot))


def _restarted_in_vain(state: ClusterState, slot: BrokerDisk, failed: float) -> bool:
    """Whether Kafka was restarted since the disk failed, reports it offline again, and that is not recorded yet."""
    started = slot.started
    if started is None or started <= failed:
        return False
    if slot.health.reason != KAFKA_OFFLINE or not slot.health.surely_bad:
        return False
    return not any(disk == slot.name and at >= int(started) for disk, at in _on_record(state, slot))


def _on_record(state: ClusterState, slot: BrokerDisk) -> list[tuple[str, int]]:
    """The recorded restarts of the broker as (disk, Unix time); unreadable entries are skipped."""
    text = objects.annotation(state.brokers[slot.broker], ANN_RESTARTS) or ""
    entries = (entry.partition("=") for entry in text.split(","))
    return [(disk, int(at)) for disk, _, at in entries if at.isdecimal()]


def _fits(inventory: DiskInventory, slot: BrokerDisk) -> bool:
    """Whether the recorded state is possible in this mode: the spec may be ahead of the status, if the status was not written."""
    if slot.mode == disk_facts.PLACEHOLDER:
        return slot.recorded in (DiskState.FAILED, DiskState.EVACUATING)
    if slot.never_used:  # any other recorded state belongs to a former disk of this name
        going = slot.recorded is DiskState.DRAINING and slot.key in inventory.removing
        return going or slot.recorded is DiskState.PROVISIONING
    if slot.mode == disk_facts.ABSENT:
        return slot.recorded not in _IN_BROKER or (slot.added and slot.recorded is DiskState.PROVISIONING)
    return slot.recorded is not DiskState.REMOVED


def _found_again(inventory: DiskInventory, slot: BrokerDisk, known: DiskFacts) -> DiskState:
    """The state of a disk without a recorded state. A disk that is still mounted in its broker's pod is not out of use yet."""
    if slot.mode == disk_facts.ABSENT and not slot.never_used and not (known.empty and known.out):
        return DiskState.DRAINING if inventory.to_be_emptied(slot) else DiskState.EVACUATING
    return initial(known)


def _noted(state: ClusterState, slot: BrokerDisk) -> bool:
    """Whether this recovery is already recorded: a pass that writes to a KafkaBroker does not write its status."""
    since = max(seconds(slot.before.get("since")) or 0.0, slot.started or 0.0)
    return any(disk == slot.name and at >= int(since) for disk, at in _on_record(state, slot))


def _note_restart(state: ClusterState, slot: BrokerDisk, when: float) -> Patch:
    """Record that the broker was restarted for a disk; entries older than an hour are dropped."""
    broker = state.brokers[slot.broker]
    recent = [(disk, at) for disk, at in _on_record(state, slot) if state.now - at < _HOUR]
    text = ",".join(f"{disk}={at}" for disk, at in [*recent, (slot.name, int(when))])
    return Patch(
        kind="KafkaBroker",
        name=objects.name(broker),
        uid=objects.uid(broker),
        body={"metadata": {"annotations": {ANN_RESTARTS: text}}},
    )


def seen_in(inventory: DiskInventory, slot: BrokerDisk) -> SlotObservation:
    """What is known about the disk in a slot."""
    volume = inventory.state.volume(inventory.state.claims.get(slot.disk["claim"]))
    return SlotObservation(
        content=slot.health.content,
        well=slot.health.fresh and slot.health.verdict not in (DiskVerdict.FAILED, DiskVerdict.MISSING),
        fs_uuid=slot.health.fs_uuid,
        pv_uid=objects.uid(volume) if volume is not None else None,
        message=slot.health.message,
    )


def place_of(inventory: DiskInventory, slot: BrokerDisk) -> Place:
    """Classify what is in the slot of a disk that is out of use.

    The file system on record may be that of a blank disk that was to be formatted next and never was.
    """
    recorded = slot.disk.get("fsUuid") if _was_formatted(inventory, slot) else None
    return classify_slot(seen_in(inventory, slot), recorded, slot.disk.get("pvUid"))


def _facts(inventory: DiskInventory, slot: BrokerDisk, *, acting: bool, filled: bool) -> DiskFacts:
    return DiskFacts(
        health=slot.health,
        mode=slot.mode,
        online=slot.online,
        empty=stands_empty(inventory, slot) if slot.mode == disk_facts.ABSENT else None,
        out=slot.in_pod is None and slot.running and slot.broker_answered and slot.log_dir is None,
        may_empty=acting
        and slot.health.surely_bad
        and inventory.may_act(slot)
        and remedy_of(inventory, slot) is Remedy.EVACUATE,
        new_disk=acting and _is_new(inventory, slot),
        backfilled=filled,
        cordon_requested=slot.request.cordoned,
        backfilling=inventory.level(slot) >= UsageLevel.CORDON,
        drain_requested=slot.request.drained,
        removing=slot.key in inventory.removing,
        scaling_in=slot.broker in inventory.scaling_in,
        released=slot.mode == disk_facts.ABSENT and slot.disk["claim"] not in inventory.state.claims,
        added=slot.added,
        joining=bool(inventory.state.brokers[slot.broker]["spec"].get("joining")),
        formatted=_was_formatted(inventory, slot) or _blank_again(inventory, slot),
    )


def _was_formatted(inventory: DiskInventory, slot: BrokerDisk) -> bool:
    claim = inventory.state.claims.get(slot.disk["claim"])
    return claim is not None and objects.annotation(claim, names.ANN_FS_UUID) is not None


def _blank_again(inventory: DiskInventory, slot: BrokerDisk) -> bool:
    """Whether a blank disk is in place of one that a re-adopted broker was using, although its claim does not say so: the claim was made anew."""
    return slot.health.blank and in_use_before(inventory.state.brokers[slot.broker], slot.disk)


def stands_empty(inventory: DiskInventory, slot: BrokerDisk) -> bool | None:
    """Whether a disk holds no replicas and none is being moved to it; None if that is not known."""
    if inventory.journal is None:
        return None
    refusal = may_remove_dir(
        inventory.replica_index,
        slot.broker,
        slot.path,
        inventory.given_up_on(slot.broker),
        inventory.incoming_to(slot),
    )
    if refusal is not None and refusal.reason == "LogDirsUnknown":
        return None
    return refusal is None


def _is_new(inventory: DiskInventory, slot: BrokerDisk) -> bool:
    """Whether a new disk is in the slot, or was put into use and the recorded state is behind the spec.

    A pass that changes the spec does not write the status, so the latter is the usual case.
    """
    if inventory.state.brokers[slot.broker]["spec"].get("returning"):
        return False  # its record may be outdated
    if slot.mode == disk_facts.ABSENT:
        return place_of(inventory, slot) is Place.NEW
    return slot.mode == disk_facts.ACTIVE and (slot.recorded is DiskState.EVACUATED or _exchanged(slot))


def _exchanged(slot: BrokerDisk) -> bool:
    """Whether a new disk was put into use in place of one that was never evacuated, as the broker had no other disk to run with."""
    about = slot.before.get("directoryId")
    bad = slot.recorded in (DiskState.FAILED, DiskState.EVACUATING)
    return bad and slot.mode == disk_facts.ACTIVE and about is not None and about != slot.disk["directoryId"]


def _message(slot: BrokerDisk, state: DiskState) -> str:
    detail = slot.health.message.rstrip(".")
    if slot.health.bad and detail and state not in (DiskState.EVACUATED, DiskState.DRAINED):
        return f"{MEANINGS[state]} {detail}."
    if slot.health.verdict == UNKNOWN and state is not DiskState.PROVISIONING:
        return f"{MEANINGS[state]} {slot.health.message}"
    return MEANINGS[state]


def _event(state: ClusterState, slot: BrokerDisk, row: Transition) -> Event:
    broker = state.brokers[slot.broker]
    detail = f" {slot.health.message}" if row.target is DiskState.FAILED and slot.health.message else ""
    return Event(
        type="Warning" if row.target is DiskState.FAILED else "Normal",
        reason=row.reason,
        message=f"{slot.name} of {objects.name(broker)} {row.sentence}{detail}",
        kind="KafkaBroker",
        name=objects.name(broker),
        uid=objects.uid(broker),
    )
