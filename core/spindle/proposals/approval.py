"""Approval of a proposal: by a user with its hash, or by the KafkaCluster's rules based on its cost."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from spindle.api import quantity
from spindle.api.policy import Rebalance
from spindle.moves.journal import Move
from spindle.proposals.lifecycle import PERSON, RULE
from spindle.proposals.proposal import Proposal


@dataclass(frozen=True)
class Approval:
    """Whether a proposal is approved.

    Attributes:
        by: ``person`` or ``rule``; None if not approved.
        why_not: why the rules do not approve it, as a sentence; empty if they were not evaluated.
    """

    by: str | None
    why_not: str = ""


def approval(proposal: Proposal, rules: Rebalance, bytes_per_second: int) -> Approval:
    """Whether a proposal is approved. Its cost is computed here and not taken from the proposal.

    Args:
        proposal: a valid proposal.
        rules: ``spec.rebalance`` of its cluster.
        bytes_per_second: limit for a broker's sending, receiving, and copying between its disks.
    """
    approved = proposal.spec.approved if proposal.spec is not None else None
    if approved is not None and approved == proposal.hash:
        return Approval(PERSON)
    if approved is not None:
        # The API server rejects this; reported here in case its validation rules are of an older version.
        return Approval(
            None,
            f"spec.approved is not the hash of this proposal: that is {proposal.hash}. Copy spec.inputHash.",
        )
    if rules.approval != "auto":
        return Approval(None)
    if rules.max_bytes is not None and proposal.bytes > quantity.whole(rules.max_bytes):
        return Approval(
            None,
            f"It moves {proposal.bytes / 1e9:.1f} GB, more than spec.rebalance.maxBytes ({rules.max_bytes}) approves "
            "automatically. To approve it anyway, set spec.approved.",
        )
    minutes = seconds_needed(proposal.moves, bytes_per_second) / 60
    if rules.max_duration_minutes is not None and minutes > rules.max_duration_minutes:
        return Approval(
            None,
            f"It takes at least {minutes:.0f} minutes, more than spec.rebalance.maxDurationMinutes ({rules.max_duration_minutes}) "
            "approves automatically. To approve it anyway, set spec.approved.",
        )
    return Approval(RULE)


def seconds_needed(moves: Sequence[Move], bytes_per_second: int) -> float:
    """Minimum duration of moves: transfers of the busiest broker and copies between its dirs, each at this rate."""
    taken: dict[int, int] = defaultdict(int)
    inside: dict[int, int] = defaultdict(int)
    for move in moves:
        (inside if move.within else taken)[move.target] += move.bytes
    busiest = max((*taken.values(), *inside.values()), default=0)
    return busiest / max(1, bytes_per_second)
