"""Who goes down next in a roll: one rack at a time, controllers singly, and never more at once than was asked for.

Rule 2 alone would let brokers of several racks go as long as they share no partition; one more broker that fails meanwhile would then hit partitions
that are short already. With replicas spread over racks the brokers of one rack share none (KIP-36), so they can go together, and
whoever fails elsewhere still finds every partition at its full number less one.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from spindle.cluster import names
from spindle.cluster.waiting import Waiting
from spindle.rolling.verdict import RestartVerdict

_STEPS: Final = 12  # in which a whole cluster is to be through, unless told otherwise


@dataclass(frozen=True, kw_only=True)
class RolloutMember:
    """A broker or controller that takes part in a roll.

    Attributes:
        rack: None where there are no racks, and for controllers.
        ready: whether it is in sync.
        active: whether it leads the quorum.
        urgent: whether it is to go for more than a change: for the sake of a disk, say. It does not wait for what is overdue.
    """

    node_id: int
    rack: str | None = None
    ready: bool = True
    active: bool = False
    urgent: bool = False

    @property
    def controller(self) -> bool:
        """Whether it is a controller."""
        return self.node_id >= names.FIRST_CONTROLLER_ID


@dataclass(frozen=True)
class RolloutDecision:
    """What comes next.

    Attributes:
        go: node ids that may go down now, together with those that are going already.
        refused: node id → why a rule forbids it.
        later: node ids that could go, but wait for their turn.
    """

    go: tuple[int, ...] = ()
    refused: Mapping[int, Waiting] = field(default_factory=dict)
    later: tuple[int, ...] = ()


def at_once(brokers: int, asked: int | None) -> int:
    """How many brokers may be down at once: what was asked for, else a twelfth of them, rounded up.

    A twelfth takes little enough of a cluster's strength away, and has it through in about twelve steps however large it is.
    """
    return asked if asked is not None else max(1, math.ceil(brokers / _STEPS))


def rollout_order(members: Sequence[RolloutMember]) -> list[RolloutMember]:
    """Unready ones first, then controllers with the active one last, then brokers rack by rack."""
    return sorted(members, key=lambda m: (m.ready, not m.controller, m.active, m.rack or "", m.node_id))


def next_to_restart(
    members: Sequence[RolloutMember],
    going: Sequence[RolloutMember],
    most: int,
    ask: Callable[[int, frozenset[int]], RestartVerdict],
) -> RolloutDecision:
    """Choose who goes down now.

    Args:
        members: who should go down and is up.
        going: who went down or is about to, and is not back yet.
        most: how many brokers may be down at once.
        ask: whether a node may go down while these others, beside those that are down anyway, go too.
    """
    picked: list[RolloutMember] = []
    refused: dict[int, Waiting] = {}
    later: list[int] = []
    for member in rollout_order(members):
        everyone = [*going, *picked]
        verdict = ask(member.node_id, frozenset(other.node_id for other in picked))
        if verdict.refusal is not None:
            refused[member.node_id] = verdict.refusal
        elif _has_turn(member, everyone, most):
            picked.append(member)
        else:
            later.append(member.node_id)
    return RolloutDecision(tuple(member.node_id for member in picked), refused, tuple(later))


def _has_turn(member: RolloutMember, everyone: Sequence[RolloutMember], most: int) -> bool:
    """Whether it is this one's turn, the rules aside."""
    others = [other for other in everyone if other.controller == member.controller]
    if not member.urgent and len(others) < len(everyone):
        return False  # controllers and brokers don't go together: with a controller away leaders are slower to move
    if member.controller:
        return not others
    return len(others) < most and all(other.rack == member.rack for other in others)
