"""Balances leaders and produced bytes by changing the order of replicas, which copies no data.

The first replica of a partition is its preferred leader. With ``n_b`` the partitions that broker ``b`` leads and ``w_b`` the bytes
per second produced to them, both divided by their means over live brokers. The broker is out of its band by

    ψ_b = (n_b - 1 - β)⁺ + (1 - β - n_b)⁺ + (w_b - 1 - β)⁺ + (1 - β - w_b)⁺

Changing the preferred leader of a partition to another replica changes two brokers. The brokers farthest out of band come first. Each
gives away the partitions that lower ``Σ ψ`` most, until none does; a broker that leads too little takes over partitions that it follows. A
partition whose leader is on a dead dir changes its leader in any case. Each change lowers ``Σ ψ``, so this ends. It depends only on the
placement of replicas, so a second run changes nothing.
"""

import numpy as np

from spindle.planner.problem import PlanningProblem
from spindle.planner.snapshot import BoolArray, FloatArray, IntArray, group

_ROUNDS = 100  # passes over all brokers; usually a handful are enough
_EPSILON = 1e-9


class Leaders:
    """Leader of each partition, as a row of replicas; improved in place by :meth:`balance`."""

    def __init__(self, problem: PlanningProblem, where: IntArray, band: float) -> None:
        """Start from the present preferred leaders.

        Args:
            problem: states of dirs and brokers.
            where: dir of each replica after the plan, int64[R].
            band: β.
        """
        s = problem.snapshot
        self.snapshot, self.band = s, band
        self.broker: IntArray = s.dir_broker[where]
        self.able: BoolArray = problem.live[where] & ~s.frozen
        self.leader: IntArray = s.start[:-1].copy()
        alive = s.alive
        n = len(s.broker)
        self.rate: FloatArray = s.rate
        logs = ~s.other[self.leader]
        self.n_mean = max(int(logs.sum()) / max(int(alive.sum()), 1), _EPSILON)
        self.w_mean = max(float(s.rate[self.leader].sum()) / max(int(alive.sum()), 1), _EPSILON)
        led = self.broker[self.leader]
        self.count: list[float] = (np.bincount(led[logs], minlength=n) / self.n_mean).tolist()
        self.weight: list[float] = (np.bincount(led, s.rate[self.leader], n) / self.w_mean).tolist()
        self._one, self._high, self._low = 1 / self.n_mean, 1 + band, 1 - band
        self._now = [
            self._psi(n, w) for n, w in zip(self.count, self.weight, strict=True)
        ]  # ψ of each broker
        self._grouped: IntArray = group(self.broker, n)
        self._edges = np.searchsorted(self.broker[self._grouped], np.arange(n + 1))
        self.alive = alive

    def misfit(self, count: FloatArray, weight: FloatArray) -> FloatArray:
        """ψ, elementwise."""
        b = self.band
        return (
            np.maximum(count - 1 - b, 0) + np.maximum(1 - b - count, 0)
            + np.maximum(weight - 1 - b, 0) + np.maximum(1 - b - weight, 0)
        )  # fmt: skip

    def balance(self) -> None:
        """Change leaders until no change helps."""
        self._replace_dead()
        for _ in range(_ROUNDS):
            psi = np.where(self.alive, np.array(self._now), 0.0)
            worst = (-psi).argsort(kind="stable")
            worst = worst[psi[worst] > _EPSILON]
            if not len(worst) or not self._round(worst):
                return

    def _replace_dead(self) -> None:
        """Make the first live replica the preferred leader of partitions whose preferred leader is dead."""
        s = self.snapshot
        for p in np.flatnonzero(~self.able[self.leader] & ~s.frozen[self.leader]).tolist():
            rows = np.arange(s.start[p], s.start[p + 1])
            live = rows[self.able[rows]]
            if len(live):
                self._set_leader(int(live[0]))

    def _round(self, worst: IntArray) -> bool:
        """Let each of these brokers give or take partitions that help; returns whether anything changed."""
        changed = False
        for b in worst.tolist():
            mine = self._grouped[self._edges[b] : self._edges[b + 1]]
            leads = self.leader[self.snapshot.part[mine]] == mine
            changed |= self._settle(self._others(mine[leads]), b)
            changed |= self._settle(mine[~leads], b)
        return changed

    def _others(self, leaders: IntArray) -> IntArray:
        """The other replicas of the partitions that these replicas lead."""
        part = self.snapshot.part[leaders]
        first, last = self.snapshot.start[part], self.snapshot.start[part + 1]
        longest = int((last - first).max(initial=0))
        rows = first[:, None] + np.arange(longest)
        return np.sort(rows[(rows < last[:, None]) & (rows != leaders[:, None])])

    def _gain(self, rows: IntArray) -> FloatArray:
        """The decrease of Σψ if each of these replicas, on its own, became leader."""
        part = self.snapshot.part[rows]
        old = self.leader[part]
        a, b = self.broker[old], self.broker[rows]
        w = self.rate[old] / self.w_mean
        count, weight = np.array(self.count), np.array(self.weight)
        psi = np.array(self._now)
        then = self.misfit(count[a] - self._one, weight[a] - w) + self.misfit(
            count[b] + self._one, weight[b] + w
        )
        return np.where(old == rows, 0.0, psi[a] + psi[b] - then)

    def _settle(self, rows: IntArray, b: int) -> bool:
        """Make these candidates leaders, best first by a gain that is computed once and checked again before each change."""
        if self._now[b] <= _EPSILON:
            return False
        rows = rows[self.able[rows] & self.able[self.leader[self.snapshot.part[rows]]]]
        if not len(rows):
            return False
        gain = self._gain(rows)
        order = (-gain).argsort(kind="stable")
        rows = rows[order[gain[order] > _EPSILON]]
        changed = False
        # A partition whose leader changed in the meantime is considered again in the next round.
        before = self.leader[self.snapshot.part[rows]]
        rates = (self.rate[before] / self.w_mean).tolist()
        brokers = zip(self.broker[before].tolist(), self.broker[rows].tolist(), strict=True)
        for r, old, w, (a, to) in zip(rows.tolist(), before.tolist(), rates, brokers, strict=True):
            if self._exact_gain(a, to, w) > _EPSILON and self.leader[self.snapshot.part[r]] == old:
                self._set_leader(r)
                changed = True
                if self._now[b] <= _EPSILON:
                    break
        return changed

    def _psi(self, n: float, w: float) -> float:
        """ψ of one broker, in plain floats: this is the inner loop."""
        high, low = self._high, self._low
        psi = n - high if n > high else low - n if n < low else 0.0
        return psi + (w - high) if w > high else psi + (low - w) if w < low else psi

    def _exact_gain(self, a: int, b: int, w: float) -> float:
        """The decrease of Σψ if the leader of a partition with weight ``w`` changes from broker ``a`` to ``b``."""
        if a == b:
            return 0.0
        before = self._now[a] + self._now[b]
        if before <= _EPSILON:
            return 0.0
        left = before - self._psi(self.count[a] - self._one, self.weight[a] - w)
        # ψ is never negative, so the gain is at most `left`; this decides most cases.
        return left - self._psi(self.count[b] + self._one, self.weight[b] + w) if left > _EPSILON else left

    def _set_leader(self, r: int) -> None:
        """Make replica ``r`` the preferred leader of its partition."""
        p = self.snapshot.part[r]
        old = int(self.leader[p])
        a, b = int(self.broker[old]), int(self.broker[r])
        w = float(self.rate[old]) / self.w_mean
        self.count[a] -= self._one
        self.count[b] += self._one
        self.weight[a] -= w
        self.weight[b] += w
        for x in (a, b):
            self._now[x] = self._psi(self.count[x], self.weight[x])
        self.leader[p] = r

    @property
    def changes(self) -> IntArray:
        """Replicas that become preferred leaders, ascending."""
        return np.sort(self.leader[self.leader != self.snapshot.start[:-1]])
