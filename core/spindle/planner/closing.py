"""Stages 4 and 5 of rounding: cover the many small amounts that remain after large logs, then repair dirs that no single log fits.

A dir that still must give ``need`` bytes gives its smallest log of at least ``need`` bytes. The excess of that log is
waste if this side of the bound is the larger one. All these moves together may waste a few per cent of the bound, so each
has a share. If the log exceeds the share, two logs are used that together do not, else the largest log below ``need``, and the
rest is covered afterwards. Before that, a planned move may take a larger log instead.
Dirs that must take bytes are handled in the same way, with the logs of all dirs that can spare them.
"""

from collections.abc import Callable

import numpy as np

from spindle.planner.exchange import Exchanges
from spindle.planner.snapshot import FloatArray, IntArray, group
from spindle.planner.state import MoveReason, PlanState, put

_WASTE = 0.3  # of the bound: maximum waste of all closing moves together; the actual waste is less than a tenth of it
_MANY = 400  # dirs; the share of each is not larger if fewer are out of band
_NEAR = 64  # logs of about the right size that are tried before the next best size
_WINDOWS = 12  # how far below the right size to search, in steps of eight times as many
_FRESH = 256  # moves after which the index of logs by size is rebuilt
_LOGS = 12  # logs of one dir that are tried before it is skipped
_PAIRS = 24  # dirs that are tried as partners of a dir that no log fits


class Closer:
    """Brings dirs into their bands one by one; changes the state in place."""

    def __init__(self, state: PlanState) -> None:
        self.state = state
        needs = int((state.useful_out > 0).sum() + (state.useful_in > 0).sum())
        self.share = _WASTE * state.left / max(needs, _MANY)
        self._by_size: IntArray = np.zeros(0, np.int64)  # created when the first dir takes a log
        self._stale = 0
        self._exchanges = Exchanges(state, self.on)
        self._grouped: IntArray = group(state.dir, len(state.used))
        self._edges = np.searchsorted(state.dir[self._grouped], np.arange(len(state.used) + 1))

    def _index(self) -> None:
        """Remove logs that have moved, so that windows over the rest stay full."""
        if not len(self._by_size):
            rows = np.flatnonzero((self.state.size <= self.state.free_out[self.state.dir]) & ~self.state.done)
            self._by_size = rows[self.state.size[rows].argsort(kind="stable")]
        self._by_size = self._by_size[~self.state.done[self._by_size]]
        self._sizes = self.state.size[self._by_size]
        self._stale = len(self.state.steps) + _FRESH

    def close(self) -> None:
        """Process dirs with the largest amounts first: those that give, those that take, then those that no log fits."""
        state = self.state
        self._run(state.useful_out, self.give)
        self._run(state.useful_in, self.take)
        for _ in range(2):
            made = len(state.steps)
            self._run(state.useful_out, self.repair_giver)
            self._run(state.useful_in, self.repair_taker)
            if len(state.steps) == made:
                return  # the second round would try the same in vain

    def _run(self, amount: FloatArray, settle: Callable[[int], bool]) -> None:
        """Process the dir with the largest amount until none is left; skip a dir for which no move is found."""
        stuck = np.zeros(len(amount), np.bool_)
        while True:
            open_ = np.where(stuck, 0.0, amount)
            d = int(open_.argmax())
            if open_[d] <= self.state.floor:
                return
            stuck[d] = not settle(d)

    def on(self, i: int) -> IntArray:
        """Replicas on dir ``i`` that may still move; replicas that moved here may not."""
        rows: IntArray = self._grouped[self._edges[i] : self._edges[i + 1]]
        here: IntArray = rows[(self.state.dir[rows] == i) & ~self.state.done[rows]]
        return here

    def _ranked(self, rows: IntArray, need: float) -> list[int]:
        """Logs in order of preference to cover ``need``: little waste, else the largest below ``need``, else the least waste."""
        x = self.state.size[rows]
        over = x - need
        rank = np.where(
            over < 0, self.share - over, np.where(over <= self.share, over, self.share + need + over)
        )
        order: list[int] = rows[rank.argsort(kind="stable")[:_LOGS]].tolist()
        if order and not ((over >= 0) & (over <= self.share)).any():
            first = self._pair(rows, need)
            order = [r for r in (first, *order) if r is not None]
        return order

    def _pair(self, rows: IntArray, need: float) -> int | None:
        """The larger of the two logs that together cover ``need`` with the least waste; None if the waste is too large."""
        rows = rows[self.state.size[rows].argsort(kind="stable")]
        x = self.state.size[rows]
        other = np.searchsorted(x, need - x)  # for each log, the smallest one that covers the rest
        large = np.flatnonzero(other < np.arange(len(x)))
        over = x[large] + x[other[large]] - need
        k = int(over.argmin()) if len(over) else 0
        return int(rows[large[k]]) if len(over) and over[k] <= self.share else None

    def give(self, i: int) -> bool:
        """Move one log off dir ``i`` without raising either side of the bound."""
        state = self.state
        rows = self.on(i)
        if self._exchanges.give(i, rows, float(state.useful_out[i]), self.share):
            return True
        rows = rows[state.size[rows] <= state.free_out[i]]
        for r in self._ranked(rows, float(state.useful_out[i])):
            x = float(state.size[r])
            fit = (state.free_in >= x).nonzero()[0]
            if not len(fit):
                continue
            useful = np.minimum(state.useful_in[fit], x)
            # Most useful first; among equals, the dir with the smallest rest after this log.
            score = -useful + 1e-3 * np.maximum(state.useful_in[fit] - x, 0.0) - 1e-6 * state.free_in[fit]
            if put(state, r, fit, score, state.reason_to_leave(i)):
                return True
        return False

    def take(self, j: int) -> bool:
        """Move one log to dir ``j`` from a dir that can spare it."""
        need = float(self.state.useful_in[j])
        if self._exchanges.take(j, need, self.share):
            return True
        if len(self.state.steps) >= self._stale:
            self._index()
        at = int(np.searchsorted(self._sizes, need))
        if self._take_from(self._by_size[at : at + _NEAR], j, need):
            return True
        for window in range(_WINDOWS):
            top = at - window * 8 * _NEAR
            if top <= 0:
                return False
            if self._take_from(self._by_size[max(0, top - 8 * _NEAR) : top][::-1], j, need):
                return True
        return False

    def _take_from(self, window: IntArray, j: int, need: float) -> bool:
        """Move the log of this window that covers ``need`` best, if any move is legal."""
        state = self.state
        x, home = state.size[window], state.dir[window]
        spared = ~state.done[window] & (state.free_out[home] >= x) & (x <= state.free_in[j])
        rows, x, home = window[spared], x[spared], home[spared]
        # A log that its own dir should give may fit less exactly here, because it helps two dirs at once.
        miss = np.abs(x - need) - 0.5 * np.minimum(state.useful_out[home], x)
        for r in rows[miss.argsort(kind="stable")[:_LOGS]].tolist():
            if state.legal(r, j):
                state.move(r, j, state.reason_to_leave(int(state.dir[r])))
                return True
        return False

    def _better(self, change: tuple[float, float]) -> bool:
        return sum(change) < -max(self.state.floor, 1e-9 * self.state.imbalance)

    def _with_own(self, d: int, merit: FloatArray) -> list[int]:
        """Dirs with the highest merit, and all dirs of the same broker: a move within a broker at its band's limit does not harm it."""
        s = self.state.snapshot
        own = np.flatnonzero(s.dir_broker == s.dir_broker[d])
        best = (-merit).argsort(kind="stable")[:_PAIRS]
        return [x for x in dict.fromkeys([*own.tolist(), *best.tolist()]) if x != d]

    def repair_giver(self, i: int) -> bool:
        """The best single move off dir ``i`` that lowers the sum of both sides, else a swap."""
        state, need = self.state, float(self.state.useful_out[i])
        room = np.where(state.problem.takes, state.problem.hi - state.used, 0.0)
        targets = self._with_own(i, np.maximum(state.useful_in, 1e-6 * room))
        best: tuple[float, int, int] | None = None
        for r in self._ranked(self.on(i), need):
            for j in targets:
                change = state.change(i, j, float(state.size[r])) if j != i else (0.0, 0.0)
                if self._better(change) and (best is None or sum(change) < best[0]) and state.legal(r, j):
                    best = sum(change), r, j
        if best is not None:
            state.move(best[1], best[2], state.reason_to_leave(i))
            return True
        return self._swap(i, targets)

    def repair_taker(self, j: int) -> bool:
        """The best single move into dir ``j`` that lowers the sum of both sides, else a swap."""
        state, need = self.state, float(self.state.useful_in[j])
        spare = state.used - state.problem.lo
        sources = self._with_own(j, np.maximum(state.useful_out, 1e-6 * spare))
        best: tuple[float, int, int] | None = None
        for i in sources:
            if i == j:
                continue
            for r in self._ranked(self.on(i), need)[:4]:
                change = state.change(i, j, float(state.size[r]))
                if self._better(change) and (best is None or sum(change) < best[0]) and state.legal(r, j):
                    best = sum(change), r, j
        if best is not None:
            state.move(best[1], j, state.reason_to_leave(int(state.dir[best[1]])))
            return True
        return any(self._swap(i, [j]) for i in sources if i != j)

    def _swap(self, i: int, others: list[int]) -> bool:
        """Swap a log of dir ``i`` with a smaller one of another dir, if that lowers the sum of both sides."""
        state = self.state
        mine = self.on(i)
        for j in others:
            theirs = self.on(j) if j != i else mine[:0]
            if not len(mine) or not len(theirs):
                continue
            change = state.size[mine][:, None] - state.size[theirs][None, :]
            need = max(float(state.useful_out[i]), float(state.useful_in[j]))
            miss = np.where(change > 0, np.abs(change - need), np.inf)
            for k in np.argsort(miss, axis=None, kind="stable")[:4].tolist():
                a, b = divmod(k, len(theirs))
                if np.isfinite(miss[a, b]) and self._better(state.change(i, j, float(change[a, b]))):
                    r, q = int(mine[a]), int(theirs[b])
                    if state.legal(r, j) and self._legal_back(r, q, i):
                        state.move(r, j, MoveReason.SWAP)
                        state.move(q, i, MoveReason.SWAP)
                        return True
        return False

    def _legal_back(self, r: int, q: int, i: int) -> bool:
        """Whether ``q`` may move to dir ``i`` after ``r`` has left it."""
        state = self.state
        if state.snapshot.part[r] == state.snapshot.part[q]:
            return False
        x = state.size[r]
        state.used[i] -= x
        fits = state.legal(q, i)
        state.used[i] += x
        return fits
