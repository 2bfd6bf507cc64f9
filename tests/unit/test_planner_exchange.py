"""Exchanging the log of a move that is planned already: what it settles, and when it is refused."""

from spindle.planner.closing import Closer
from spindle.planner.exchange import Exchanges
from spindle.planner.problem import Goals, build_problem
from spindle.planner.snapshot import PlannerSnapshot
from spindle.planner.state import MoveReason, PlanState
from tests.unit.test_planner_plan import cluster

SIZES = (160.0, 100.0, 80.0, 80.0, 80.0, 80.0, 80.0, 45.0)


def crowded() -> PlannerSnapshot:
    """Broker 0 with 705 bytes, broker 1 with 300; the largest log is partition 0, the next partition 1."""
    return cluster(
        ["", ""], 1,
        [(p, [(0, 0)], x) for p, x in enumerate(SIZES)] + [(8 + p, [(1, 0)], 50.0) for p in range(6)],
    )  # fmt: skip


def moved(snapshot: PlannerSnapshot, partition: int) -> tuple[PlanState, Exchanges]:
    """The log of this partition is planned to go to the other broker."""
    state = PlanState(build_problem(snapshot, Goals()))
    exchanges = Exchanges(state, Closer(state).on)
    state.move(int(snapshot.start[partition]), 1, MoveReason.OVER)
    return state, exchanges


def test_a_larger_log_settles_both_ends_without_another_move() -> None:
    state, exchanges = moved(crowded(), 1)
    need = float(state.useful_out[0])
    assert 55 < need < 60
    assert exchanges.give(0, exchanges.on(0), need, 5.0)
    assert [(x.replica, x.source, x.target) for x in state.steps] == [(0, 0, 1)]
    assert state.used.tolist() == [545.0, 460.0]
    assert state.left <= state.floor
    assert state.done.tolist()[:2] == [True, False]


def test_a_log_that_overshoots_is_left() -> None:
    state, exchanges = moved(crowded(), 1)
    assert not exchanges.give(0, exchanges.on(0), float(state.useful_out[0]), 1.0)
    assert [x.replica for x in state.steps] == [1]


def test_a_dir_that_takes_is_settled_likewise() -> None:
    state, exchanges = moved(crowded(), 1)
    need = float(state.useful_in[1])
    assert exchanges.take(1, need, 5.0)
    assert [x.replica for x in state.steps] == [0]


def test_no_exchange_with_a_partition_that_moves_otherwise() -> None:
    """Partition 0 has a replica on the target: it could go there only if that had left first."""
    logs = [(p, [(0, 0), (1, 0)] if p == 0 else [(0, 0)], x) for p, x in enumerate(SIZES)]
    s = cluster(["", "", ""], 1, logs + [(8 + p, [(1, 0)], 50.0) for p in range(3)])
    state = PlanState(build_problem(s, Goals()))
    exchanges = Exchanges(state, Closer(state).on)
    state.move(int(s.start[1]), 1, MoveReason.OVER)
    state.move(1, 2, MoveReason.OVER)
    assert not exchanges.give(0, exchanges.on(0), 60.0, 5.0)
    assert [x.replica for x in state.steps] == [2, 1]
