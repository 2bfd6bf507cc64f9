"""The status of a KafkaRebalance: phase, progress, and dropped moves. Progress is written at most every 15 seconds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spindle.api.enums import ProposalPhase
from spindle.model.condition_rows import ConditionRow, as_conditions
from spindle.model.times import seconds, stamp
from spindle.model.waiting import counted
from spindle.proposals.approval import Approval
from spindle.proposals.lifecycle import ProposalStep
from spindle.proposals.move_states import DONE, MOVING, OVER, given_up, write_move_states
from spindle.proposals.proposal import Proposal
from spindle.proposals.waves import WaveState
from spindle.proposals.windows import WindowState

_TOLD: Final = 100  # dropped moves that are listed with a message; for the others only the reason is kept
EVERY: Final = 15.0  # seconds between two writes that change progress only
_MEASURED: Final = 60.0  # seconds after which the measured rate predicts better than the limits


@dataclass(frozen=True)
class ProposalProgress:
    """What a pass knows about a proposal.

    Attributes:
        turn: its phase now.
        by: who approved it.
        wave: the outcomes of its moves; None if they were not examined.
        window: state of the maintenance windows.
        bytes_per_second: of one broker; None for no limit.
        idle: seconds in which a move could have started or ended and none did.
        ran: seconds for which it has been executing.
    """

    turn: ProposalStep
    by: Approval
    wave: WaveState | None
    window: WindowState
    bytes_per_second: int | None
    idle: float = 0.0
    ran: float = 0.0


def proposal_status(proposal: Proposal, found: ProposalProgress, now: float) -> dict[str, Any]:
    """The new status; the present one if only progress differs and the last write was recent."""
    before = proposal.status
    wanted = _wanted(proposal, found, now)
    if {key: value for key, value in before.items() if key != "updatedAt"} == wanted:
        return dict(before)
    written = seconds(before.get("updatedAt"))
    if written is not None and now - written < EVERY and not _pressing(proposal, found, before, wanted):
        return dict(before)
    return {**wanted, "updatedAt": stamp(now)}


def _pressing(
    proposal: Proposal, found: ProposalProgress, before: Mapping[str, Any], wanted: Mapping[str, Any]
) -> bool:
    """Whether a change must be written at once: another phase or reason, or a finished wave, on which the next one depends."""
    if any(before.get(key) != wanted.get(key) for key in ("phase", "reason", "observedGeneration")):
        return True
    if found.wave is None:
        return False
    was, now = (
        {wave for wave, mark in zip(proposal.waves, marks, strict=True) if mark not in OVER}
        for marks in (proposal.marks, found.wave.move_states)
    )
    return was != now


def _wanted(proposal: Proposal, found: ProposalProgress, now: float) -> dict[str, Any]:
    """The status without the time of its write."""
    before, phase = proposal.status, found.turn.phase
    marks = tuple(found.wave.move_states) if found.wave is not None else proposal.marks
    if phase.over:
        marks = given_up(marks)
    done = sum(mark == DONE for mark in marks)
    generation = proposal.raw["metadata"].get("generation", 0)
    status: dict[str, Any] = {
        "observedGeneration": generation,
        "phase": str(phase),
        "reason": found.turn.reason,
        "message": found.turn.message + _when(found),
        "conditions": as_conditions([_approved(proposal, found)], before, generation, now),
        "movedMoves": done,
        "progress": f"{done}/{len(marks)}",
        "outcomes": write_move_states(marks),
        "dropped": listed_drops([*proposal.dropped, *(found.wave.drops if found.wave is not None else ())]),
    }
    if not status["dropped"]:
        del status["dropped"]
    begun = phase is ProposalPhase.EXECUTING or bool(before.get("startedAt"))
    if begun:
        status["startedAt"] = before.get("startedAt") or stamp(now)
        status["ranSeconds"] = int(found.ran)
        status["approvedBy"] = before.get("approvedBy") or found.by.by
        moved = found.wave.moved if found.wave is not None else int(before.get("movedBytes") or 0)
        status["movedBytes"] = moved
        moving = MOVING in marks
        going = (
            phase is ProposalPhase.EXECUTING and found.wave is not None and found.turn.reason == "Executing"
        )
        changed = marks != proposal.marks or not before.get("progressedAt") or moving
        # The idle timer restarts when the proposal resumes after a pause.
        fresh = changed or (going and not found.idle)
        status["progressedAt"] = stamp(now) if fresh else before["progressedAt"]
        if going:
            status["eta"] = stamp(now + _left(found, status, now))
    if phase.over:
        status["endedAt"] = before.get("endedAt") or stamp(now)
    return {key: value for key, value in status.items() if value is not None}


def listed_drops(drops: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """All dropped moves, the first ones with messages: thousands of messages would not fit into one object besides the moves."""
    short = ({key: value for key, value in each.items() if key != "message"} for each in drops[_TOLD:])
    return [*drops[:_TOLD], *short]


def _when(found: ProposalProgress) -> str:
    """When a closed window opens again."""
    if found.turn.reason != "MaintenanceWindowClosed" or found.window.at is None:
        return ""
    return f" It continues at {stamp(found.window.at)}."


def _left(found: ProposalProgress, status: Mapping[str, Any], now: float) -> float:
    """Remaining seconds, rounded to minutes: at the rate so far, or at the limit of one broker while there is none yet."""
    wave = found.wave
    if wave is None:
        return 0.0
    ran = now - (seconds(str(status["startedAt"])) or now)
    rate = float(found.bytes_per_second or 0) or 50e6
    if ran >= _MEASURED and wave.moved:
        rate = wave.moved / ran
    return 60.0 * (1 + int(wave.left / rate / 60))


def _approved(proposal: Proposal, found: ProposalProgress) -> ConditionRow:
    """The condition ``Approved``."""
    by = found.by.by
    reason = {"person": "ApprovedByUser", "rule": "ApprovedByRule"}.get(by or "", "ApprovalRequired")
    message = (
        f"{counted(len(proposal.moves), 'move')} of {proposal.bytes / 1e9:.1f} GB, hash {proposal.hash}."
        if by
        else found.by.why_not
        or f"Set spec.approved to {proposal.hash}, or: spindle rebalance approve {proposal.name}."
    )
    return ("Approved", "True" if by else "False", reason, message)
