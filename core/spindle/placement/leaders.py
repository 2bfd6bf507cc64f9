"""Leaders and produced bytes, balanced by the order of replicas alone: no byte is copied for it.

The first replica of a partition is its preferred leader. With ``n_b`` the partitions that broker ``b`` leads and ``w_b`` the bytes
per second produced to them, both divided by their means over live brokers, the broker is out of its band by

    ψ_b = (n_b - 1 - β)⁺ + (1 - β - n_b)⁺ + (w_b - 1 - β)⁺ + (1 - β - w_b)⁺

Handing a partition from its leader to another of its replicas changes two brokers. Brokers hand over, worst first, what lowers
``Σ ψ`` most, until nothing does; brokers that lead too little ask the leaders of the partitions they follow. A partition that
is led from a place where nobody can lead (a dead dir) is handed over in any case. Each change lowers ``Σ ψ``, so this ends; and
it depends on nothing but where replicas stand, so doing it again changes nothing.
"""

import numpy as np

from spindle.placement.problem import Problem
from spindle.placement.snapshot import Bools, Floats, Ints

_ROUNDS = 4  # passes over all brokers
_EPSILON = 1e-9


class Leaders:
    """Leader of each partition, as a row of replicas; improved in place by :meth:`balance`."""

    def __init__(self, problem: Problem, where: Ints, band: float) -> None:
        """Start from the present preferred leaders.

        Args:
            problem: states of dirs and brokers.
            where: dir of each replica once the plan is done, int64[R].
            band: β.
        """
        s = problem.snapshot
        self.snapshot, self.band = s, band
        self.broker: Ints = s.dir_broker[where]
        self.able: Bools = problem.live[where] & ~s.frozen
        self.leader: Ints = s.start[:-1].copy()
        alive = s.alive
        n = len(s.broker)
        self.rate: Floats = s.rate
        self.n_mean = max((len(s.start) - 1) / max(int(alive.sum()), 1), _EPSILON)
        self.w_mean = max(float(s.rate[self.leader].sum()) / max(int(alive.sum()), 1), _EPSILON)
        led = self.broker[self.leader]
        self.count: Floats = np.bincount(led, minlength=n).astype(np.float64) / self.n_mean
        self.weight: Floats = np.bincount(led, s.rate[self.leader], n) / self.w_mean
        self.alive = alive

    def misfit(self, count: Floats, weight: Floats) -> Floats:
        """ψ, elementwise."""
        b = self.band
        return (
            np.maximum(count - 1 - b, 0) + np.maximum(1 - b - count, 0)
            + np.maximum(weight - 1 - b, 0) + np.maximum(1 - b - weight, 0)
        )  # fmt: skip

    def balance(self) -> None:
        """Hand leadership over until no change helps."""
        self._rescue()
        for _ in range(_ROUNDS):
            psi = np.where(self.alive, self.misfit(self.count, self.weight), 0.0)
            worst = np.argsort(-psi, kind="stable")
            worst = worst[psi[worst] > _EPSILON]
            if not len(worst) or not self._round(worst):
                return

    def _rescue(self) -> None:
        """Partitions whose preferred leader is dead go to their first live replica."""
        s = self.snapshot
        for p in np.flatnonzero(~self.able[self.leader] & ~s.frozen[self.leader]).tolist():
            rows = np.arange(s.start[p], s.start[p + 1])
            live = rows[self.able[rows]]
            if len(live):
                self._hand(p, int(live[0]))

    def _round(self, worst: Ints) -> bool:
        """Let each of these brokers give or take what helps; whether anything changed."""
        # All (partition, other replica) pairs once, grouped by who leads and by who follows.
        part = self.snapshot.part
        lead = self.leader[part]
        rows = np.flatnonzero((np.arange(len(part)) != lead) & self.able & self.able[lead])
        giver, taker = self.broker[lead[rows]], self.broker[rows]
        n = len(self.count)
        by_giver, by_taker = np.argsort(giver, kind="stable"), np.argsort(taker, kind="stable")
        give_edges = np.searchsorted(giver[by_giver], np.arange(n + 1))
        take_edges = np.searchsorted(taker[by_taker], np.arange(n + 1))
        changed = False
        for b in worst.tolist():
            mine = rows[by_giver[give_edges[b] : give_edges[b + 1]]]
            changed |= self._settle(mine, b)
            theirs = rows[by_taker[take_edges[b] : take_edges[b + 1]]]
            changed |= self._settle(theirs, b)
        return changed

    def _gain(self, rows: Ints) -> Floats:
        """By how much Σψ falls if each of these replicas became leader, one at a time."""
        part = self.snapshot.part[rows]
        old = self.leader[part]
        a, b = self.broker[old], self.broker[rows]
        w = self.rate[old] / self.w_mean
        now = self.misfit(self.count[a], self.weight[a]) + self.misfit(self.count[b], self.weight[b])
        one = 1 / self.n_mean
        then = self.misfit(self.count[a] - one, self.weight[a] - w) + self.misfit(
            self.count[b] + one, self.weight[b] + w
        )
        return np.where(old == rows, 0.0, now - then)

    def _settle(self, rows: Ints, b: int) -> bool:
        """Hand over among these candidates, best first by a gain computed once and checked again before each change."""
        if not len(rows) or float(self.misfit(self.count[b : b + 1], self.weight[b : b + 1])[0]) <= _EPSILON:
            return False
        gain = self._gain(rows)
        order = np.argsort(-gain, kind="stable")
        order = order[gain[order] > _EPSILON]
        changed = False
        for r in rows[order].tolist():
            p = int(self.snapshot.part[r])
            if self._exact_gain(p, r) > _EPSILON:
                self._hand(p, r)
                changed = True
                if self._psi(b) <= _EPSILON:
                    break
        return changed

    def _psi(self, b: int, count: float = 0.0, weight: float = 0.0) -> float:
        """ψ of one broker after such a change, in plain floats: this is the inner loop."""
        n, w, high, low = (
            float(self.count[b]) + count,
            float(self.weight[b]) + weight,
            1 + self.band,
            1 - self.band,
        )
        return max(n - high, 0.0) + max(low - n, 0.0) + max(w - high, 0.0) + max(low - w, 0.0)

    def _exact_gain(self, p: int, r: int) -> float:
        old = int(self.leader[p])
        a, b = int(self.broker[old]), int(self.broker[r])
        if a == b:
            return 0.0
        one, w = 1 / self.n_mean, float(self.rate[old]) / self.w_mean
        return self._psi(a) + self._psi(b) - self._psi(a, -one, -w) - self._psi(b, one, w)

    def _hand(self, p: int, r: int) -> None:
        """Make replica ``r`` the leader of partition ``p``."""
        old = int(self.leader[p])
        a, b = int(self.broker[old]), int(self.broker[r])
        one, w = 1 / self.n_mean, float(self.rate[old]) / self.w_mean
        self.count[a] -= one
        self.count[b] += one
        self.weight[a] -= w
        self.weight[b] += w
        self.leader[p] = r

    @property
    def changes(self) -> Ints:
        """Replicas that become preferred leaders and were not, ascending."""
        return np.sort(self.leader[self.leader != self.snapshot.start[:-1]])
