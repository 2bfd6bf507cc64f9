"""How long a proposal may be carried out: the time in which it could go on, against ``spec.rebalance.maxDurationMinutes``.

An estimate is made at full speed. Brokers that are busy are spared, so it may take much longer; who set a limit means the time that passes.
"""

from typing import Final

from spindle.api.policy import Rebalance
from spindle.proposals.approval import seconds_needed
from spindle.proposals.lifecycle import PERSON
from spindle.proposals.proposal import Proposal

AWAY: Final = 300.0  # seconds without a write after which nobody has looked: one that goes on is written every quarter of a minute


def carried_out(before: float, written: float | None, now: float, *, going: bool) -> float:
    """Seconds for which it has been carried out by now.

    Args:
        before: those that were on record with the last write of its status.
        written: when that was, in seconds since the epoch; None for never.
        now: seconds since the epoch.
        going: by that write, moves could begin: no window was closed, and its time was not over.
    """
    if not going or written is None or not 0 <= now - written <= AWAY:
        return before
    return before + now - written


def allowed(
    proposal: Proposal, rules: Rebalance, bytes_per_second: int, approved_by: str | None
) -> float | None:
    """Seconds for which it may be carried out; None for any time.

    The limit holds whoever approved it. Only what a person approved although it takes longer at full speed already is not bound by it: that
    person wanted it all the same.

    Args:
        proposal: one that is understood.
        rules: ``spec.rebalance`` of its cluster.
        bytes_per_second: what one broker may send, take, and copy between its disks.
        approved_by: ``person`` or ``rule``.
    """
    if rules.max_duration_minutes is None:
        return None
    limit = 60.0 * rules.max_duration_minutes
    if approved_by == PERSON and seconds_needed(proposal.moves, bytes_per_second) > limit:
        return None
    return limit


def too_long(ran: float, limit: float | None) -> str:
    """Why nothing more of it may begin, as a sentence; empty if its time is not over.

    Args:
        ran: seconds for which it has been carried out.
        limit: seconds for which it may be.
    """
    if limit is None or ran < limit:
        return ""
    return (
        f"It has been executing for {ran / 60:.0f} minutes, longer than spec.rebalance.maxDurationMinutes ({limit / 60:.0f}) "
        "allows."
    )
