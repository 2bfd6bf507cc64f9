"""Order of a rolling restart: one rack at a time, controllers one by one, and never more brokers at once than maxUnavailable.

The rule "no restart below min.insync.replicas" (docs/safety.md) alone would allow brokers of several racks at once if they share no
partition; another broker that fails meanwhile would then affect partitions that already lack a replica. With replicas spread over racks,
the brokers of one rack share no partition (KIP-36), so they can restart together, and if a broker of another rack fails meanwhile, no
partition had lost more than one replica before.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from spindle.api import names
from spindle.model.restart_verdict import RestartVerdict, RolloutDecision
from spindle.model.waiting import Waiting

_STEPS: Final = 12  # number of steps in which a whole cluster is restarted by default


@dataclass(frozen=True, kw_only=True)
class RolloutMember:
    """A broker or controller that takes part in a rolling restart.

    Attributes:
        rack: None without racks, and for controllers.
        ready: whether it is in sync.
        active: whether it is the active controller.
        urgent: whether it restarts for another reason than a change, for example for a failed disk. It does not wait for a stalled rollout.
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


def at_once(brokers: int, asked: int | None) -> int:
    """Number of brokers that may be down at once: maxUnavailable if set, otherwise a twelfth of them, rounded up.

    A twelfth reduces the capacity of a cluster only slightly, and completes a rolling restart in about twelve steps, however large it is.
    """
    return asked if asked is not None else max(1, math.ceil(brokers / _STEPS))


def rollout_order(members: Sequence[RolloutMember]) -> list[RolloutMember]:
    """Members that are not in sync first, then controllers with the active one last, then brokers rack by rack."""
    return sorted(members, key=lambda m: (m.ready, not m.controller, m.active, m.rack or "", m.node_id))


def next_to_restart(
    members: Sequence[RolloutMember],
    going: Sequence[RolloutMember],
    most: int,
    ask: Callable[[int, frozenset[int]], RestartVerdict],
) -> RolloutDecision:
    """Choose which members are taken down now.

    Args:
        members: running members that must restart.
        going: members that are down or being taken down and are not back yet.
        most: number of brokers that may be down at once.
        ask: whether a node may go down together with these others, in addition to those that are down anyway.
    """
    picked: list[RolloutMember] = []
    refused = dict[int, Waiting]()
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
    """Whether it is this member's turn, apart from the safety rules."""
    others = [other for other in everyone if other.controller == member.controller]
    if not member.urgent and len(others) < len(everyone):
        return False  # not controllers and brokers together: with a controller down, leaders move more slowly
    if member.controller:
        return not others
    return len(others) < most and all(other.rack == member.rack for other in others)
