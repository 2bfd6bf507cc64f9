"""The phases of a proposal: a function from the facts to its next phase, with the reason.

All changes of a proposal's phase are decided here. The execution calls it first in each pass.
"""

from dataclasses import dataclass
from typing import Final

from spindle.model.waiting import counted
from spindle.proposals.proposal import ProposalPhase
from spindle.proposals.windows import ALWAYS, WindowState

TRANSIENT_SECONDS: Final = (
    1800.0  # seconds for which a problem may last before it stops an executing proposal
)
PERSON: Final = "person"
RULE: Final = "rule"


@dataclass(frozen=True)
class ProposalProblem:
    """Why nothing may be balanced now: something else has priority.

    Attributes:
        reason: CamelCase.
        message: a sentence.
        unblocked_by: what resolves it.
        lasts: whether it is permanent: replicas are being re-replicated elsewhere, so the planned state no longer exists.
    """

    reason: str
    message: str
    unblocked_by: str
    lasts: bool = False


@dataclass(frozen=True, kw_only=True)
class ProposalFacts:
    """The facts about a proposal.

    Attributes:
        phase: the recorded phase.
        problem: why it can never be executed, as a clause; empty if it can.
        approved_by: ``person`` or ``rule``; None if not approved.
        began_by: who had approved it at its start, from its record.
        not_by_rule: why the rules do not approve it, as a sentence; empty if they were not evaluated.
        expired: it has expired.
        stop: a user has stopped it.
        newer: a later proposal.
        executing: another proposal that is executing.
        obstacle: what has priority.
        troubled: seconds for which the obstacle has lasted.
        window: state of the maintenance windows.
        too_long: why its time limit is exceeded, as a sentence; empty if it is not.
        waiting, moving: number of moves that have not started, and of running moves.
        done, dropped: number of completed and of dropped moves.
        leading: partitions whose new leader is not elected yet.
        unled: partitions whose planned leader could lead but does not.
    """

    phase: ProposalPhase
    problem: str = ""
    approved_by: str | None = None
    began_by: str | None = None
    not_by_rule: str = ""
    expired: bool = False
    stop: bool = False
    newer: str | None = None
    executing: str | None = None
    obstacle: ProposalProblem | None = None
    troubled: float = 0.0
    window: WindowState = ALWAYS
    too_long: str = ""
    waiting: int = 0
    moving: int = 0
    done: int = 0
    dropped: int = 0
    leading: int = 0
    unled: int = 0

    @property
    def left(self) -> int:
        """Number of unfinished moves; with ``done`` and ``dropped`` these are all."""
        return self.waiting + self.moving


@dataclass(frozen=True)
class ProposalStep:
    """The next phase of a proposal.

    Attributes:
        reason: CamelCase, for the event of a change and for the wait.
        message: a sentence.
        unblocked_by: what resolves the wait; empty if it does not wait.
    """

    phase: ProposalPhase
    reason: str
    message: str
    unblocked_by: str = ""


def next_step(facts: ProposalFacts) -> ProposalStep:
    """The next phase of a proposal, at most one step from its current one."""
    if facts.phase.over:
        return ProposalStep(facts.phase, str(facts.phase), "")
    if facts.problem:
        return ProposalStep(
            ProposalPhase.FAILED, "InvalidProposal", f"It cannot be executed: {facts.problem}."
        )
    if facts.phase is ProposalPhase.EXECUTING:
        return _executing(facts)
    return _before(facts)


def _before(facts: ProposalFacts) -> ProposalStep:
    """A proposal that has not started."""
    if facts.stop:
        return ProposalStep(ProposalPhase.STOPPED, "StoppedByUser", "It was stopped before it started.")
    if facts.newer is not None:
        return ProposalStep(
            ProposalPhase.SUPERSEDED,
            "Superseded",
            f"{facts.newer} is newer and was planned on the present state.",
        )
    if facts.expired:
        late = (
            "It was approved too late: it had expired."
            if facts.approved_by
            else "Nobody approved it in time."
        )
        return ProposalStep(ProposalPhase.EXPIRED, "Expired", f"{late} Its input may be outdated.")
    if facts.approved_by is None:
        text = facts.not_by_rule or "Approve it: set spec.approved to the value of spec.inputHash."
        return ProposalStep(ProposalPhase.PROPOSED, "ApprovalRequired", text)
    return _approved(facts)


def _approved(facts: ProposalFacts) -> ProposalStep:
    """An approved proposal, which starts now or waits. Its moves start when its start is recorded."""
    if facts.executing is not None:
        return ProposalStep(
            ProposalPhase.APPROVED,
            "AnotherProposalExecuting",
            f"{facts.executing} is executing and is finished first.",
            "Wait until it is finished, or stop it.",
        )
    if facts.obstacle is not None:
        return ProposalStep(
            ProposalPhase.APPROVED, facts.obstacle.reason, facts.obstacle.message, facts.obstacle.unblocked_by
        )
    if not facts.window.open:
        return ProposalStep(
            ProposalPhase.APPROVED,
            "MaintenanceWindowClosed",
            _closed(facts.window),
            "Wait until a maintenance window opens.",
        )
    return ProposalStep(ProposalPhase.EXECUTING, "Executing", "It is executing.")


def _executing(facts: ProposalFacts) -> ProposalStep:
    if facts.stop:
        return ProposalStep(ProposalPhase.STOPPED, "StoppedByUser", f"A user stopped it. {_sum(facts)}")
    if facts.began_by == PERSON and facts.approved_by is None:
        return ProposalStep(
            ProposalPhase.STOPPED,
            "ApprovalWithdrawn",
            f"spec.approved was removed while it was executing. {_sum(facts)}",
        )
    if not facts.left and not facts.leading:
        if facts.dropped and not facts.done:
            return ProposalStep(
                ProposalPhase.FAILED, "NoMovesLeft", f"None of its moves is valid any more. {_sum(facts)}"
            )
        kept = (
            f" {counted(facts.unled, 'partition')} kept another leader than planned." if facts.unled else ""
        )
        return ProposalStep(ProposalPhase.DONE, "Done", _sum(facts) + kept)
    if facts.obstacle is not None and not facts.obstacle.lasts and facts.troubled < TRANSIENT_SECONDS:
        return ProposalStep(
            ProposalPhase.EXECUTING,
            facts.obstacle.reason,
            f"{facts.obstacle.message} Moves in progress continue, no new move starts. {_sum(facts)}",
            f"{facts.obstacle.unblocked_by} Spindle stops the proposal after half an hour.",
        )
    if facts.obstacle is not None:
        return ProposalStep(
            ProposalPhase.STOPPED,
            facts.obstacle.reason,
            f"{facts.obstacle.message} A later run plans again what is still needed. {_sum(facts)}",
        )
    if facts.too_long and facts.waiting:
        return _time_over(facts)
    if not facts.window.open:
        return ProposalStep(
            ProposalPhase.EXECUTING,
            "MaintenanceWindowClosed",
            f"{_closed(facts.window)} {_sum(facts)}",
            "Wait until a maintenance window opens.",
        )
    return ProposalStep(ProposalPhase.EXECUTING, "Executing", _sum(facts))


def _time_over(facts: ProposalFacts) -> ProposalStep:
    """A proposal that exceeded its time limit. Running moves finish, as when a window closes: cancelling them would waste the copied data."""
    if facts.moving:
        return ProposalStep(
            ProposalPhase.EXECUTING,
            "MaxDurationExceeded",
            f"{facts.too_long} Moves in progress continue, no new move starts. {_sum(facts)}",
            "Nothing to do: Spindle stops the proposal when the moves in progress are finished. To continue it, raise maxDurationMinutes.",
        )
    return ProposalStep(
        ProposalPhase.STOPPED,
        "MaxDurationExceeded",
        f"{facts.too_long} A later run plans again what is still needed. {_sum(facts)}",
    )


def _closed(window: WindowState) -> str:
    if window.problem:
        return f"No move may start: {window.problem}"
    return "No maintenance window is open; moves in progress continue, no new move starts."


def _sum(facts: ProposalFacts) -> str:
    parts = [f"{counted(facts.done, 'move')} done"]
    if facts.dropped:
        parts.append(f"{facts.dropped} dropped")
    if facts.left:
        parts.append(f"{facts.left} not done")
    if facts.leading:
        parts.append(f"{counted(facts.leading, 'partition')} not yet led as planned")
    return f"{', '.join(parts)}."
