"""Beam search for small clusters, where rounding by size is not good enough because there are few large logs.

A cluster of a few brokers has few logs per dir, and the cost depends on which of them move together: the bound may be far below any
plan of whole logs. So for small clusters (``R · D`` up to a few thousand) the planner also searches move by move: a node is a
placement, its children are all legal single moves, and its value

    f = bytes moved so far + max(bound of the rest, bytes of partitions that still lack a rack)

never overestimates the cost of completing it. Each round keeps the best few hundred nodes without duplicates. The search ends when no
kept node can beat the best complete plan. The closed form of the bound values all children of all nodes at once
(:mod:`spindle.planner.bound`), as arrays of shape ``[nodes, replicas, dirs]``.

It is a heuristic: a beam may drop the ancestors of the optimum, since a good plan may begin with poor moves. So
:mod:`spindle.planner.walks` continues from the best result. The planner's benchmark compares both with exact solutions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from spindle.planner.problem import PlanningProblem
from spindle.planner.snapshot import BoolArray, FloatArray, IntArray
from spindle.planner.state import MoveReason, PlanState
from spindle.planner.walks import Walks, count_last, may_fit

LARGEST = 6_000  # replicas times dirs up to which the search is worth its time
_NARROW, _WIDE = 64, 160  # nodes kept per round; wide only if no placement inside all bands was found
_WEIGHTS = (64.0, 8.0, 2.0, 0.5)
_ALL_WEIGHTS = (64.0, 16.0, 8.0, 4.0, 2.0, 1.0, 0.5, 0.1)
_REPAIRS = 3
_PATIENCE = 6  # rounds without progress after which a beam ends
_WORK = 12_000_000  # children valued in total; about a second
_DEPTH = 60  # moves in a plan
_PROVEN = 1.001  # times the bound: no further search
_FLOOR = 1.0  # bytes


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Placements side by side: dir of each replica, what has moved, bytes moved, last (parent, replica, dir)."""

    where: IntArray
    moved: BoolArray
    cost: FloatArray
    trail: tuple[tuple[tuple[int, int], ...], ...]

    def take(self, rows: list[int]) -> "_Nodes":
        return _Nodes(self.where[rows], self.moved[rows], self.cost[rows], tuple(self.trail[k] for k in rows))


@dataclass(frozen=True, eq=False)
class _Terms:
    """Sums over dirs of each broker and over replicas of each partition, for every node."""

    used: FloatArray
    over: FloatArray
    under: FloatArray
    e: FloatArray
    delta: FloatArray
    total: FloatArray
    into: FloatArray
    out_of: FloatArray
    held: IntArray  # replicas of a partition per broker, [N, P, B]
    live: IntArray  # live replicas of a partition per rack, [N, P, racks]


class _Search:
    def __init__(self, problem: PlanningProblem, start: IntArray) -> None:
        s = problem.snapshot
        self.problem, self.snapshot = problem, s
        self.size, self.part = s.planned, s.part
        self.broker, self.rack = s.dir_broker, s.rack[s.dir_broker]
        self.mates: BoolArray = (
            self.broker[:, None] == self.broker
        )  # whether two dirs are of one broker, [D, D]
        self.own: BoolArray = self.broker[:, None] == np.arange(
            len(s.broker)
        )  # whether a dir is of a broker, [D, B]
        self.wanted = np.minimum(np.diff(s.start), problem.racks)
        self.at = np.zeros((len(s.capacity), len(s.broker)))
        self.at[np.arange(len(s.capacity)), s.dir_broker] = 1.0
        self.part_size = np.maximum.reduceat(self.size, s.start[:-1])
        self.start = start
        self.width, self.work = _NARROW, 0
        self._beams: dict[tuple[bytes, bytes, bytes, float, int], int] = {}  # start, weight, width → work
        root = self.root()
        t = self.terms(root.where)
        self.bound = float(np.maximum(t.into.sum(), t.out_of.sum()))
        self.trail = root.trail[0]
        self.best = self.quality(root, t)[0]

    @property
    def complete(self) -> bool:
        """Whether the best placement reaches all goals."""
        return self.best[:3] == (0.0, 0.0, 0.0)

    @property
    def proven(self) -> bool:
        """Whether no plan can be cheaper by more than a thousandth."""
        return self.complete and self.best[3] <= self.bound * _PROVEN + _FLOOR

    def root(self) -> _Nodes:
        """The present placement."""
        return _Nodes(
            self.start[None, :].copy(), self.problem.snapshot.frozen[None, :].copy(), np.zeros(1), ((),)
        )

    def made_of(self, trails: list[tuple[tuple[int, int], ...]]) -> _Nodes:
        """The placements that result from these plans."""
        n = len(trails)
        where, moved = np.tile(self.start, (n, 1)), np.tile(self.problem.snapshot.frozen, (n, 1))
        cost = np.zeros(n)
        for k, trail in enumerate(trails):
            for r, d in trail:
                where[k, r], moved[k, r] = d, True
                cost[k] += self.size[r]
        return _Nodes(where, moved, cost, tuple(trails))

    def consider(self, nodes: _Nodes) -> _Terms:
        """Keep the best of these if it is better than the best so far. Returns the sums of all, for the next step."""
        terms = self.terms(nodes.where)
        for k, quality in enumerate(self.quality(nodes, terms)):
            if quality < self.best:
                self.best, self.trail = quality, nodes.trail[k]
        return terms

    def walk(self) -> None:
        """Search for a better result with :mod:`spindle.planner.walks`."""
        if self.proven or not may_fit(self.problem):
            return
        end = self.made_of([self.trail]).where[0]
        walks = Walks(self.problem, self.start, (end, self.start), self.best[3] if self.complete else np.inf)
        walks.run(self.bound * _PROVEN + _FLOOR)
        if walks.trail is not None:
            self.consider(self.made_of([tuple(walks.trail)]))

    def widen(self) -> None:
        """Search for a better result with more and wider beams, and by replacing a few moves of the best plan."""
        for width in (_NARROW, _WIDE):
            self.width = width
            for weight in _ALL_WEIGHTS:
                self.beam(self.root(), weight)
        self.width = _NARROW
        for _ in range(_REPAIRS):
            before = self.best
            for weight in _ALL_WEIGHTS:
                if len(self.trail) > 1:
                    self.beam(self._undone(), weight)
            if self.best == before:
                return

    def _undone(self) -> _Nodes:
        """The best plan without one, two or three of its moves, as starts of further beams."""
        moves = range(len(self.trail))
        sets = [x for k in (1, 2, 3) for x in combinations(moves, k)][: 2 * self.width]
        return self.made_of([trail for drop in sets if (trail := self._without(drop)) is not None])

    def _without(self, drop: tuple[int, ...]) -> tuple[tuple[int, int], ...] | None:
        """The best plan's moves except these; None if the others are not legal without them."""
        state = PlanState(self.problem, self.start)
        kept = tuple(x for k, x in enumerate(self.trail) if k not in drop)
        for r, d in kept:
            if not state.legal(r, d):
                return None
            state.move(r, d, MoveReason.TARGET)
        return kept

    def beam(self, nodes: _Nodes, weight: float) -> None:
        """Search from these nodes, with children ranked by ``f + weight · rest``; a better result becomes the best.

        While no complete placement is known, a beam does not depend on the best one: starting it at the same nodes again finds nothing new.
        """
        if self.complete:
            self._beam(nodes, weight)
            return
        key = (nodes.where.tobytes(), nodes.moved.tobytes(), nodes.cost.tobytes(), weight, self.width)
        if key in self._beams:
            self.work += self._beams[key]
            return
        before = self.work
        self._beam(nodes, weight)
        self._beams[key] = self.work - before

    def _beam(self, nodes: _Nodes, weight: float) -> None:
        lowest, patience = np.inf, _PATIENCE
        if not len(nodes.cost):
            return
        t = self.terms(nodes.where)
        for _ in range(_DEPTH):
            if not len(nodes.cost) or self.work > _WORK or not patience:
                return
            if self.complete:
                least = nodes.cost + np.maximum(np.maximum(t.into.sum(1), t.out_of.sum(1)), self.short(t))
                alive = np.flatnonzero(least < self.best[3] - _FLOOR)
                if not len(alive):
                    return
                if len(alive) < len(nodes.cost):
                    nodes = nodes.take(alive.tolist())
                    t = self.terms(nodes.where)
            rest = self.rest(nodes, t)
            legal, short = self.legal(nodes, t)
            f = nodes.cost[:, None, None] + self.size[:, None] + np.maximum(rest, short)
            f[~legal] = np.inf
            if self.complete:
                f[f >= self.best[3] - _FLOOR] = np.inf
            children = _children(nodes, f + weight * (rest + short), self.size, self.width)
            if children is None:
                return
            self.work += f.size
            t = self.consider(children)
            now = float((rest.min(axis=(1, 2)) + short.min(axis=(1, 2))).min())
            lowest, patience = (now, _PATIENCE) if now < lowest else (lowest, patience - 1)
            nodes = children

    def terms(self, where: IntArray) -> _Terms:
        """All sums that valuing children needs, for placements int64[N, R]."""
        p, s = self.problem, self.snapshot
        n, d = len(where), len(s.capacity)
        row = np.arange(n)[:, None]
        at = (row * d + where).ravel()
        used = np.asarray(np.bincount(at, np.tile(self.size, n), n * d), np.float64).reshape(n, d)
        over, under = np.maximum(used - p.hi, 0), np.maximum(p.lo - used, 0)
        e, delta, total = over @ self.at, under @ self.at, used @ self.at
        parts, brokers, racks = len(self.wanted), len(s.broker), len(s.rack_names)
        key = (row * parts + self.part) * brokers + self.broker[where]
        held = np.bincount(key.ravel(), minlength=n * parts * brokers).reshape(n, parts, brokers)
        key = (row * parts + self.part) * racks + self.rack[where]
        live = np.bincount(key.ravel(), p.live[where].ravel(), n * parts * racks).reshape(n, parts, racks)
        return _Terms(
            used, over, under, e, delta, total,
            np.maximum(delta, e + p.broker_lo - total), np.maximum(e, delta - p.broker_hi + total),
            held, live.astype(np.int64),
        )  # fmt: skip

    def short(self, t: _Terms) -> FloatArray:
        """Bytes of partitions on too few racks, per node."""
        lacking = count_last(t.live > 0) < self.wanted
        return np.asarray((lacking * self.part_size).sum(1), np.float64)

    def legal(self, nodes: _Nodes, t: _Terms) -> tuple[BoolArray, FloatArray]:
        """Which moves are legal (as in :meth:`PlanState.legal`), and the bytes of partitions on too few racks after each.

        Both are of shape [N, R, D].
        """
        p, where = self.problem, nodes.where
        home = self.broker[where]
        ok = t.used[:, None, :] + self.size[:, None] <= p.limit
        ok &= p.takes
        ok &= ~nodes.moved[:, :, None]
        np.put_along_axis(ok, where[:, :, None], False, 2)
        same = self.mates[where]
        ok &= ~same | (~p.no_intra[home] & p.live[where])[:, :, None]
        ok &= same | (t.held == 0).take(self.part, 1).take(self.broker, 2)
        others = t.live.take(self.part, 1)  # [N, R, racks]
        mine = p.live[where]
        n, r = np.nonzero(mine)
        others[n, r, self.rack[where[n, r]]] -= 1
        base = count_last(others > 0)
        none = others == 0
        row = np.arange(len(where))[:, None]
        alone = mine & none[row, np.arange(where.shape[1]), self.rack[where]]
        # What a move to each rack means, [N, R, racks]; then for each dir.
        after = base[:, :, None] + none
        need = np.maximum(base + alone, np.minimum(self.wanted[self.part], base + 1))
        ok &= same | (after >= need[:, :, None]).take(self.rack, 2)
        wanted = self.wanted[self.part][:, None]
        lacking = (base + alone)[:, :, None] < wanted
        change = ((after < wanted).astype(np.int64) - lacking) * self.part_size[self.part][:, None]
        change = change.take(self.rack, 2)
        change[same] = 0
        change += self.short(t)[:, None, None]
        return np.asarray(ok, np.bool_), change

    def rest(self, nodes: _Nodes, t: _Terms) -> FloatArray:
        """The bound of the rest after each child, float64[N, R, D].

        Operations are in place where possible, and in the order of the formula, on which rounding depends.
        """
        p, where, x, b = self.problem, nodes.where, self.size, self.broker
        home = b[where]
        row = np.arange(len(where))[:, None]
        u = t.used[row, where] - x
        give_e = -t.over[row, where] + np.maximum(u - p.hi[where], 0)
        give_d = -t.under[row, where] + np.maximum(p.lo[where] - u, 0)
        # Between brokers, the sides of both change; within a broker only its dirs' sums do, its total does not.
        e, d, total = t.e[row, home] + give_e, t.delta[row, home] + give_d, t.total[row, home] - x
        src_in = np.maximum(d, e + p.broker_lo[home] - total) - t.into[row, home]
        src_out = np.maximum(e, d - p.broker_hi[home] + total) - t.out_of[row, home]
        same = self.mates[where]
        here = self.own[where]  # whether a broker is the replica's own, [N, R, B]
        total = (t.total[:, None, :] + np.where(here, 0.0, x[:, None])).take(b, 2)
        into = (np.where(here, 0.0, src_in[:, :, None]) + t.into.sum(1)[:, None, None]).take(b, 2)
        out_of = (np.where(here, 0.0, src_out[:, :, None]) + t.out_of.sum(1)[:, None, None]).take(b, 2)
        v = t.used[:, None, :] + x[:, None]
        e = np.maximum(v - p.hi, 0)
        e -= t.over[:, None, :]
        e += t.e[:, None, b]
        e += same * give_e[:, :, None]
        d = np.maximum(np.subtract(p.lo, v, out=v), 0, out=v)
        d -= t.under[:, None, :]
        d += t.delta[:, None, b]
        d += same * give_d[:, :, None]
        more = e + p.broker_lo[b]
        more -= total
        np.maximum(d, more, out=more)
        more -= t.into[:, None, b]
        into += more
        d -= p.broker_hi[b]
        d += total
        np.maximum(e, d, out=d)
        d -= t.out_of[:, None, b]
        out_of += d
        np.maximum(into, out_of, out=into)
        np.maximum(into, 0.0, out=into)
        return np.asarray(into, np.float64)

    def quality(self, nodes: _Nodes, t: _Terms) -> list[tuple[float, float, float, float, int]]:
        """Quality of each placement, lower is better: bytes on dirs to be emptied, missing racks, out-of-band bytes, bytes moved, moves."""
        stranded = (self.size * ~self.problem.usable[nodes.where]).sum(1)
        unrest = np.maximum(t.into.sum(1) + t.out_of.sum(1), 0.0)
        unrest[unrest <= _FLOOR] = 0.0
        lists: list[Any] = [x.tolist() for x in (stranded, self.short(t), unrest, nodes.cost)]
        return [(*x, len(nodes.trail[k])) for k, x in enumerate(zip(*lists, strict=True))]


def search(
    problem: PlanningProblem, start: IntArray, first: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Search for the cheapest plan from a placement.

    Args:
        problem: with ``R · D`` of at most :data:`LARGEST`. If the goals are ``brief``, only the first beams run.
        start: dir of each replica, int64[R].
        first: the plan to improve on, (replica, dir) in a legal order.

    Returns:
        The best plan found, in an order in which every move is legal; empty if no plan is better than the present placement.
    """
    run = _Search(problem, start)
    run.consider(run.made_of([tuple(first)]))
    for weight in _WEIGHTS:
        if not run.proven:
            run.beam(run.root(), weight)
    if problem.goals.brief:
        return list(run.trail)
    run.walk()
    if not run.complete:
        # Walks accept only results inside all bands. Without one, racks, distance from the bands and bytes still count.
        run.widen()
    return list(run.trail)


def _children(nodes: _Nodes, f: FloatArray, size: FloatArray, width: int) -> _Nodes | None:
    """The best children without duplicate placements; None if there is none."""
    flat = f.ravel()
    many = min(len(flat), 8 * width)
    rows = np.argpartition(flat, many - 1)[:many] if many < len(flat) else np.arange(len(flat))
    rows = rows[np.isfinite(flat[rows])]
    # argpartition does not order ties: sort by value, then by index.
    rows = rows[np.lexsort((rows, flat[rows]))]
    if not len(rows):
        return None
    n, r, d = np.unravel_index(rows, f.shape)
    where = nodes.where[n]
    k = np.arange(len(rows))
    where[k, r] = d
    keep = _first_of_each(where, width)
    n, r, d, where = n[keep], r[keep], d[keep], where[keep]
    moved = nodes.moved[n]
    moved[np.arange(len(keep)), r] = True
    trail = tuple(
        (*nodes.trail[a], (b, c)) for a, b, c in zip(n.tolist(), r.tolist(), d.tolist(), strict=True)
    )
    return _Nodes(where, moved, nodes.cost[n] + size[r], trail)


def _first_of_each(rows: IntArray, most: int) -> IntArray:
    """Index of the first occurrence of each distinct row, in order, for at most this many of them."""
    seen: set[bytes] = set()
    first: list[int] = []
    # A searched cluster has far fewer than 65,536 dirs, so two bytes are enough.
    text, width = rows.astype(np.uint16).tobytes(), 2 * rows.shape[1]
    for k in range(len(rows)):
        if len(first) == most:
            break
        row = text[k * width : (k + 1) * width]
        if row not in seen:
            seen.add(row)
            first.append(k)
    return np.array(first, np.int64)
