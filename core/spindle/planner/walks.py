"""Local search for small clusters: walks over placements that may leave bands on the way to a better result.

The beams of :mod:`spindle.planner.search` build plans move by move. Some good results have poor intermediate placements: swapping two
logs leaves a band in between, and some need three moves. So this search improves the result itself. A walk starts at
a placement and applies the best single move or swap of two replicas, by

    bytes away from home + Σ weight of a band · bytes outside it + weight · bytes of partitions on too few racks

even if that is worse than before. The reverse move is forbidden for some steps, so that the walk leaves a local minimum instead of
cycling (tabu search). A band's weight grows by a factor with each step that ends outside it and falls while the band holds. So bands that
are hard to satisfy together get high weights; once all hold, the weights fall until bytes dominate and the walk leaves a band
again. Cheap results are near this border.

Several walks run in parallel, as arrays ``[walks, replicas, dirs]`` for moves and ``[walks, replicas, replicas]`` for swaps. They
differ in start, weights, factors and tabu length. Nothing is random: the same problem gives the
same walks. A result counts only if it is inside all bands and some order of single legal moves leads to it (:func:`in_order`).
"""

from collections.abc import Sequence

import numpy as np

from spindle.planner.problem import PlanningProblem
from spindle.planner.snapshot import BoolArray, FloatArray, IntArray
from spindle.planner.state import MoveReason, PlanState

_WALKS = 16
_STEPS = 400
_WORK = 40_000_000  # neighbours valued in total; about a second
_FEWEST = 100  # minimum number of steps of a walk
_TENURE = 6  # minimum number of steps for which the reverse move is forbidden
_SPREAD = 9  # variation of that number over time
_ALIKE = 4  # walks with the same start and weights that differ in the factors below
_FIRST = (0.4, 0.8, 1.6, 4.0)  # initial weights
_GROWTH = (1.15, 1.2, 1.3, 1.4)
_DECAY = (1.03, 1.05, 1.05, 1.07)
_LEAST, _MOST = 0.1, 50.0  # weights
_CHECKS = 200  # results for which an order is searched
_FLOOR = 1.0  # bytes


def in_order(problem: PlanningProblem, start: IntArray, where: IntArray) -> list[tuple[int, int]] | None:
    """Moves (replica, dir) from one placement to another, one per replica, in an order that makes each legal; None if none is found."""
    state = PlanState(problem, start)
    left = np.flatnonzero(where != start).tolist()
    while left:
        before = len(left)
        for lenient in (False, True):
            left = [r for r in left if not _moved(state, r, int(where[r]), lenient=lenient)]
            if len(left) < before:
                break
        else:
            return None
    return [(x.replica, x.target) for x in state.steps]


def _moved(state: PlanState, r: int, j: int, *, lenient: bool) -> bool:
    if not state.legal(r, j, lenient=lenient):
        return False
    state.move(r, j, MoveReason.TARGET)
    return True


def may_fit(problem: PlanningProblem) -> bool:
    """Whether a placement inside all bands may exist; False if counting logs shows that none does.

    The upper limit of a band allows a maximum number of logs (the smallest ones), and its lower limit requires a minimum number (of the largest
    ones). The sum of the minimums over all dirs, or all brokers, cannot exceed the number of logs, and the sum of the maximums cannot be below it.
    """
    size = np.sort(problem.snapshot.planned)
    least = np.concatenate([[0.0], np.cumsum(size)])  # bytes of the k smallest logs
    most = np.concatenate([[0.0], np.cumsum(size[::-1])])  # of the k largest logs
    slack = 2 * _FLOOR + 1e-9 * float(least[-1])
    for lo, hi in ((problem.lo, problem.hi), (problem.broker_lo, problem.broker_hi)):
        needs = np.searchsorted(most, lo - slack, "left")
        takes = np.searchsorted(least, hi + slack, "right") - 1
        if (needs > takes).any() or needs.sum() > len(size) or takes.sum() < len(size):
            return False
    return True


class Walks:
    """Parallel walks and the best result so far.

    Attributes:
        least: cost of the best result in bytes; initially the cost to improve on.
        trail: moves (replica, dir) to that result, in a legal order; None while there is no improvement.
    """

    def __init__(
        self, problem: PlanningProblem, start: IntArray, beginnings: Sequence[IntArray], least: float
    ) -> None:
        """Start the walks.

        Args:
            problem: the bands.
            start: dir of each replica before any move, int64[R].
            beginnings: start placements, each int64[R].
            least: bytes of the best plan so far; infinite if none reaches all bands.
        """
        s = problem.snapshot
        self.problem, self.start, self.least = problem, start, least
        self.trail: list[tuple[int, int]] | None = None
        self.size, self.broker, self.rack = s.planned, s.dir_broker, s.rack[s.dir_broker]
        rf = np.diff(s.start)
        self.wanted = np.minimum(rf, problem.racks)[s.part]
        # Cost of a missing rack: the size of the partition's largest replica, divided among its replicas.
        self.lacks = np.maximum.reduceat(self.size, s.start[:-1])[s.part]
        self.share = self.lacks / rf[s.part]
        r, d = len(start), len(s.capacity)
        each = r * (r + d)
        n = min(max(_WORK // (_FEWEST * each), 1), _WALKS)
        self.steps = min(_STEPS, _WORK // (n * each))
        turn = np.arange(n)
        self.where = np.array([beginnings[k // _ALIKE % len(beginnings)] for k in range(n)])
        first = np.array(_FIRST)[turn // _ALIKE % len(_FIRST)][:, None]
        self.growth = np.array(_GROWTH)[turn % _ALIKE][:, None]
        self.decay = np.array(_DECAY)[turn % _ALIKE][:, None]
        self.dir_weight, self.broker_weight = np.tile(first, d), np.tile(first, len(s.broker))
        self.rack_weight = first
        self.barred = np.zeros((n, r, d), np.int64)
        # Constant over all steps.
        self._walk = np.arange(n)
        self._rows = np.arange(n * r).reshape(n, r, 1) * d
        self._sizes = np.tile(self.size, n)
        self._less = self.size[:, None] - self.size
        self._there = (start[:, None] != np.arange(d)) * 1.0
        self.may = self._may()
        self._seen: set[bytes] = set()

    def _may(self) -> BoolArray:
        """Dirs to which a replica could ever move, and its present dir; bool[R, D]."""
        p, home = self.problem, self.start
        inside = self.broker[home][:, None] == self.broker
        barred = inside & (p.no_intra[self.broker[home]] | ~p.live[home])[:, None]
        may = p.takes & ~barred & (self.size[:, None] <= p.limit) & ~p.snapshot.frozen[:, None]
        may[np.arange(len(home)), home] = True
        return np.asarray(may, np.bool_)

    def run(self, enough: float) -> None:
        """Walk until all steps are used, or a result costs no more than ``enough`` bytes."""
        if self.steps < _FEWEST:
            return
        for step in range(1, self.steps + 1):
            if self.least <= enough or len(self._seen) > _CHECKS:
                return
            self._step(step)

    def _step(self, step: int) -> None:
        """Check the present placements for a result, then make one step of each walk."""
        n = len(self.where)
        off, by_move, by_exchange = self._off()
        lack, by_rack = self._lack()
        ok, move = self._moves()
        away = np.where(self.where == self.start, 0.0, self.size).sum(1)
        for k in np.flatnonzero((off + lack <= _FLOOR) & (away < self.least - _FLOOR)).tolist():
            self._end(k, float(away[k]))
        self.rack_weight = self._adapted(self.rack_weight, lack[:, None] > 0)
        move += by_rack * self.rack_weight[:, :, None]
        # The value of a swap is that of its two moves, except for the bands.
        other = (
            self._rows + self.where[:, None, :]
        )  # target of each replica, [N, R, R], as indexes into arrays [N, R, D]
        open_ = ok & (self.barred <= step)
        both, exchange = open_.ravel().take(other), move.ravel().take(other) + by_exchange
        exchange = exchange + exchange.transpose(0, 2, 1)
        move += by_move
        move[~open_] = np.inf
        exchange[~(both & both.transpose(0, 2, 1))] = np.inf
        self._go(np.concatenate([move.reshape(n, -1), exchange.reshape(n, -1)], 1), step)

    def _adapted(self, weight: FloatArray, amiss: BoolArray) -> FloatArray:
        """Weights after a step: higher for violated bands, lower for the others."""
        found: FloatArray = np.where(amiss, weight * self.growth, weight / self.decay)
        np.maximum(found, _LEAST, out=found)
        np.minimum(found, _MOST, out=found)
        return found

    def _go(self, value: FloatArray, step: int) -> None:
        """Apply the best move or swap of each walk and forbid its reverse."""
        n, r, d = self.barred.shape
        best = value.argmin(1)
        for k in np.flatnonzero(np.isfinite(value[np.arange(n), best])).tolist():
            c = int(best[k])
            if c < r * d:
                moves = [divmod(c, d)]
            else:
                a, b = divmod(c - r * d, r)
                moves = [(a, int(self.where[k, b])), (b, int(self.where[k, a]))]
            for q, j in moves:
                self.barred[k, q, self.where[k, q]] = step + _TENURE + k + (5 * step + 3 * k) % _SPREAD
                self.where[k, q] = j

    def _end(self, k: int, cost: float) -> None:
        """Keep a result that is better than the best, if legal moves lead to it."""
        key = self.where[k].tobytes()
        if key in self._seen or cost >= self.least - _FLOOR:
            return
        self._seen.add(key)
        trail = in_order(self.problem, self.start, self.where[k])
        if trail is not None:
            self.least, self.trail = cost, trail

    def _moves(self) -> tuple[BoolArray, FloatArray]:
        """Which single moves are possible, and their change of the bytes away from home; both [N, R, D]."""
        s, where, x = self.problem.snapshot, self.where, self.size
        n, _, d = self.barred.shape
        home = self.broker[where]
        parts, brokers = len(s.start) - 1, len(s.broker)
        key = (self._walk[:, None] * parts + s.part) * brokers + home
        held = np.bincount(key.ravel(), minlength=n * parts * brokers).reshape(n, parts, brokers)
        same = home[:, :, None] == self.broker
        ok = self.may & (where[:, :, None] != np.arange(d))
        ok &= same | (held == 0).take(s.part, 1).take(self.broker, 2)
        away = (where != self.start)[:, :, None]
        return ok, (self._there - away) * x[:, None]

    def _lack(self) -> tuple[FloatArray, FloatArray]:
        """Cost of missing racks, float64[N], and its change by single moves, float64[N, R, D]."""
        s, where = self.problem.snapshot, self.where
        n, r, d = self.barred.shape
        alive = self.problem.live[where]
        if int(self.wanted.max()) <= 1 and alive.all():
            return np.zeros(n), np.zeros((n, r, d))
        parts, racks = len(s.start) - 1, len(s.rack_names)
        key = (self._walk[:, None] * parts + s.part) * racks + self.rack[where]
        live = np.bincount(key[alive], minlength=n * parts * racks).reshape(n, parts, racks).take(s.part, 1)
        now = np.maximum(self.wanted - count_last(live > 0), 0)
        k, q = alive.nonzero()
        live[k, q, self.rack[where[k, q]]] -= 1
        after = count_last(live > 0)[:, :, None] + ((live == 0).take(self.rack, 2) & self.problem.live)
        change = np.maximum(self.wanted[:, None] - after, 0) - now[:, :, None]
        return (now * self.share).sum(1), change * self.lacks[:, None]

    def _off(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weighted bytes outside bands, float64[N], and their change by moves, [N, R, D], and by half of a swap, [N, R, R]."""
        p, x, where = self.problem, self.size, self.where
        n, _, d = self.barred.shape
        row = self._walk[:, None]
        home = self.broker[where]
        used, total = (
            np.asarray(np.bincount((row * m + at).ravel(), self._sizes, n * m), np.float64).reshape(n, m)
            for m, at in ((d, where), (len(p.broker_lo), home))
        )
        dirs, brokers = _outside(used, p.lo, p.hi), _outside(total, p.broker_lo, p.broker_hi)
        w = self.dir_weight = self._adapted(self.dir_weight, dirs > _FLOOR)
        v = self.broker_weight = self._adapted(self.broker_weight, brokers > _FLOOR)

        def leaving(x: FloatArray) -> tuple[FloatArray, FloatArray]:
            """The change if the dirs of replicas, and their brokers, lose ``x`` [R, …] bytes."""
            i, b = (where[:, :, None], home[:, :, None]) if x.ndim > 1 else (where, home)
            k = self._walk.reshape(-1, *[1] * x.ndim)
            u, t = used[k, i] - x, total[k, b] - x
            return (
                (_outside(u, p.lo[i], p.hi[i]) - dirs[k, i]) * w[k, i],
                (_outside(t, p.broker_lo[b], p.broker_hi[b]) - brokers[k, b]) * v[k, b],
            )

        give, leave = leaving(x)
        take = (_outside(used[:, None, :] + x[:, None], p.lo, p.hi) - dirs[:, None, :]) * w[:, None, :]
        enter = _outside(total[:, None, :] + x[:, None], p.broker_lo, p.broker_hi) - brokers[:, None, :]
        enter *= v[:, None, :]
        away = home[:, :, None] != self.broker
        move = give[:, :, None] + take + away * (leave[:, :, None] + enter[:, :, self.broker])
        give, leave = leaving(self._less)
        exchange = give + (home[:, :, None] != home[:, None, :]) * leave
        return dirs.sum(1) + brokers.sum(1), move, exchange


def _outside(x: FloatArray, lo: FloatArray, hi: FloatArray) -> FloatArray:
    """Bytes outside a band."""
    found: FloatArray = x - hi
    np.maximum(found, lo - x, out=found)
    np.maximum(found, 0.0, out=found)
    return found


def count_last(found: BoolArray) -> IntArray:
    """Number of true values along the short last axis; adding columns is faster than numpy's sum here."""
    total: IntArray = np.zeros(found.shape[:-1], np.int64)
    for k in range(found.shape[-1]):
        total += found[..., k]
    return total
