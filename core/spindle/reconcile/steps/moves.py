"""Carry out moves: through the executor to actions, waits and each broker's ``spec.moves``."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

from spindle.cluster import names
from spindle.cluster.waiting import Waiting, counted, some
from spindle.disks.signals import DiskVerdict
from spindle.moves import between_dirs
from spindle.moves.copy_progress import STALLED_AFTER, is_stalled
from spindle.moves.execute import execute
from spindle.moves.journal import DroppedReplica, Journal, JournalError, Move, SettingKey
from spindle.moves.kafka_index import PartitionKey
from spindle.moves.leadership import Leads
from spindle.moves.limits import Limits
from spindle.moves.outcome import Progress, RefusedMove, StepResult
from spindle.moves.rate_control import Pressure, pressure
from spindle.moves.signals import MoveSignals
from spindle.reconcile import objects
from spindle.reconcile.disk_usage import ceilings
from spindle.reconcile.events import Event
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.state import ClusterState
from spindle.reconcile.steps.brokers import BrokerRecords
from spindle.reconcile.steps.journal import find_journal, read_journal, to_actions, write_journal
from spindle.reconcile.steps.unavailable import unavailable

_ACTION: Final = "MoveReplicas"
_WELL: Final = (DiskVerdict.HEALTHY, DiskVerdict.SUSPECT)


@dataclass(frozen=True)
class MoveRequests:
    """What the other steps want of the executor; see `spindle.moves.execute.execute`."""

    moves: tuple[Move, ...] = ()
    shrinks: tuple[DroppedReplica, ...] = ()
    lost: AbstractSet[int] = frozenset()
    settings: Mapping[SettingKey, str] = field(default_factory=dict)
    closed: AbstractSet[tuple[int, str]] = frozenset()
    bad: AbstractSet[tuple[int, str]] = frozenset()
    leads: Leads = field(default_factory=dict)
    withdrawn: AbstractSet[PartitionKey] = frozenset()
    leaders: Mapping[PartitionKey, int] = field(default_factory=dict)


def load_journal(state: ClusterState, builder: PlanBuilder) -> Journal | None:
    """The journal as it stands; None, with a wait, if it cannot be read: then nothing may be moved."""
    if not find_journal(state, builder):
        return None
    try:
        return read_journal(state)
    except JournalError as error:
        builder.wait(
            Waiting(
                _ACTION,
                f"ConfigMap/{names.moves_map(state.name)}",
                "JournalUnreadable",
                f"{error}. No replica is moved meanwhile.",
                "Restore the ConfigMap. Or cancel reassignments and take away replication throttles by hand, then delete it.",
            )
        )
        return None


def reconcile_moves(
    state: ClusterState,
    builder: PlanBuilder,
    records: BrokerRecords,
    journal: Journal,
    requests: MoveRequests,
) -> StepResult:
    """Work out the next step, note it in the journal, and hand each agent its moves, with the bounds of their throttle.

    What Kafka is to be told is left to :func:`carry_out`, which comes last in the pass: an order that Kafka turns down ends the pass,
    and must not hold up what has nothing to do with it.
    """
    limits = limits_of(state)
    journal = between_dirs.taken_over(journal, state.kafka, state.brokers.items())
    outcome = execute(
        state.kafka,
        journal,
        requests.moves,
        limits,
        shrinks=requests.shrinks,
        lost=requests.lost,
        settings={**requests.settings, **between_dirs.rates(state.brokers)},
        closed=requests.closed,
        bad=requests.bad,
        leads=requests.leads,
        signals=signals_of(state),
        withdrawn=requests.withdrawn,
        leaders=requests.leaders,
    )
    try:
        builder.do(*write_journal(state, outcome.journal))
    except JournalError as error:
        builder.wait(
            Waiting(
                _ACTION,
                f"ConfigMap/{names.moves_map(state.name)}",
                "JournalFull",
                f"{error}. Nothing more is moved meanwhile.",
                "What is in motion lands.",
            )
        )
        return StepResult(journal, agent_moves=journal.within())
    for broker_id, broker in state.brokers.items():
        moves = outcome.agent_moves.get(broker_id, ())
        if moves or broker["spec"].get("moves"):
            records.note(
                broker_id,
                moves=[_entry(move) for move in moves],
                throttleBytesPerSecond=_most(limits, broker_id in outcome.slowed) if moves else None,
                throttleBytesPerSecondMin=limits.least_bytes_per_second if moves else None,
            )
    _tell(state, builder, outcome)
    return outcome


def carry_out(builder: PlanBuilder, outcome: StepResult) -> None:
    """Tell Kafka. To be called after everything else of the pass."""
    builder.do(*to_actions(outcome.actions))


def limits_of(state: ClusterState) -> Limits:
    """Budgets, as far as the KafkaCluster says them."""
    disks = state.spec.disks
    return Limits(
        bytes_per_second=disks.move_bytes_per_second,
        least_bytes_per_second=disks.move_bytes_per_second_min,
        refuse=disks.thresholds.reject_moves / 100,
        ceilings=ceilings(state),
    )


def signals_of(state: ClusterState) -> MoveSignals:
    """What agents tell of disks and of the moves that they gave up."""
    felt: dict[tuple[int, str], Pressure] = {}
    failed: dict[tuple[int, tuple[str, int], str], str] = {}
    for broker_id, broker in state.brokers.items():
        observed = (broker.get("status") or {}).get("observed") or {}
        for disk in observed.get("disks") or ():
            odd = disk.get("verdict") not in _WELL
            felt[broker_id, names.log_dir(disk["name"])] = pressure(disk.get("latencyMs"), far=odd)
        for move in observed.get("moves") or ():
            if move.get("state") == "Failed":
                key = (str(move["topic"]), int(move["partition"]))
                failed[broker_id, key, str(move["toDir"])] = str(move.get("message") or "")
    return MoveSignals(now=state.now, felt=felt, failed=failed, down=unavailable(state))


def _most(limits: Limits, slowed: bool) -> int | None:
    """The upper bound for an agent."""
    if limits.bytes_per_second is None or not slowed:
        return limits.bytes_per_second
    return min(limits.bytes_per_second, limits.least_bytes_per_second)


def _entry(move: Move) -> dict[str, Any]:
    """A move as ``spec.moves`` has it."""
    return {
        "topic": move.topic,
        "partition": move.partition,
        "fromDir": move.from_dir,
        "toDir": move.to_dir,
    }


def _tell(state: ClusterState, builder: PlanBuilder, outcome: StepResult) -> None:
    """Waits for what may not begin and for what is under way, events for what was given up and for what has landed."""
    thing = f"KafkaCluster/{state.name}"
    if outcome.progress:
        builder.wait(_under_way(thing, outcome))
        builder.wait(*_still(state, thing, outcome))
    for refused in _by_reason(r for r in outcome.refusals if not r.given_up):
        builder.wait(
            Waiting.of(_ACTION, thing, refused[0].refusal) if len(refused) == 1 else _several(thing, refused)
        )
    for refused in _by_reason(r for r in outcome.refusals if r.given_up):
        more = f" And {len(refused) - 1} more." if len(refused) > 1 else ""
        builder.events.append(
            _event(state, "Warning", refused[0].refusal.reason, refused[0].refusal.message + more)
        )
    if outcome.landed:
        names_of = some([f"{move.name} on broker {move.target}" for move in outcome.landed])
        text = f"{counted(len(outcome.landed), 'replica')} moved to the chosen dir: {names_of}."
        builder.events.append(_event(state, "Normal", "ReplicasMoved", text))


def _under_way(thing: str, outcome: StepResult) -> Waiting:
    """How far moves are, in steps of five per cent. Nothing tells when one lands, so the loop has to go on looking."""
    size = sum(progress.bytes for progress in outcome.progress)
    done = 100 * sum(progress.copied for progress in outcome.progress) // size if size else 0
    count = counted(len(outcome.progress), "replica")
    return Waiting(
        _ACTION,
        thing,
        "ReplicasMoving",
        f"{count} of {size / 1e9:.1f} GB on the way to another disk, {done - done % 5} % copied.",
        "They land.",
        quiet=True,
    )


def _still(state: ClusterState, thing: str, outcome: StepResult) -> Iterable[Waiting]:
    """A word for each broker to which nothing is copied any more, so that it does not look as if it only took its time."""
    noted = {entry.id: entry for entry in outcome.journal.pace}
    by_target: dict[int, list[Progress]] = {}
    for each in outcome.progress:
        entry = noted.get((*each.move.key, each.move.target))
        if entry is not None and is_stalled(entry, each.copied, state.now):
            by_target.setdefault(each.move.target, []).append(each)
    if not by_target:
        return
    partitions = {(p.topic, p.index): p for p in state.kafka.partitions or ()}
    found = []
    for target, copies in sorted(by_target.items()):
        leaders = {p.leader for each in copies if (p := partitions.get(each.move.key)) is not None}
        sources = some([f"broker {b}" if b is not None else "no leader" for b in sorted(leaders, key=str)])
        found.append(f"{some([each.move.name for each in copies])} from {sources} to broker {target}")
    brokers = [names.broker_name(state.name, target) for target in sorted(by_target)]
    restarts = some(
        [f"`spindle stop {name}`, and when it is down `spindle start {name}`" for name in brokers]
    )
    yield Waiting(
        _ACTION,
        thing,
        "ReplicationStalled",
        f"For {STALLED_AFTER / 60:g} minutes not a byte more was copied of {'; '.join(found)}.",
        "The copies go on: a partition without a leader needs a replica that may lead it, a broker that does not answer has to come back. If all "
        f"of them answer, look at the disks, the logs and the network of both ends; to have copies begun anew: {restarts}. It goes down only where rule 2 allows.",
    )


def _by_reason(refusals: Iterable[RefusedMove]) -> list[list[RefusedMove]]:
    groups: dict[str, list[RefusedMove]] = {}
    for refused in refusals:
        groups.setdefault(refused.refusal.reason, []).append(refused)
    return list(groups.values())


def _several(thing: str, refused: list[RefusedMove]) -> Waiting:
    first = refused[0].refusal
    others = some([entry.move.name for entry in refused[1:]])
    return Waiting(_ACTION, thing, first.reason, f"{first.message} Likewise {others}.", first.unblocked_by)


def _event(state: ClusterState, kind: str, reason: str, message: str) -> Event:
    return Event(kind, reason, message, "KafkaCluster", state.name, objects.uid(state.cluster))
