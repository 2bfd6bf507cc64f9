"""Empty what is bad or wished empty: across brokers where the planner finds a way, else by rule 5's shrink, then out of the broker."""

from dataclasses import replace
from typing import Final

from spindle.api import quantity
from spindle.cluster.view import CORDON_LEVEL, CORDONED, LogDir
from spindle.cluster.waiting import Waiting, counted, some
from spindle.disks import facts
from spindle.disks.lifecycle import DiskState
from spindle.disks.remedy import Remedy
from spindle.healing.drop_replicas import INSUFFICIENT_IN_SYNC, drop_replicas, not_spared, without_dropped
from spindle.healing.evacuate import Evacuation, evacuate
from spindle.healing.remove_dir import may_remove_dir
from spindle.healing.replica_index import Key, names_of
from spindle.moves.execute import why_not
from spindle.moves.journal import DroppedReplica, SettingKey
from spindle.moves.missing_replicas import meant
from spindle.moves.settings import gone_dirs
from spindle.reconcile.broker_disks import NODE_LOST, BrokerDisk
from spindle.reconcile.disk_inventory import DiskInventory
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.steps.brokers import BrokerRecords, find_location
from spindle.reconcile.steps.deadlocks import held_by, let_go
from spindle.reconcile.steps.disk_states import remedy_of
from spindle.reconcile.steps.moves import MoveRequests, limits_of, signals_of
from spindle.reconcile.steps.unavailable import unavailable
from spindle.rolling.brokers import BELOW_MIN_ISR, RestartSafety

_EVACUATE: Final = "EvacuateDisk"
_DRAIN: Final = "DrainDisk"
_PATIENCE: Final = (
    30.0  # seconds that a silent broker may take before what it could have taken shrinks instead
)
_REFUSED_FOR: Final = 180.0  # seconds for which none of a disk's moves may begin before its replicas leave their assignments instead
_CLOSED: Final = frozenset({DiskState.CORDONED, DiskState.FAILED, DiskState.EVACUATING, DiskState.DRAINING})


def reconcile_evacuation(
    inventory: DiskInventory, builder: PlanBuilder, records: BrokerRecords, lost: frozenset[int]
) -> MoveRequests:
    """What is to be moved or taken away so that bad disks get empty; those that are empty leave their brokers."""
    # One that answers again while it is being emptied is used again, as soon as its broker has restarted.
    leaving = [
        slot
        for slot in inventory.in_states(DiskState.EVACUATING)
        if inventory.may_act(slot) and remedy_of(inventory, slot) is Remedy.EVACUATE
    ]
    # One that is wanted again stays Draining until its broker has restarted with it: it is not to leave a second time.
    draining = [slot for slot in inventory.in_states(DiskState.DRAINING) if inventory.to_be_emptied(slot)]
    plan = _plan(inventory, leaving, draining, lost)
    if plan.problem is not None:
        builder.wait(_cannot_plan(inventory, [*leaving, *draining], plan.problem))
    shrinks: list[DroppedReplica] = []
    for broker in sorted({slot.broker for slot in leaving}):
        mine = [slot for slot in leaving if slot.broker == broker]
        shrinks += _shrink(inventory, builder, mine, plan, shrinks)
    for slot in draining:
        _stuck_drain(inventory, builder, slot, plan)
    for slot in [*leaving, *draining]:
        _leave(inventory, builder, records, slot)
    for slot in inventory.slots:
        _keep(inventory, records, slot)
    off = {(entry.broker, entry.key) for entry in shrinks}
    moves = tuple(move for move in plan.moves if (move.source, move.key) not in off)
    return MoveRequests(moves=moves, shrinks=tuple(shrinks), lost=lost, settings=_cordons(inventory))


def _to_restart(inventory: DiskInventory, shrinks: list[DroppedReplica]) -> frozenset[int]:
    """Brokers of which replicas leave, or have left, their assignments because of a dead disk: each of them is to restart next.

    Were two of them at it, each could be in sync with what the other gave up, and neither could be spared.
    """
    standing = inventory.journal.dropped if inventory.journal is not None else ()
    return frozenset(entry.broker for entry in (*standing, *shrinks) if not entry.reason)


def closed_dirs(inventory: DiskInventory) -> frozenset[tuple[int, str]]:
    """Dirs that are to take nothing, whether or not Kafka knows how to refuse.

    Among them those of disks that have been replaced, where Kafka has not restarted since: what comes there now is left behind with the old disk.
    """
    replaced = [slot for slot in inventory.slots if slot.other_in_pod]
    return frozenset((slot.broker, slot.path) for slot in [*inventory.in_states(*_CLOSED), *replaced])


def offline_brokers(inventory: DiskInventory) -> frozenset[tuple[int, str]]:
    """All dirs of brokers that have an offline one: Kafka refuses to make a replica there again that it gave up before."""
    found = {
        b
        for b in inventory.replica_index.brokers
        if any(d.error for d in inventory.replica_index.dirs(b) or ())
    }
    return frozenset((slot.broker, slot.path) for slot in inventory.slots if slot.broker in found)


def bad_dirs(inventory: DiskInventory) -> frozenset[tuple[int, str]]:
    """Dirs that nothing can be read from or written to."""
    return frozenset((slot.broker, slot.path) for slot in inventory.slots if slot.health.bad)


def _plan(
    inventory: DiskInventory, leaving: list[BrokerDisk], draining: list[BrokerDisk], lost: frozenset[int]
) -> Evacuation:
    """The planner is asked only while something is there to be moved."""
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
        f"Where the replicas can go is not known yet: {problem}.",
        "Kafka and all its brokers say what stands where; that is asked for again and again.",
        quiet=True,
    )


def _shrink(
    inventory: DiskInventory,
    builder: PlanBuilder,
    mine: list[BrokerDisk],
    plan: Evacuation,
    others: list[DroppedReplica],
) -> tuple[DroppedReplica, ...]:
    """What no other broker can take leaves its assignment, if all of it may; ``others`` are those of this pass that leave other brokers."""
    left: set[Key] = set()
    for slot in mine:
        standing = inventory.partitions_on(slot)
        if standing is None:
            return ()
        left |= standing
    if not left or plan.problem is not None or inventory.journal is None:
        return ()
    moving = {move.key for move in (*plan.moves, *inventory.journal.moves)}
    slot, shut = mine[0], bad_dirs(inventory) | closed_dirs(inventory)
    if left & moving and not _refused_for_long(inventory, builder, slot, left, plan):
        return ()  # first what can go elsewhere
    if _someone_may_come_back(inventory, slot):
        return ()
    new = _new_dirs(inventory, mine) if slot.health.reason == NODE_LOST else None
    if new is not None and not find_location(inventory.state, slot.broker).found:
        return ()  # nothing is won by a smaller assignment before the broker can come back elsewhere
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
    refusal = found.refusal or _not_spared(inventory, slot.broker, found.shrunk, others, away)
    if refusal is None:
        return found.shrunk
    builder.wait(Waiting.of(_EVACUATE, inventory.object_name(slot), refusal))
    if refusal.reason == INSUFFICIENT_IN_SYNC:
        rolling = RestartSafety(inventory.view, meant(inventory.journal, inventory.view.partitions))
        inventory.blocked[slot.broker] = held_by(rolling, slot.broker, refusal, away, restarts=False)
    return ()


def _not_spared(
    inventory: DiskInventory,
    broker: int,
    dropped: tuple[DroppedReplica, ...],
    others: list[DroppedReplica],
    away: frozenset[int],
) -> Waiting | None:
    """Why a broker could not restart right after these replicas have left it, all that leaves in this pass and everyone who is away counted."""
    if not dropped or inventory.journal is None:
        return None
    journal = inventory.journal.replacing(dropped=(*inventory.journal.dropped, *others, *dropped))
    rolling = RestartSafety(
        without_dropped(inventory.view, dropped), meant(journal, inventory.view.partitions)
    )
    verdict = let_go(inventory.state, rolling, broker, rolling.may_go_down(broker, away - {broker}), away)
    if verdict.refusal is None:
        return None
    if verdict.refusal.reason == BELOW_MIN_ISR:
        inventory.blocked[broker] = held_by(rolling, broker, verdict.refusal, away)
    return not_spared(broker, verdict.refusal)


def _refused_for_long(
    inventory: DiskInventory, builder: PlanBuilder, slot: BrokerDisk, left: set[Key], plan: Evacuation
) -> bool:
    """Whether nothing of what is to go to other brokers has been allowed to begin for so long that another way is tried.

    Planner and executor ask the same rules, but not all of them of the same things: what the planner offers anew in each pass the executor
    may refuse for ever.
    """
    journal, state = inventory.journal, inventory.state
    moves = [move for move in plan.moves if move.source == slot.broker and move.key in left]
    if journal is None or not moves or left & {move.key for move in journal.moves}:
        return False
    shut = bad_dirs(inventory)
    found = why_not(
        state.kafka,
        journal,
        moves,
        limits_of(state),
        closed=shut | closed_dirs(inventory),
        bad=shut,
        signals=signals_of(state),
    )
    if any(move.key not in found for move in moves):
        return False
    why = found[moves[0].key]
    wait = Waiting(
        _EVACUATE,
        inventory.object_name(slot),
        "MovesBlocked",
        f"{counted(len(moves), 'replica')} of {slot.name} of broker {slot.broker} may not begin to move to another broker: {why.message}",
        f"{why.unblocked_by} After {_REFUSED_FOR / 60:g} minutes they leave their assignments instead, if rule 5 permits, until their broker runs "
        "without the disk.",
        quiet=True,
    )
    builder.wait(wait)
    return state.waited(wait.key) >= _REFUSED_FOR


def _new_dirs(inventory: DiskInventory, mine: list[BrokerDisk]) -> list[LogDir]:
    """The dirs that a broker will have when it starts anew on another node."""
    pool = inventory.state.pool_of(inventory.state.brokers[mine[0].broker])
    size = quantity.whole(pool.disks.size) if pool is not None else 0
    return [
        LogDir(
            slot.path,
            total_bytes=size,
            usable_bytes=int(size * (1 - inventory.limit + inventory.ceiling(slot.broker, slot.path))),
        )
        for slot in inventory.by_broker[mine[0].broker]
    ]


def _someone_may_come_back(inventory: DiskInventory, slot: BrokerDisk) -> bool:
    """Whether a broker that is silent for a moment might still take what has to leave."""
    silent = [
        b
        for b in inventory.state.brokers
        if b not in inventory.dead_brokers and inventory.replica_index.dirs(b) is None
    ]
    return bool(silent) and inventory.state.now - inventory.states[slot.key].since < _PATIENCE


def _stuck_drain(inventory: DiskInventory, builder: PlanBuilder, slot: BrokerDisk, plan: Evacuation) -> None:
    """A disk that works shrinks nothing: what finds no other place stays, and a person is told."""
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
                f"{counted(len(stuck), 'replica')} on {slot.name} of broker {slot.broker} can go nowhere else: "
                f"{some(names_of(stuck))}.",
                "Add a broker or a disk that can take them, free space, or take back what was asked for (the drain request, or the lower "
                "disks.count or replicas).",
            )
        )


def _leave(inventory: DiskInventory, builder: PlanBuilder, records: BrokerRecords, slot: BrokerDisk) -> None:
    """Rule 5: an empty disk is left out of its broker, if the broker has another one to run with."""
    # A broker that leaves goes with all its disks, and needs no restart for that.
    goes = slot.health.reason == NODE_LOST or slot.broker in inventory.scaling_in
    if slot.mode == facts.ABSENT or inventory.journal is None or goes:
        return
    # A state that is not on record yet is not written in a pass that changes the KafkaBroker: the next pass would begin with the one before.
    if slot.recorded is not inventory.state_of(slot):
        return
    refusal = may_remove_dir(
        inventory.replica_index,
        slot.broker,
        slot.path,
        inventory.given_up_on(slot.broker),
        inventory.incoming_to(slot),
    )
    if refusal is not None:
        return
    if not inventory.others(slot):
        builder.wait(
            Waiting(
                _EVACUATE if slot.health.bad else _DRAIN,
                inventory.object_name(slot),
                "LastDisk",
                f"Nothing stands on {slot.name} of broker {slot.broker}, but the broker has no other disk that it could run "
                "with.",
                _with_another(inventory, slot),
            )
        )
        return
    records.note_disk(slot.broker, slot.name, mode=facts.ABSENT)


def _with_another(inventory: DiskInventory, slot: BrokerDisk) -> str:
    """How a broker gets a disk beside its last one, which must not be pulled while Kafka uses it."""
    if slot.health.bad:
        return "Put a new disk into a slot of this broker."
    others = [other.name for other in inventory.by_broker.get(slot.broker, ()) if other.name != slot.name]
    if others:
        return (
            f"Put a new disk into the slot of {some(others)}, or take back what was asked for. {slot.name} stays where it is meanwhile: Kafka "
            "uses it, and new partitions go to it."
        )
    return "Give this broker another disk (spec.brokerPools[].disks.count), or take back what was asked for."


def _keep(inventory: DiskInventory, records: BrokerRecords, slot: BrokerDisk) -> None:
    """What came to stand on a disk that is to be left out keeps it in, as long as its pod has it."""
    if (
        slot.mode == facts.ABSENT
        and slot.in_pod is not None
        and slot.running
        and inventory.partitions_on(slot)
    ):
        records.note_disk(slot.broker, slot.name, mode=slot.in_pod)


def _cordons(inventory: DiskInventory) -> dict[SettingKey, str]:
    """``cordoned.log.dirs`` of each broker: what still answers and is to take nothing new.

    A dir that leaves stays cordoned until its broker is stopped, else a topic made in that moment lands there; of a broker that has come up without it
    the cordon is taken then. Only of one that leaves with all its dirs it is taken back before, since nobody can once it is gone.
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
    """Brokers that must not go down in this pass, because a dir that they leave with is still cordoned."""
    settings = inventory.journal.settings if inventory.journal is not None else ()
    found = {(s.name, path) for s in settings if s.key == CORDONED for path in (s.ours or "").split(",")}
    return frozenset(
        slot.broker
        for slot in inventory.slots
        if slot.broker in inventory.scaling_in and slot.online and (str(slot.broker), slot.path) in found
    )


def merge_requests(first: MoveRequests, second: MoveRequests) -> MoveRequests:
    """Both; the first one's moves come first."""
    return replace(
        first,
        moves=(*first.moves, *second.moves),
        shrinks=(*first.shrinks, *second.shrinks),
        lost=frozenset({*first.lost, *second.lost}),
        settings={**first.settings, **second.settings},
        closed=frozenset({*first.closed, *second.closed}),
        bad=first.bad | second.bad,
        withdrawn=frozenset({*first.withdrawn, *second.withdrawn}),
        leaders={**first.leaders, **second.leaders},
    )
