"""Any small cluster, in any trouble: rules in every wave, cuts, fixed points, budgets; and the exact optimum nearby."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.cases import Shape, aged, small
from bench.check import broken_rules, stranded
from bench.exact import optimum, reachable
from spindle.planner.planner import PlacementPlan, plan
from spindle.planner.problem import Goals, PlanBudget, build_problem
from spindle.planner.rounding import short_partitions
from spindle.planner.search import LARGEST
from spindle.planner.snapshot import PlannerSnapshot
from spindle.planner.state import PlanState
from tests.examples import examples
from tests.unit.test_planner_snapshot import shuffled


# Searching small clusters move by move takes most of the time: examples go without, so that there can be many.
@pytest.fixture(autouse=True)
def rounding_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spindle.planner.planner.LARGEST", 0)


BANDS = (Goals(), Goals(broker_band=0.20, dir_band=0.40), Goals(broker_band=0.35, dir_band=0.60))
EXAMPLES = int(os.environ.get("SPINDLE_EXAMPLES", examples(20)))
seeds = st.integers(0, 10**9)


def standing(s: PlannerSnapshot, goals: Goals) -> tuple[int, int, float]:
    """Stranded replicas, partitions short of racks, both sides of the bound."""
    state = PlanState(build_problem(s, goals))
    unrest = state.imbalance if state.imbalance > state.floor else 0.0
    return stranded(s, s.dir), len(short_partitions(state)), unrest


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seeds, st.booleans(), st.sampled_from(BANDS))
def test_rules_hold_in_every_wave_and_planning_again_finds_nothing_that_one_plan_can_do(
    seed: int, crowded: bool, goals: Goals
) -> None:
    s = small(seed, crowded=crowded)
    found = plan(s, goals)
    assert broken_rules(s, found) == []
    following = plan(found.result, goals)
    assert len(following.replica) or not len(following.leader)
    moves = replace(goals, leader_band=None)
    first = plan(s, moves)
    again = plan(first.result, moves)
    if len(again.replica):
        # Only where a replica would have to move twice: no order of legal moves, one each, leads from the start to there.
        assert not reachable(build_problem(s, goals), again.result.dir)
        assert standing(again.result, goals) < standing(first.result, goals)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seeds, st.sampled_from(BANDS), st.floats(0, 1), st.booleans())
def test_budgets(seed: int, goals: Goals, share: float, forecast: bool) -> None:
    s = small(seed)
    if forecast:
        rng = np.random.default_rng(seed)
        s = replace(s, planned=s.size * rng.uniform(1, 1.02, len(s.size)))
    full = plan(s, goals)
    most = share * float(full.bytes.sum())
    part = plan(s, goals, PlanBudget(max_bytes=most))
    assert broken_rules(s, part) == []
    assert part.bytes.sum() <= most + 1e-6
    cut = np.cumsum(full.bytes) <= most
    used = np.bincount(cut_off(full, cut).dir, s.planned, len(s.capacity)).astype(np.float64)
    assert part.problem.out_of_band(part.after) <= part.problem.out_of_band(used) + 1


def cut_off(found: PlacementPlan, keep: np.ndarray) -> PlannerSnapshot:
    return found.problem.snapshot.moved(found.replica[keep], found.target[keep])


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seeds, st.sampled_from(BANDS))
def test_a_plan_cut_after_any_wave_is_legal_and_no_worse(seed: int, goals: Goals) -> None:
    s = small(seed)
    found = plan(s, goals)
    bad = stranded(s, s.dir), short(s, goals)
    for wave in range(len(found.peak)):
        part = cut_off(found, found.wave <= wave)
        # Legal as a cluster: nothing overfull, nothing twice, no rack lost (build would refuse the first two).
        now = stranded(part, part.dir), short(part, goals)
        assert now <= bad
        bad = now


def short(s: PlannerSnapshot, goals: Goals) -> int:
    return len(short_partitions(PlanState(build_problem(s, goals))))


@settings(
    max_examples=EXAMPLES // 3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seeds)
def test_the_order_of_rows_changes_nothing(seed: int) -> None:
    s = small(seed)
    one, two = plan(s), plan(shuffled(s, seed % 97))
    assert fingerprint(one) == fingerprint(two)


def fingerprint(found: PlacementPlan) -> bytes:
    arrays = (found.wave, found.replica, found.source, found.target, found.reason, found.leader, found.peak)
    return b"|".join(a.tobytes() for a in arrays) + found.digest.encode()


_PRINT = """
import hashlib
from bench.cases import Shape, aged
from tests.property.test_planner_properties import fingerprint
from spindle.planner.planner import plan
s = aged(Shape(brokers=20, dirs=4, racks=4, replicas=2000, seed=8, event="dead-dir"))
print(hashlib.sha256(fingerprint(plan(s))).hexdigest())
"""


def test_two_processes_with_different_hash_seeds_agree() -> None:
    root = Path(__file__).parents[2]
    prints = set()
    for seed in ("1", "77"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        done = subprocess.run(
            [sys.executable, "-c", _PRINT], capture_output=True, text=True, check=True, env=env, cwd=root
        )
        prints.add(done.stdout)
    assert len(prints) == 1


@pytest.mark.parametrize(
    "event", ["none", "dead-broker", "dead-dir", "drain-dir", "cordon", "new-brokers", "hetero"]
)
def test_aged_clusters_come_into_band_near_the_bound(event: str) -> None:
    s = aged(Shape(brokers=30, dirs=6, racks=5, replicas=9000, seed=6, event=event))
    found = plan(s)
    assert broken_rules(s, found) == []
    assert found.unreached == ()
    assert found.ratio <= 1.03
    assert found.peak.max() <= max(0.90, (s.used / s.capacity)[found.problem.usable].max())
    assert len(plan(found.result).replica) == 0
    curve = [p.out_of_band for p in found.points]
    assert curve == sorted(curve, reverse=True)


def test_tiny_clusters_against_the_exact_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample of what `make bench` does at length; searching included."""
    monkeypatch.setattr("spindle.planner.planner.LARGEST", LARGEST)
    ratios = []
    for seed in range(12):
        s, goals = small(seed, crowded=False), BANDS[seed % len(BANDS)]
        problem = build_problem(s, goals)
        least = optimum(problem)
        if least is None or np.isnan(least.bytes) or least.bytes <= 0 or not reachable(problem, least.where):
            continue
        found = plan(s, goals)
        assert broken_rules(s, found) == []
        assert len(plan(found.result, goals).replica) == 0
        fine = found.problem.out_of_band(found.after) <= 2 and not stranded(s, found.result.dir)
        ratios.append(float(found.bytes.sum()) / least.bytes if fine else np.inf)
    assert len(ratios) >= 3
    assert min(ratios) >= 1 - 1e-6
    assert np.mean(np.array(ratios) <= 1.10) >= 0.85
