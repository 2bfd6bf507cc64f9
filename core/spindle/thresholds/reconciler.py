"""Actions at the usage thresholds of disks: move replicas away, reject incoming moves, drop replicas, and the last-resort actions.

`disk_states` cordons disks. The planner chooses what to move; the executor carries it out and reverts every config.
"""

from dataclasses import dataclass
from typing import Final

from spindle.api import names
from spindle.api.enums import DiskState
from spindle.api.thresholds import LAST_RESORTS, UsageLevel
from spindle.disks.broker_disks import BrokerDisk
from spindle.disks.disk_inventory import DiskInventory
from spindle.disks.usage import DiskUsage
from spindle.evacuation.requests import bad_dirs, closed_dirs, offline_brokers
from spindle.model import objects
from spindle.model.actions import Action, Patch, TrimPartitions
from spindle.model.broker_records import BrokerRecords
from spindle.model.events import Event
from spindle.model.levels import FORECAST
from spindle.model.plan_builder import PlanBuilder
from spindle.model.unavailable import unavailable
from spindle.model.view import CORDON_LEVEL
from spindle.model.waiting import Waiting, counted, some
from spindle.moves.journal import DROP_FOR_SPACE, DroppedReplica, SettingKey
from spindle.moves.requests import MoveRequests
from spindle.thresholds import last_resort_actions
from spindle.thresholds.drop_for_space import drop_for_space
from spindle.thresholds.offload import OffloadPlan, plan_offload

_SEARCHED_EVERY, _SEARCHED_FOR = (
    600.0,
    30.0,
)  # seconds: how often, and for how long, a search is repeated that found nothing
_RELIEVE: Final = "OffloadDisk"
_IN_USE: Final = (DiskState.ACTIVE, DiskState.CORDONED, DiskState.BACKFILLING)
_TAKES: Final = (DiskState.ACTIVE, DiskState.BACKFILLING)
ANN_TRIMMED: Final = (
    f"{names.GROUP}/trimmed"  # of a KafkaBroker: when records were last deleted, for one of its disks
)
_TRIM_EVERY: Final = 600.0  # seconds: Kafka frees the space after log.retention.check.interval.ms (5 min) and file.delete.delay.ms (1 min)


@dataclass(frozen=True)
class ThresholdResult:
    """What the thresholds require.

    Attributes:
        requests: for the executor of moves.
        trims: deletions of records, to be carried out last; the first action records them.
    """

    requests: MoveRequests
    trims: tuple[Action, ...] = ()


def reconcile_thresholds(
    inventory: DiskInventory, builder: PlanBuilder, records: BrokerRecords
) -> ThresholdResult:
    """Decide the actions for every disk above a threshold, and give each agent its thresholds and ballast size."""
    _hand_over(inventory, records)
    for slot in inventory.slots:
        _report(inventory, builder, slot)
    relief = _plan_offload(inventory, builder)
    shut = frozenset(
        (s.broker, s.path) for s in inventory.slots if inventory.level(s) >= UsageLevel.REJECT_MOVES
    )
    if inventory.journal is None:
        return ThresholdResult(MoveRequests(closed=shut))
    requests = MoveRequests(
        moves=relief.moves,
        shrinks=_drop_replicas(inventory, builder, relief),
        settings=_settings(inventory, builder),
        closed=shut,
    )
    return ThresholdResult(requests, _trims(inventory, relief))


def _hand_over(inventory: DiskInventory, records: BrokerRecords) -> None:
    """Record the thresholds, which the agent forecasts by, and the size of the ballast file that it keeps."""
    ballast = inventory.state.spec.disks.ballast_bytes or None
    for broker_id, broker in inventory.state.brokers.items():
        marks = {
            key: value
            for key, value in inventory.state.thresholds_of(broker_id).to_dict().items()
            if value != {}
        }
        if broker["spec"].get("thresholds") != marks:
            records.note(broker_id, thresholds=marks)
        if (broker["spec"].get("ballastBytes") or None) != ballast:
            records.note(broker_id, ballastBytes=ballast)


def _report(inventory: DiskInventory, builder: PlanBuilder, slot: BrokerDisk) -> None:
    """An event for each change of level, and a wait where this Kafka cannot cordon a log dir (KIP-1066)."""
    usage = inventory.usages.get(slot.key)
    if usage is None:
        return
    broker = inventory.state.brokers[slot.broker]
    if usage.level is not usage.before:
        rose = usage.level > usage.before
        builder.events.append(
            Event(
                type="Warning" if rose and usage.level >= UsageLevel.REJECT_MOVES else "Normal",
                reason="ThresholdReached" if rose else "ThresholdCleared",
                message=f"{slot.name} of {objects.name(broker)} is now at usage level {usage.level.label} (before: {usage.before.label}). "
                f"{usage.verdict.message}",
                kind="KafkaBroker",
                name=objects.name(broker),
                uid=objects.uid(broker),
            )
        )
    level = inventory.view.metadata_version
    if usage.level >= UsageLevel.CORDON and level is not None and level < CORDON_LEVEL:
        builder.wait(
            Waiting(
                "CordonDisk",
                inventory.object_name(slot),
                "CordonNotSupported",
                f"{usage.verdict.message} This Kafka cannot cordon a single log dir, so it may still place replicas of new topics on this disk. Spindle itself "
                "moves no replica there.",
                "Raise metadata.version to 4.3 or later.",
            )
        )


# Moves


def _plan_offload(inventory: DiskInventory, builder: PlanBuilder) -> OffloadPlan:
    """Plan moves away from disks that are too full; adds a wait for each that no move can help."""
    full = {(s.broker, s.path): s for s in inventory.slots if _needs_offload(inventory, s)}
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
        # A search takes seconds of CPU, so one that found nothing is not repeated in every pass.
        search=any(
            inventory.state.waited((_RELIEVE, inventory.object_name(s), "InsufficientSpace"))
            % _SEARCHED_EVERY
            < _SEARCHED_FOR
            for s in full.values()
        ),
    )
    for place in sorted(found.stuck):
        usage = inventory.usages[full[place].key]
        if usage.verdict.reason == FORECAST:
            continue
        builder.wait(
            Waiting(
                _RELIEVE,
                inventory.object_name(full[place]),
                "InsufficientSpace",
                f"{usage.verdict.message} No other disk can take its replicas: each would become too full itself, or the safety rules for racks and "
                "replicas forbid the move.",
                "Add disks or brokers, shorten the retention of large topics, or delete data.",
            )
        )
    return found


def _needs_offload(inventory: DiskInventory, slot: BrokerDisk) -> bool:
    usage = inventory.usages.get(slot.key)
    return usage is not None and usage.level >= UsageLevel.MOVE and _usable(inventory, slot)


def _usable(inventory: DiskInventory, slot: BrokerDisk) -> bool:
    return slot.online is True and not slot.health.bad and inventory.state_of(slot) in _IN_USE


def _room(inventory: DiskInventory, slot: BrokerDisk) -> int | None:
    """Bytes of replicas that a disk may hold at most; None for a disk that neither takes nor gives replicas."""
    usage = inventory.usages.get(slot.key)
    if usage is None or not _usable(inventory, slot):
        return None
    level = usage.levels.at(UsageLevel.MOVE)
    if usage.level < UsageLevel.MOVE:
        return (
            max(0, level.enter - 1 - _others(inventory, slot, usage))
            if inventory.state_of(slot) in _TAKES
            else None
        )
    aim = level.leave - 1
    if (
        usage.verdict.reason == FORECAST
    ):  # still below the threshold: free as much as the hysteresis, ahead of its growth
        aim = min(aim, usage.used - (level.enter - level.leave))
    return max(0, aim - _others(inventory, slot, usage))


def _others(inventory: DiskInventory, slot: BrokerDisk, usage: DiskUsage) -> int:
    """Bytes on a disk that do not belong to replicas, once Kafka has deleted what it is about to delete."""
    if inventory.journal is None:
        return usage.others
    place = slot.broker, slot.path
    gone = sum(e.bytes for e in inventory.journal.cleanups if (e.broker, e.dir) == place)
    # A replica that was moved away since the last pass is still recorded as a move, not as a cleanup.
    logs = slot.log_dir.replicas if slot.log_dir is not None else {}
    landed = (m for m in inventory.journal.moves if (m.source, m.from_dir) == place and m.key not in logs)
    return max(0, usage.others - gone - sum(m.bytes for m in landed))


# Replicas that are dropped


def _drop_replicas(
    inventory: DiskInventory, builder: PlanBuilder, relief: OffloadPlan
) -> tuple[DroppedReplica, ...]:
    """Drop one replica of a disk at a time where no move helps; a pending drop is requested until Kafka has carried it out."""
    journal = inventory.journal
    if journal is None:
        return ()
    moving = {move.key for move in journal.moves}
    short = {entry.key for entry in journal.dropped}  # Spindle drops at most one replica of a partition
    found: list[DroppedReplica] = []
    for slot in inventory.slots:
        usage = inventory.usages.get(slot.key)
        if usage is None or usage.level < UsageLevel.DROP_REPLICAS or not _usable(inventory, slot):
            continue
        pending = [
            e for e in journal.dropped_on(slot.broker) if e.reason == DROP_FOR_SPACE and _stands(slot, e)
        ]
        if pending:
            found += [entry for entry in pending if entry.key not in moving]
        elif (slot.broker, slot.path) in relief.stuck:
            need = _settled(inventory, slot, usage) - usage.levels.at(UsageLevel.DROP_REPLICAS).leave + 1
            result = drop_for_space(
                inventory.replica_index,
                slot.broker,
                slot.path,
                need,
                moving | short,
                unavailable(inventory.state),
            )
            found += result.shrunk
            short |= {entry.key for entry in result.shrunk}
            if result.refusal is not None:
                builder.wait(Waiting.of("DropReplica", inventory.object_name(slot), result.refusal))
    return tuple(found)


def _stands(slot: BrokerDisk, entry: DroppedReplica) -> bool:
    return slot.log_dir is not None and entry.key in slot.log_dir.replicas


def _settled(inventory: DiskInventory, slot: BrokerDisk, usage: DiskUsage) -> int:
    """Bytes in use once Kafka has deleted what it is about to delete."""
    return _others(inventory, slot, usage) + (
        sum(slot.log_dir.replicas.values()) if slot.log_dir is not None else 0
    )


# Last-resort actions


def _settings(inventory: DiskInventory, builder: PlanBuilder) -> dict[SettingKey, str]:
    """Topic configs and quotas that hold while disks are above a last-resort threshold; each kind gets a wait with its effect on clients."""
    dirs = [
        last_resort_actions.FullLogDir(
            slot.log_dir, frozenset(level.level for level in usage.levels.steps if level.level <= usage.level)
        )
        for slot in inventory.slots
        if (usage := inventory.usages.get(slot.key)) is not None
        and usage.level > UsageLevel.NORMAL
        and slot.log_dir is not None
        and slot.online
    ]
    unsure = any(
        slot.key not in inventory.usages and inventory.level(slot) >= UsageLevel.REDUCE_RETENTION
        for slot in inventory.slots
    )
    standing = inventory.journal.settings if inventory.journal is not None else ()
    wanted = last_resort_actions.settings(inventory.view, dirs, standing, unsure=unsure)
    for reason, message in last_resort_actions.applied(wanted):
        builder.wait(
            Waiting(
                "RevertLastResort",
                f"KafkaCluster/{inventory.state.name}",
                reason,
                f"{message} A disk is nearly full.",
                "Free space or add disks. Spindle restores the previous values as soon as the disks are below their thresholds.",
            )
        )
    return wanted


def _trims(inventory: DiskInventory, relief: OffloadPlan) -> tuple[Action, ...]:
    """Delete the oldest records on disks that nothing else helps, at most every ten minutes; recorded before it is done.

    If a partition has replicas on several such disks, it loses what the fullest of them needs, not the sum.
    """
    policy, journal = inventory.state.spec.disks.last_resort_actions, inventory.journal
    if not policy.delete_records or journal is None or not _due(inventory):
        return ()
    moving = {move.key for move in journal.moves}
    shares: dict[tuple[str, int, int], float] = {}
    chosen: list[BrokerDisk] = []
    for slot in inventory.slots:
        usage = inventory.usages.get(slot.key)
        if (
            usage is None
            or usage.level < UsageLevel.DELETE_RECORDS
            or (slot.broker, slot.path) not in relief.stuck
        ):
            continue
        need = _settled(inventory, slot, usage) - usage.levels.at(UsageLevel.DELETE_RECORDS).leave
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
        reason=LAST_RESORTS[UsageLevel.DELETE_RECORDS].reason,
        message=f"{disks} {'is' if len(chosen) == 1 else 'are'} nearly full: deleted the oldest records of {counted(len(shares), 'partition')}, "
        f"at most {max(shares.values()):.0%} of each. Topics: {topics}.",
    )
    return (_noted(inventory, chosen[0].broker), trim)


def _due(inventory: DiskInventory) -> bool:
    """Whether the last deletion is long enough ago for Kafka to have freed its space."""
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
