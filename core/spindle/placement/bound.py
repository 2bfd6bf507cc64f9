"""The fewest bytes that any plan must move, and why.

**As a linear programme.** Unknown are the bytes that leave and enter each dir, ``out_d, in_d ≥ 0`` (none enter a dir that takes
nothing). After them every dir and every broker lies in its band and nothing was lost::

    min Σ out_d   s.t.   lo_d ≤ u_d - out_d + in_d ≤ hi_d     for every dir
                         LO_b ≤ Σ_{d of b} (u_d - out_d + in_d) ≤ HI_b     for every broker
                         Σ out_d = Σ in_d

Any plan yields such amounts, so none moves fewer bytes than the optimum. :func:`solve` gives it to HiGHS.

**In closed form.** The bands nest (dirs in brokers in the cluster), and that solves the programme. For one broker write

    e = Σ (u_d - hi_d)⁺   what its dirs have too much,    L = LO_b - U_b   what it must gain at least,
    δ = Σ (lo_d - u_d)⁺   what its dirs have too little,  H = HI_b - U_b   what it may gain at most.

If the broker gains ``x ∈ [L, H]`` in all, at least ``max(e, δ - x)`` bytes leave its dirs, and with so many the dirs reach their
bands, because a broker's band was cut to what its dirs can reach. So the programme is ``min Σ_b max(e, δ - x_b)`` with
``Σ x_b = 0``. Choose first ``x_b = clip(δ - e, L, H)``, the least gain that costs no more than any larger one. If these sum to at
most 0, raising some of them to H is free; if to S > 0, S bytes must be taken away at a cost of 1 each. Hence

    bound = max( Σ_b In_b , Σ_b Out_b ),    In_b = max(δ, e + L),    Out_b = max(e, δ - H)

``In_b`` are the bytes that must enter dirs of b whatever happens elsewhere, ``Out_b`` those that must leave them. The closed
form needs microseconds, changes in O(dirs of two brokers) with a move, and tells of each move exactly how much of it
was useful: that is what rounding goes by, and why the planner needs no solver. That both agree is a test.

**Closed racks.** Where every partition has exactly one replica in each rack, it has to stay so, and no byte can leave a rack. Then
bytes balance rack by rack, ``Σ_{b in rack} x_b = 0``, and the bound is the sum of the same expression over racks. Where only some
partitions are tied in this way, or more replicas than racks leave some of them a choice, the bound does not know of racks: which
bytes may cross is then a question of single logs, which no closed form answers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from spindle.placement.problem import PlanningProblem
from spindle.placement.snapshot import FloatArray, IntArray


@dataclass(frozen=True)
class Bound:
    """The bound of a state of the dirs, as its two sides.

    Attributes:
        into: bytes that must enter dirs, per broker, float64[B].
        out_of: bytes that must leave dirs, per broker, float64[B].
        part: brokers among which bytes can go, as a number per broker, int64[B].
    """

    into: FloatArray
    out_of: FloatArray
    part: IntArray

    @property
    def bytes(self) -> float:
        """The fewest bytes that any plan moves."""
        return float(np.maximum(np.bincount(self.part, self.into), np.bincount(self.part, self.out_of)).sum())


def parts(problem: PlanningProblem) -> IntArray:
    """Brokers among which bytes can go, as a number per broker: racks if they are closed, else all one."""
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
    """The bound by HiGHS: the programme as it stands above, in units of the largest dir.

    Returns:
        Bytes, or NaN if no amounts satisfy the bands.
    """
    # Loaded here, because planning does without: scipy costs a third of a second and 60 MB.
    # It ships no types, so what comes from it is Any, and is turned into floats at once.
    import scipy.optimize  # noqa: PLC0415 - as above
    import scipy.sparse  # noqa: PLC0415 - as above

    sparse: Any = scipy.sparse
    optimize: Any = scipy.optimize
    n, brokers = len(used), len(problem.broker_lo)
    unit = float((problem.snapshot.capacity * problem.usable).max()) or 1.0
    eye = sparse.identity(n, format="csr")
    at = sparse.csr_matrix((np.ones(n), (problem.snapshot.dir_broker, np.arange(n))), (brokers, n))
    net = sparse.hstack([-eye, eye])  # in - out, unknowns are out_d then in_d
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
