"""The next step of a quorum that is to change, by example."""

from collections.abc import Mapping

import pytest

from spindle.controllers.next_step import NO_DIRECTORY, Member, next_step
from spindle.controllers.quorum_steps import (
    AddVoterStep,
    AdmitControllers,
    DeleteController,
    ReaddVoter,
    RecreateController,
    RemoveVoterStep,
    Step,
)
from spindle.model.view import Quorum, Voter
from spindle.model.waiting import Waiting

A, B, C, D, E = 9000, 9001, 9002, 9003, 9004


def directory(node_id: int, generation: int = 0) -> str:
    return f"{node_id}-{generation}"


def on_record(*ids: int, down: tuple[int, ...] = (), lost: Mapping[int, str] | None = None) -> list[Member]:
    return [Member(i, directory(i), i not in down, (lost or {}).get(i, "")) for i in ids]


def seen(
    *voters: int, lagging: tuple[int, ...] = (), reading: tuple[int, ...] = (), leader: int = A
) -> Quorum:
    return Quorum(
        leader=leader,
        voters=tuple(Voter(i, directory(i), i not in lagging) for i in voters),
        observers=tuple(Voter(i, directory(i), caught_up=True) for i in reading),
    )


def step(
    quorum: Quorum | None,
    members: list[Member],
    wanted: int,
    *,
    carried: Mapping[int, str] | None = None,
) -> Step | Waiting | None:
    ids = tuple(member.id for member in members)
    return next_step(
        quorum,
        members,
        wanted,
        carried={i: directory(i) for i in ids} if carried is None else carried,
    )


def reason(found: object) -> str:
    assert isinstance(found, Waiting)
    assert found.message
    assert found.unblocked_by
    return found.reason


def test_a_quorum_that_is_as_wanted_is_left_alone() -> None:
    assert step(seen(A, B, C), on_record(A, B, C), 3) is None
    assert step(seen(A, B, C, lagging=(B, C)), on_record(A, B, C, down=(B, C)), 3) is None
    assert step(None, on_record(A, B, C), 3) is None


def test_one_becomes_three() -> None:
    assert step(seen(A), on_record(A), 3) == AdmitControllers((B, C))
    grown = on_record(A, B, C)
    assert reason(step(seen(A), grown, 3)) == "ControllersJoining"
    # Two voters bear no failure: the first joins when the second is ready.
    assert reason(step(seen(A, reading=(B,)), grown, 3)) == "ControllersJoining"
    assert step(seen(A, reading=(B, C)), grown, 3) == AddVoterStep(B, directory(B))
    assert step(seen(A, B, reading=(C,)), grown, 3) == AddVoterStep(C, directory(C))
    assert step(seen(A, B, C), grown, 3) is None


def test_five_become_three_and_the_leader_leaves_last() -> None:
    members = on_record(A, B, C, D, E)
    assert step(seen(A, B, C, D, E, leader=E), members, 3) == RemoveVoterStep(
        D, directory(D), "controllers.replicas is 3"
    )
    assert step(seen(A, B, C, E, leader=E), members, 3) == DeleteController(D)
    found = step(seen(A, B, C, E, leader=E), on_record(A, B, C, E), 3)
    assert found == RemoveVoterStep(E, directory(E), "controllers.replicas is 3")
    assert step(seen(A, B, C), on_record(A, B, C, E), 3) == DeleteController(E)
    assert step(seen(A, B, C), on_record(A, B, C), 3) is None


def test_those_that_are_dead_leave_first() -> None:
    quorum = seen(A, B, C, D, E, lagging=(D,))
    assert step(quorum, on_record(A, B, C, D, E, down=(D,)), 3) == RemoveVoterStep(
        D, directory(D), "controllers.replicas is 3"
    )


@pytest.mark.parametrize("down", [(), (B,)])
def test_one_of_two_leaves_by_the_word_of_the_one_that_stays(down: tuple[int, ...]) -> None:
    left = RemoveVoterStep(B, directory(B), "controllers.replicas is 1")
    assert step(seen(A, B, lagging=down), on_record(A, B, down=down), 1) == left


@pytest.mark.parametrize("voters", [(A, B), (A, B, C)])
def test_the_leader_does_not_leave_while_it_is_about_to_restart(voters: tuple[int, ...]) -> None:
    members = on_record(*voters, down=(B,))
    assert reason(step(seen(*voters, leader=B), members, 1)) == "ControllersNotReady"


def test_nobody_leaves_of_his_own_will_while_one_that_stays_is_not_well() -> None:
    quorum = seen(A, B, C, lagging=(A,), leader=B)
    assert reason(step(quorum, on_record(A, B, C, down=(A,)), 1)) == "ControllersNotReady"
    # About to restart is as good as down.
    assert reason(step(seen(A, B, C), on_record(A, B, C, down=(A,)), 1)) == "ControllersNotReady"


def test_a_lost_one_leaves_begins_anew_and_joins() -> None:
    lost = on_record(A, B, C, down=(C,), lost={C: "its disk is blank"})
    assert step(seen(A, B, C, lagging=(C,)), lost, 3) == RemoveVoterStep(C, directory(C), "its disk is blank")
    assert step(seen(A, B), lost, 3) == RecreateController(C)
    anew = [*on_record(A, B), Member(C, directory(C, 1), up=True)]
    assert reason(step(seen(A, B), anew, 3)) == "ControllersJoining"
    reading = Quorum(A, seen(A, B).voters, (Voter(C, directory(C, 1), caught_up=True),))
    assert step(reading, anew, 3) == AddVoterStep(C, directory(C, 1))


@pytest.mark.parametrize("lagging", [(B, C), (A, C)])
def test_a_lost_one_stays_a_voter_while_the_others_are_no_majority(lagging: tuple[int, ...]) -> None:
    members = on_record(A, B, C, down=(C,), lost={C: "its disk is blank"})
    assert reason(step(seen(A, B, C, lagging=lagging), members, 3)) == "QuorumMajorityMissing"


def test_a_lost_one_of_two_stays_a_voter() -> None:
    members = on_record(A, B, C, down=(B,), lost={B: "its disk is blank"})
    found = step(seen(A, B, lagging=(B,)), members, 3)
    assert reason(found) == "QuorumMajorityMissing"
    assert isinstance(found, Waiting)
    assert found.message.endswith("are not a majority: 1 of 2 voters.")


def test_the_only_controller_is_not_replaced() -> None:
    assert step(seen(A), on_record(A, lost={A: "its disk is blank"}), 1) is None  # who leads has its log
    assert reason(step(None, on_record(A, lost={A: "its disk is blank"}), 1)) == "QuorumUnknown"


def test_without_a_quorum_nothing_changes() -> None:
    assert reason(step(None, on_record(A), 3)) == "QuorumUnknown"
    assert reason(step(seen(A, leader=-1), on_record(A), 3)) == "NoQuorumLeader"


def test_an_even_number_is_refused() -> None:
    assert reason(step(seen(A), on_record(A), 2)) == "EvenControllerCount"


def test_a_static_quorum_is_told_how_to_become_another() -> None:
    static = Quorum(A, (Voter(A, NO_DIRECTORY, caught_up=True),))
    assert reason(step(static, on_record(A), 3)) == "StaticQuorum"
    assert step(static, on_record(A), 1) is None


def test_an_order_that_was_given_back_is_given_anew_while_others_are_admitted() -> None:
    # Three were wanted for a moment only, and none of the new ones votes yet.
    assert step(seen(A, reading=(B,)), on_record(A, B, C), 1) in (DeleteController(C), DeleteController(B))


def test_a_voter_that_nobody_put_on_record_is_left_alone() -> None:
    assert reason(step(seen(A, B, C, D), on_record(A, B, C), 3)) == "UnknownVoter"
    replaced = Quorum(A, (*seen(A, B).voters, Voter(C, directory(C, 7), caught_up=True)))
    assert reason(step(replaced, on_record(A, B, C), 3)) == "UnknownVoter"


def test_the_record_follows_what_quorum_and_claim_agree_on() -> None:
    # A leader that was deposed took a change with it.
    carried = {A: directory(A), B: directory(B), C: directory(C)}
    assert step(seen(A, B, C), on_record(A), 1, carried=carried) == ReaddVoter(B, directory(B))
    renewed = [*on_record(A, B), Member(C, directory(C, 1), up=False)]
    assert step(seen(A, B, C, lagging=(C,)), renewed, 3, carried=carried) == ReaddVoter(C, directory(C))
    told = {**carried, C: directory(C, 1)}
    found = step(seen(A, B, C, lagging=(C,)), renewed, 3, carried=told)
    assert found == RemoveVoterStep(C, directory(C), "its disk was replaced")


def test_a_disk_that_was_given_up_and_comes_back_is_used() -> None:
    renewed = [*on_record(A, B), Member(C, directory(C, 1), up=True)]
    carried = {A: directory(A), B: directory(B), C: directory(C)}
    assert step(seen(A, B, reading=(C,)), renewed, 3, carried=carried) == ReaddVoter(C, directory(C))


def test_one_that_is_to_stay_comes_back_before_the_last_others_leave() -> None:
    members = on_record(A, B, C, D, E, down=(B,), lost={B: "its disk is blank"})
    assert step(seen(A, B, C, D, E, lagging=(B,)), members, 3) == RemoveVoterStep(
        B, directory(B), "its disk is blank"
    )
    anew = [m if m.id != B else Member(B, directory(B, 1), up=False) for m in members]
    assert step(seen(A, C, D, E), anew, 3) == RemoveVoterStep(E, directory(E), "controllers.replicas is 3")
    assert reason(step(seen(A, C, D), anew[:4], 3)) == "ControllersJoining"
