"""The life of a proposal: one function from what is known of it to what it is next, and why.

Everything that changes a proposal's phase stands here. Whoever carries it out asks this first, in each pass.
"""

from dataclasses import dataclass
from typing import Final

from spindle.cluster.waiting import counted
from spindle.proposals.proposal import ProposalPhase
from spindle.proposals.windows import ALWAYS, WindowState

TRANSIENT_SECONDS: Final = 1800.0  # for which a trouble may last before what is being carried out ends for it
PERSON: Final = "person"
RULE: Final = "rule"


@dataclass(frozen=True)
class ProposalProblem:
    """Why nothing may be balanced now: something else comes first.

    Attributes:
        reason: CamelCase.
        message: a sentence.
        unblocked_by: what ends it.
        lasts: whether it will not pass by itself: replicas are being made anew elsewhere, so what was planned on is no more.
    """

    reason: str
    message: str
    unblocked_by: str
    lasts: bool = False


@dataclass(frozen=True, kw_only=True)
class ProposalFacts:
    """What is known of a proposal.

    Attributes:
        phase: as it is on record.
        problem: why it cannot be carried out by anybody, as a clause; empty if it can.
        approved_by: ``person`` or ``rule``; None while nobody has approved it.
        began_by: who had approved it when it was begun, by its record.
        not_by_rule: why the rules do not approve it, as a sentence; empty where none were asked.
        expired: its time is over.
        stop: a person wants it to end.
        newer: a proposal that was made later.
        executing: another proposal that is being carried out.
        obstacle: what comes first.
        troubled: seconds for which it has been in the way.
        window: how the maintenance windows stand.
        too_long: why its time is over, as a sentence; empty if it is not.
        waiting, moving: moves that have not begun, and those in motion.
        done, dropped: moves that have ended.
        leading: partitions whose new leader is waited for.
        unled: partitions that another broker is to lead, and could, and does not.
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
        """Moves that have not ended: with ``done`` and ``dropped`` these are all."""
        return self.waiting + self.moving


@dataclass(frozen=True)
class ProposalStep:
    """What a proposal is next.

    Attributes:
        reason: CamelCase, for the event of a change and for what is waited for.
        message: a sentence.
        unblocked_by: what it waits for; empty if for nothing.
    """

    phase: ProposalPhase
    reason: str
    message: str
    unblocked_by: str = ""


def next_step(facts: ProposalFacts) -> ProposalStep:
    """What a proposal is next: at most one step from where it was."""
    if facts.phase.over:
        return ProposalStep(facts.phase, str(facts.phase), "")
    if facts.problem:
        return ProposalStep(
            ProposalPhase.FAILED, "InvalidProposal", f"It cannot be carried out: {facts.problem}."
        )
    if facts.phase is ProposalPhase.EXECUTING:
        return _executing(facts)
    return _before(facts)


def _before(facts: ProposalFacts) -> ProposalStep:
    """A proposal that was not begun."""
    if facts.stop:
        return ProposalStep(ProposalPhase.STOPPED, "StoppedByUser", "It was stopped before it was begun.")
    if facts.newer is not None:
        return ProposalStep(
            ProposalPhase.SUPERSEDED,
            "Superseded",
            f"{facts.newer} was made later, from what is so since then.",
        )
    if facts.expired:
        late = (
            "It was approved too late: its time was over."
            if facts.approved_by
            else "Nobody approved it in time."
        )
        return ProposalStep(
            ProposalPhase.EXPIRED, "Expired", f"{late} What it was made from may be so no more."
        )
    if facts.approved_by is None:
        text = (
            facts.not_by_rule
            or "A person approves it by setting spec.approved to the value of spec.inputHash."
        )
        return ProposalStep(ProposalPhase.PROPOSED, "ApprovalRequired", text)
    return _approved(facts)


def _approved(facts: ProposalFacts) -> ProposalStep:
    """One that is begun now, or waits for what is in its way. Its moves follow when it is on record that it was begun."""
    if facts.executing is not None:
        return ProposalStep(
            ProposalPhase.APPROVED,
            "AnotherProposalExecuting",
            f"{facts.executing} is being carried out, and is finished first.",
            "It is done, or a person stops it.",
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
            "A maintenance window opens.",
        )
    return ProposalStep(ProposalPhase.EXECUTING, "Executing", "It is being carried out.")


def _executing(facts: ProposalFacts) -> ProposalStep:
    if facts.stop:
        return ProposalStep(ProposalPhase.STOPPED, "StoppedByUser", f"A person stopped it. {_sum(facts)}")
    if facts.began_by == PERSON and facts.approved_by is None:
        return ProposalStep(
            ProposalPhase.STOPPED,
            "ApprovalWithdrawn",
            f"spec.approved was taken away while it was carried out. {_sum(facts)}",
        )
    if not facts.left and not facts.leading:
        if facts.dropped and not facts.done:
            return ProposalStep(
                ProposalPhase.FAILED, "NoMovesLeft", f"None of its moves holds any more. {_sum(facts)}"
            )
        kept = (
            f" {counted(facts.unled, 'partition')} kept another leader than planned." if facts.unled else ""
        )
        return ProposalStep(ProposalPhase.DONE, "Done", _sum(facts) + kept)
    if facts.obstacle is not None and not facts.obstacle.lasts and facts.troubled < TRANSIENT_SECONDS:
        return ProposalStep(
            ProposalPhase.EXECUTING,
            facts.obstacle.reason,
            f"{facts.obstacle.message} What is in motion goes on, nothing more begins. {_sum(facts)}",
            f"{facts.obstacle.unblocked_by} After half an hour it is stopped.",
        )
    if facts.obstacle is not None:
        return ProposalStep(
            ProposalPhase.STOPPED,
            facts.obstacle.reason,
            f"{facts.obstacle.message} What is still needed is planned anew by a later run. {_sum(facts)}",
        )
    if facts.too_long and facts.waiting:
        return _time_over(facts)
    if not facts.window.open:
        return ProposalStep(
            ProposalPhase.EXECUTING,
            "MaintenanceWindowClosed",
            f"{_closed(facts.window)} {_sum(facts)}",
            "A maintenance window opens.",
        )
    return ProposalStep(ProposalPhase.EXECUTING, "Executing", _sum(facts))


def _time_over(facts: ProposalFacts) -> ProposalStep:
    """One that took too long. What is in motion lands, as when a window closes: giving it up would waste what was copied."""
    if facts.moving:
        return ProposalStep(
            ProposalPhase.EXECUTING,
            "MaxDurationExceeded",
            f"{facts.too_long} What is in motion goes on, nothing more begins. {_sum(facts)}",
            "What is in motion lands; then it is stopped. A larger maxDurationMinutes lets it go on.",
        )
    return ProposalStep(
        ProposalPhase.STOPPED,
        "MaxDurationExceeded",
        f"{facts.too_long} What is still needed is planned anew by a later run. {_sum(facts)}",
    )


def _closed(window: WindowState) -> str:
    if window.problem:
        return f"Nothing may begin: {window.problem}"
    return "No maintenance window is open; what is in motion goes on, nothing more begins."


def _sum(facts: ProposalFacts) -> str:
    parts = [f"{counted(facts.done, 'move')} done"]
    if facts.dropped:
        parts.append(f"{facts.dropped} left out")
    if facts.left:
        parts.append(f"{facts.left} not done")
    if facts.leading:
        parts.append(f"{counted(facts.leading, 'partition')} not yet led as planned")
    return f"{', '.join(parts)}."
