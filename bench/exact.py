"""The true optimum of tiny clusters, by mixed-integer programming. For comparison only: the planner never calls it.

``x[r, d] ∈ {0, 1}``: replica r ends on dir d; ``y[p, k] ∈ {0, 1}``: partition p has a replica in rack k::

    min Σ size_r · x[r, d ≠ home of r]
    Σ_d x[r, d] = 1                              every replica ends somewhere it may
    Σ_{r of p, d of b} x[r, d] ≤ 1               never two on one broker
    lo ≤ Σ_r size_r x[r, d] ≤ hi                 dirs, and the same for brokers
    y[p, k] ≤ Σ_{r of p, d in k} x[r, d],  Σ_k y[p, k] ≥ min(rf, racks)
    Σ_{r of a ring} x[r, dirs of the next one's broker] ≤ length - 1     no ring of replicas that take each other's brokers

The last line is what "one replica of a partition at a time, never two on one broker" means for the end result: a ring
has no first move.
"""

from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse

from spindle.planner.problem import PlanningProblem
from spindle.planner.state import MoveReason, PlanState

_SECONDS = 20.0


@dataclass(frozen=True)
class Optimum:
    """What the solver found.

    Attributes:
        bytes: the fewest that bring everything into its band; NaN if nothing does.
        where: the dir in which each replica ends, int[R]; empty if nothing does.
    """

    bytes: float
    where: Any


def reachable(problem: PlanningProblem, where: Any) -> bool:
    """Whether some order of single legal moves leads there, each replica moving once.

    The programme knows ends, not ways: its end may need two logs to change places on full disks (rule 4), or a partition to
    lose a rack on the way (rule 3). Greedy: takes any move that is legal, so a False may be too strict in rare cases.
    """
    state = PlanState(problem)
    left = np.flatnonzero(where != state.dir).tolist()
    while left:
        able = [r for r in left if state.legal(r, int(where[r]), lenient=True)]
        if not able:
            return False
        state.move(able[0], int(where[able[0]]), MoveReason.TARGET)
        left.remove(able[0])
    return True


def optimum(problem: PlanningProblem) -> Optimum | None:
    """Fewest bytes that bring everything into its band; None if the solver ran out of time."""
    s = problem.snapshot
    n, d = len(s.dir), len(s.capacity)
    racks = sorted(set(s.rack[s.alive].tolist()))
    parts = len(s.start) - 1
    rack_of = s.rack[s.dir_broker]
    cols = n * d + parts * len(racks)
    cost = np.zeros(cols)
    upper = np.ones(cols)
    for r in range(n):
        for k in range(d):
            home = k == s.dir[r]
            cost[r * d + k] = 0.0 if home else s.planned[r]
            inside = s.dir_broker[k] == s.dir_broker[s.dir[r]]
            barred = inside and (problem.no_intra[s.dir_broker[k]] or not problem.live[s.dir[r]])
            if (home and not problem.usable[k]) or (not home and (not problem.takes[k] or barred)):
                upper[r * d + k] = 0.0
    rows: list[tuple[dict[int, float], float, float]] = [
        ({r * d + k: 1.0 for k in range(d)}, 1.0, 1.0) for r in range(n)
    ]
    unit = float(s.capacity.max())
    rows += [
        ({r * d + k: s.planned[r] / unit for r in range(n)}, problem.lo[k] / unit, problem.hi[k] / unit)
        for k in range(d)
    ]
    for b in range(len(s.broker)):
        at = np.flatnonzero(s.dir_broker == b)
        if s.alive[b]:
            terms = {r * d + int(k): s.planned[r] / unit for r in range(n) for k in at}
            rows.append((terms, problem.broker_lo[b] / unit, problem.broker_hi[b] / unit))
        for p in range(parts):
            members = range(int(s.start[p]), int(s.start[p + 1]))
            rows.append(({r * d + int(k): 1.0 for r in members for k in at}, 0.0, 1.0))
    for p in range(parts):
        members = range(int(s.start[p]), int(s.start[p + 1]))
        flags = {n * d + p * len(racks) + j: 1.0 for j in range(len(racks))}
        rows.append((flags, float(min(len(members), len(racks))), np.inf))
        for j, rack in enumerate(racks):
            terms = {r * d + int(k): -1.0 for r in members for k in np.flatnonzero(rack_of == rack)}
            rows.append(({**terms, n * d + p * len(racks) + j: 1.0}, -np.inf, 0.0))
        rows += _rings(problem, members)
    return _solve(cost, upper, rows, (n, d))


def _rings(problem: PlanningProblem, members: range) -> list[tuple[dict[int, float], float, float]]:
    """Replicas of one partition may not take each other's places in a ring."""
    s, d = problem.snapshot, len(problem.snapshot.capacity)
    found = []
    for length in range(2, len(members) + 1):
        for ring in permutations(members, length):
            if ring[0] != min(ring):
                continue
            terms: dict[int, float] = {}
            for r, q in zip(ring, (*ring[1:], ring[0]), strict=True):
                at = np.flatnonzero(s.dir_broker == s.dir_broker[s.dir[q]])
                terms.update({r * d + int(k): 1.0 for k in at})
            found.append((terms, -np.inf, length - 1.0))
    return found


def _solve(
    cost: Any, upper: Any, rows: list[tuple[dict[int, float], float, float]], shape: tuple[int, int]
) -> Optimum | None:
    optimize: Any = scipy.optimize
    sparse: Any = scipy.sparse
    at = [(i, c, v) for i, (terms, _, _) in enumerate(rows) for c, v in terms.items()]
    i, c, v = zip(*at, strict=True)
    matrix = sparse.csr_matrix((v, (i, c)), (len(rows), len(cost)))
    scale = max(float(cost.max()), 1.0)
    found = optimize.milp(
        cost / scale,
        integrality=np.ones(len(cost)),
        bounds=optimize.Bounds(0, upper),
        constraints=optimize.LinearConstraint(matrix, [r[1] for r in rows], [r[2] for r in rows]),
        options={"time_limit": _SECONDS, "mip_rel_gap": 1e-6},
    )
    if found.status == 0:
        chosen = found.x[: shape[0] * shape[1]].reshape(shape).argmax(1)
        return Optimum(float(found.fun) * scale, chosen)
    return Optimum(float("nan"), np.zeros(0, np.int64)) if found.status == 2 else None
