"""Which moves of a proposal may start now, and the state of all of them.

Only one character per move is stored. Running moves are in the executor's journal; Kafka shows which moves have arrived.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spindle.model.waiting import Waiting
from spindle.moves.journal import Journal, Move
from spindle.moves.kafka_index import Incoming, KafkaIndex, PartitionKey, present
from spindle.moves.limits import Limits
from spindle.proposals.check import CheckResult, arrived, check
from spindle.proposals.move_states import DONE, DROPPED, MOVING, OVER, WAITING
from spindle.proposals.proposal import Proposal

AT_ONCE: Final = 200  # moves checked and handed over in one pass
PATIENCE: Final = 1800.0  # seconds without progress after which moves that have not started are dropped


@dataclass
class WaveState:
    """The state of a proposal after one check.

    Attributes:
        move_states: one character per move.
        go: moves to hand to the executor, in order.
        keep: partitions of its moves in the journal, which continue.
        drops: moves dropped by this check, in the format of ``status.dropped``.
        waits: waiting moves with the reason.
        moved: bytes of completed moves and bytes copied by running moves.
        left: bytes left to copy.
    """

    move_states: list[str]
    go: list[Move] = field(default_factory=list)
    keep: set[PartitionKey] = field(default_factory=set)
    drops: list[Mapping[str, Any]] = field(default_factory=list)
    waits: list[Waiting] = field(default_factory=list)
    moved: int = 0
    left: int = 0


def look_over(
    proposal: Proposal,
    look: KafkaIndex,
    journal: Journal,
    limits: Limits,
    *,
    busy: Collection[PartitionKey] = (),
    idle: float = 0.0,
) -> WaveState:
    """Update the state of each move, and check the moves that may start next.

    A move may start when all earlier waves and all earlier moves of its partition have ended according to the record, so that
    starts are based on recorded states. Without a known view nothing changes and nothing starts.

    Args:
        proposal: an executing proposal.
        look: Kafka's current state.
        journal: journal of the executor.
        limits: of the executor.
        busy: partitions with moves of higher priority (healing, full disks).
        idle: seconds since the last progress of the proposal.
    """
    wave = WaveState(list(proposal.marks))
    if look.unknown:
        _count(wave, proposal, look, journal)
        return wave
    _find(wave, proposal, look, journal)
    _choose(wave, proposal, look, journal, limits, busy, idle)
    _count(wave, proposal, look, journal)
    return wave


def _find(wave: WaveState, proposal: Proposal, look: KafkaIndex, journal: Journal) -> None:
    """Find running and arrived moves."""
    moving = {move.key: move for move in journal.moves}
    for index, move in enumerate(proposal.moves):
        if wave.move_states[index] in OVER:
            continue
        under_way = moving.get(move.key)
        if under_way is not None and (under_way.target, under_way.to_dir) == (move.target, move.to_dir):
            wave.move_states[index] = MOVING
            wave.keep.add(move.key)
            continue
        partition = look.partitions.get(move.key)
        if partition is None:
            _drop(wave, index, move, "TopicDeleted", f"{move.name} no longer exists.")
        elif under_way is None and arrived(look, move, partition):
            wave.move_states[index] = DONE
        else:
            wave.move_states[index] = WAITING


def _choose(
    wave: WaveState,
    proposal: Proposal,
    look: KafkaIndex,
    journal: Journal,
    limits: Limits,
    busy: Collection[PartitionKey],
    idle: float,
) -> None:
    """Check the moves that may start next."""
    incoming = Incoming(look, journal.moves)
    away = {entry.id for entry in journal.dropped}
    moving = {move.key for move in journal.moves}
    stuck = idle > PATIENCE and not wave.keep
    for index in _turns(wave, proposal):
        move = proposal.moves[index]
        if move.key in moving or move.key in busy:
            if stuck:
                _not_taken(
                    wave, index, move, "its partition is being moved for a reason with higher priority"
                )
            continue
        if len(wave.go) >= AT_ONCE:
            break
        backoffs = _rests(journal, move)
        if backoffs:
            _drop(wave, index, move, "MoveFailed", backoffs)
            continue
        coming = bool(moving or wave.go or journal.cleanups)
        found = check(look, move, limits, incoming, away, room_may_come=coming)
        if found.refusal is not None and (found.answer is CheckResult.DROP or stuck):
            _drop(wave, index, move, found.refusal.reason, found.refusal.message)
        elif found.refusal is not None:
            wave.waits.append(found.refusal)
        elif found.answer is CheckResult.GO and stuck:
            # Not forever: a later run plans from the state at that time, and the next proposal can start.
            why = "replicas of other partitions are catching up, or the journal of moves is full"
            _not_taken(wave, index, move, f"the executor did not take it: {why}")
        elif found.answer is CheckResult.GO:
            wave.go.append(move)


def _turns(wave: WaveState, proposal: Proposal) -> list[int]:
    """Waiting moves that may start next: the first move of each partition in the first unfinished wave."""
    pending = [index for index, mark in enumerate(proposal.marks) if mark not in OVER]
    current = min((proposal.waves[index] for index in pending), default=0)
    first: dict[PartitionKey, int] = {}
    for index in pending:
        first.setdefault(proposal.moves[index].key, index)
    return [
        index
        for index in pending
        if first[proposal.moves[index].key] == index
        and proposal.waves[index] == current
        and wave.move_states[index] == WAITING
    ]


def _rests(journal: Journal, move: Move) -> str:
    """Why the agent failed a move between dirs; empty if it did not."""
    for rest in journal.backoffs:
        if move.within and rest.id == (*move.key, move.target, move.to_dir):
            return f"The agent gave up the move of {move.name} to {move.to_dir} of broker {move.target}."
    return ""


def _not_taken(wave: WaveState, index: int, move: Move, why: str) -> None:
    minutes = round(PATIENCE / 60)
    _drop(
        wave,
        index,
        move,
        "MoveNotStarted",
        f"The move of {move.name} did not start for {minutes} minutes: {why}.",
    )


def _drop(wave: WaveState, index: int, move: Move, reason: str, message: str) -> None:
    wave.move_states[index] = DROPPED
    wave.drops.append(
        {"topic": move.topic, "partition": move.partition, "reason": reason, "message": message}
    )


def _count(wave: WaveState, proposal: Proposal, look: KafkaIndex, journal: Journal) -> None:
    """Count completed and remaining bytes as planned."""
    moving = {move.key: move for move in journal.moves}
    for move, mark in zip(proposal.moves, wave.move_states, strict=True):
        if mark == DONE:
            wave.moved += move.bytes
        elif mark == MOVING and move.key in moving and not look.unknown:
            copied = min(move.bytes, present(look, moving[move.key]))
            wave.moved += copied
            wave.left += move.bytes - copied
        elif mark != DROPPED:
            wave.left += move.bytes
