"""What is done about disks that fill: moves away from them, no moves in, a replica given up, and the last resorts.

The cordon is the disk's own life (`disk_states`). What is to be moved is the planner's choice; the executor carries it out and puts every
setting back.
"""

from dataclasses import dataclass
from typing import Final

from spindle.cluster import names
from spindle.cluster.view import CORDON_LEVEL, DEFAULT_USERS, MAX_MESSAGE_BYTES, PRODUCER_RATE, RETENTION_MS
from spindle.cluster.waiting import Waiting, counted, some
from spindle.disks.lifecycle import DiskState
from spindle.moves.journal import DroppedReplica, SettingKey
from spindle.reconcile import objects
from spindle.reconcile.actions import Action, Patch, TrimPartitions
from spindle.reconcile.broker_disks import BrokerDisk
from spindle.reconcile.disk_inventory import DiskInventory
from spindle.reconcile.disk_usage import DiskUsage, thresholds_of
from spindle.reconcile.events import Event
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.steps.brokers import BrokerRecords
from spindle.reconcile.steps.evacuation import bad_dirs, closed_dirs, offline_brokers
from spindle.reconcile.steps.moves import MoveRequests
from spindle.reconcile.steps.unavailable import unavailable
from spindle.thresholds import last_resort_actions
from spindle.thresholds.bounds import UsageLevel
from spindle.thresholds.drop_for_space import DROP_FOR_SPACE, drop_for_space
from spindle.thresholds.levels import FORECAST
from spindle.thresholds.offload import OffloadPlan, plan_offload

_SEARCHED_EVERY, _SEARCHED_FOR = 600.0, 30.0  # seconds
_RELIEVE: Final = "OffloadDisk"
_IN_USE: Final = (DiskState.ACTIVE, DiskState.CORDONED, DiskState.BACKFILLING)
_TAKES: Final = (DiskState.ACTIVE, DiskState.BACKFILLING)
ANN_TRIMMED: Final = (
    f"{names.GROUP}/trimmed"  # of a KafkaBroker: when records were last deleted, for one of its disks
)
_TRIM_EVERY: Final = 600.0  # seconds: Kafka takes five minutes and one more to give the space back


@dataclass(frozen=True)
class ThresholdResult:
    """What comes of it.

    Attributes:
        requests: for the executor of moves.
        trims: to be carried out last; the first of them notes the others.
    """

    requests: MoveRequests
    trims: tuple[Action, ...] = ()


def reconcile_thresholds(
    inventory: DiskInventory, builder: PlanBuilder, records: BrokerRecords
) -> ThresholdResult:
    """Decide about every disk that fills, and hand each agent what it has to know about its disks."""
    _hand_over(inventory, records)
    for slot in inventory.slots:
        _tell(inventory, builder, slot)
    relief = _relief(inventory, builder)
    shut = frozenset(
        (s.broker, s.path) for s in inventory.slots if inventory.level(s) >= UsageLevel.REJECT_MOVES
    )
    if inventory.journal is None:
        return ThresholdResult(MoveRequests(closed=shut))
    requests = MoveRequests(
        moves=relief.moves,
        shrinks=_shed(inventory, builder, relief),
        settings=_settings(inventory, builder),
        closed=shut,
    )
    return ThresholdResult(requests, _trims(inventory, relief))


def _hand_over(inventory: DiskInventory, records: BrokerRecords) -> None:
    """Thresholds, by which the agent forecasts, and the size of the ballast, which it keeps."""
    ballast = inventory.state.spec.disks.ballast_bytes or None
    for broker_id, broker in inventory.state.brokers.items():
        marks = {
            key: value
            for key, value in thresholds_of(inventory.state, broker_id).to_dict().items()
            if value != {}
        }
        if broker["spec"].get("thresholds") != marks:
            records.note(broker_id, thresholds=marks)
        if (broker["spec"].get("ballastBytes") or None) != ballast:
            records.note(broker_id, ballastBytes=ballast)


def _tell(inventory: DiskInventory, builder: PlanBuilder, slot: BrokerDisk) -> None:
    """An event for each step up or down, and a word where there is no cordon to be had."""
    fill = inventory.usages.get(slot.key)
    if fill is None:
        return
    broker = inventory.state.brokers[slot.broker]
    if fill.level is not fill.before:
        rose = fill.level > fill.before
        builder.events.append(
            Event(
                type="Warning" if rose and fill.level >= UsageLevel.REJECT_MOVES else "Normal",
                reason="ThresholdReached" if rose else "ThresholdCleared",
                message=f"{slot.name} of {objects.name(broker)}: {fill.level.label}, after {fill.before.label}. "
                f"{fill.verdict.message}",
                kind="KafkaBroker",
                name=objects.name(broker),
                uid=objects.uid(broker),
            )
        )
    level = inventory.view.metadata_version
    if fill.level >= UsageLevel.CORDON and level is not None and level < CORDON_LEVEL:
        builder.wait(
            Waiting(
                "CordonDisk",
                inventory.object_name(slot),
                "CordonNotSupported",
                f"{fill.verdict.message} This Kafka cannot keep new replicas off a single disk, so new topics may still land on it.",
                "Raise metadata.version to 4.3 or later. Spindle itself moves nothing there.",
            )
        )


# Moves


def _relief(inventory: DiskInventory, builder: PlanBuilder) -> OffloadPlan:
    """Ask the planner, if anything is too full; say of what nothing can be done for."""
    full = {(s.broker, s.path): s for s in inventory.slots if _to_relieve(inventory, s)}
    if not full or inventory.journal is None:
        return OffloadPlan()
    found = plan_offload(
        inventory.view,
        full,
        {(s.broker, s.path): room for s in inventory.slots if (room := _room(inventory, s)) is not None},
        inventory.journal.moves,
        avoid=bad_dirs(inventory),
        closed=closed_dirs(inventory) | offline_brokers(inventory),
        agents=frozenset(s.broker for s in inventory.slots if s.watched),
        # It takes seconds of a core, so where nothing was found it is not done in each pass.
        search=any(
            inventory.state.waited((_RELIEVE, inventory.object_name(s), "InsufficientSpace"))
            % _SEARCHED_EVERY
            < _SEARCHED_FOR
            for s in full.values()
        ),
    )
    for place in sorted(found.stuck):
        fill = inventory.usages[full[place].key]
        if fill.verdict.reason == FORECAST:
            continue
        builder.wait(
            Waiting(
                _RELIEVE,
                inventory.object_name(full[place]),
                "InsufficientSpace",
                f"{fill.verdict.message} No other disk can take its replicas without becoming too full itself, or none may by the "
                "rules for racks and copies.",
                "Add disks or brokers, shorten the retention of large topics, or delete data.",
            )
        )
    return found


def _to_relieve(inventory: DiskInventory, slot: BrokerDisk) -> bool:
    fill = inventory.usages.get(slot.key)
    return fill is not None and fill.level >= UsageLevel.MOVE and _usable(inventory, slot)


def _usable(inventory: DiskInventory, slot: BrokerDisk) -> bool:
    return slot.online is True and not slot.health.bad and inventory.state_of(slot) in _IN_USE


def _room(inventory: DiskInventory, slot: BrokerDisk) -> int | None:
    """Bytes of replicas that a disk is to hold at most; None for one that takes nothing and gives nothing."""
    fill = inventory.usages.get(slot.key)
    if fill is None or not _usable(inventory, slot):
        return None
    level = fill.levels.at(UsageLevel.MOVE)
    if fill.level < UsageLevel.MOVE:
        return (
            max(0, level.enter - 1 - _others(inventory, slot, fill))
            if inventory.state_of(slot) in _TAKES
            else None
        )
    aim = level.leave - 1
    if (
        fill.verdict.reason == FORECAST
    ):  # it is below the level yet: as much as the release goes ahead of its growth
        aim = min(aim, fill.used - (level.enter - level.leave))
    return max(0, aim - _others(inventory, slot, fill))


def _others(inventory: DiskInventory, slot: BrokerDisk, fill: DiskUsage) -> int:
    """Bytes on a disk that are no replica's, once Kafka has deleted what it is about to delete."""
    if inventory.journal is None:
        return fill.others
    place = slot.broker, slot.path
    gone = sum(e.bytes for e in inventory.journal.cleanups if (e.broker, e.dir) == place)
    # What has landed since the last pass is on record as a move yet, not as left over.
    logs = slot.log_dir.replicas if slot.log_dir is not None else {}
    landed = (m for m in inventory.journal.moves if (m.source, m.from_dir) == place and m.key not in logs)
    return max(0, fill.others - gone - sum(m.bytes for m in landed))


# Replicas that are given up


def _shed(inventory: DiskInventory, builder: PlanBuilder, relief: OffloadPlan) -> tuple[DroppedReplica, ...]:
    """One replica of a disk at a time, where no move helps; what is on its way out is asked for until it is out."""
    journal = inventory.journal
    if journal is None:
        return ()
    moving = {move.key for move in journal.moves}
    short = {
        entry.key for entry in journal.dropped
    }  # of no partition more than one replica is missing by our hand
    found: list[DroppedReplica] = []
    for slot in inventory.slots:
        fill = inventory.usages.get(slot.key)
        if fill is None or fill.level < UsageLevel.DROP_REPLICAS or not _usable(inventory, slot):
            continue
        pending = [
            e for e in journal.dropped_on(slot.broker) if e.reason == DROP_FOR_SPACE and _stands(slot, e)
        ]
        if pending:
            found += [entry for entry in pending if entry.key not in moving]
        elif (slot.broker, slot.path) in relief.stuck:
            need = _settled(inventory, slot, fill) - fill.levels.at(UsageLevel.DROP_REPLICAS).leave + 1
            made = drop_for_space(
                inventory.replica_index,
                slot.broker,
                slot.path,
                need,
                moving | short,
                unavailable(inventory.state),
            )
            found += made.shrunk
            short |= {entry.key for entry in made.shrunk}
            if made.refusal is not None:
                builder.wait(Waiting.of("DropReplica", inventory.object_name(slot), made.refusal))
    return tuple(found)


def _stands(slot: BrokerDisk, entry: DroppedReplica) -> bool:
    return slot.log_dir is not None and entry.key in slot.log_dir.replicas


def _settled(inventory: DiskInventory, slot: BrokerDisk, fill: DiskUsage) -> int:
    """Bytes in use once Kafka has deleted what it is about to delete."""
    return _others(inventory, slot, fill) + (
        sum(slot.log_dir.replicas.values()) if slot.log_dir is not None else 0
    )


# Last resorts


def _settings(inventory: DiskInventory, builder: PlanBuilder) -> dict[SettingKey, str]:
    """Topics' settings and quotas for as long as disks are that full; a wait for each kind says what users will notice."""
    dirs = [
        last_resort_actions.FullLogDir(
            slot.log_dir, frozenset(level.level for level in fill.levels.steps if level.level <= fill.level)
        )
        for slot in inventory.slots
        if (fill := inventory.usages.get(slot.key)) is not None and slot.log_dir is not None and slot.online
    ]
    unsure = any(
        inventory.level(s) >= UsageLevel.REDUCE_RETENTION and inventory.usages.get(s.key) is None
        for s in inventory.slots
    )
    standing = inventory.journal.settings if inventory.journal is not None else ()
    wanted = last_resort_actions.settings(inventory.view, dirs, standing, unsure=unsure)
    for key, reason, what in (
        (RETENTION_MS, "RetentionReduced", "Records are kept half as long as they should be in"),
        (MAX_MESSAGE_BYTES, "ProducersBlocked", "Producers are stopped, with MESSAGE_TOO_LARGE (RecordTooLargeException), in"),
    ):  # fmt: skip
        topics = sorted(name for kind, name, setting in wanted if kind == "topic" and setting == key)
        if topics:
            builder.wait(
                _resort(inventory, reason, f"{what} {counted(len(topics), 'topic')}: {some(topics)}.")
            )
    if (*DEFAULT_USERS, PRODUCER_RATE) in wanted:
        slow = f"Users without a quota of their own may produce {last_resort_actions.RATE} bytes per second to each broker."
        builder.wait(_resort(inventory, "ProducersThrottled", slow))
    return wanted


def _resort(inventory: DiskInventory, reason: str, message: str) -> Waiting:
    return Waiting(
        "RevertLastResort",
        f"KafkaCluster/{inventory.state.name}",
        reason,
        f"{message} A disk is nearly full.",
        "Free space or add disks. What stood there before is put back by itself as soon as the disks are below their thresholds.",
    )


def _trims(inventory: DiskInventory, relief: OffloadPlan) -> tuple[Action, ...]:
    """Delete old records for disks that nothing else helps, once in ten minutes; that is noted before it is done.

    Replicas of one partition may stand on several such disks: it loses what the fullest of them needs, not the sum.
    """
    policy, journal = inventory.state.spec.disks.last_resort_actions, inventory.journal
    if not policy.delete_records or journal is None or not _due(inventory):
        return ()
    moving = {move.key for move in journal.moves}
    shares: dict[tuple[str, int, int], float] = {}
    chosen: list[BrokerDisk] = []
    for slot in inventory.slots:
        fill = inventory.usages.get(slot.key)
        if (
            fill is None
            or fill.level < UsageLevel.DELETE_RECORDS
            or (slot.broker, slot.path) not in relief.stuck
        ):
            continue
        need = _settled(inventory, slot, fill) - fill.levels.at(UsageLevel.DELETE_RECORDS).leave
        found = (
            last_resort_actions.trim(inventory.view, slot.log_dir, need, moving)
            if slot.log_dir is not None
            else last_resort_actions.Trim()
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
    return (_noted(inventory, chosen[0].broker), trim)


def _due(inventory: DiskInventory) -> bool:
    """Whether the last time was long enough ago for its space to have come back."""
    noted = [objects.annotation(broker, ANN_TRIMMED) or "" for broker in inventory.state.brokers.values()]
    return all(not at.isdecimal() or inventory.state.now - int(at) >= _TRIM_EVERY for at in noted)


def _noted(inventory: DiskInventory, broker_id: int) -> Patch:
    broker = inventory.state.brokers[broker_id]
    return Patch(
        kind="KafkaBroker",
        name=objects.name(broker),
        uid=objects.uid(broker),
        body={"metadata": {"annotations": {ANN_TRIMMED: str(int(inventory.state.now))}}},
    )
