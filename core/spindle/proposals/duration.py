"""The time limit for executing a proposal: active time compared with ``spec.rebalance.maxDurationMinutes``.

The estimate assumes full speed. Busy brokers are throttled, so execution may take much longer; the limit applies to the elapsed time.
"""

from typing import Final

from spindle.api.policy import Rebalance
from spindle.proposals.approval import seconds_needed
from spindle.proposals.lifecycle import PERSON
from spindle.proposals.proposal import Proposal

AWAY: Final = 300.0  # seconds without a status write after which the operator counts as down; an executing proposal is written every quarter of a minute


def carried_out(before: float, written: float | None, now: float, *, going: bool) -> float:
    """Seconds for which it has been executing.

    Args:
        before: seconds recorded with the last write of its status.
        written: time of that write in seconds since the epoch; None for never.
        now: seconds since the epoch.
        going: whether moves could start according to that write: no closed window, and time left.
    """
    if not going or written is None or not 0 <= now - written <= AWAY:
        return before
    return before + now - written


def allowed(
    proposal: Proposal, rules: Rebalance, bytes_per_second: int, approved_by: str | None
) -> float | None:
    """Seconds for which it may execute; None for no limit.

    The limit applies regardless of who approved it. Exception: a proposal that a user approved although it exceeds the limit even at full
    speed is not limited.

    Args:
        proposal: a proposal that this version can parse.
        rules: ``spec.rebalance`` of its cluster.
        bytes_per_second: limit for a broker's sending, receiving, and copying between its disks.
        approved_by: ``person`` or ``rule``.
    """
    if rules.max_duration_minutes is None:
        return None
    limit = 60.0 * rules.max_duration_minutes
    if approved_by == PERSON and seconds_needed(proposal.moves, bytes_per_second) > limit:
        return None
    return limit


def too_long(ran: float, limit: float | None) -> str:
    """Why no further move may start, as a sentence; empty if there is time left.

    Args:
        ran: seconds for which it has been executing.
        limit: seconds for which it may execute.
    """
    if limit is None or ran < limit:
        return ""
    return (
        f"It has been executing for {ran / 60:.0f} minutes, longer than spec.rebalance.maxDurationMinutes ({limit / 60:.0f}) "
        "allows."
    )
