"""Whose turn it is in a roll."""

import pytest

from spindle.model.restart_verdict import RestartVerdict
from spindle.model.waiting import Waiting
from spindle.rollout.rollout_order import RolloutMember, at_once, next_to_restart

NO = RestartVerdict(
    Waiting.refused(rule=2, reason="WouldBeUnderMinIsr", message="no.", unblocked_by="later.")
)


def broker(
    node_id: int, rack: str | None = "a", *, ready: bool = True, urgent: bool = False
) -> RolloutMember:
    return RolloutMember(node_id=node_id, rack=rack, ready=ready, urgent=urgent)


def controller(number: int, *, active: bool = False) -> RolloutMember:
    return RolloutMember(node_id=9000 + number, active=active)


def yes(_: int, __: frozenset[int]) -> RestartVerdict:
    return RestartVerdict()


@pytest.mark.parametrize(
    ("brokers", "asked", "most"),
    [(0, None, 1), (3, None, 1), (12, None, 1), (13, None, 2), (60, None, 5), (3, 2, 2), (60, 1, 1)],
)
def test_a_twelfth_at_once_unless_told_otherwise(brokers: int, asked: int | None, most: int) -> None:
    assert at_once(brokers, asked) == most


def test_controllers_go_first_one_by_one_and_the_active_one_last() -> None:
    quorum = [controller(0, active=True), controller(1), controller(2)]
    done: list[int] = []
    while quorum:
        turn = next_to_restart([*quorum, broker(0)], [], 5, yes)
        assert len(turn.go) == 1
        done += turn.go
        quorum = [c for c in quorum if c.node_id not in turn.go]
    assert done == [9001, 9002, 9000]


def test_no_broker_goes_for_a_change_while_a_controller_is_away() -> None:
    assert next_to_restart([broker(0)], [controller(1)], 5, yes).later == (0,)
    assert next_to_restart([broker(0, urgent=True)], [controller(1)], 5, yes).go == (0,)


def test_brokers_of_one_rack_go_together_and_another_rack_waits_for_them() -> None:
    everyone = [broker(0, "a"), broker(1, "b"), broker(2, "a"), broker(3, "b")]
    turn = next_to_restart(everyone, [], 3, yes)
    assert turn.go == (0, 2)
    assert set(turn.later) == {1, 3}
    assert next_to_restart(everyone[1:], [broker(0, "a")], 3, yes).go == (2,)


def test_no_more_than_asked_for() -> None:
    turn = next_to_restart([broker(i) for i in range(4)], [broker(9)], 3, yes)
    assert turn.go == (0, 1)
    assert turn.later == (2, 3)


def test_unready_ones_go_first() -> None:
    assert next_to_restart([broker(0), broker(1, ready=False)], [], 1, yes).go == (1,)


def test_who_is_refused_leaves_the_turn_to_others() -> None:
    def ask(node: int, others: frozenset[int]) -> RestartVerdict:
        return NO if node == 0 or others else RestartVerdict()

    turn = next_to_restart([broker(0), broker(1), broker(2)], [], 2, ask)
    assert turn.go == (1,)
    assert set(turn.refused) == {0, 2}
