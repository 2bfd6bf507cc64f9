"""After a disk is out of use: dropped replicas are restored, a new disk is put into use in its place and backfilled."""

from dataclasses import replace
from typing import Any, Final

from spindle.api import names
from spindle.api.enums import DiskState
from spindle.brokers.claim_annotations import claim_annotations
from spindle.brokers.volume_room import class_of, is_static
from spindle.disks.broker_disks import BrokerDisk, unbound
from spindle.disks.disk_inventory import DiskInventory
from spindle.disks.disk_slot import NO_UUID, unexpected_disk
from spindle.disks.disk_slot import SlotContent as Place
from spindle.disks.disk_states import place_of, seen_in, stands_empty
from spindle.disks.health import UNKNOWN
from spindle.disks.rules import may_format
from spindle.evacuation.backfill import plan_backfill
from spindle.evacuation.requests import bad_dirs, closed_dirs
from spindle.evacuation.restore_replicas import restore_replicas
from spindle.model import disk_facts, objects
from spindle.model.broker_records import BrokerRecords
from spindle.model.ids import uuid_from_entropy
from spindle.model.plan_builder import PlanBuilder
from spindle.model.replica_index import Key
from spindle.model.requests import RestartRequest
from spindle.model.waiting import Waiting
from spindle.moves.journal import DROP_FOR_SPACE, REPAIR, Move

_REPLACE: Final = "ReplaceDisk"
_RESTORE: Final = "RestoreReplicas"
_MOST_RETIRED: Final = 256
_HEALTHY_SECONDS: Final = 30.0  # how long a disk must be healthy before its broker restarts for it


def restore_dropped(inventory: DiskInventory, builder: PlanBuilder) -> tuple[Move, ...]:
    """Moves that restore replicas that were dropped from their assignment."""
    if inventory.journal is None or not inventory.journal.dropped:
        return ()
    moves: list[Move] = []
    # Replicas dropped for lack of space are restored below the Move level; their size counts as 0, as they may have become smaller.
    for reason, limit in (
        ("", inventory.limit),
        (REPAIR, inventory.limit),
        (DROP_FOR_SPACE, min(inventory.limit, inventory.state.spec.disks.thresholds.move / 100)),
    ):
        entries = [
            replace(entry, bytes=0) if entry.reason == DROP_FOR_SPACE else entry
            for entry in inventory.journal.dropped
            if entry.reason == reason
        ]
        found = restore_replicas(
            inventory.for_planning, entries, limit, bad_dirs(inventory) | closed_dirs(inventory)
        )
        moves += found.moves
        for broker, refusal in found.refusals:
            thing = f"KafkaBroker/{names.broker_name(inventory.state.name, broker)}"
            quiet = refusal.reason == "RestartPending"  # an ordinary step, not a problem
            builder.wait(
                Waiting(_RESTORE, thing, refusal.reason, refusal.message, refusal.unblocked_by, quiet=quiet)
            )
    return tuple(moves)


def backfill_new_disks(inventory: DiskInventory) -> tuple[tuple[Move, ...], frozenset[tuple[int, str]]]:
    """Moves onto new disks, and the (broker, disk) of new disks whose backfill is complete.

    Called before the disk states of this pass are computed, so it uses the recorded states.
    """
    joining = [s for s in inventory.slots if s.recorded is DiskState.BACKFILLING and s.online]
    if not joining or inventory.journal is None:
        return (), frozenset()
    new = frozenset((s.broker, s.path) for s in joining)
    shut = frozenset(
        (s.broker, s.path) for s in inventory.slots if s.recorded in (DiskState.CORDONED, DiskState.DRAINING)
    )
    under_way = inventory.journal.moves
    moves = plan_backfill(
        inventory.for_planning,
        new,
        under_way,
        avoid=bad_dirs(inventory),
        closed=shut,
        incoming_limit=inventory.limit,
    )
    if moves is None:
        return (), frozenset()
    # Only the agent moves replicas between the dirs of a broker, and Kafka refuses that for topics with too long names: the backfill does
    # not wait for moves that cannot happen.
    watched = {s.broker for s in inventory.slots if s.watched}
    moves = tuple(move for move in moves if not move.within or (move.target in watched and move.placeable))
    coming = {(move.target, move.to_dir) for move in (*moves, *under_way)}
    # Several new brokers get replicas of one partition one after the other: "no conflicting move" (`docs/safety.md`, rule 6).
    moving = {move.key for move in under_way}
    begin = tuple(move for move in moves if move.key not in moving)
    return begin, frozenset(s.key for s in joining if (s.broker, s.path) not in coming)


def reconcile_replacements(
    inventory: DiskInventory,
    builder: PlanBuilder,
    records: BrokerRecords,
    wanted: dict[int, RestartRequest],
) -> None:
    """Retire evacuated disks, put new disks and recovered disks into use, and report what is in each slot."""
    for slot in inventory.slots:
        now = inventory.state_of(slot)
        if now is DiskState.EVACUATED and slot.mode == disk_facts.ABSENT:
            retire(inventory, records, slot)
            _report_slot(inventory, builder, slot)
        elif now is DiskState.REPLACING and slot.mode == disk_facts.ABSENT:
            _put_into_use(inventory, records, slot)
        elif now in (DiskState.DRAINING, DiskState.DRAINED) and not inventory.to_be_emptied(slot):
            _use_again(inventory, slot, records)
            if now is DiskState.DRAINED and slot.mode == disk_facts.ABSENT and _stays_out(inventory, slot):
                _report_slot(inventory, builder, slot)
        elif now in (DiskState.FAILED, DiskState.EVACUATING):
            _use_again(inventory, slot, records, inventory.state.now)
            _replace_in_place(inventory, builder, records, wanted, slot)
    _note_on_claims(inventory, builder)


def _stays_out(inventory: DiskInventory, slot: BrokerDisk) -> bool:
    """Whether a drained disk is not used again although nobody wants it drained any more: it failed, was wiped, or another one is in its place."""
    place = place_of(inventory, slot)
    return (
        slot.health.surely_bad
        or slot.disk["directoryId"] in _retired(inventory, slot)
        or place is Place.FOREIGN
        or (place is Place.OLD and slot.health.blank)
    )


def _retired(inventory: DiskInventory, slot: BrokerDisk) -> list[str]:
    return list(inventory.state.brokers[slot.broker]["spec"].get("retired") or ())


def retire(inventory: DiskInventory, records: BrokerRecords, slot: BrokerDisk) -> None:
    """Record the directory id of an evacuated disk as retired; it is never used again."""
    known = records.fields.get(slot.broker, {}).get("retired") or _retired(inventory, slot)
    if slot.disk["directoryId"] not in known:
        records.note(slot.broker, retired=[*known, slot.disk["directoryId"]][-_MOST_RETIRED:])


def _put_into_use(inventory: DiskInventory, records: BrokerRecords, slot: BrokerDisk) -> None:
    """Put a new disk into use under a new directory id; its file system is recorded before the pod is created."""
    retire(inventory, records, slot)
    volume = inventory.state.volume(inventory.state.claims.get(slot.disk["claim"]))
    fresh: dict[str, Any] = {"fsUuid": slot.health.fs_uuid or NO_UUID, "added": None}
    if volume is not None:
        fresh |= {"pv": objects.name(volume), "pvUid": objects.uid(volume)}
        if objects.uid(volume) != slot.disk.get("pvUid") and slot.health.content is None:
            fresh["fsUuid"] = None  # not inspected yet: preflight reports it
    records.note_disk(
        slot.broker,
        slot.name,
        mode=disk_facts.ACTIVE,
        directoryId=uuid_from_entropy(
            inventory.state.snap.entropy, "broker", str(slot.broker), slot.name, slot.disk["directoryId"]
        ),
        **fresh,
    )


def _use_again(
    inventory: DiskInventory, slot: BrokerDisk, records: BrokerRecords, now: float | None = None
) -> None:
    """Put the same disk into use again after it recovered; its broker restarts for it.

    The restart is subject to "no restart below min.insync.replicas" (`docs/safety.md`, rule 2). A retired disk stays out of use: "no disk
    mistaken for another" (rule 7). A drained disk that no agent can inspect is left to preflight.
    """
    unseen = now is None and slot.health.verdict == UNKNOWN and slot.health.content is None
    if slot.never_used:
        return
    if slot.mode == disk_facts.ACTIVE or not (
        unseen or (slot.health.well and slot.health.content == disk_facts.OURS)
    ):
        return
    if slot.disk["directoryId"] in _retired(inventory, slot):
        return
    if now is None or now - slot.health.since >= _HEALTHY_SECONDS:
        records.note_disk(slot.broker, slot.name, mode=disk_facts.ACTIVE)


def _replace_in_place(
    inventory: DiskInventory,
    builder: PlanBuilder,
    records: BrokerRecords,
    wanted: dict[int, RestartRequest],
    slot: BrokerDisk,
) -> None:
    """A new disk in the slot of one that was never evacuated: "no format over the last copy" decides (`docs/safety.md`, rule 1).

    A broker without any other disk puts it into use at once if it cannot run. If it runs and has no replicas left on the old disk, it is stopped before: a
    broker that nobody writes to does not notice that its disks are gone, and new replicas may be created on them. Else the replicas of the old disk are moved or dropped first, as far as possible. But a
    healthy disk is not evacuated: one that was excluded before it was formatted, so that it holds nothing, is put into use as well.
    """
    if not slot.health.blank or place_of(inventory, slot) is not Place.NEW:
        return
    empty = stands_empty(inventory, slot) is True
    at_once = not inventory.others(slot) and (not slot.running or empty)
    refusal = may_format(inventory.view, slot.broker, _was_on(inventory, slot, everything=at_once))
    if refusal is not None:
        builder.wait(Waiting.of("Format", inventory.object_name(slot), refusal))
    elif at_once and slot.running and slot.in_pod == disk_facts.ACTIVE:
        why = f"another disk is in the slot of {slot.name}, and it has no replicas on the former one"
        wanted.setdefault(slot.broker, RestartRequest("DiskUnusable", why))
    elif at_once or (empty and _was_excluded(inventory, slot)):
        _put_into_use(inventory, records, slot)
        if inventory.state.brokers[slot.broker]["spec"].get("returning"):
            # Nothing is lost by any of its disks, so no start of it can recreate the last copy empty.
            records.note(slot.broker, returning=False)


def _was_excluded(inventory: DiskInventory, slot: BrokerDisk) -> bool:
    """Whether a broker runs without a disk that is healthy now and is not being evacuated."""
    failed = inventory.state_of(slot) is DiskState.FAILED
    return failed and slot.health.well and slot.running and slot.mode == disk_facts.PLACEHOLDER


def _was_on(inventory: DiskInventory, slot: BrokerDisk, *, everything: bool) -> frozenset[Key] | None:
    """The partitions to check for "no format over the last copy", without accepted losses; None for all partitions.

    Args:
        inventory: of this pass.
        slot: the disk that is replaced.
        everything: whether the disk may have held all replicas of its broker.
    """
    accepted = inventory.given_up_on(slot.broker)
    if everything:
        return frozenset(inventory.replica_index.partitions) - accepted if accepted else None
    lost = (loss.partitions for loss in inventory.losses if (loss.broker, loss.disk) == slot.key)
    return next(lost, frozenset()) - accepted


def _report_slot(inventory: DiskInventory, builder: PlanBuilder, slot: BrokerDisk) -> None:
    """Report what the user has to do about the slot of a disk that is out of use and is not used again."""
    if (
        slot.key in inventory.removing
        or inventory.state.brokers[slot.broker]["spec"].get("returning")
        or unbound(inventory.state, slot)  # a volume comes first
    ):
        return
    refusal = unexpected_disk(
        slot.broker, slot.name, place_of(inventory, slot), seen_in(inventory, slot).message
    )
    if refusal is not None and slot.health.well:
        builder.wait(Waiting.of(_REPLACE, inventory.object_name(slot), refusal))
        return
    builder.wait(
        Waiting(
            _REPLACE,
            inventory.object_name(slot),
            "ReplacementNeeded",
            f"{slot.name} of broker {slot.broker} has failed. It holds no replicas any more and the broker runs without it: it is "
            "safe to pull.",
            _way_out(inventory, slot),
        )
    )


def _way_out(inventory: DiskInventory, slot: BrokerDisk) -> str:
    """How a user replaces a disk: where a provisioner creates volumes, nobody has access to a slot."""
    state = inventory.state
    there = state.claims.get(slot.disk["claim"])
    spec = (there.get("spec") or {}) if there is not None else {}
    found = class_of(spec.get("storageClassName"), state.snap.storage_classes)
    if there is None or found is None or is_static(found):
        return "Replace the disk: mount a new disk with an empty file system where the old one was mounted."
    return (
        f"Replace the volume: kubectl -n {state.namespace} delete pvc {objects.name(there)}. Spindle creates the claim again, and StorageClass "
        f"{objects.name(found)} provides a new volume for it."
    )


def _note_on_claims(inventory: DiskInventory, builder: PlanBuilder) -> None:
    """Update the directory id and the retired ids on each claim."""
    for broker in inventory.state.brokers.values():
        builder.do(*claim_annotations(inventory.state, broker))
