"""No voluntary take-down of a controller leaves the quorum without a majority of caught-up voters.

The safety rule is "no restart below min.insync.replicas" (docs/safety.md), which covers the controllers, too.
"""

from collections.abc import Set as AbstractSet

from spindle.model.restart_verdict import RestartVerdict
from spindle.model.view import Quorum
from spindle.model.waiting import Waiting, counted, some

_RULE = 2


def controller_may_go_down(quorum: Quorum | None, node_id: int, down: AbstractSet[int]) -> RestartVerdict:
    """Whether a controller may be taken down.

    A voter that is not known to be caught up does not count towards the majority. A controller that is not a voter may always be taken
    down. The only voter of a quorum may be, too (there is no other option), but the verdict names it.

    Args:
        quorum: None if the quorum did not answer; then nothing is permitted.
        node_id: the controller to take down.
        down: node ids that are down or being taken down; it may contain brokers.
    """
    if quorum is None:
        return RestartVerdict(
            Waiting.refused(
                rule=_RULE,
                reason="QuorumUnknown",
                message=f"Spindle does not take controller {node_id} down, because the quorum did not answer which voters are caught up.",
                unblocked_by="Nothing to do: Spindle continues when the controllers answer again.",
            )
        )
    if quorum.leader < 0:
        return RestartVerdict(
            Waiting.refused(
                rule=_RULE,
                reason="NoQuorumLeader",
                message=f"Spindle does not take controller {node_id} down, because the controller quorum has no leader.",
                unblocked_by="Bring a majority of the controllers back, so that they elect a leader.",
            )
        )
    if node_id not in {voter.id for voter in quorum.voters}:
        return RestartVerdict()
    if len(quorum.voters) == 1:
        return RestartVerdict(named=(f"controller {node_id}, the only one",))
    needed = len(quorum.voters) // 2 + 1
    staying = [voter for voter in quorum.voters if voter.id != node_id and voter.id not in down]
    caught_up = [voter for voter in staying if voter.caught_up]
    if len(caught_up) >= needed:
        return RestartVerdict()
    missing = sorted({voter.id for voter in quorum.voters} - {voter.id for voter in caught_up} - {node_id})
    absent = f" (down or lagging: {some([str(i) for i in missing])})" if missing else ""
    return RestartVerdict(
        Waiting.refused(
            rule=_RULE,
            reason="WouldLoseQuorum",
            message=f"Without controller {node_id}, {counted(len(caught_up), 'caught-up voter')} of "
            f"{len(quorum.voters)} would be left, but a majority is {needed}{absent}.",
            unblocked_by="Bring the other controllers back: Spindle continues when they have caught up with the leader.",
            objects=tuple(str(i) for i in missing),
        )
    )


def controller_in_sync(quorum: Quorum | None, node_id: int) -> bool | None:
    """Whether a controller is a caught-up voter; None if that is not known."""
    if quorum is None or quorum.leader < 0:
        return None
    for voter in quorum.voters:
        if voter.id == node_id:
            return voter.caught_up
    return False
