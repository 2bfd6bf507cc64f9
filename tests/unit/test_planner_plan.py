"""Plans of small, odd clusters: what must happen, what must not, and what is said about it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.cases import Shape, aged, small
from bench.check import broken_rules, stranded
from spindle.planner import planner
from spindle.planner.bound import bound, solve
from spindle.planner.explain import explain, explain_partition, human
from spindle.planner.planner import PlacementPlan, plan
from spindle.planner.problem import Goals, PlanBudget, PlanningProblem, build_problem
from spindle.planner.snapshot import DirState, PlannerSnapshot, build
from spindle.planner.state import MoveReason, PlanStep, added


def cluster(
    racks: list[str], dirs: int, logs: Sequence[tuple[int, list[tuple[int, int]], float]], **states: DirState
) -> PlannerSnapshot:
    """Brokers 0 … in these racks with dirs of 1000 bytes; logs as (partition, [(broker, dir), …], size).

    ``states``: ``b0d1=DirState.OFFLINE``.
    """
    n = len(racks)
    state = [states.get(f"b{b}d{d}", DirState.ONLINE) for b in range(n) for d in range(dirs)]
    rows = [(p, b, d, k, size) for p, places, size in logs for k, (b, d) in enumerate(places)]
    columns: list[Any] = [np.array(c) for c in zip(*rows, strict=True)] if rows else [np.zeros(0)] * 5
    return build(
        {"broker": np.arange(n), "rack": racks, "alive": np.ones(n, bool)},
        {
            "broker": np.repeat(np.arange(n), dirs),
            "dir": [f"/d{d}" for _ in range(n) for d in range(dirs)],
            "capacity": np.full(n * dirs, 1000.0),
            "state": np.array([int(x) for x in state]),
        },
        dict(zip(("partition", "broker", "dir", "position", "size"), columns, strict=True))
        | {"topic": np.zeros(len(rows))},
    )


def judged(s: PlannerSnapshot, goals: Goals | None = None, budget: PlanBudget | None = None) -> PlacementPlan:
    found = plan(s, goals, budget)
    assert broken_rules(s, found) == []
    return found


def test_nothing_to_do() -> None:
    found = judged(cluster(["a", "b"], 1, [(0, [(0, 0), (1, 0)], 100)]))
    assert len(found.replica) == 0
    assert found.ratio == 1.0
    assert found.unreached == ()


def test_no_replicas_at_all() -> None:
    assert len(judged(cluster(["a", "b"], 2, [])).replica) == 0


def test_two_brokers_one_rack() -> None:
    found = judged(cluster(["", ""], 2, [(p, [(0, 0)], 100) for p in range(8)]))
    assert sorted(found.after.tolist()) == [200, 200, 200, 200]
    assert found.bytes.sum() == 600  # the bound, 560, would cut logs in pieces


def test_a_dead_dir_is_left_for_other_brokers_only() -> None:
    """Its own broker may not move logs between its dirs (rule 6), and the third rack has room."""
    s = cluster(
        ["a", "b", "c"], 2,
        [(0, [(0, 0), (1, 0)], 100), (1, [(0, 1), (1, 1)], 100), (2, [(2, 0), (1, 0)], 50)],
        b0d0=DirState.OFFLINE,
    )  # fmt: skip
    found = judged(s)
    assert stranded(s, found.result.dir) == 0
    k = found.reason.tolist().index(MoveReason.EVACUATE)
    assert s.dir_broker[found.target[k]] == 2
    assert "its dir is offline, 1 live replica left" in str(explain(found, k))


def test_dead_before_draining_before_the_rest() -> None:
    s = aged(Shape(brokers=12, dirs=4, racks=3, replicas=900, event="dead-dir", seed=3))
    states = s.dir_state.copy()
    states[np.flatnonzero(states == DirState.ONLINE)[5]] = DirState.DRAINING
    s = replace(s, dir_state=states)
    found = judged(s)
    kinds = [min(int(x), MoveReason.RACK) for x in found.reason]
    assert kinds == sorted(kinds)
    assert {MoveReason.EVACUATE, MoveReason.DRAIN} <= set(found.reason.tolist())


def test_a_cordoned_dir_keeps_and_gives_but_takes_nothing() -> None:
    s = cluster(["", ""], 2, [(p, [(0, 0)], 100) for p in range(8)], b1d0=DirState.CORDONED)
    found = judged(s)
    assert found.after[2] == 0


def test_racks_are_repaired() -> None:
    s = cluster(["a", "a", "b"], 1, [(0, [(0, 0), (1, 0)], 100), (1, [(0, 0), (2, 0)], 100)])
    found = judged(s, Goals(balance=False))
    assert found.reason.tolist() == [MoveReason.RACK]
    assert "is on 1 of 2 possible racks, and b is another one" in str(explain(found, 0))


def test_more_replicas_than_racks_is_no_violation() -> None:
    s = cluster(["a", "a", "b"], 1, [(0, [(0, 0), (1, 0), (2, 0)], 100)])
    assert judged(s).unreached == ()


def test_frozen_partitions_stay() -> None:
    s = cluster(["", ""], 1, [(p, [(0, 0)], 100) for p in range(6)])
    frozen = np.arange(6) < 5
    s = replace(s, frozen=frozen)
    found = judged(s)
    assert set(found.replica.tolist()) <= {5}
    assert "another client is reassigning" in explain_partition(found, "0", 0)[0]


def test_a_log_that_fits_nowhere_is_named() -> None:
    s = cluster(["", ""], 1, [(0, [(0, 0)], 700), (1, [(1, 0)], 50)])
    found = judged(s)
    assert len(found.replica) == 0
    assert "one log of 700 bytes is larger than the upper limit of the band" in found.unreached[0]


def test_all_full_says_so_and_moves_nothing_onto_full_disks() -> None:
    s = cluster(["", "", ""], 1, [(p, [(p % 3, 0)], 235) for p in range(12)])
    found = judged(s)
    assert len(found.replica) == 0
    assert "no plan can bring all dirs below it" in found.unreached[0]


def test_nowhere_to_evacuate_to() -> None:
    s = cluster(["a", "b"], 1, [(0, [(0, 0), (1, 0)], 100)], b0d0=DirState.OFFLINE)
    found = judged(s)
    assert "remain on broker 0 /d0: no permitted dir has space" in found.unreached[0]
    assert "although that is offline" in explain_partition(found, "0", 0)[0]


def test_everything_dead() -> None:
    s = cluster(["a", "b"], 1, [(0, [(0, 0), (1, 0)], 100)], b0d0=DirState.OFFLINE, b1d0=DirState.OFFLINE)
    found = judged(s)
    assert len(found.replica) == 0
    assert "no dir can take replicas" in found.unreached[0]


def test_forecast_sizes_are_planned_for() -> None:
    """Two logs of the same size now; the one that grows has to have the emptier dir."""
    s = cluster(["", ""], 1, [(0, [(0, 0)], 100), (1, [(0, 0)], 100), (2, [(1, 0)], 100), (3, [(1, 0)], 100)])
    assert len(judged(s).replica) == 0
    grown = np.array([400.0, 100, 100, 100])
    s = replace(s, planned=grown)
    found = judged(s, Goals(broker_band=0.2, dir_band=0.2))
    assert len(found.replica) == 1
    assert found.after.tolist() in ([300.0, 400.0], [400.0, 300.0])


def test_a_dir_over_its_band_on_a_broker_at_its_lower_edge_gives_to_its_own_broker() -> None:
    """Any log that left the broker would put it below its band."""
    logs = [(p, [(0, int(p >= 5))], 100.0) for p in range(8)] + [
        (8 + p, [(1, p % 2)], 50.0) for p in range(18)
    ]
    found = judged(cluster(["", ""], 2, logs), Goals(broker_band=0.06, dir_band=0.10))
    assert found.unreached == ()
    assert len(found.intra) == len(found.replica) == 1


@pytest.mark.parametrize("racks", [2, 3, 4])
def test_the_bound_knows_racks_that_no_byte_can_leave(racks: int) -> None:
    """Three replicas: with three racks each partition has one in each; with two or four there is a choice."""
    s = aged(Shape(brokers=12, dirs=3, racks=racks, replicas=1200, seed=4))
    s = replace(s, planned=s.size * np.where(s.dir_broker[s.dir] % racks, 1.0, 1.1))
    problem = build_problem(s, Goals())
    least = bound(problem, s.used)
    assert solve(problem, s.used) == pytest.approx(least.bytes, rel=1e-6)
    free = max(least.into.sum(), least.out_of.sum())
    assert (least.bytes > free * 1.001) == (racks == 3)
    assert judged(s).bound == least.bytes


def test_a_rack_that_nothing_can_leave_is_named() -> None:
    """A replica in every rack, and one rack with half the brokers of the others."""
    logs = [(p, [(p % 2, 0), (2 + p % 2, 0), (4, 0)], 40.0) for p in range(16)]
    found = judged(cluster(["a", "a", "b", "b", "c"], 1, logs))
    assert any("bytes cannot leave a rack, and rack c as a whole is 64.0% full" in x for x in found.unreached)


def test_a_peak_counts_what_arrives_before_what_leaves() -> None:
    s = cluster(["", ""], 1, [(p, [(0, 0)], 100) for p in range(8)] + [(8, [(1, 0)], 100)])
    found = judged(s)
    assert found.peak.max() <= 0.9


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9])
def test_budgets_leave_no_more_out_of_band_than_the_full_plan_cut_off(share: float) -> None:
    s = aged(Shape(brokers=20, dirs=4, racks=4, replicas=2000, seed=2))
    full = judged(s)
    most = share * float(full.bytes.sum())
    part = judged(s, budget=PlanBudget(max_bytes=most))
    assert part.bytes.sum() <= most
    cut = np.cumsum(full.bytes) <= most
    where = s.dir.copy()
    where[full.replica[cut]] = full.target[cut]
    used = np.bincount(where, s.planned, len(s.capacity)).astype(np.float64)
    assert part.problem.out_of_band(part.after) <= part.problem.out_of_band(used) + 1
    curve = [p.out_of_band for p in part.points]
    assert curve == sorted(curve, reverse=True)


def test_a_time_budget_keeps_what_ends_in_time() -> None:
    s = aged(Shape(brokers=20, dirs=4, racks=4, replicas=2000, seed=2))
    full = judged(s)
    slow = PlanBudget(bytes_per_second=50e6, max_seconds=full.seconds(PlanBudget()) / 2)
    part = judged(s, budget=slow)
    assert 0 < len(part.replica) < len(full.replica)
    assert part.seconds(slow) <= full.seconds(PlanBudget()) / 2
    assert "exceed the budget" in part.unreached[-1]


@pytest.mark.parametrize("event", ["none", "dead-broker", "new-dir", "cordon", "hetero"])
def test_the_closed_form_is_the_linear_programme(event: str) -> None:
    s = aged(Shape(brokers=20, dirs=5, racks=4, replicas=3000, seed=4, event=event))
    problem = build_problem(s, Goals())
    assert bound(problem, s.used).bytes == pytest.approx(solve(problem, s.used), rel=1e-6)


@pytest.mark.parametrize("seed", range(60))
def test_the_closed_form_holds_in_small_clusters(seed: int) -> None:
    s = small(seed)
    problem = build_problem(s, Goals(broker_band=0.3, dir_band=0.5))
    exact = solve(problem, s.used)
    if not np.isnan(exact):
        assert bound(problem, s.used).bytes == pytest.approx(exact, rel=1e-6, abs=2.0)


def test_leaders_are_balanced_by_order_alone() -> None:
    logs = [(p, [(0, 0), (1, 0), (2, 0)], 10.0) for p in range(30)]
    found = judged(cluster(["a", "b", "c"], 1, logs))
    assert len(found.replica) == 0
    led = np.bincount(found.result.dir_broker[found.result.dir[found.result.start[:-1]]], minlength=3)
    assert led.tolist() == [10, 10, 10] or max(led) <= 11
    again = plan(found.result)
    assert len(again.leader) == 0
    assert "the preferred leader becomes broker" in " ".join(
        line for p in range(30) for line in explain_partition(found, "0", p)
    )


def test_every_move_has_a_line() -> None:
    s = aged(Shape(brokers=20, dirs=4, racks=4, replicas=2000, seed=5, event="dead-dir"))
    found = judged(s)
    for k in range(len(found.replica)):
        line = str(explain(found, k))
        assert "→" in line
        assert len(line) < 400


def test_goals_and_budgets_refuse_nonsense() -> None:
    for goals in (
        {"dir_band": 0},
        {"broker_band": 1.5},
        {"mark": 0},
        {"incoming_limit": 1.1},
        {"leader_band": 0},
    ):
        with pytest.raises(ValueError, match=next(iter(goals))):
            Goals(**goals)
    for budget in ({"max_bytes": -1}, {"bytes_per_second": 0}, {"per_broker": 0}, {"max_seconds": -1}):
        with pytest.raises(ValueError, match=next(iter(budget))):
            PlanBudget(**budget)


def test_concurrency_is_kept() -> None:
    s = aged(Shape(brokers=20, dirs=4, racks=4, replicas=2000, seed=2))
    found = judged(s, budget=PlanBudget(per_broker=2, per_rack=3))
    for wave in range(len(found.peak)):
        at = found.wave == wave
        a, b = s.dir_broker[found.source[at]], s.dir_broker[found.target[at]]
        assert np.bincount(np.concatenate([a, b[a != b]])).max() <= 2
        assert np.bincount(s.rack[b[a != b]], minlength=1).max() <= 3


def test_a_small_cluster_is_searched_once_for_the_same_snapshot_and_goals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logs = [(p, [(0, 0)], 97.0 + p) for p in range(5)]
    first = plan(cluster(["a", "b"], 2, logs))
    assert len(first.replica)
    searched: list[Any] = []

    def search(problem: Any, *_: Any) -> list[tuple[int, int]]:
        searched.append(problem)
        return []

    monkeypatch.setattr(planner, "search", search)
    again = plan(cluster(["a", "b"], 2, logs))
    assert not searched
    assert (again.replica.tolist(), again.target.tolist()) == (first.replica.tolist(), first.target.tolist())
    plan(cluster(["a", "b"], 2, logs), Goals(broker_band=0.1))
    assert searched


def test_human_sizes() -> None:
    assert [human(x) for x in (0, 999, 1500, 61.2e9, 5.5e15)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "61.2 GB",
        "5.5 PB",
    ]


@pytest.mark.parametrize("count", range(20))
def test_a_few_values_are_added_up_as_numpy_does(count: int) -> None:
    rng = np.random.default_rng(count)
    for _ in range(200):
        values = rng.random(count) * 10.0 ** rng.integers(0, 15, count)
        assert added(values.tolist()) == float(values.sum())


@pytest.mark.parametrize("search", [True, False])
def test_a_small_problem_is_solved_once_and_its_solution_is_not_shared(
    monkeypatch: pytest.MonkeyPatch, search: bool
) -> None:
    solved: list[bool] = []
    solve_it = planner._steps
    monkeypatch.setattr(planner, "known_steps", {})

    def counted(problem: PlanningProblem) -> list[PlanStep]:
        solved.append(True)
        return solve_it(problem)

    monkeypatch.setattr(planner, "_steps", counted)
    goals = Goals(leader_band=None, search=search, brief=True)
    logs = [(p, [(0, 0), (1, 0)], 100.0) for p in range(8)]
    one, other = (plan(cluster(["a", "b", "c"], 2, logs), goals) for _ in range(2))

    assert len(one.replica) > 0
    assert one.replica.tolist() == other.replica.tolist()
    assert one.target.tolist() == other.target.tolist()
    assert len(solved) == 1
    plan(cluster(["a", "b", "c"], 2, [*logs[1:], (0, [(0, 0), (1, 0)], 101.0)]), goals)
    assert len(solved) == 2
