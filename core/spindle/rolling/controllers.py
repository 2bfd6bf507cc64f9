"""Rule 2 for the controller quorum: a majority of caught-up voters stays."""

from collections.abc import Set as AbstractSet

from spindle.cluster.view import Quorum
from spindle.cluster.waiting import Waiting, counted, some
from spindle.rolling.verdict import RestartVerdict

_RULE = 2


def controller_may_go_down(quorum: Quorum | None, node_id: int, down: AbstractSet[int]) -> RestartVerdict:
    """Whether a controller may be taken down.

    A voter of which it is not known that it is caught up does not count towards the majority. A controller that is
    no voter may always go down. The only voter of a quorum may, too (nothing else can ever be done with it), but
    the verdict names it.

    Args:
        quorum: None if the quorum could not be asked; then nothing is permitted.
        node_id: the controller in question.
        down: node ids that are down or going down; more than controllers may be in it.
    """
    if quorum is None:
        return RestartVerdict(
            Waiting.refused(
                rule=_RULE,
                reason="QuorumUnknown",
                message="The controller quorum could not be asked who of it is caught up.",
                unblocked_by="The controllers answer again.",
            )
        )
    if quorum.leader < 0:
        return RestartVerdict(
            Waiting.refused(
                rule=_RULE,
                reason="NoQuorumLeader",
                message="The controller quorum has no leader.",
                unblocked_by="A majority of the controllers runs and elects a leader.",
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
            f"{len(quorum.voters)} would be left, and a majority is {needed}{absent}.",
            unblocked_by="The other controllers run and have caught up with the leader.",
            objects=tuple(str(i) for i in missing),
        )
    )


def controller_in_sync(quorum: Quorum | None, node_id: int) -> bool | None:
    """Whether a controller is a voter that is caught up; None if that is not known."""
    if quorum is None or quorum.leader < 0:
        return None
    for voter in quorum.voters:
        if voter.id == node_id:
            return voter.caught_up
    return False
