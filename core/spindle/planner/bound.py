"""The minimum number of bytes that any plan must move, and its derivation.

**As a linear program.** The variables are the bytes that leave and enter each dir, ``out_d, in_d ≥ 0`` (none enter a dir that takes
no replicas). Afterwards every dir and every broker is in its band, and the total is unchanged::

    min Σ out_d   s.t.   lo_d ≤ u_d - out_d + in_d ≤ hi_d     for every dir
                         LO_b ≤ Σ_{d of b} (u_d - out_d + in_d) ≤ HI_b     for every broker
                         Σ out_d = Σ in_d

Every plan yields such amounts, so none moves fewer bytes than the optimum. :func:`solve` passes it to HiGHS.

**In closed form.** The bands are nested (dirs in brokers in the cluster), so the program has a closed form. For one broker, let

    e = Σ (u_d - hi_d)⁺   bytes of its dirs above their bands,   L = LO_b - U_b   the minimum gain of the broker,
    δ = Σ (lo_d - u_d)⁺   bytes of its dirs below their bands,   H = HI_b - U_b   the maximum gain of the broker.

If the broker gains ``x ∈ [L, H]`` in total, at least ``max(e, δ - x)`` bytes leave its dirs. This number is sufficient to reach the
bands of the dirs, because a broker's band was cut to what its dirs can reach. So the program is ``min Σ_b max(e, δ - x_b)`` with
``Σ x_b = 0``. First choose ``x_b = clip(δ - e, L, H)``, the smallest gain that costs no more than any larger one. If their sum is at
most 0, raising some of them to H is free. If it is S > 0, S bytes must be removed at a cost of 1 each. Hence

    bound = max( Σ_b In_b , Σ_b Out_b ),    In_b = max(δ, e + L),    Out_b = max(e, δ - H)

``In_b`` are the bytes that must enter dirs of b, whatever happens elsewhere, and ``Out_b`` those that must leave them. The closed
form takes microseconds, a move changes it in O(dirs of two brokers), and it shows how many bytes of each move are useful.
Rounding uses this, so the planner needs no solver. A test compares both.

**Closed racks.** If every partition has exactly one replica in each rack, this must stay so, and bytes cannot leave a rack. Then
bytes balance within each rack, ``Σ_{b in rack} x_b = 0``, and the bound is the sum of the same expression over racks. If only some
partitions are restricted like this, or if there are more replicas than racks, the bound ignores racks: which bytes may move to another rack
then depends on single logs, and there is no closed form.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from spindle.planner.problem import PlanningProblem
from spindle.planner.snapshot import FloatArray, IntArray


@dataclass(frozen=True)
class Bound:
    """The two sides of the bound for one state of the dirs.

    Attributes:
        into: bytes that must enter dirs, per broker, float64[B].
        out_of: bytes that must leave dirs, per broker, float64[B].
        part: group of each broker, int64[B]; bytes can move only within a group.
    """

    into: FloatArray
    out_of: FloatArray
    part: IntArray

    @property
    def bytes(self) -> float:
        """The minimum number of bytes."""
        return float(np.maximum(np.bincount(self.part, self.into), np.bincount(self.part, self.out_of)).sum())


def parts(problem: PlanningProblem) -> IntArray:
    """Group of each broker within which bytes can move: its rack if racks are closed, else one group for all."""
    s, racks = problem.snapshot, problem.racks
    one: IntArray = np.zeros(len(s.broker), np.int64)
    if racks < 2 or not len(s.topic) or not bool(np.all(np.diff(s.start) == racks)):
        return one
    rack = np.sort(s.rack[s.dir_broker[s.dir]].reshape(-1, racks), axis=1)
    return s.rack if bool(np.all(np.diff(rack, axis=1) > 0)) else one


def bound(problem: PlanningProblem, used: FloatArray) -> Bound:
    """The bound in closed form.

    Args:
        problem: the bands.
        used: bytes on each dir, float64[D].
    """
    over = problem.per_broker(np.maximum(used - problem.hi, 0))
    under = problem.per_broker(np.maximum(problem.lo - used, 0))
    now = problem.per_broker(used)
    return Bound(
        into=np.maximum(under, over + problem.broker_lo - now),
        out_of=np.maximum(over, under - problem.broker_hi + now),
        part=parts(problem),
    )


def solve(problem: PlanningProblem, used: FloatArray) -> float:
    """The bound from HiGHS: the linear program above, in units of the largest dir.

    Returns:
        Bytes, or NaN if no amounts satisfy the bands.
    """
    # Imported here because planning does not need it: scipy takes a third of a second and 60 MB.
    # It has no type annotations, so its results are Any and are converted to floats at once.
    import scipy.optimize  # noqa: PLC0415 - as above
    import scipy.sparse  # noqa: PLC0415 - as above

    sparse: Any = scipy.sparse
    optimize: Any = scipy.optimize
    n, brokers = len(used), len(problem.broker_lo)
    unit = float((problem.snapshot.capacity * problem.usable).max()) or 1.0
    eye = sparse.identity(n, format="csr")
    at = sparse.csr_matrix((np.ones(n), (problem.snapshot.dir_broker, np.arange(n))), (brokers, n))
    net = sparse.hstack([-eye, eye])  # in - out; the variables are out_d, then in_d
    broker_net = sparse.hstack([-at, at])
    now = at @ used
    rows = sparse.vstack([net, -net, broker_net, -broker_net], format="csr")
    limit = np.concatenate(
        [problem.hi - used, used - problem.lo, problem.broker_hi - now, now - problem.broker_lo]
    )
    part = parts(problem)
    closed = sparse.csr_matrix((np.ones(brokers), (part, np.arange(brokers)))) @ broker_net
    upper = np.concatenate([used / unit, np.where(problem.takes, np.inf, 0.0)])
    found = optimize.linprog(
        np.concatenate([np.ones(n), np.zeros(n)]),
        A_ub=rows,
        b_ub=limit / unit,
        A_eq=closed,
        b_eq=np.zeros(closed.shape[0]),
        bounds=np.column_stack([np.zeros(2 * n), upper]),
        method="highs",
    )
    return float(found.fun * unit) if found.success else float("nan")
