"""One step of the executor: verify moves in flight, start new ones, then set and restore throttles."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final, Literal

from spindle.model.view import KafkaView, Partition
from spindle.model.waiting import Waiting, counted, some
from spindle.moves import rules
from spindle.moves.backoff import MoveBackoffs
from spindle.moves.budget import MoveBudget
from spindle.moves.copy_progress import track_copies
from spindle.moves.deferred_cleanup import CleanupTracker
from spindle.moves.intents import ConfigureIntent, Intent, PlaceReplicasIntent, ReassignIntent
from spindle.moves.journal import REPAIR, DroppedReplica, Journal, LeadershipOverride, Move, SavedConfig
from spindle.moves.kafka_index import Incoming, KafkaIndex, PartitionKey
from spindle.moves.leader_epochs import check_epochs
from spindle.moves.leadership import reconcile_leadership, set_preferred_leaders
from spindle.moves.limits import Limits
from spindle.moves.missing_replicas import meant, put_right, taken_over
from spindle.moves.outcome import Progress, RefusedMove, StepResult
from spindle.moves.rates import Rates
from spindle.moves.removals import Removals, step_removals
from spindle.moves.requests import MoveRequests
from spindle.moves.settings import settle, throttles
from spindle.moves.signals import MoveSignals
from spindle.moves.spread_tracking import SpreadTracker
from spindle.moves.under_replicated import find_under_replicated
from spindle.moves.verify import (
    FoundMove,
    MoveState,
    copied,
    find,
    forgotten,
    in_doubt,
    may_cancel,
    out_of_order,
    under_way,
    withdraw,
)

_NONE: Final = MoveSignals()
_SHED: Final = ("ReplicasDropped", "dropped: their disk is too full")
_TAKEN_OFF: Final = {  # by the reason why a replica leaves its assignment
    "": ("ReplicasRemoved", "dropped: they were on a dead disk"),
    REPAIR: (
        "CorruptReplicasDropped",
        "dropped: a segment is corrupt, they are re-replicated",
    ),
}


def execute(
    view: KafkaView,
    journal: Journal,
    requests: MoveRequests,
    limits: Limits,
    signals: MoveSignals = _NONE,
) -> StepResult:
    """Verify the moves in progress, start the moves that may start, and adjust Kafka's settings to them.

    What is not known of Kafka (``None`` in the view) permits no new move and completes none.

    Args:
        view: one observation of Kafka.
        journal: the moves in progress, as recorded.
        requests: what the other phases ask for.
        limits: budgets.
        signals: the time, the load of the disks, moves that failed on agents.
    """
    asked = (
        requests.moves
        or requests.shrinks
        or requests.settings
        or requests.leads
        or requests.leaders
        or requests.removals
    )
    if journal == Journal() and not asked:
        return StepResult(journal)
    look = KafkaIndex(view, requests.closed, requests.bad)
    if look.unknown:
        return StepResult(
            journal,
            refusals=tuple(RefusedMove(move, _unknown(look)) for move in requests.moves[:1]),
            agent_moves=journal.within(),
        )
    return _Step(look, journal, limits, requests, signals).run()


def why_not(
    view: KafkaView, journal: Journal, requests: MoveRequests, limits: Limits, signals: MoveSignals = _NONE
) -> dict[PartitionKey, Waiting]:
    """Why `execute` would not start moves, each considered alone: by partition; moves that it would start are left out.

    For callers that have another remedy for a move that is impossible. The arguments are those of `execute`.
    """
    look = KafkaIndex(view, requests.closed, requests.bad)
    if look.unknown:
        return {move.key: _unknown(look) for move in requests.moves}
    step = _Step(look, journal, limits, requests, signals)
    step.verify()
    asked = ((move.key, step.may_begin(move)[0]) for move in requests.moves)
    return {key: refusal for key, refusal in asked if refusal is not None}


def cleanup(view: KafkaView, journal: Journal) -> StepResult:
    """Before the deletion of the cluster: cancel all moves, and restore every setting and every previous leader.

    It is done when the result's journal has neither moves nor settings, and nothing else changes any more. Dropped replicas stay in the journal: their
    assignment cannot be restored here. So does the order of replicas whose previous leader is not in sync. A reassignment that Kafka would refuse to cancel is reported in the refusals and not requested, because
    a rejected request ends the pass, and the settings after it would not be restored.

    Args:
        view: one observation of Kafka.
        journal: the current journal.
    """
    look = KafkaIndex(view)
    if look.unknown:
        return StepResult(journal)
    between = [
        (move, partition)
        for move in journal.moves
        if not move.within and (partition := look.partitions.get(move.key)) is not None
    ]
    moving = [(move, partition) for move, partition in between if under_way(move, partition)]
    nearly = [partition for _, partition in moving if forgotten(partition)]
    cancels = [move for move, partition in moving if not forgotten(partition) and may_cancel(partition)]
    stuck = [move for move, partition in moving if not forgotten(partition) and not may_cancel(partition)]
    unsure = [doubted for move, partition in between if (doubted := in_doubt(move, partition))]
    disordered = [move for move, partition in between if out_of_order(move, partition)]
    standing, configures = settle(look, journal.settings, {})
    removals = step_removals(look, journal.removed)
    moves = (*(move for move, _ in moving), *unsure, *disordered)
    busy = {move.key for move in moves} | removals.keys
    ordered = reconcile_leadership(look, journal.leadership, {}, busy, len(journal.leadership))
    return StepResult(
        Journal(
            moves,
            journal.dropped,
            standing,
            ordered.orders,
            removed=tuple(entry for entry in removals.standing if entry.key in removals.keys),
        ),
        actions=(
            *_reassigns([(*move.key, None) for move in cancels], "MovesCancelled", "the cluster is deleted"),
            *_reassigns(removals.again),
            *_ended(nearly),
            *_reassigns([(*move.key, move.before) for move in disordered]),
            *configures,
            *ordered.intents,
        ),
        refusals=tuple(RefusedMove(move, _not_cancelled(move)) for move in stuck),
    )


class _Step:
    """State of one step while it is computed."""

    def __init__(
        self, look: KafkaIndex, journal: Journal, limits: Limits, requests: MoveRequests, signals: MoveSignals
    ) -> None:
        self.look, self.journal, self.limits, self.requests = look, journal, limits, requests
        self.signals = signals
        self.short = find_under_replicated(look)
        self.backoffs = MoveBackoffs(look, journal.backoffs, signals.now)
        self.cleanup = CleanupTracker(look, journal.cleanups, signals.now)
        self.crowding = SpreadTracker(look, journal)
        self.incoming = Incoming(look, journal.moves)
        self.refusals: list[RefusedMove] = []
        self.landed: list[Move] = []
        self.found: list[FoundMove] = []  # what stays in the journal, in its order
        self.shrunk = {entry.id: entry for entry in journal.dropped}
        self.removals = Removals()
        self.leaving: set[tuple[str, int]] = set()  # partitions that lose a replica in this step
        # A move keeps the source's position in the order of replicas from before a temporary change of leaders.
        self.before = {entry.key: entry.before for entry in journal.leadership}
        self.before |= {move.key: move.before for move in journal.moves if move.before}
        self.intended = meant(journal, self.look.partitions)

    def run(self) -> StepResult:
        stalled = self.verify()
        dropped = self.remove_replicas(self.requests.shrinks)
        removed = self.remove_for_good(stalled)
        busy = {found.move.key for found in self.found} | {move.key for move in stalled} | self.leaving
        staying = {move.key for move in (*self.moves(), *stalled)}
        ended = [move for move in self.journal.moves if move.within and move.key not in staying]
        epochs = check_epochs(self.look, self.journal.replaced, ended, self.signals.down, self.signals.now)
        leads = {**epochs.leads, **self.requests.leads}
        ordered = reconcile_leadership(
            self.look, self.journal.leadership, leads, busy, self.limits.moves_in_all
        )
        # Leadership is changed first; moves of these partitions continue in the next step.
        turned = {
            (topic, index)
            for i in ordered.intents
            if isinstance(i, ReassignIntent)
            for topic, index, _ in i.assignments
        }
        still = [move for move in stalled if move.key not in self.requests.withdrawn]
        fresh, again = self.begin([move for move in self.requests.moves if move.key not in turned], still)
        reordered = self.reorder(stalled)
        settings, configures, steered = self.settle_settings()
        taken = {move.key for move in self.moves()} | busy | turned | {o.key for o in ordered.orders}
        progress = tuple(self.progress(found) for found in self.found)
        journal = self.next_journal(settings, ordered.orders, steered, progress)
        journal = journal.replacing(replaced=epochs.standing)
        return StepResult(
            journal,
            actions=(
                *self.cancels(),
                *self.asked_again(),
                *dropped,
                *removed,
                *reordered,
                *configures,
                *self.starts(fresh),
                *self.starts(again),
                *self.placed_again(),
                *ordered.intents,
                *set_preferred_leaders(self.look, self.requests.leaders, taken),
            ),
            refusals=tuple(self.refusals),
            agent_moves={
                broker: self.followers_first(moves)[: self.limits.queued_per_broker]
                for broker, moves in journal.within().items()
            },
            progress=progress,
            landed=tuple(self.landed),
            slowed=frozenset(self.short.below),
        )

    def settle_settings(self) -> tuple[tuple[SavedConfig, ...], tuple[ConfigureIntent, ...], float]:
        """Throttles and requested settings: those that stay recorded, the requests to Kafka, and the steered rate in bytes per second."""
        moving = [found.move for found in self.found if found.state is not MoveState.CANCEL]
        rates = Rates(self.look, self.journal, self.limits, self.short, self.signals, moving)
        desired = {**throttles(self.look, moving, rates.of), **self.requests.settings}
        standing, configures = settle(self.look, self.journal.settings, desired)
        return standing, configures, rates.steered if standing else 0.0

    def next_journal(
        self,
        settings: tuple[SavedConfig, ...],
        orders: tuple[LeadershipOverride, ...],
        steered: float,
        progress: Sequence[Progress],
    ) -> Journal:
        """The journal after this step."""
        moves = self.moves()
        dropped = tuple(self.shrunk[key] for key in sorted(self.shrunk))
        copies = [(*p.move.key, p.move.target, p.copied) for p in progress if not p.move.within]
        return Journal(
            moves,
            dropped,
            settings,
            orders,
            self.backoffs.standing(),
            steered,
            self.cleanup.standing(),
            self.crowding.standing({*(m.key for m in moves), *(e.key for e in dropped), *self.removals.keys}),
            track_copies(self.journal.pace, copies, self.signals.now),
            tuple(self.removals.standing),
        )

    # Moves in progress

    def verify(self) -> list[Move]:
        """Check every move of the journal. Returns those that could be started again."""
        stalled: list[Move] = []
        for move in self.journal.moves:
            found = find(self.look, move, self.limits, self.incoming, self.requests.lost, self.signals.failed)
            if move.key in self.requests.withdrawn:
                found = withdraw(self.look, found)
            if found.in_motion:
                self.found.append(found)
            elif found.state is MoveState.NOT_BEGUN:
                stalled.append(move)
            elif found.state is MoveState.LANDED:
                self.landed.append(move)
                self.backoffs.landed(move)
                self.cleanup.landed(move)
                self.note_landed(move)
            if found.state is MoveState.FAILED:
                self.backoffs.failed(move)
            if found.state in (MoveState.FAILED, MoveState.GIVEN_UP):
                self.incoming.drop(move)  # the space that it leaves counts as free for the others
            if found.refusal is not None:
                self.refusals.append(RefusedMove(move, found.refusal, given_up=True))
        self.incoming = Incoming(self.look, [found.move for found in self.found])
        return stalled

    def note_landed(self, move: Move) -> None:
        """Forget a dropped replica that was restored, and one that has moved instead, because Kafka had not carried out the drop.

        If another replica of its partition has moved, record the new broker in its assignment.
        """
        if move.source is None:
            self.shrunk.pop((*move.key, move.target), None)
            return
        self.shrunk.pop((*move.key, move.source), None)
        for name, entry in self.shrunk.items():
            if entry.key == move.key:
                before = tuple(move.target if b == move.source else b for b in entry.before)
                self.shrunk[name] = replace(entry, before=before)

    def followers_first(self, moves: Sequence[Move]) -> tuple[Move, ...]:
        """Sort moves of leaders last: the copy that replaces a leader's log may lack epochs that followers ask for (KAFKA-15608, KAFKA-20961)."""

        def leads(move: Move) -> bool:
            partition = self.look.partitions.get(move.key)
            return partition is not None and partition.leader == move.target

        return tuple(sorted(moves, key=leads))

    def cancels(self) -> tuple[ReassignIntent, ...]:
        """Requests that cancel reassignments."""
        by_reason: dict[str, list[FoundMove]] = {}
        for found in self.found:
            if found.state is MoveState.CANCEL and found.refusal is not None:
                by_reason.setdefault(found.refusal.reason, []).append(found)
        return tuple(
            intent
            for reason, group in by_reason.items()
            for intent in _reassigns([(*found.move.key, None) for found in group], "MovesCancelled", reason)
        )

    def asked_again(self) -> tuple[ReassignIntent, ...]:
        """Requests for reassignments that Kafka did not complete: nothing remains to be copied, so neither budgets nor rules apply."""
        return _ended(
            [self.look.partitions[f.move.key] for f in self.found if f.state is MoveState.FORGOTTEN]
        )

    def placed_again(self) -> tuple[PlaceReplicasIntent, ...]:
        """Repeat the choice of a dir for replicas that do not exist yet: their target may have restarted and lost it."""
        return _places([found.move for found in self.found if found.state is MoveState.UNPLACED])

    def progress(self, found: FoundMove) -> Progress:
        size = self.look.size(found.move.key, found.move.bytes)
        state: Literal["Queued", "Copying", "Waiting"] = (
            "Waiting"
            if found.state is MoveState.WAITING
            else "Queued"
            if found.state is MoveState.QUEUED
            else "Copying"
        )
        return Progress(found.move, state, size, min(size, copied(self.look, found)))

    def reorder(self, stalled: Sequence[Move]) -> tuple[ReassignIntent, ...]:
        """Restore the order of replicas of a cancelled move that does not start again; it stays recorded until Kafka shows that order."""
        staying = {found.move.key for found in self.found} | self.leaving
        left = [
            move
            for move in stalled
            if move.key not in staying and out_of_order(move, self.look.partitions[move.key])
        ]
        self.found += [FoundMove(move, MoveState.WAITING) for move in left]
        return _reassigns([(*move.key, move.before) for move in left])

    # Dropped replicas

    def remove_replicas(self, shrinks: Sequence[DroppedReplica]) -> tuple[ReassignIntent, ...]:
        """Record replicas and drop them from their assignments; forget those that are back."""
        moving = {found.move.key for found in self.found}
        asked = {entry.id: entry for entry in shrinks if entry.key not in moving}
        others = taken_over(self.journal, self.look.partitions)
        for name, entry in list(self.shrunk.items()):
            partition = self.look.partitions.get(entry.key)
            # A replica that was in sync when it was dropped stays in the ISR for a moment.
            back = (
                partition is not None
                and entry.broker in partition.isr
                and entry.broker not in partition.removing
            )
            over = partition is not None and entry.key in others and put_right(partition, entry)
            if partition is None or over or (back and entry.key not in moving and name not in asked):
                del self.shrunk[name]
        assignments: dict[str, list[tuple[str, int, tuple[int, ...] | None]]] = {}
        for key in dict.fromkeys(entry.key for entry in asked.values()):
            partition = self.look.partitions.get(key)
            leaving = [entry for entry in asked.values() if entry.key == key]
            if partition is not None and (staying := self.take_off(partition, leaving)):
                assignments.setdefault(leaving[0].reason, []).append((*key, staying))
        return tuple(
            intent
            for reason in sorted(assignments)
            for intent in _reassigns(assignments[reason], *_TAKEN_OFF.get(reason, _SHED))
        )

    def take_off(self, partition: Partition, leaving: Sequence[DroppedReplica]) -> tuple[int, ...]:
        """Record the replicas that leave a partition now. Returns the remaining ones; empty if none may leave.

        Kafka completes a removal only when all remaining replicas are in sync. So dead replicas are removed together, and a removal that is
        in progress is extended.
        """
        key = partition.topic, partition.index
        under_way = all((*key, b) in self.shrunk for b in partition.removing)
        if partition.adding or not under_way:
            return ()
        gone = set(partition.removing)
        going: list[DroppedReplica] = []
        for entry in leaving:
            # A replica that is still in sync leaves alone: the caller checked each of them by itself.
            alone = entry.broker not in partition.isr or not gone
            if entry.reason and not self.can_spare(
                partition, gone | {entry.broker}, 1 if entry.reason == REPAIR else 2
            ):
                continue
            if entry.broker in partition.replicas and entry.broker not in gone and alone:
                gone.add(entry.broker)
                going.append(entry)
        staying = tuple(b for b in partition.replicas if b not in gone)
        if not going or not staying:
            return ()
        before = self.before.get(key, ())
        # Replicas that were dropped earlier are to come back, too: without them, this one would count as restored when they are.
        intended = self.intended.get(key, ())
        for entry in going:
            in_order = replace(entry, before=before) if set(before) == set(entry.before) else entry
            whole = replace(entry, before=intended) if set(intended) > set(entry.before) else in_order
            self.shrunk.setdefault(entry.id, whole)
            self.cleanup.left(entry)
        self.leaving.add(key)
        return staying

    def remove_for_good(self, stalled: Sequence[Move]) -> tuple[ReassignIntent, ...]:
        """Record replicas that leave for good, and remove them; partitions that are being moved, or lose a replica otherwise, come later."""
        busy = {move.key for move in (*self.moves(), *stalled)} | self.leaving
        found = self.removals = step_removals(
            self.look, self.journal.removed, self.requests.removals, busy, self.signals, self.before
        )
        self.leaving |= found.keys
        for entry in found.fresh:
            self.cleanup.left(entry)
        return (
            *_reassigns(found.again),
            *_reassigns(found.begun, "ReplicasReduced", "the topic is to have fewer"),
        )

    def can_spare(self, partition: Partition, gone: AbstractSet[int], copies: int) -> bool:
        """Whether this view shows enough in-sync replicas, and at least ``copies``, without these brokers.

        See "no log dir removed with replicas on it" (`docs/safety.md`, rule 5).
        """
        staying = set(partition.replicas) - gone
        least = (self.look.view.min_isr or {}).get(partition.topic)
        sure = set(partition.isr) - self.signals.down
        return least is not None and len(staying) >= max(copies, least) and staying <= sure

    # Starts

    def begin(self, wanted: Sequence[Move], stalled: Sequence[Move]) -> tuple[list[Move], list[Move]]:
        """Start what may start: new moves first, and moves that did not succeed last, so that they delay nothing.

        Returns:
            reassignments to start, and to start again.
        """
        budget = MoveBudget(
            self.look, self.limits, [f.move for f in self.found if f.state is not MoveState.QUEUED]
        )
        busy = {found.move.key for found in self.found} | self.leaving
        fresh = self.begin_in_turn([move for move in wanted if move.key not in busy], budget)
        begun = {found.move.key for found in self.found}
        again = self.begin_in_turn(
            [m for m in stalled if m.key not in begun | self.leaving], budget, begun=True
        )
        return fresh, again

    def begin_in_turn(self, wanted: Sequence[Move], budget: MoveBudget, *, begun: bool = False) -> list[Move]:
        """Add requested moves to the journal in order, as far as budgets and rules permit. Returns those between brokers."""
        started: list[Move] = []
        queued = {broker: len(moves) for broker, moves in Journal(self.moves()).within().items()}
        taken = {found.move.key for found in self.found}
        for move in wanted:
            if len(self.found) >= self.limits.moves_in_all or move.key in taken:
                continue
            if move.within:
                if queued.get(move.target, 0) >= self.limits.queued_per_broker:
                    continue
            elif not budget.free(move):
                continue
            refusal, ready = self.may_begin(move)
            if refusal is not None:
                self.refusals.append(RefusedMove(move, refusal, given_up=begun))
            if ready is None:
                continue
            taken.add(move.key)
            self.incoming.add(ready)
            self.crowding.begun(ready)
            self.found.append(FoundMove(ready, MoveState.QUEUED if ready.within else MoveState.COPYING))
            if ready.within:
                queued[move.target] = queued.get(move.target, 0) + 1
            else:
                budget.take(ready)
                started.append(ready)
        return started

    def moves(self) -> tuple[Move, ...]:
        return tuple(found.move for found in self.found)

    def may_begin(self, move: Move) -> tuple[Waiting | None, Move | None]:
        """Why a move must not start now, and the move with updated fields; neither if there is nothing to do."""
        look, partition = self.look, self.look.partitions.get(move.key)
        if partition is None:
            return None, None
        if move.within:
            return self.may_begin_within(move, partition)
        if move.target in partition.replicas or (
            move.source is not None and move.source not in partition.replicas
        ):
            return None, None
        refusal = (
            rules.undisturbed(look, move, partition)
            or rules.has_leader(move, partition)
            or rules.may_add(move, partition)
            or rules.comes_back(move, self.shrunk.keys())
            or rules.takes(look, move)
            or rules.enough_copies(look, move, partition)
            or self.short.refuses(move, partition)
            or (rules.throttle_known(look, move) if self.limits.bytes_per_second is not None else None)
            or rules.has_room(look, move, self.limits, self.incoming)
            or (None if move.placeable else rules.wherever_it_lands(look, move, self.limits, self.incoming))
            or rules.keeps_racks(look, move, partition, self.limits, self.incoming)
        )
        if refusal is not None:
            return refusal, None
        before = self.before.get(move.key, ())
        return None, replace(
            move, before=before if set(before) == set(partition.replicas) else partition.replicas
        )

    def may_begin_within(self, move: Move, partition: Partition) -> tuple[Waiting | None, Move | None]:
        """Like `may_begin`, for a move between dirs of one broker."""
        look, stands = self.look, self.look.standing(move.target, move.key)
        if move.target not in partition.replicas or (stands is not None and stands.path == move.to_dir):
            return None, None
        refusal = (
            self.backoffs.refuses(move)
            or rules.may_choose_dir(move)
            or rules.undisturbed(look, move, partition)
            or rules.takes(look, move)
            or rules.moves_within(look, move)
            or self.short.refuses(move, partition)
            or rules.has_room(look, move, self.limits, self.incoming)
        )
        if refusal is not None or stands is None:
            return refusal, None
        return None, replace(move, from_dir=stands.path)

    def starts(self, moves: Sequence[Move]) -> tuple[Intent, ...]:
        """Requests that choose the dirs, then reassign."""
        assignments = [
            (
                *move.key,
                replicas_after(
                    self.look.partitions[move.key], move, self.shrunk.get((*move.key, move.target))
                ),
            )
            for move in moves
        ]
        reasons = ", ".join(sorted({move.reason for move in moves if move.reason}))
        return (*_places(moves), *_reassigns(assignments, "MovesStarted", reasons))


def replicas_after(
    partition: Partition, move: Move, dropped: DroppedReplica | None = None
) -> tuple[int, ...]:
    """A partition's assignment after a move: the target in the source's position.

    A restored replica returns to its previous position, so that the preferred leader is the same as before.
    """
    standing = move.before if set(move.before) == set(partition.replicas) else partition.replicas
    if move.source is not None:
        return tuple(move.target if b == move.source else b for b in standing)
    if dropped is None or dropped.broker != move.target:
        return (*standing, move.target)
    back = [b for b in dropped.before if b == move.target or b in standing]
    return (*back, *(b for b in standing if b not in back))


def _places(moves: Sequence[Move]) -> tuple[PlaceReplicasIntent, ...]:
    by_broker: dict[int, list[tuple[str, int, str]]] = {}
    for move in moves:
        if not move.placeable:
            continue  # Kafka chooses the dir, and the move counts as done wherever the replica is
        by_broker.setdefault(move.target, []).append((*move.key, move.to_dir))
    return tuple(
        PlaceReplicasIntent(broker=broker, placements=tuple(where)) for broker, where in by_broker.items()
    )


def _reassigns(
    assignments: Sequence[tuple[str, int, tuple[int, ...] | None]], reason: str = "", why: str = ""
) -> tuple[ReassignIntent, ...]:
    if not assignments:
        return ()
    named = some([f"{topic}-{index}" for topic, index, _ in assignments])
    return (
        ReassignIntent(
            assignments=tuple(assignments),
            reason=reason,
            message=f"{counted(len(assignments), 'partition')} ({why}): {named}." if why else f"{named}.",
        ),
    )


def _ended(partitions: Sequence[Partition]) -> tuple[ReassignIntent, ...]:
    """Requests that repeat reassignments which have all replicas in sync but which Kafka did not complete."""
    return _reassigns(
        [(p.topic, p.index, tuple(b for b in p.replicas if b not in p.removing)) for p in partitions]
    )


def _not_cancelled(move: Move) -> Waiting:
    return Waiting.refused(
        rule=None,
        reason="CancellationRejected",
        message=f"The reassignment of {move.name} to broker {move.target} cannot be cancelled: Kafka refuses, because none of its previous replicas is "
        "in sync.",
        unblocked_by="Bring one of its previous replicas back in sync.",
        objects=(move.name,),
    )


def _unknown(look: KafkaIndex) -> Waiting:
    return Waiting.refused(
        rule=None,
        reason="KafkaUnknown",
        message=f"No replica can move: {look.unknown}.",
        unblocked_by="Spindle continues when Kafka answers again.",
    )
