"""The phases of a proposal as a table: from which phase, on what, to which phase, and what is then said.

All changes of a proposal's phase are decided here. The execution calls `next_step` first in each pass.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from spindle.api.enums import ProposalPhase
from spindle.model.waiting import counted
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


def _finished(facts: ProposalFacts) -> bool:
    return not facts.left and not facts.leading


def _obstacle(facts: ProposalFacts) -> ProposalProblem:
    return facts.obstacle or ProposalProblem("", "", "")


def _expired(facts: ProposalFacts) -> str:
    late = "It was approved too late: it had expired." if facts.approved_by else "Nobody approved it in time."
    return f"{late} Its input may be outdated."


def _other_leaders(facts: ProposalFacts) -> str:
    if not facts.unled:
        return ""
    return f" {counted(facts.unled, 'partition')} kept another leader than planned."


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


Test = Callable[[ProposalFacts], bool]
Text = str | Callable[[ProposalFacts], str]

# The conditions of transitions, by name.
TRIGGERS: Final[Mapping[str, Test]] = {
    "invalid": lambda f: bool(f.problem),
    "stopped by a user": lambda f: f.stop,
    "newer proposal": lambda f: f.newer is not None,
    "expired": lambda f: f.expired,
    "not approved": lambda f: f.approved_by is None,
    "approval withdrawn": lambda f: f.began_by == PERSON and f.approved_by is None,
    "another one executing": lambda f: f.executing is not None,
    "all moves dropped": lambda f: _finished(f) and f.dropped > 0 and not f.done,
    "finished": _finished,
    "something has precedence": lambda f: f.obstacle is not None,
    "something has precedence for now": lambda f: (
        f.obstacle is not None and not f.obstacle.lasts and f.troubled < TRANSIENT_SECONDS
    ),
    "time over, moves in progress": lambda f: bool(f.too_long) and f.waiting > 0 and f.moving > 0,
    "time over": lambda f: bool(f.too_long) and f.waiting > 0,
    "window closed": lambda f: not f.window.open,
    "otherwise": lambda _: True,
}


@dataclass(frozen=True)
class ProposalTransition:
    """One row of the table.

    Attributes:
        target: the next phase; one of the sources if the proposal waits.
        reason: CamelCase.
        message: a sentence.
        unblocked_by: what resolves the wait; empty if it does not wait.
    """

    sources: tuple[ProposalPhase, ...]
    trigger: str
    target: ProposalPhase
    reason: Text
    message: Text
    unblocked_by: Text = ""


_P: Final = ProposalPhase
_BEFORE: Final = (_P.PROPOSED, _P.APPROVED)
_RUNNING: Final = (_P.EXECUTING,)
_OPENS: Final = "Wait until a maintenance window opens."

# The first row that applies to the current phase counts.
TRANSITIONS: Final[tuple[ProposalTransition, ...]] = (
    ProposalTransition(
        (*_BEFORE, *_RUNNING),
        "invalid",
        _P.FAILED,
        "InvalidProposal",
        lambda f: f"It cannot be executed: {f.problem}.",
    ),
    ProposalTransition(
        _BEFORE, "stopped by a user", _P.STOPPED, "StoppedByUser", "It was stopped before it started."
    ),
    ProposalTransition(
        _BEFORE,
        "newer proposal",
        _P.SUPERSEDED,
        "Superseded",
        lambda f: f"{f.newer} is newer and was planned on the present state.",
    ),
    ProposalTransition(_BEFORE, "expired", _P.EXPIRED, "Expired", _expired),
    ProposalTransition(
        _BEFORE,
        "not approved",
        _P.PROPOSED,
        "ApprovalRequired",
        lambda f: f.not_by_rule or "Approve it: set spec.approved to the value of spec.inputHash.",
    ),
    ProposalTransition(
        _BEFORE,
        "another one executing",
        _P.APPROVED,
        "AnotherProposalExecuting",
        lambda f: f"{f.executing} is executing and is finished first.",
        "Wait until it is finished, or stop it.",
    ),
    ProposalTransition(
        _BEFORE,
        "something has precedence",
        _P.APPROVED,
        lambda f: _obstacle(f).reason,
        lambda f: _obstacle(f).message,
        lambda f: _obstacle(f).unblocked_by,
    ),
    ProposalTransition(
        _BEFORE,
        "window closed",
        _P.APPROVED,
        "MaintenanceWindowClosed",
        lambda f: _closed(f.window),
        _OPENS,
    ),
    # Its moves start when its start is recorded.
    ProposalTransition(_BEFORE, "otherwise", _P.EXECUTING, "Executing", "It is executing."),
    ProposalTransition(
        _RUNNING,
        "stopped by a user",
        _P.STOPPED,
        "StoppedByUser",
        lambda f: f"A user stopped it. {_sum(f)}",
    ),
    ProposalTransition(
        _RUNNING,
        "approval withdrawn",
        _P.STOPPED,
        "ApprovalWithdrawn",
        lambda f: f"spec.approved was removed while it was executing. {_sum(f)}",
    ),
    ProposalTransition(
        _RUNNING,
        "all moves dropped",
        _P.FAILED,
        "NoMovesLeft",
        lambda f: f"None of its moves is valid any more. {_sum(f)}",
    ),
    ProposalTransition(_RUNNING, "finished", _P.DONE, "Done", lambda f: f"{_sum(f)}{_other_leaders(f)}"),
    ProposalTransition(
        _RUNNING,
        "something has precedence for now",
        _P.EXECUTING,
        lambda f: _obstacle(f).reason,
        lambda f: f"{_obstacle(f).message} Moves in progress continue, no new move starts. {_sum(f)}",
        lambda f: f"{_obstacle(f).unblocked_by} Spindle stops the proposal after half an hour.",
    ),
    ProposalTransition(
        _RUNNING,
        "something has precedence",
        _P.STOPPED,
        lambda f: _obstacle(f).reason,
        lambda f: f"{_obstacle(f).message} A later run plans again what is still needed. {_sum(f)}",
    ),
    # Running moves finish, as when a window closes: cancelling them would waste the copied data.
    ProposalTransition(
        _RUNNING,
        "time over, moves in progress",
        _P.EXECUTING,
        "MaxDurationExceeded",
        lambda f: f"{f.too_long} Moves in progress continue, no new move starts. {_sum(f)}",
        "Nothing to do: Spindle stops the proposal when the moves in progress are finished. To continue it, raise maxDurationMinutes.",
    ),
    ProposalTransition(
        _RUNNING,
        "time over",
        _P.STOPPED,
        "MaxDurationExceeded",
        lambda f: f"{f.too_long} A later run plans again what is still needed. {_sum(f)}",
    ),
    ProposalTransition(
        _RUNNING,
        "window closed",
        _P.EXECUTING,
        "MaintenanceWindowClosed",
        lambda f: f"{_closed(f.window)} {_sum(f)}",
        _OPENS,
    ),
    ProposalTransition(_RUNNING, "otherwise", _P.EXECUTING, "Executing", _sum),
)


def next_step(facts: ProposalFacts) -> ProposalStep:
    """The next phase of a proposal, at most one step from its current one."""
    for row in TRANSITIONS:
        if facts.phase in row.sources and TRIGGERS[row.trigger](facts):
            return ProposalStep(
                row.target,
                _text(row.reason, facts),
                _text(row.message, facts),
                _text(row.unblocked_by, facts),
            )
    return ProposalStep(facts.phase, str(facts.phase), "")  # it is finished


def _text(text: Text, facts: ProposalFacts) -> str:
    return text if isinstance(text, str) else text(facts)
