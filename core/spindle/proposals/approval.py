"""Who approves a proposal: a person by its hash, or the rules of the KafkaCluster by what it costs."""

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
        by: ``person`` or ``rule``; None for nobody.
        why_not: why the rules do not approve it, as a sentence; empty where they were not asked.
    """

    by: str | None
    why_not: str = ""


def approval(proposal: Proposal, rules: Rebalance, bytes_per_second: int) -> Approval:
    """Who has approved a proposal. What it costs is counted here, not taken from what it says of itself.

    Args:
        proposal: one that is understood.
        rules: ``spec.rebalance`` of its cluster.
        bytes_per_second: what one broker may send, take, and copy between its disks.
    """
    approved = proposal.spec.approved if proposal.spec is not None else None
    if approved is not None and approved == proposal.hash:
        return Approval(PERSON)
    if approved is not None:
        # The API server refuses this; where its rules are not those of this version, it is said here.
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
    """How long moves take at least: what the busiest broker takes, and what it copies inside, each at this rate."""
    taken: dict[int, int] = defaultdict(int)
    inside: dict[int, int] = defaultdict(int)
    for move in moves:
        (inside if move.within else taken)[move.target] += move.bytes
    busiest = max((*taken.values(), *inside.values()), default=0)
    return busiest / max(1, bytes_per_second)
