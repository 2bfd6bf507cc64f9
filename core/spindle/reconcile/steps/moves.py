"""Carry out moves: through the executor to actions, waits and each broker's ``spec.moves``."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

from spindle.cluster import names
from spindle.cluster.refusal import counted, some
from spindle.disks.signals import DiskVerdict
from spindle.moves import between_dirs
from spindle.moves.execute import execute
from spindle.moves.journal import Journal, JournalError, Move, SettingKey, Shrunk
from spindle.moves.limits import Limits
from spindle.moves.look import Key
from spindle.moves.orders import Leads
from spindle.moves.outcome import Outcome, Progress, Refused
from spindle.moves.pace import STANDS_AFTER, stands_still
from spindle.moves.signals import Signals
from spindle.moves.steer import Pressure, pressure
from spindle.reconcile import objects
from spindle.reconcile.draft import Draft, Wait
from spindle.reconcile.events import Event
from spindle.reconcile.fills import ceilings
from spindle.reconcile.state import State
from spindle.reconcile.steps.away import down
from spindle.reconcile.steps.brokers import Records
from spindle.reconcile.steps.journal import find_journal, read_journal, to_actions, write_journal

_ACTION: Final = "MoveReplicas"
_WELL: Final = (DiskVerdict.HEALTHY, DiskVerdict.SUSPECT)


@dataclass(frozen=True)
class Wants:
    """What the other steps want of the executor; see `spindle.moves.execute.execute`."""

    moves: tuple[Move, ...] = ()
    shrinks: tuple[Shrunk, ...] = ()
    lost: AbstractSet[int] = frozenset()
    settings: Mapping[SettingKey, str] = field(default_factory=dict)
    closed: AbstractSet[tuple[int, str]] = frozenset()
    bad: AbstractSet[tuple[int, str]] = frozenset()
    leads: Leads = field(default_factory=dict)
    withdrawn: AbstractSet[Key] = frozenset()
    leaders: Mapping[Key, int] = field(default_factory=dict)


def load_journal(state: State, draft: Draft) -> Journal | None:
    """The journal as it stands; None, with a wait, if it cannot be read: then nothing may be moved."""
    if not find_journal(state, draft):
        return None
    try:
        return read_journal(state)
    except JournalError as error:
        draft.wait(
            Wait(
                _ACTION,
                f"ConfigMap/{names.moves_map(state.name)}",
                "JournalUnreadable",
                f"{error}. No replica is moved meanwhile.",
                "Restore the ConfigMap. Or cancel reassignments and take away replication throttles by hand, then delete it.",
            )
        )
        return None


def settle_moves(state: State, draft: Draft, records: Records, journal: Journal, wants: Wants) -> Outcome:
    """Work out the next step, note it in the journal, and hand each agent its moves, with the bounds of their throttle.

    What Kafka is to be told is left to :func:`carry_out`, which comes last in the pass: an order that Kafka turns down ends the pass,
    and must not hold up what has nothing to do with it.
    """
    limits = limits_of(state)
    journal = between_dirs.taken_over(journal, state.kafka, state.brokers.items())
    outcome = execute(
        state.kafka,
        journal,
        wants.moves,
        limits,
        shrinks=wants.shrinks,
        lost=wants.lost,
        settings={**wants.settings, **between_dirs.rates(state.brokers)},
        closed=wants.closed,
        bad=wants.bad,
        leads=wants.leads,
        signals=signals_of(state),
        withdrawn=wants.withdrawn,
        leaders=wants.leaders,
    )
    try:
        draft.do(*write_journal(state, outcome.journal))
    except JournalError as error:
        draft.wait(
            Wait(
                _ACTION,
                f"ConfigMap/{names.moves_map(state.name)}",
                "JournalFull",
                f"{error}. Nothing more is moved meanwhile.",
                "What is in motion lands.",
            )
        )
        return Outcome(journal, agent_moves=journal.within())
    for broker_id, broker in state.brokers.items():
        moves = outcome.agent_moves.get(broker_id, ())
        if moves or broker["spec"].get("moves"):
            records.note(
                broker_id,
                moves=[_entry(move) for move in moves],
                throttleBytesPerSecond=_most(limits, broker_id in outcome.slowed) if moves else None,
                throttleBytesPerSecondMin=limits.least_bytes_per_second if moves else None,
            )
    _tell(state, draft, outcome)
    return outcome


def carry_out(draft: Draft, outcome: Outcome) -> None:
    """Tell Kafka. To be called after everything else of the pass."""
    draft.do(*to_actions(outcome.actions))


def limits_of(state: State) -> Limits:
    """Budgets, as far as the KafkaCluster says them."""
    disks = state.spec.disks
    return Limits(
        bytes_per_second=disks.move_bytes_per_second,
        least_bytes_per_second=disks.move_bytes_per_second_min,
        refuse=disks.thresholds.refuse / 100,
        ceilings=ceilings(state),
    )


def signals_of(state: State) -> Signals:
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
    return Signals(now=state.now, felt=felt, failed=failed, down=down(state))


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


def _tell(state: State, draft: Draft, outcome: Outcome) -> None:
    """Waits for what may not begin and for what is under way, events for what was given up and for what has landed."""
    thing = f"KafkaCluster/{state.name}"
    if outcome.progress:
        draft.wait(_under_way(thing, outcome))
        draft.wait(*_still(state, thing, outcome))
    for refused in _by_reason(r for r in outcome.refusals if not r.given_up):
        draft.wait(
            Wait.refused(_ACTION, thing, refused[0].refusal)
            if len(refused) == 1
            else _several(thing, refused)
        )
    for refused in _by_reason(r for r in outcome.refusals if r.given_up):
        more = f" And {len(refused) - 1} more." if len(refused) > 1 else ""
        draft.events.append(
            _event(state, "Warning", refused[0].refusal.reason, refused[0].refusal.message + more)
        )
    if outcome.landed:
        names_of = some([f"{move.name} on broker {move.target}" for move in outcome.landed])
        text = f"{counted(len(outcome.landed), 'replica')} moved to the chosen dir: {names_of}."
        draft.events.append(_event(state, "Normal", "ReplicasMoved", text))


def _under_way(thing: str, outcome: Outcome) -> Wait:
    """How far moves are, in steps of five per cent. Nothing tells when one lands, so the loop has to go on looking."""
    size = sum(progress.bytes for progress in outcome.progress)
    done = 100 * sum(progress.copied for progress in outcome.progress) // size if size else 0
    count = counted(len(outcome.progress), "replica")
    return Wait(
        _ACTION,
        thing,
        "ReplicasMoving",
        f"{count} of {size / 1e9:.1f} GB on the way to another disk, {done - done % 5} % copied.",
        "They land.",
        quiet=True,
    )


def _still(state: State, thing: str, outcome: Outcome) -> Iterable[Wait]:
    """A word for each broker to which nothing is copied any more, so that it does not look as if it only took its time."""
    noted = {entry.id: entry for entry in outcome.journal.pace}
    by_target: dict[int, list[Progress]] = {}
    for each in outcome.progress:
        entry = noted.get((*each.move.key, each.move.target))
        if entry is not None and stands_still(entry, each.copied, state.now):
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
    yield Wait(
        _ACTION,
        thing,
        "CopiesStandStill",
        f"For {STANDS_AFTER / 60:g} minutes not a byte more was copied of {'; '.join(found)}.",
        "The copies go on: a partition without a leader needs a replica that may lead it, a broker that does not answer has to come back. If all "
        f"of them answer, look at the disks, the logs and the network of both ends; to have copies begun anew: {restarts}. It goes down only where rule 2 allows.",
    )


def _by_reason(refusals: Iterable[Refused]) -> list[list[Refused]]:
    groups: dict[str, list[Refused]] = {}
    for refused in refusals:
        groups.setdefault(refused.refusal.reason, []).append(refused)
    return list(groups.values())


def _several(thing: str, refused: list[Refused]) -> Wait:
    first = refused[0].refusal
    others = some([entry.move.name for entry in refused[1:]])
    return Wait(_ACTION, thing, first.reason, f"{first.message} Likewise {others}.", first.unblocked_by)


def _event(state: State, kind: str, reason: str, message: str) -> Event:
    return Event(kind, reason, message, "KafkaCluster", state.name, objects.uid(state.cluster))
