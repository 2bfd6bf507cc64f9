"""Evacuates failed and drained disks: moves replicas to other brokers if the planner finds a target, drops them otherwise, then removes the disk.

Dropping and removing follow "no log dir removed with replicas on it" (`docs/safety.md`, rule 5).
"""

from dataclasses import replace
from typing import Final

from spindle.api import names, quantity
from spindle.api.enums import DiskState
from spindle.brokers.records import find_location
from spindle.disks.broker_disks import NODE_LOST, BrokerDisk
from spindle.disks.disk_inventory import DiskInventory
from spindle.disks.disk_states import remedy_of
from spindle.disks.remedy import Remedy
from spindle.disks.remove_dir import may_remove_dir
from spindle.evacuation.deadlocks import held_by, let_go
from spindle.evacuation.drop_replicas import INSUFFICIENT_IN_SYNC, drop_replicas, not_spared, without_dropped
from spindle.evacuation.evacuate import Evacuation, evacuate
from spindle.model import disk_facts
from spindle.model.blockers import Blocked
from spindle.model.broker_records import BrokerRecords
from spindle.model.plan_builder import PlanBuilder
from spindle.model.replica_index import Key, names_of
from spindle.model.restart_safety import BELOW_MIN_ISR, RestartSafety
from spindle.model.unavailable import unavailable
from spindle.model.view import CORDON_LEVEL, CORDONED, LogDir
from spindle.model.waiting import Waiting, counted, some
from spindle.moves.carry_out import limits_of, signals_of
from spindle.moves.execute import why_not
from spindle.moves.journal import DroppedReplica, SettingKey
from spindle.moves.missing_replicas import meant
from spindle.moves.requests import MoveRequests
from spindle.moves.settings import gone_dirs

_EVACUATE: Final = "EvacuateDisk"
_DRAIN: Final = "DrainDisk"
_PATIENCE: Final = (
    30.0  # seconds to wait for a silent broker before replicas are dropped that it could have taken
)
_REFUSED_FOR: Final = (
    180.0  # seconds for which none of a disk's moves may start before its replicas are dropped instead
)
_NONE: Final[tuple[tuple[DroppedReplica, ...], None]] = ((), None)
_CLOSED: Final = frozenset({DiskState.CORDONED, DiskState.FAILED, DiskState.EVACUATING, DiskState.DRAINING})


def reconcile_evacuation(
    inventory: DiskInventory, builder: PlanBuilder, records: BrokerRecords, lost_brokers: frozenset[int]
) -> tuple[MoveRequests, dict[int, Blocked]]:
    """Request moves and drops that evacuate disks; remove evacuated disks from their brokers.

    Args:
        inventory, builder, records: of this pass.
        lost_brokers: brokers that have lost all their disks.

    Returns:
        The requests; and the brokers that cannot restart without their dead disks now, because other partitions need them or lack replicas.
    """
    # A disk that recovers during its evacuation is used again as soon as its broker has restarted.
    leaving = [
        slot
        for slot in inventory.in_states(DiskState.EVACUATING)
        if inventory.may_act(slot) and remedy_of(inventory, slot) is Remedy.EVACUATE
    ]
    # A disk whose drain was cancelled stays Draining until its broker has restarted with it: it must not be removed a second time.
    draining = [slot for slot in inventory.in_states(DiskState.DRAINING) if inventory.to_be_emptied(slot)]
    plan = _plan(inventory, leaving, draining, lost_brokers)
    if plan.problem is not None:
        builder.wait(_cannot_plan(inventory, [*leaving, *draining], plan.problem))
    shrinks: list[DroppedReplica] = []
    blocked: dict[int, Blocked] = {}
    for broker in sorted({slot.broker for slot in leaving}):
        mine = [slot for slot in leaving if slot.broker == broker]
        found, why_blocked = _drop(inventory, builder, mine, plan, shrinks)
        shrinks += found
        if why_blocked is not None:
            blocked[broker] = why_blocked
    for slot in draining:
        _report_stuck_drain(inventory, builder, slot, plan)
    for slot in [*leaving, *draining]:
        _remove(inventory, builder, records, slot)
    for slot in inventory.slots:
        _keep(inventory, records, slot)
    off = {(entry.broker, entry.key) for entry in shrinks}
    moves = tuple(move for move in plan.moves if (move.source, move.key) not in off)
    return MoveRequests(
        moves=moves, shrinks=tuple(shrinks), lost=lost_brokers, settings=_cordons(inventory)
    ), blocked


def _to_restart(inventory: DiskInventory, shrinks: list[DroppedReplica]) -> frozenset[int]:
    """Brokers whose replicas are being dropped, or were dropped, because of a failed disk: each of them is to restart next.

    If two brokers did this at the same time, each could have the in-sync replicas that the other dropped, and neither could restart.
    """
    standing = inventory.journal.dropped if inventory.journal is not None else ()
    return frozenset(entry.broker for entry in (*standing, *shrinks) if not entry.reason)


def closed_dirs(inventory: DiskInventory) -> frozenset[tuple[int, str]]:
    """Dirs that must get no replicas, whether or not this Kafka version supports cordoning.

    They include dirs of replaced disks whose broker has not restarted since: replicas placed there now would be lost with the old disk.
    """
    replaced = [slot for slot in inventory.slots if slot.other_in_pod]
    return frozenset((slot.broker, slot.path) for slot in [*inventory.in_states(*_CLOSED), *replaced])


def offline_brokers(inventory: DiskInventory) -> frozenset[tuple[int, str]]:
    """All dirs of brokers with an offline dir: Kafka refuses to recreate a replica there that it had on the offline dir."""
    found = {
        b
        for b in inventory.replica_index.brokers
        if any(d.error for d in inventory.replica_index.dirs(b) or ())
    }
    return frozenset((slot.broker, slot.path) for slot in inventory.slots if slot.broker in found)


def bad_dirs(inventory: DiskInventory) -> frozenset[tuple[int, str]]:
    """Dirs of failed disks, which cannot be read or written."""
    return frozenset((slot.broker, slot.path) for slot in inventory.slots if slot.health.bad)


def _plan(
    inventory: DiskInventory, leaving: list[BrokerDisk], draining: list[BrokerDisk], lost: frozenset[int]
) -> Evacuation:
    """Run the planner, if there is something to move."""
    if (leaving or draining) and not inventory.replica_index.known:
        return Evacuation(problem=inventory.replica_index.problem)
    gone = [
        (slot.broker, slot.path)
        for slot in leaving
        if inventory.partitions_on(slot) and slot.broker not in lost
    ]
    emptied = [(slot.broker, slot.path) for slot in draining if inventory.partitions_on(slot)]
    held = frozenset(b for b in lost if inventory.replica_index.assigned.get(b))
    if inventory.journal is None or not (gone or emptied or held):
        return Evacuation()
    return evacuate(
        inventory.for_planning,
        gone,
        emptied,
        held,
        avoid=bad_dirs(inventory),
        closed=(closed_dirs(inventory) | offline_brokers(inventory)) - frozenset(emptied),
        incoming_limit=inventory.limit,
    )


def _cannot_plan(inventory: DiskInventory, slots: list[BrokerDisk], problem: str) -> Waiting:
    return Waiting(
        _EVACUATE,
        inventory.object_name(slots[0]) if slots else f"KafkaCluster/{inventory.state.name}",
        "PlanPending",
        f"The evacuation cannot be planned yet: {problem}.",
        "Nothing to do: Spindle continues when Kafka and all brokers report their replicas; it asks them repeatedly.",
        quiet=True,
    )


def _drop(
    inventory: DiskInventory,
    builder: PlanBuilder,
    mine: list[BrokerDisk],
    plan: Evacuation,
    others: list[DroppedReplica],
) -> tuple[tuple[DroppedReplica, ...], Blocked | None]:
    """Drop the replicas that no other broker can take, if all of them may be dropped; ``others``: drops of other brokers in this pass.

    Returns:
        The drops; and why the broker cannot restart without its dead disks, if that is the reason for none.
    """
    left: set[Key] = set()
    for slot in mine:
        standing = inventory.partitions_on(slot)
        if standing is None:
            return _NONE
        left |= standing
    if not left or plan.problem is not None or inventory.journal is None:
        return _NONE
    moving = {move.key for move in (*plan.moves, *inventory.journal.moves)}
    slot, shut = mine[0], bad_dirs(inventory) | closed_dirs(inventory)
    if left & moving and not _refused_for_long(inventory, builder, slot, left, plan):
        return _NONE  # first move what can be moved
    if _broker_may_come_back(inventory, slot):
        return _NONE
    new = _new_dirs(inventory, slot.broker) if slot.health.reason == NODE_LOST else None
    if new == []:
        return _NONE  # dropping replicas does not help before the broker can be recreated on another node
    away = unavailable(inventory.state) | (_to_restart(inventory, others) - {slot.broker})
    found = drop_replicas(
        inventory.planning_index,
        slot.broker,
        left,
        [
            each.path
            for each in inventory.by_broker[slot.broker]
            if each in mine or (each.broker, each.path) in shut
        ],
        inventory.journal.dropped,
        inventory.limit,
        away,
        new,
    )
    refusal, blocked = found.refusal, None
    if refusal is None:
        refusal, blocked = _not_spared(inventory, slot.broker, found.shrunk, others, away)
    if refusal is None:
        return found.shrunk, None
    builder.wait(Waiting.of(_EVACUATE, inventory.object_name(slot), refusal))
    if refusal.reason == INSUFFICIENT_IN_SYNC:
        rolling = RestartSafety(inventory.view, meant(inventory.journal, inventory.replica_index.partitions))
        blocked = held_by(rolling, slot.broker, refusal, away, restarts=False)
    return (), blocked


def _not_spared(
    inventory: DiskInventory,
    broker: int,
    dropped: tuple[DroppedReplica, ...],
    others: list[DroppedReplica],
    away: frozenset[int],
) -> tuple[Waiting | None, Blocked | None]:
    """Why a broker could not restart right after these replicas are dropped, given all drops of this pass and all brokers that are down."""
    if not dropped or inventory.journal is None:
        return None, None
    journal = inventory.journal.replacing(dropped=(*inventory.journal.dropped, *others, *dropped))
    rolling = RestartSafety(
        without_dropped(inventory.view, dropped), meant(journal, inventory.replica_index.partitions)
    )
    verdict = let_go(inventory.state, rolling, broker, rolling.may_go_down(broker, away - {broker}), away)
    if verdict.refusal is None:
        return None, None
    below = verdict.refusal.reason == BELOW_MIN_ISR
    blocked = held_by(rolling, broker, verdict.refusal, away) if below else None
    return not_spared(broker, verdict.refusal), blocked


def _refused_for_long(
    inventory: DiskInventory, builder: PlanBuilder, slot: BrokerDisk, left: set[Key], plan: Evacuation
) -> bool:
    """Whether all moves to other brokers have been refused for so long that their replicas are dropped instead.

    Planner and executor apply the same rules, but not all of them to the same objects: the executor may refuse forever what the planner
    proposes again in each pass.
    """
    journal, state = inventory.journal, inventory.state
    moves = [move for move in plan.moves if move.source == slot.broker and move.key in left]
    if journal is None or not moves or left & {move.key for move in journal.moves}:
        return False
    shut = bad_dirs(inventory)
    asked = MoveRequests(moves=tuple(moves), closed=shut | closed_dirs(inventory), bad=shut)
    found = why_not(state.kafka, journal, asked, limits_of(state), signals_of(state))
    if any(move.key not in found for move in moves):
        return False
    why = found[moves[0].key]
    wait = Waiting(
        _EVACUATE,
        inventory.object_name(slot),
        "MovesBlocked",
        f"{counted(len(moves), 'replica')} of {slot.name} of broker {slot.broker} cannot be moved to another broker yet: {why.message}",
        f"{why.unblocked_by} After {_REFUSED_FOR / 60:g} minutes Spindle drops {'it' if len(moves) == 1 else 'them'} from "
        f"{'its assignment' if len(moves) == 1 else 'their assignments'} instead, if that is safe (docs/safety.md#rule-5), and restores "
        f"{'it' if len(moves) == 1 else 'them'} when the broker runs without the disk.",
        quiet=True,
    )
    builder.wait(wait)
    return state.waited(wait.key) >= _REFUSED_FOR


def _new_dirs(inventory: DiskInventory, broker: int) -> list[LogDir]:
    """The dirs that a broker will have when it is recreated on another node; empty if there is no such node."""
    location = find_location(inventory.state, broker)
    if not location.found:
        return []
    pool = inventory.state.pool_of(inventory.state.brokers[broker])
    size = quantity.whole(pool.disks.least_size) if pool is not None else 0
    sizes = {names.log_dir(name): its for name, its in location.disks.items()}
    return [
        LogDir(
            path,
            total_bytes=its,
            usable_bytes=int(its * (1 - inventory.limit + inventory.ceiling(broker, path))),
        )
        for path, its in (sizes or {slot.path: size for slot in inventory.by_broker[broker]}).items()
    ]


def _broker_may_come_back(inventory: DiskInventory, slot: BrokerDisk) -> bool:
    """Whether a broker that has not answered for a short time might still take the replicas."""
    silent = [
        b
        for b in inventory.state.brokers
        if b not in inventory.dead_brokers and inventory.replica_index.dirs(b) is None
    ]
    return bool(silent) and inventory.state.now - inventory.states[slot.key].since < _PATIENCE


def _report_stuck_drain(
    inventory: DiskInventory, builder: PlanBuilder, slot: BrokerDisk, plan: Evacuation
) -> None:
    """Report replicas on a drained disk that have no target; replicas on a working disk are never dropped."""
    standing = inventory.partitions_on(slot)
    journal = inventory.journal.moves if inventory.journal is not None else ()
    moving = {move.key for move in (*plan.moves, *journal)}
    stuck = sorted((standing or frozenset()) - moving)
    if stuck and plan.problem is None:
        builder.wait(
            Waiting(
                _DRAIN,
                inventory.object_name(slot),
                "NoMoveTarget",
                f"{counted(len(stuck), 'replica')} on {slot.name} of broker {slot.broker} {'has' if len(stuck) == 1 else 'have'} no disk to "
                f"move to: {some(names_of(stuck))}.",
                f"Add a broker or a disk that can take {'it' if len(stuck) == 1 else 'them'}, free space, or cancel the request (the drain, or "
                "the reduction of disks.count, disks.maxCount or replicas).",
            )
        )


def _remove(inventory: DiskInventory, builder: PlanBuilder, records: BrokerRecords, slot: BrokerDisk) -> None:
    """Exclude an empty disk from its broker, if the broker has another disk to run with.

    See "no log dir removed with replicas on it" (`docs/safety.md`, rule 5).
    """
    # A broker that is scaled in leaves with all its disks and needs no restart for that; but a replica whose loss is accepted has no leader that it
    # could be moved from, until the broker has restarted without the disk.
    given_up = inventory.given_up_on(slot.broker) & (
        inventory.replica_index.on(slot.broker, slot.path) or frozenset()
    )
    goes = slot.health.reason == NODE_LOST or (slot.broker in inventory.scaling_in and not given_up)
    if slot.mode == disk_facts.ABSENT or inventory.journal is None or goes:
        return
    # A pass that changes the KafkaBroker does not write its status: if the state were not recorded yet, the next pass would start with the
    # former state.
    if slot.recorded is not inventory.state_of(slot):
        return
    refusal = may_remove_dir(
        inventory.replica_index,
        slot.broker,
        slot.path,
        inventory.given_up_on(slot.broker),
        inventory.incoming_to(slot),
    )
    action = _EVACUATE if slot.health.bad else _DRAIN
    if refusal is not None:
        # Until the broker answers, nothing is planned for this disk either.
        if refusal.reason == "LogDirsUnknown" and inventory.replica_index.known:
            builder.wait(replace(Waiting.of(action, inventory.object_name(slot), refusal), quiet=True))
        return
    if not inventory.others(slot):
        builder.wait(
            Waiting(
                action,
                inventory.object_name(slot),
                "LastDisk",
                f"{slot.name} of broker {slot.broker} holds no replicas, but cannot be removed: the broker has no other disk to run with.",
                _with_another(inventory, slot),
            )
        )
        return
    if slot.mode == disk_facts.PLACEHOLDER and not slot.running:
        return  # its next pod could not inspect it either; Kafka has to start with the placeholder, and reports the dir as offline
    records.note_disk(slot.broker, slot.name, mode=disk_facts.ABSENT)


def _with_another(inventory: DiskInventory, slot: BrokerDisk) -> str:
    """How a broker gets a second disk; its only disk must not be pulled while Kafka uses it."""
    if slot.health.bad:
        return "Put a new disk into a slot of this broker."
    others = [other.name for other in inventory.by_broker.get(slot.broker, ()) if other.name != slot.name]
    if others:
        return (
            f"Put a new disk into the slot of {some(others)}, or cancel the request. Leave {slot.name} in place until then: Kafka uses it, "
            "and new partitions are created on it."
        )
    return "Give this broker another disk (spec.brokerPools[].disks.count; with disks.all, a free volume on its node), or cancel the request."


def _keep(inventory: DiskInventory, records: BrokerRecords, slot: BrokerDisk) -> None:
    """Keep a disk in use if it got new replicas before it was removed, as long as its pod mounts it."""
    if (
        slot.mode == disk_facts.ABSENT
        and slot.in_pod is not None
        and slot.running
        and inventory.partitions_on(slot)
    ):
        records.note_disk(slot.broker, slot.name, mode=slot.in_pod)


def _cordons(inventory: DiskInventory) -> dict[SettingKey, str]:
    """``cordoned.log.dirs`` of each broker: online dirs that must get no new replicas.

    A dir that is being removed stays cordoned until its broker is stopped, else a topic created at that moment could be placed there; the cordon
    is removed when the broker has started without the dir. For a broker that is scaled in, it is removed before the broker stops, because
    afterwards it cannot be removed.
    """
    if (inventory.view.metadata_version or 0) < CORDON_LEVEL:
        return {}
    going = {int(mark["nodeId"]) for mark in inventory.state.unavailable_records}
    paths: dict[int, list[str]] = {
        broker: [] for broker in inventory.by_broker if gone_dirs(inventory.view, str(broker))
    }
    for slot in inventory.slots:
        wanted = slot.request.cordoned or inventory.state_of(slot) in _CLOSED
        out = slot.broker in inventory.scaling_in and slot.broker in going
        if wanted and slot.online and not out:
            paths.setdefault(slot.broker, []).append(slot.path)
    return {("broker", str(broker), CORDONED): ",".join(sorted(dirs)) for broker, dirs in paths.items()}


def still_cordoned(inventory: DiskInventory) -> frozenset[int]:
    """Brokers in scale-in that must not go down in this pass, because one of their dirs is still cordoned."""
    settings = inventory.journal.settings if inventory.journal is not None else ()
    found = {(s.name, path) for s in settings if s.key == CORDONED for path in (s.ours or "").split(",")}
    return frozenset(
        slot.broker
        for slot in inventory.slots
        if slot.broker in inventory.scaling_in and slot.online and (str(slot.broker), slot.path) in found
    )
