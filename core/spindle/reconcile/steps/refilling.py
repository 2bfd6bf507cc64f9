"""After a disk has left: what left with it comes back, a new disk takes its place, and is filled."""

from dataclasses import replace
from typing import Any, Final

from spindle.cluster import names
from spindle.cluster.ids import uuid_from_entropy
from spindle.disks import facts
from spindle.disks.health import UNKNOWN
from spindle.disks.lifecycle import DiskState
from spindle.disks.rules import may_format
from spindle.filling.shedding import SHED
from spindle.healing.fill import fill
from spindle.healing.regrow import regrow
from spindle.healing.replace import NO_UUID, wrong_disk
from spindle.healing.replace import Slot as Place
from spindle.healing.standing import Key
from spindle.moves.journal import REPAIR, Move
from spindle.reconcile import objects
from spindle.reconcile.draft import Draft, Wait
from spindle.reconcile.keepsakes import keepsakes
from spindle.reconcile.slots import Slot
from spindle.reconcile.steps.brokers import Records
from spindle.reconcile.steps.emptying import bad, closed
from spindle.reconcile.steps.growing import unbound
from spindle.reconcile.steps.lives import place_of, seen_in, stands_empty
from spindle.reconcile.ward import Ward

_REPLACE: Final = "ReplaceDisk"
_GROW: Final = "GrowBack"
_MOST_RETIRED: Final = 256
_DWELL: Final = 30.0  # seconds that a disk must be well before its broker restarts for it


def grow_back(ward: Ward, draft: Draft) -> tuple[Move, ...]:
    """Moves that bring back what left its assignment."""
    if ward.journal is None or not ward.journal.shrunk:
        return ()
    moves: list[Move] = []
    # What was given up for want of room comes back where it will not be too much again; it may have shrunk meanwhile.
    for reason, limit in (
        ("", ward.limit),
        (REPAIR, ward.limit),
        (SHED, min(ward.limit, ward.state.spec.disks.thresholds.move / 100)),
    ):
        entries = [
            replace(entry, bytes=0) if entry.reason == SHED else entry
            for entry in ward.journal.shrunk
            if entry.reason == reason
        ]
        found = regrow(ward.for_planning, entries, limit, bad(ward) | closed(ward))
        moves += found.moves
        for broker, refusal in found.refusals:
            thing = f"KafkaBroker/{names.broker_name(ward.state.name, broker)}"
            quiet = refusal.reason == "BrokerNotWhole"  # a step of the way, not a trouble
            draft.wait(Wait(_GROW, thing, refusal.reason, refusal.message, refusal.unblocked_by, quiet=quiet))
    return tuple(moves)


def fill_new(ward: Ward) -> tuple[tuple[Move, ...], frozenset[tuple[int, str]]]:
    """Moves onto disks that have just joined, and the disks that have got all that they get.

    Asked before the disks' lives are worked out, so it goes by the state on record.
    """
    joining = [s for s in ward.slots if s.recorded is DiskState.REJOINING and s.online]
    if not joining or ward.journal is None:
        return (), frozenset()
    new = frozenset((s.broker, s.path) for s in joining)
    shut = frozenset(
        (s.broker, s.path) for s in ward.slots if s.recorded in (DiskState.CORDONED, DiskState.DRAINING)
    )
    under_way = ward.journal.moves
    moves = fill(ward.for_planning, new, under_way, avoid=bad(ward), closed=shut, incoming_limit=ward.limit)
    if moves is None:
        return (), frozenset()
    # Between the dirs of a broker only its agent can move, and not what Kafka takes for a name that is too long: a disk
    # does not wait for what never comes.
    watched = {s.broker for s in ward.slots if s.watched}
    moves = tuple(move for move in moves if not move.within or (move.target in watched and move.placeable))
    coming = {(move.target, move.to_dir) for move in (*moves, *under_way)}
    # Of several new brokers that are to get replicas of one partition, one has to wait for the other (rule 6).
    moving = {move.key for move in under_way}
    begin = tuple(move for move in moves if move.key not in moving)
    return begin, frozenset(s.key for s in joining if (s.broker, s.path) not in coming)


def settle_replacements(ward: Ward, draft: Draft, records: Records) -> None:
    """Retire what was evacuated, take new disks in, use again what is well again, and say what is in a slot."""
    for slot in ward.slots:
        now = ward.now(slot)
        if now is DiskState.EVACUATED and slot.mode == facts.ABSENT:
            retire(ward, records, slot)
            if not (
                slot.key in ward.leaving
                or ward.state.brokers[slot.broker]["spec"].get("returning")
                or unbound(ward.state, slot)  # a volume comes first
            ):
                _say(ward, draft, slot)
        elif now is DiskState.REPLACING and slot.mode == facts.ABSENT:
            _take_in(ward, records, slot)
        elif now in (DiskState.DRAINING, DiskState.DRAINED) and not ward.unwanted(slot):
            _use_again(ward, slot, records)
        elif now in (DiskState.FAILED, DiskState.EVACUATING):
            _use_again(ward, slot, records, ward.state.now)
            _replace_in_place(ward, draft, records, slot)
    _note_on_claims(ward, draft)


def _retired(ward: Ward, slot: Slot) -> list[str]:
    return list(ward.state.brokers[slot.broker]["spec"].get("retired") or ())


def retire(ward: Ward, records: Records, slot: Slot) -> None:
    """The directory id of a disk that was given up is never used again."""
    known = records.fields.get(slot.broker, {}).get("retired") or _retired(ward, slot)
    if slot.disk["directoryId"] not in known:
        records.note(slot.broker, retired=[*known, slot.disk["directoryId"]][-_MOST_RETIRED:])


def _take_in(ward: Ward, records: Records, slot: Slot) -> None:
    """A slot gets a new directory id for the new disk; its file system is on record before the pod is made."""
    retire(ward, records, slot)
    volume = ward.state.volume(ward.state.claims.get(slot.disk["claim"]))
    fresh: dict[str, Any] = {"fsUuid": slot.health.fs_uuid or NO_UUID, "added": None}
    if volume is not None:
        fresh |= {"pv": objects.name(volume), "pvUid": objects.uid(volume)}
        if objects.uid(volume) != slot.disk.get("pvUid") and slot.health.content is None:
            fresh["fsUuid"] = None  # nobody has looked: preflight tells
    records.note_disk(
        slot.broker,
        slot.name,
        mode=facts.ACTIVE,
        directoryId=uuid_from_entropy(
            ward.state.snap.entropy, "broker", str(slot.broker), slot.name, slot.disk["directoryId"]
        ),
        **fresh,
    )


def _use_again(ward: Ward, slot: Slot, records: Records, now: float | None = None) -> None:
    """The same disk, well again: its broker restarts with it (rule 2 permitting). One that was given up stays out (rule 7).

    One that was well when it was drained, and that no agent can look at, is left to preflight to judge.
    """
    unseen = now is None and slot.health.verdict == UNKNOWN and slot.health.content is None
    if slot.never_used:
        return
    if slot.mode == facts.ACTIVE or not (unseen or (slot.health.well and slot.health.content == facts.OURS)):
        return
    if slot.disk["directoryId"] in _retired(ward, slot):
        return
    if now is None or now - slot.health.since >= _DWELL:
        records.note_disk(slot.broker, slot.name, mode=facts.ACTIVE)


def _replace_in_place(ward: Ward, draft: Draft, records: Records, slot: Slot) -> None:
    """A new disk in the slot of one that was never emptied: rule 1 decides, and says which copies it was the last for.

    A broker without any other disk takes it at once if it cannot run, or has nothing left on the old one: a Kafka that nobody writes to
    does not notice that its disks are gone. Else what was on the old disk leaves it first, as far as it may.
    """
    if slot.health.content != facts.BLANK or not slot.health.fresh or place_of(ward, slot) is not Place.NEW:
        return
    at_once = not ward.others(slot) and (not slot.running or stands_empty(ward, slot) is True)
    refusal = may_format(ward.view, slot.broker, _was_on(ward, slot, everything=at_once))
    if refusal is not None:
        draft.wait(Wait.refused("Format", ward.thing(slot), refusal))
    elif at_once:
        _take_in(ward, records, slot)


def _was_on(ward: Ward, slot: Slot, *, everything: bool) -> frozenset[Key] | None:
    """What rule 1 has to be asked about, without what a person gave up; None for all that there is.

    Args:
        ward: the pass.
        slot: whose disk is replaced.
        everything: whether the disk may have held all that its broker has.
    """
    given = ward.gone_on(slot.broker)
    if everything:
        return frozenset(ward.looked.partitions) - given if given else None
    lost = (loss.partitions for loss in ward.losses if (loss.broker, loss.disk) == slot.key)
    return next(lost, frozenset()) - given


def _say(ward: Ward, draft: Draft, slot: Slot) -> None:
    """What a person is to do about an empty slot."""
    refusal = wrong_disk(slot.broker, slot.name, place_of(ward, slot), seen_in(ward, slot).message)
    if refusal is not None and slot.health.well:
        draft.wait(Wait.refused(_REPLACE, ward.thing(slot), refusal))
        return
    draft.wait(
        Wait(
            _REPLACE,
            ward.thing(slot),
            "DiskToReplace",
            f"{slot.name} of broker {slot.broker} has failed. Nothing stands on it any more, and the broker runs without it: it is "
            "safe to pull.",
            "Put a new disk into its place, with an empty file system, mounted where the old one was.",
        )
    )


def _note_on_claims(ward: Ward, draft: Draft) -> None:
    """A claim carries the directory id that its slot has now, and which were given up."""
    for broker in ward.state.brokers.values():
        draft.do(*keepsakes(ward.state, broker))
