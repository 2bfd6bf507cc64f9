"""Carries out moves: turns the executor's result into actions, waits and each broker's ``spec.moves``."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from spindle.api import names
from spindle.api.enums import DiskVerdict, Pressure
from spindle.model import objects
from spindle.model.broker_records import BrokerRecords
from spindle.model.events import Event
from spindle.model.plan_builder import PlanBuilder
from spindle.model.state import ClusterState
from spindle.model.unavailable import unavailable
from spindle.model.waiting import Waiting, counted, some
from spindle.moves import between_dirs
from spindle.moves.ceilings import ceilings
from spindle.moves.copy_progress import STALLED_AFTER, is_stalled
from spindle.moves.execute import execute
from spindle.moves.journal import Journal, JournalError, Move
from spindle.moves.journal_record import find_journal, read_journal, to_actions, write_journal
from spindle.moves.limits import Limits
from spindle.moves.outcome import Progress, RefusedMove, StepResult
from spindle.moves.rate_control import pressure
from spindle.moves.requests import MoveRequests
from spindle.moves.signals import MoveSignals

_ACTION: Final = "MoveReplicas"
_PARTS: Final = (
    1,
    2,
    4,
    8,
)  # of the moves that may be under way: fewer, while the journal of more does not fit
_SERVING: Final = (DiskVerdict.HEALTHY, DiskVerdict.SUSPECT)


def load_journal(state: ClusterState, builder: PlanBuilder) -> Journal | None:
    """The recorded journal; None, with a wait, if it cannot be read: then nothing may be moved."""
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
                f"No replica is moved and no broker is removed: {error}.",
                f"Restore ConfigMap {names.moves_map(state.name)}. Or cancel reassignments and remove replication throttles by hand, then delete it.",
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
    """Compute the next step, record it in the journal, and give each agent its moves with the bounds of their throttle.

    Requests to Kafka are left to :func:`carry_out`, which comes last in the pass: a request that Kafka rejects ends the pass and must not
    hold up unrelated actions.
    """
    limits = limits_of(state)
    journal = between_dirs.taken_over(journal, state.kafka, state.brokers.items())
    requests = replace(requests, settings={**requests.settings, **between_dirs.rates(state.brokers)})
    outcome, full = _recorded(state, builder, journal, requests, limits)
    if full is not None:
        builder.wait(_journal_full(state, full))
    if outcome is None:
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
    _report(state, builder, outcome)
    return outcome


def _recorded(
    state: ClusterState,
    builder: PlanBuilder,
    journal: Journal,
    requests: MoveRequests,
    limits: Limits,
) -> tuple[StepResult | None, JournalError | None]:
    """The next step with as many new moves as the journal has room for, its journal written.

    Without new ones the step still forgets moves that have completed and restores what they changed: a step that is refused as a whole would
    be refused in each pass, also when all moves in flight have ended.

    Returns:
        the step, None if not even that one fits; and the error of the first one that did not fit.
    """
    signals, full = signals_of(state), None
    begun = tuple(entry for entry in requests.removals if entry in journal.removed)
    # Moves come before replicas that a topic does not need any more.
    held = replace(requests, removals=begun)
    fewer = [(held, limits.moves_in_all // part) for part in _PARTS]
    all_asked = [(requests, limits.moves_in_all)] if held != requests else []
    for asked, most in (*all_asked, *fewer, (replace(held, moves=(), shrinks=()), 0)):
        outcome = execute(state.kafka, journal, asked, replace(limits, moves_in_all=most), signals)
        try:
            builder.do(*write_journal(state, outcome.journal))
        except JournalError as error:
            full = full or error
        else:
            return outcome, full
    return None, full


def _journal_full(state: ClusterState, error: JournalError) -> Waiting:
    return Waiting(
        _ACTION,
        f"ConfigMap/{names.moves_map(state.name)}",
        "JournalFull",
        f"Some replicas are not moved yet: {error}.",
        "Nothing to do: Spindle continues when moves in flight have completed.",
    )


def carry_out(builder: PlanBuilder, outcome: StepResult) -> None:
    """Send the requests to Kafka. Call it after everything else of the pass."""
    builder.do(*to_actions(outcome.actions))


def limits_of(state: ClusterState) -> Limits:
    """The limits of moves, as far as the KafkaCluster sets them."""
    disks = state.spec.disks
    return Limits(
        bytes_per_second=disks.move_bytes_per_second,
        least_bytes_per_second=disks.move_bytes_per_second_min,
        reject_moves=disks.thresholds.reject_moves / 100,
        ceilings=ceilings(state),
    )


def signals_of(state: ClusterState) -> MoveSignals:
    """What agents report about disks and about moves that failed."""
    felt: dict[tuple[int, str], Pressure] = {}
    failed: dict[tuple[int, tuple[str, int], str], str] = {}
    for broker_id, broker in state.brokers.items():
        observed = (broker.get("status") or {}).get("observed") or {}
        for disk in observed.get("disks") or ():
            bad = disk.get("verdict") not in _SERVING
            felt[broker_id, names.log_dir(disk["name"])] = pressure(disk.get("latencyMs"), far=bad)
        for move in observed.get("moves") or ():
            if move.get("state") == "Failed":
                key = (str(move["topic"]), int(move["partition"]))
                failed[broker_id, key, str(move["toDir"])] = str(move.get("message") or "")
    return MoveSignals(now=state.now, felt=felt, failed=failed, down=unavailable(state))


def _most(limits: Limits, slowed: bool) -> int | None:
    """The upper bound of an agent's throttle in bytes per second; None for no limit."""
    if limits.bytes_per_second is None or not slowed:
        return limits.bytes_per_second
    return min(limits.bytes_per_second, limits.least_bytes_per_second)


def _entry(move: Move) -> dict[str, Any]:
    """A move as an entry of ``spec.moves``."""
    return {
        "topic": move.topic,
        "partition": move.partition,
        "fromDir": move.from_dir,
        "toDir": move.to_dir,
    }


def _report(state: ClusterState, builder: PlanBuilder, outcome: StepResult) -> None:
    """Waits for moves that may not start and for moves in flight; events for moves that were abandoned or have completed."""
    thing = f"KafkaCluster/{state.name}"
    if outcome.progress:
        builder.wait(_in_flight(thing, outcome))
        builder.wait(*_stalled(state, thing, outcome))
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
        text = f"Moved {counted(len(outcome.landed), 'replica')} to {'its' if len(outcome.landed) == 1 else 'their'} target dir: {names_of}."
        builder.events.append(_event(state, "Normal", "ReplicasMoved", text))


def _in_flight(thing: str, outcome: StepResult) -> Waiting:
    """The progress of moves, in steps of 5 %. Nothing notifies the operator when a move completes, so the wait keeps it polling."""
    size = sum(progress.bytes for progress in outcome.progress)
    done = 100 * sum(progress.copied for progress in outcome.progress) // size if size else 0
    count = counted(len(outcome.progress), "replica")
    return Waiting(
        _ACTION,
        thing,
        "ReplicasMoving",
        f"Moving {count} ({size / 1e9:.1f} GB) to {'another disk' if len(outcome.progress) == 1 else 'other disks'}: {done - done % 5} % copied.",
        "Nothing to do: Spindle continues when the moves have completed.",
        quiet=True,
    )


def _stalled(state: ClusterState, thing: str, outcome: StepResult) -> Iterable[Waiting]:
    """A wait that names the copies without progress, to distinguish them from copies that are only slow."""
    noted = {entry.id: entry for entry in outcome.journal.pace}
    by_target: dict[int, list[Progress]] = {}
    for each in outcome.progress:
        entry = noted.get((*each.move.key, each.move.target))
        if entry is not None and is_stalled(entry, each.copied, state.now):
            by_target.setdefault(each.move.target, []).append(each)
    if not by_target:
        return
    partitions = state.kafka.partition_index.by_key
    found = []
    for target, copies in sorted(by_target.items()):
        leaders = {p.leader for each in copies if (p := partitions.get(each.move.key)) is not None}
        sources = some([f"broker {b}" if b is not None else "no leader" for b in sorted(leaders, key=str)])
        found.append(f"{some([each.move.name for each in copies])} from {sources} to broker {target}")
    brokers = [names.broker_name(state.name, target) for target in sorted(by_target)]
    restarts = some(
        [
            f"`spindle broker stop {name}`, and when it is down `spindle broker start {name}`"
            for name in brokers
        ]
    )
    yield Waiting(
        _ACTION,
        thing,
        "ReplicationStalled",
        f"These copies have made no progress for {STALLED_AFTER / 60:g} minutes: {'; '.join(found)}.",
        "If a partition has no leader, bring back a replica that may lead it; if a broker does not answer, bring it back. If all of them answer, "
        f"check the disks, the logs and the network of both sides. To restart the copies: {restarts}. A broker stops only if partitions keep "
        "min.insync.replicas (docs/safety.md#rule-2).",
    )


def _by_reason(refusals: Iterable[RefusedMove]) -> list[list[RefusedMove]]:
    groups: dict[str, list[RefusedMove]] = {}
    for refused in refusals:
        groups.setdefault(refused.refusal.reason, []).append(refused)
    return list(groups.values())


def _several(thing: str, refused: list[RefusedMove]) -> Waiting:
    first = refused[0].refusal
    others = some([entry.move.name for entry in refused[1:]])
    return Waiting(
        _ACTION, thing, first.reason, f"{first.message} The same applies to {others}.", first.unblocked_by
    )


def _event(state: ClusterState, kind: str, reason: str, message: str) -> Event:
    return Event(kind, reason, message, "KafkaCluster", state.name, objects.uid(state.cluster))
