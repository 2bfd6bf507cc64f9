"""The state during planning: the placement, how many bytes each dir should give or take, and which moves are legal.

From the closed form of the bound (:mod:`spindle.planner.bound`) follow four amounts per dir, each in O(1) from its broker's
sums. With ``room = hi - u``, ``spare = u - lo``, ``over = (-room)⁺``, ``under = (-spare)⁺`` of the dir and ``e, δ, L, H, In, Out``
of its broker:

    useful_out = min(spare⁺, over + (δ - H - e)⁺)      leaving bytes that each lower Out by one
    free_out   = min(spare⁺, over + In - e - L)        leaving bytes that do not raise In
    useful_in  = min(room⁺, under + (e + L - δ)⁺)      entering bytes that each lower In by one
    free_in    = min(room⁺, under + Out - δ + H)       entering bytes that do not raise Out

A log of ``s`` bytes that moves from a dir with ``useful_out ≥ s`` to one with ``useful_in ≥ s`` lowers both sides of the bound by
``s``: the bytes moved plus the bytes still to be moved remain equal to the bound. While one side is larger, free amounts are
sufficient on the other side.

Every move is legal at its place in the sequence, as if moves ran one after another ("no rack lost", "no overfull target", "no
conflicting move": `docs/safety.md`, rules 3, 4 and 6). So a legal schedule exists, and :mod:`spindle.planner.waves` only has to
find a short one.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from spindle.model.racks import move_keeps_racks, wanted_racks
from spindle.planner.problem import PlanningProblem
from spindle.planner.snapshot import BoolArray, DirState, FloatArray, IntArray

_sum = np.add.reduce
_FEW = 7  # values that numpy adds up from left to right
TRIES = 12  # legal targets are common: a log that finds none among this many waits


class MoveReason(IntEnum):
    """Why a move is in the plan; the values are also the order of execution."""

    EVACUATE = 0
    DRAIN = 1
    RACK = 2
    MARK = 3
    OVER = 4
    TARGET = 5
    SWAP = 6


# Enum member access is slow in Python 3.11, and this runs for every move.
_EVACUATE, _DRAIN, _MARK, _OVER, _TARGET = (
    MoveReason.EVACUATE, MoveReason.DRAIN, MoveReason.MARK, MoveReason.OVER, MoveReason.TARGET,
)  # fmt: skip
_DRAINING = DirState.DRAINING


@dataclass(frozen=True)
class PlanStep:
    """One move in the order of planning: replica and dirs by row, and the reason."""

    replica: int
    source: int
    target: int
    reason: MoveReason


class PlanState:
    """The mutable state; :meth:`move` keeps all of it up to date."""

    def __init__(self, problem: PlanningProblem, where: IntArray | None = None) -> None:
        """Start from the snapshot's placement, or from another one (int64[R], rows of dirs)."""
        s = problem.snapshot
        d, b = len(s.capacity), len(s.broker)
        self.problem, self.snapshot, self.size = problem, s, s.planned
        self.dir = (s.dir if where is None else where).copy()
        self.used: FloatArray = np.bincount(self.dir, self.size, d).astype(np.float64)
        self.done = s.frozen.copy()  # a replica moves once per pass, a frozen one never
        self.steps: list[PlanStep] = []
        self.useful_out, self.free_out = np.zeros(d), np.zeros(d)
        self.useful_in, self.free_in = np.zeros(d), np.zeros(d)
        self.into, self.out_of = [0.0] * b, [0.0] * b
        self.total = [0.0] * b
        self.sum_in = self.sum_out = 0.0
        # A smaller difference is a rounding error: float sums of many petabytes are exact to about a byte.
        self.floor = 1.0 + 1e-11 * float(self.used.sum())
        self._first: list[int] = s.first_dir.tolist()
        self._broker: list[int] = s.dir_broker.tolist()
        self._rack: list[int] = s.rack.tolist()
        self._lo: list[float] = problem.broker_lo.tolist()
        self._hi: list[float] = problem.broker_hi.tolist()
        self._live: list[bool] = problem.live.tolist()
        self._start, self._part = s.start, s.part
        self._tried: dict[tuple[int, float], tuple[float, float]] = {}  # see `_side`
        bands = list(zip(problem.hi.tolist(), problem.lo.tolist(), problem.takes.tolist(), strict=True))
        self._views = [
            (
                bands[i:j], self.used[i:j],
                self.useful_out[i:j], self.free_out[i:j], self.useful_in[i:j], self.free_in[i:j],
            )
            for i, j in zip(self._first[:-1], self._first[1:], strict=True)
        ]  # fmt: skip
        for row in range(b):
            self._refresh(row)

    def _refresh(self, b: int) -> None:
        """Recompute one broker's sums and its dirs' four amounts.

        These are the hottest lines of the planner. They use plain floats: for a dozen dirs that is faster than numpy, and the sums are
        the same on all machines.
        """
        self._tried.clear()
        bands, view, useful_out, free_out, useful_in, free_in = self._views[b]
        dirs, e, delta, total = [], 0.0, 0.0, 0.0
        for used, (hi, lo, takes) in zip(view.tolist(), bands, strict=True):
            over = used - hi if used > hi else 0.0
            under = lo - used if used < lo else 0.0
            e, delta, total = e + over, delta + under, total + used
            dirs.append(
                (used - lo if used > lo else 0.0, over, hi - used if takes and used < hi else 0.0, under)
            )
        gain, most = self._lo[b] - total, self._hi[b] - total
        into, out_of = max(delta, e + gain), max(e, delta - most)
        self.sum_in += into - self.into[b]
        self.sum_out += out_of - self.out_of[b]
        self.into[b], self.out_of[b], self.total[b] = into, out_of, total
        give, free = max(delta - most - e, 0.0), into - e - gain
        take, open_ = max(e + gain - delta, 0.0), out_of - delta + most
        # min() would take longer than everything else here.
        useful_out[:] = [x if (x := over + give) < spare else spare for spare, over, _, _ in dirs]
        free_out[:] = [x if (x := over + free) < spare else spare for spare, over, _, _ in dirs]
        useful_in[:] = [x if (x := under + take) < room else room for _, _, room, under in dirs]
        free_in[:] = [x if (x := under + open_) < room else room for _, _, room, under in dirs]

    @property
    def gap(self) -> float:
        """Bytes that must enter dirs minus bytes that must leave dirs."""
        return self.sum_in - self.sum_out

    @property
    def left(self) -> float:
        """The bound of the rest."""
        return max(self.sum_in, self.sum_out, 0.0)

    @property
    def imbalance(self) -> float:
        """The sum of both sides of the bound: every useful move lowers it, and it is 0 inside all bands."""
        return self.sum_in + self.sum_out

    def legal(self, r: int, j: int, *, lenient: bool = False) -> bool:
        """Whether replica ``r`` may move to dir ``j`` now.

        Args:
            r: row of the replica.
            j: row of the dir.
            lenient: accept the present number of racks if more are wanted; for replicas that must leave their dir.
        """
        i = int(self.dir[r])
        if i == j or self.used[j] + self.size[r] > self.problem.limit[j] or not self.problem.takes[j]:
            return False
        source, target = self._broker[i], self._broker[j]
        if source == target:
            return not self.problem.no_intra[source] and self._live[i]
        rack = self._rack[target]
        p = self._part[r]
        first, last = int(self._start[p]), int(self._start[p + 1])
        others = set()
        for q in range(first, last):
            if q != r:
                d = int(self.dir[q])
                b = self._broker[d]
                if b == target:
                    return False
                if self._live[d]:
                    others.add(self._rack[b])
        base = len(others)
        mine = self._live[i] and self._rack[source] not in others
        wanted = wanted_racks(last - first, self.problem.racks)
        best = 0 if lenient else base + 1
        return move_keeps_racks(base + mine, base + (rack not in others), best, wanted)

    def shares_rack(self, r: int) -> bool:
        """Whether the partition of replica ``r`` would keep all its racks without it."""
        i = int(self.dir[r])
        if not self._live[i]:
            return True
        p = self._part[r]
        others = (int(self.dir[q]) for q in range(int(self._start[p]), int(self._start[p + 1])) if q != r)
        return any(
            self._live[d] and self._rack[self._broker[d]] == self._rack[self._broker[i]] for d in others
        )

    def on_racks_of(self, p: int) -> BoolArray:
        """Dirs in racks that hold a live replica of partition ``p``, bool[D]."""
        at = self.dir[int(self._start[p]) : int(self._start[p + 1])]
        taken = self.snapshot.rack[self.snapshot.dir_broker[at[self.problem.live[at]]]]
        found: BoolArray = np.isin(self.snapshot.rack[self.snapshot.dir_broker], taken)
        return found

    def racks_short(self, p: int) -> bool:
        """Whether the live replicas of partition ``p`` are on fewer racks than possible."""
        first, last = int(self._start[p]), int(self._start[p + 1])
        at = self.dir[first:last].tolist()
        return len({self._rack[self._broker[d]] for d in at if self._live[d]}) < wanted_racks(
            last - first, self.problem.racks
        )

    def move(self, r: int, j: int, reason: MoveReason) -> None:
        """Apply a move; the caller has checked it with :meth:`legal`."""
        i = int(self.dir[r])
        self.used[i] -= self.size[r]
        self.used[j] += self.size[r]
        self.dir[r] = j
        self.done[r] = True
        self.steps.append(PlanStep(r, i, j, reason))
        self._refresh(self._broker[i])
        if self._broker[j] != self._broker[i]:
            self._refresh(self._broker[j])

    def exchange(self, k: int, r: int, j: int) -> None:
        """Change step ``k`` to move replica ``r`` to dir ``j``; the caller has checked that this is legal at its place."""
        old, i = self.steps[k], int(self.dir[r]) if r != self.steps[k].replica else self.steps[k].source
        for replica, source, target in ((old.replica, old.target, old.source), (r, i, j)):
            self.used[source] -= self.size[replica]
            self.used[target] += self.size[replica]
            self.dir[replica] = target
        self.done[old.replica] = False
        self.done[r] = True
        self.steps[k] = PlanStep(r, i, j, old.reason)
        for b in sorted({self._broker[d] for d in (old.source, old.target, i, j)}):
            self._refresh(b)

    def change(self, i: int, j: int, size: float) -> tuple[float, float]:
        """The exact change of (sum_in, sum_out) by a move, without applying it."""
        a, b = self._broker[i], self._broker[j]
        if a == b:
            one = self._sides(a, {i: -size, j: size})
            return one[0] - self.into[a], one[1] - self.out_of[a]
        give, take = self._side(i, -size), self._side(j, size)
        return (
            give[0] + take[0] - self.into[a] - self.into[b],
            give[1] + take[1] - self.out_of[a] - self.out_of[b],
        )

    def _side(self, d: int, size: float) -> tuple[float, float]:
        """(In, Out) of the broker of dir ``d`` after the dir changes by these bytes; one log is tried with many dirs, so this is kept until the next move."""
        found = self._tried.get((d, size))
        if found is None:
            found = self._tried[d, size] = self._sides(self._broker[d], {d: size})
        return found

    def _sides(self, b: int, changes: dict[int, float]) -> tuple[float, float]:
        """(In, Out) of a broker after its dirs change by these bytes."""
        first = self._first[b]
        used: list[float] = self._views[b][1].tolist()
        for d, x in changes.items():
            used[d - first] += x
        bands = self._views[b][0]
        over = added([u - hi if u > hi else 0.0 for u, (hi, _, _) in zip(used, bands, strict=True)])
        under = added([lo - u if u < lo else 0.0 for u, (_, lo, _) in zip(used, bands, strict=True)])
        total = added(used)
        return max(under, over + self._lo[b] - total), max(over, under - self._hi[b] + total)

    def reason_to_leave(self, i: int) -> MoveReason:
        """The reason for which a replica leaves dir ``i``, from the dir's state."""
        if not self._live[i]:
            return _EVACUATE
        s, used = self.snapshot, float(self.used[i])
        if s.dir_state[i] == _DRAINING:
            return _DRAIN
        if used > self.problem.goals.mark * s.capacity[i]:
            return _MARK
        b = self._broker[i]
        return _OVER if used > self.problem.hi[i] or self.total[b] > self._hi[b] else _TARGET


def added(values: list[float]) -> float:
    """The sum, bit for bit as numpy computes it, but faster for few values; the built-in sum rounds differently from Python 3.12 on."""
    if len(values) > _FEW:
        return float(_sum(values))
    total = 0.0
    for value in values:
        total += value
    return total


def put(
    state: PlanState,
    r: int,
    targets: IntArray,
    score: FloatArray,
    reason: MoveReason,
    *,
    tries: int = TRIES,
    lenient: bool = False,
) -> bool:
    """Move a replica to the legal target with the lowest score (ties: the first); False if none of the best is legal."""
    for _ in range(min(tries, len(targets))):
        k = int(score.argmin())
        if score[k] == np.inf:
            return False
        j = int(targets[k])
        if state.legal(r, j, lenient=lenient):
            state.move(r, j, reason)
            return True
        score[k] = np.inf
    return False
