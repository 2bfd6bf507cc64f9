"""What is done about disks that fill: moves away from them, no moves in, a replica given up, and the last resorts.

The cordon is the disk's own life (`lives`). What is to be moved is the planner's choice; the executor carries it out and puts every
setting back.
"""

from dataclasses import dataclass
from typing import Final

from spindle.cluster import names
from spindle.cluster.refusal import counted, some
from spindle.cluster.view import CORDON_LEVEL, DEFAULT_USERS, MAX_MESSAGE_BYTES, PRODUCER_RATE, RETENTION_MS
from spindle.disks.lifecycle import DiskState
from spindle.filling import resorts
from spindle.filling.levels import Rung
from spindle.filling.relief import Relief, relieve
from spindle.filling.rungs import FORECAST
from spindle.filling.shedding import SHED, shed
from spindle.moves.journal import SettingKey, Shrunk
from spindle.reconcile import objects
from spindle.reconcile.actions import Action, Patch, TrimPartitions
from spindle.reconcile.draft import Draft, Wait
from spindle.reconcile.events import Event
from spindle.reconcile.fills import Fill, thresholds_of
from spindle.reconcile.slots import Slot
from spindle.reconcile.steps.away import down
from spindle.reconcile.steps.brokers import Records
from spindle.reconcile.steps.emptying import bad, closed, offline_brokers
from spindle.reconcile.steps.moves import Wants
from spindle.reconcile.ward import Ward

_SEARCHED_EVERY, _SEARCHED_FOR = 600.0, 30.0  # seconds
_RELIEVE: Final = "RelieveDisk"
_IN_USE: Final = (DiskState.ACTIVE, DiskState.CORDONED, DiskState.REJOINING)
_TAKES: Final = (DiskState.ACTIVE, DiskState.REJOINING)
ANN_TRIMMED: Final = (
    f"{names.GROUP}/trimmed"  # of a KafkaBroker: when records were last deleted, for one of its disks
)
_TRIM_EVERY: Final = 600.0  # seconds: Kafka takes five minutes and one more to give the space back


@dataclass(frozen=True)
class Filling:
    """What comes of it.

    Attributes:
        wants: for the executor of moves.
        trims: to be carried out last; the first of them notes the others.
    """

    wants: Wants
    trims: tuple[Action, ...] = ()


def settle_filling(ward: Ward, draft: Draft, records: Records) -> Filling:
    """Decide about every disk that fills, and hand each agent what it has to know about its disks."""
    _hand_over(ward, records)
    for slot in ward.slots:
        _tell(ward, draft, slot)
    relief = _relief(ward, draft)
    shut = frozenset((s.broker, s.path) for s in ward.slots if ward.rung(s) >= Rung.REFUSING)
    if ward.journal is None:
        return Filling(Wants(closed=shut))
    wants = Wants(
        moves=relief.moves,
        shrinks=_shed(ward, draft, relief),
        settings=_settings(ward, draft),
        closed=shut,
    )
    return Filling(wants, _trims(ward, relief))


def _hand_over(ward: Ward, records: Records) -> None:
    """Thresholds, by which the agent forecasts, and the size of the ballast, which it keeps."""
    ballast = ward.state.spec.disks.ballast_bytes or None
    for broker_id, broker in ward.state.brokers.items():
        marks = {
            key: value for key, value in thresholds_of(ward.state, broker_id).to_dict().items() if value != {}
        }
        if broker["spec"].get("thresholds") != marks:
            records.note(broker_id, thresholds=marks)
        if (broker["spec"].get("ballastBytes") or None) != ballast:
            records.note(broker_id, ballastBytes=ballast)


def _tell(ward: Ward, draft: Draft, slot: Slot) -> None:
    """An event for each step up or down, and a word where there is no cordon to be had."""
    fill = ward.fills.get(slot.key)
    if fill is None:
        return
    broker = ward.state.brokers[slot.broker]
    if fill.rung is not fill.before:
        rose = fill.rung > fill.before
        draft.events.append(
            Event(
                type="Warning" if rose and fill.rung >= Rung.REFUSING else "Normal",
                reason="FillRose" if rose else "FillFell",
                message=f"{slot.name} of {objects.name(broker)}: {fill.rung.label}, after {fill.before.label}. "
                f"{fill.verdict.message}",
                kind="KafkaBroker",
                name=objects.name(broker),
                uid=objects.uid(broker),
            )
        )
    level = ward.view.metadata_version
    if fill.rung >= Rung.CORDONED and level is not None and level < CORDON_LEVEL:
        draft.wait(
            Wait(
                "CordonDisk",
                ward.thing(slot),
                "NoCordon",
                f"{fill.verdict.message} This Kafka cannot keep new replicas off a single disk, so new topics may still land on it.",
                "Raise metadata.version to 4.3 or later. Spindle itself moves nothing there.",
            )
        )


# Moves


def _relief(ward: Ward, draft: Draft) -> Relief:
    """Ask the planner, if anything is too full; say of what nothing can be done for."""
    full = {(s.broker, s.path): s for s in ward.slots if _to_relieve(ward, s)}
    if not full or ward.journal is None:
        return Relief()
    found = relieve(
        ward.view,
        full,
        {(s.broker, s.path): room for s in ward.slots if (room := _room(ward, s)) is not None},
        ward.journal.moves,
        avoid=bad(ward),
        closed=closed(ward) | offline_brokers(ward),
        agents=frozenset(s.broker for s in ward.slots if s.watched),
        # It takes seconds of a core, so where nothing was found it is not done in each pass.
        search=any(
            ward.state.waited((_RELIEVE, ward.thing(s), "NoRoomElsewhere")) % _SEARCHED_EVERY < _SEARCHED_FOR
            for s in full.values()
        ),
    )
    for place in sorted(found.stuck):
        fill = ward.fills[full[place].key]
        if fill.verdict.reason == FORECAST:
            continue
        draft.wait(
            Wait(
                _RELIEVE,
                ward.thing(full[place]),
                "NoRoomElsewhere",
                f"{fill.verdict.message} No other disk can take its replicas without becoming too full itself, or none may by the "
                "rules for racks and copies.",
                "Add disks or brokers, shorten the retention of large topics, or delete data.",
            )
        )
    return found


def _to_relieve(ward: Ward, slot: Slot) -> bool:
    fill = ward.fills.get(slot.key)
    return fill is not None and fill.rung >= Rung.RELIEVING and _usable(ward, slot)


def _usable(ward: Ward, slot: Slot) -> bool:
    return slot.online is True and not slot.health.bad and ward.now(slot) in _IN_USE


def _room(ward: Ward, slot: Slot) -> int | None:
    """Bytes of replicas that a disk is to hold at most; None for one that takes nothing and gives nothing."""
    fill = ward.fills.get(slot.key)
    if fill is None or not _usable(ward, slot):
        return None
    level = fill.levels.at(Rung.RELIEVING)
    if fill.rung < Rung.RELIEVING:
        return max(0, level.enter - 1 - _others(ward, slot, fill)) if ward.now(slot) in _TAKES else None
    aim = level.leave - 1
    if (
        fill.verdict.reason == FORECAST
    ):  # it is below the level yet: as much as the release goes ahead of its growth
        aim = min(aim, fill.used - (level.enter - level.leave))
    return max(0, aim - _others(ward, slot, fill))


def _others(ward: Ward, slot: Slot, fill: Fill) -> int:
    """Bytes on a disk that are no replica's, once Kafka has deleted what it is about to delete."""
    if ward.journal is None:
        return fill.others
    place = slot.broker, slot.path
    gone = sum(e.bytes for e in ward.journal.leftovers if (e.broker, e.dir) == place)
    # What has landed since the last pass is on record as a move yet, not as left over.
    logs = slot.log_dir.replicas if slot.log_dir is not None else {}
    landed = (m for m in ward.journal.moves if (m.source, m.from_dir) == place and m.key not in logs)
    return max(0, fill.others - gone - sum(m.bytes for m in landed))


# Replicas that are given up


def _shed(ward: Ward, draft: Draft, relief: Relief) -> tuple[Shrunk, ...]:
    """One replica of a disk at a time, where no move helps; what is on its way out is asked for until it is out."""
    journal = ward.journal
    if journal is None:
        return ()
    moving = {move.key for move in journal.moves}
    short = {
        entry.key for entry in journal.shrunk
    }  # of no partition more than one replica is missing by our hand
    found: list[Shrunk] = []
    for slot in ward.slots:
        fill = ward.fills.get(slot.key)
        if fill is None or fill.rung < Rung.SHEDDING or not _usable(ward, slot):
            continue
        pending = [e for e in journal.shrunk_on(slot.broker) if e.reason == SHED and _stands(slot, e)]
        if pending:
            found += [entry for entry in pending if entry.key not in moving]
        elif (slot.broker, slot.path) in relief.stuck:
            need = _settled(ward, slot, fill) - fill.levels.at(Rung.SHEDDING).leave + 1
            made = shed(ward.looked, slot.broker, slot.path, need, moving | short, down(ward.state))
            found += made.shrunk
            short |= {entry.key for entry in made.shrunk}
            if made.refusal is not None:
                draft.wait(Wait.refused("ShedReplica", ward.thing(slot), made.refusal))
    return tuple(found)


def _stands(slot: Slot, entry: Shrunk) -> bool:
    return slot.log_dir is not None and entry.key in slot.log_dir.replicas


def _settled(ward: Ward, slot: Slot, fill: Fill) -> int:
    """Bytes in use once Kafka has deleted what it is about to delete."""
    return _others(ward, slot, fill) + (
        sum(slot.log_dir.replicas.values()) if slot.log_dir is not None else 0
    )


# Last resorts


def _settings(ward: Ward, draft: Draft) -> dict[SettingKey, str]:
    """Topics' settings and quotas for as long as disks are that full; a wait for each kind says what users will notice."""
    dirs = [
        resorts.FullDir(
            slot.log_dir, frozenset(level.rung for level in fill.levels.steps if level.rung <= fill.rung)
        )
        for slot in ward.slots
        if (fill := ward.fills.get(slot.key)) is not None and slot.log_dir is not None and slot.online
    ]
    unsure = any(ward.rung(s) >= Rung.RETENTION and ward.fills.get(s.key) is None for s in ward.slots)
    standing = ward.journal.settings if ward.journal is not None else ()
    wanted = resorts.settings(ward.view, dirs, standing, unsure=unsure)
    for key, reason, what in (
        (RETENTION_MS, "RetentionHalved", "Records are kept half as long as they should be in"),
        (MAX_MESSAGE_BYTES, "ProducersStopped", "Producers are stopped, with MESSAGE_TOO_LARGE (RecordTooLargeException), in"),
    ):  # fmt: skip
        topics = sorted(name for kind, name, setting in wanted if kind == "topic" and setting == key)
        if topics:
            draft.wait(_resort(ward, reason, f"{what} {counted(len(topics), 'topic')}: {some(topics)}."))
    if (*DEFAULT_USERS, PRODUCER_RATE) in wanted:
        slow = (
            f"Users without a quota of their own may produce {resorts.RATE} bytes per second to each broker."
        )
        draft.wait(_resort(ward, "ProducersSlowed", slow))
    return wanted


def _resort(ward: Ward, reason: str, message: str) -> Wait:
    return Wait(
        "UndoLastResort",
        f"KafkaCluster/{ward.state.name}",
        reason,
        f"{message} A disk is nearly full.",
        "Free space or add disks. What stood there before is put back by itself as soon as the disks are below their thresholds.",
    )


def _trims(ward: Ward, relief: Relief) -> tuple[Action, ...]:
    """Delete old records for disks that nothing else helps, once in ten minutes; that is noted before it is done.

    Replicas of one partition may stand on several such disks: it loses what the fullest of them needs, not the sum.
    """
    policy, journal = ward.state.spec.disks.last_resorts, ward.journal
    if not policy.delete_records or journal is None or not _due(ward):
        return ()
    moving = {move.key for move in journal.moves}
    shares: dict[tuple[str, int, int], float] = {}
    chosen: list[Slot] = []
    for slot in ward.slots:
        fill = ward.fills.get(slot.key)
        if fill is None or fill.rung < Rung.DELETE_RECORDS or (slot.broker, slot.path) not in relief.stuck:
            continue
        need = _settled(ward, slot, fill) - fill.levels.at(Rung.DELETE_RECORDS).leave
        found = (
            resorts.trim(ward.view, slot.log_dir, need, moving)
            if slot.log_dir is not None
            else resorts.Trim()
        )
        for partition in found.partitions:
            shares[partition] = max(found.share, shares.get(partition, 0.0))
        chosen += [slot] if found.partitions else []
    if not shares:
        return ()
    topics = some(sorted({topic for topic, _, _ in shares}))
    disks = some([slot.name + " of broker " + str(slot.broker) for slot in chosen])
    trim = TrimPartitions(
        partitions=tuple((*partition, share) for partition, share in sorted(shares.items())),
        reason="RecordsDeleted",
        message=f"{disks} nearly full: the oldest records of {counted(len(shares), 'partition')} are deleted, "
        f"{max(shares.values()):.0%} at most, of {topics}.",
    )
    return (_noted(ward, chosen[0].broker), trim)


def _due(ward: Ward) -> bool:
    """Whether the last time was long enough ago for its space to have come back."""
    noted = [objects.annotation(broker, ANN_TRIMMED) or "" for broker in ward.state.brokers.values()]
    return all(not at.isdecimal() or ward.state.now - int(at) >= _TRIM_EVERY for at in noted)


def _noted(ward: Ward, broker_id: int) -> Patch:
    broker = ward.state.brokers[broker_id]
    return Patch(
        kind="KafkaBroker",
        name=objects.name(broker),
        uid=objects.uid(broker),
        body={"metadata": {"annotations": {ANN_TRIMMED: str(int(ward.state.now))}}},
    )
