"""Walks over placements: what they find, that moves lead there, and that there is no chance in them."""

from itertools import product

import numpy as np
import pytest

from bench.cases import small
from spindle.planner.problem import Goals, PlanningProblem, build_problem
from spindle.planner.rounding import short_partitions
from spindle.planner.state import MoveReason, PlanState
from spindle.planner.walks import Walks, count_last, in_order, may_fit
from tests.unit.test_planner_plan import cluster

WIDE = Goals(broker_band=0.35, dir_band=0.60)


def walked(problem: PlanningProblem) -> Walks:
    start = problem.snapshot.dir
    walks = Walks(problem, start, [start], np.inf)
    walks.run(0.0)
    return walks


def test_an_exchange_does_what_no_move_can() -> None:
    logs = [(p, [(0, d)], size) for p, (d, size) in enumerate([(0, 300), (0, 300), (1, 150), (1, 100)])]
    found = walked(build_problem(cluster(["a"], 2, logs), Goals()))
    assert found.least == 400.0
    assert found.trail is not None
    assert {r for r, _ in found.trail} in ({0, 3}, {1, 3})


def test_an_end_that_no_order_of_moves_leads_to_does_not_count() -> None:
    # Either log would fill the other's disk before it could leave.
    s = cluster(["a"], 2, [(0, [(0, 0)], 600.0), (1, [(0, 1)], 500.0)])
    assert in_order(build_problem(s, Goals()), s.dir, s.dir[::-1]) is None


def test_moves_come_in_an_order_in_which_each_is_legal() -> None:
    # The second log can come only once the first has gone.
    s = cluster(["a"], 3, [(0, [(0, 1)], 500.0), (1, [(0, 0)], 600.0)])
    assert in_order(build_problem(s, Goals()), s.dir, np.array([2, 1])) == [(0, 2), (1, 1)]
    s = cluster(["a"], 3, [(0, [(0, 0)], 600.0), (1, [(0, 1)], 500.0)])
    assert in_order(build_problem(s, Goals()), s.dir, np.array([1, 2])) == [(1, 2), (0, 1)]


@pytest.mark.parametrize("seed", range(6))
def test_moves_lead_from_the_start_into_all_bands_at_the_cost_that_is_told(seed: int) -> None:
    problem = build_problem(small(seed, crowded=False), WIDE)
    found, again = walked(problem), walked(problem)
    assert found.trail == again.trail
    if found.trail is None:
        return
    state = PlanState(problem)
    for r, d in found.trail:
        assert state.legal(r, d, lenient=True)
        assert not state.done[r]
        state.move(r, d, MoveReason.TARGET)
    assert state.imbalance <= state.floor
    assert not len(short_partitions(state))
    assert sum(float(state.size[r]) for r, _ in found.trail) == pytest.approx(found.least)


@pytest.mark.parametrize("seed", range(40))
def test_counting_logs_never_denies_a_placement_inside_all_bands(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.choice([0.0, 50.0, 90.0, 100.0, 120.0, 300.0], int(rng.integers(1, 6))).tolist()
    s = cluster(["a", "b"], int(rng.integers(1, 3)), [(p, [(0, 0)], size) for p, size in enumerate(sizes)])
    problem = build_problem(
        s, Goals(dir_band=float(rng.uniform(0.1, 0.9)), broker_band=float(rng.uniform(0.05, 0.9)))
    )
    dirs = len(s.capacity)
    some = any(
        (used >= problem.lo).all()
        and (used <= problem.hi).all()
        and (problem.per_broker(used) >= problem.broker_lo).all()
        and (problem.per_broker(used) <= problem.broker_hi).all()
        for where in product(range(dirs), repeat=len(sizes))
        for used in [np.bincount(where, s.planned, dirs).astype(np.float64)]
    )
    assert may_fit(problem) or not some


def test_counting_logs_shows_that_there_are_more_dirs_than_logs() -> None:
    few = [(p, [(0, 0)], 100.0) for p in range(3)]
    assert not may_fit(build_problem(cluster(["a", "b"], 2, few), Goals()))
    assert may_fit(build_problem(cluster(["a", "b"], 2, [*few, (3, [(0, 1)], 100.0)]), Goals()))


@pytest.mark.parametrize("shape", [(3, 4, 1), (2, 5, 3), (4, 0, 2), (2, 2, 0)])
def test_what_is_counted_column_by_column_is_what_numpy_counts(shape: tuple[int, ...]) -> None:
    found = np.random.default_rng(1).random(shape) < 0.5
    assert np.array_equal(count_last(found), found.sum(2))
