"""Covers an amount without another move: a planned move takes a larger log, or gets another target.

If a dir must still give ``need`` bytes and one of its logs is planned to leave it, a log of that dir that is larger by ``need``
can leave instead, and the smaller one stays. The same applies to a dir that must take bytes: the log that is planned to arrive is
replaced with a larger one from the same source. A replica that leaves a dir that must be emptied can be redirected from a dir that does
not need it to one that does. None of these adds a move, or more bytes than needed.

**Why the order stays legal.** A step keeps its place in the order. The log that now stays and the log that now moves are the only replicas of
their partitions in the plan, so the rack check at that place gives the same result. At the target, all bytes
that left it after that place count as still present ("no overfull target", `docs/safety.md`, rule 4).
"""

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from spindle.planner.snapshot import IntArray
from spindle.planner.state import MoveReason, PlanState

_TRIES = 4  # exchanges tried per dir
_Choice = tuple[float, int, int]  # cost, step, replica


class Exchanges:
    """The steps of a state by source and by target, and the possible exchanges."""

    def __init__(self, state: PlanState, on: Callable[[int], IntArray]) -> None:
        """Start without steps.

        Args:
            state: changed in place.
            on: gives the replicas on a dir that may still move.
        """
        self.state, self.on = state, on
        self._known = 0
        self._from: defaultdict[int, list[int]] = defaultdict(list)  # changeable steps by source
        self._to: defaultdict[int, list[int]] = defaultdict(list)
        self._moving: defaultdict[int, int] = defaultdict(int)  # steps of each partition
        self._left: defaultdict[int, float] = defaultdict(float)  # bytes that have left each dir
        self._forced: list[int] = []  # steps of replicas that had to leave

    def _learn(self) -> None:
        """Add the steps since the last call."""
        state, part = self.state, self.state.snapshot.part
        for k in range(self._known, len(state.steps)):
            x = state.steps[k]
            self._moving[int(part[x.replica])] += 1
            self._left[x.source] += float(state.size[x.replica])
            if x.reason > MoveReason.RACK:
                self._from[x.source].append(k)
                self._to[x.target].append(k)
            elif x.reason < MoveReason.RACK:
                self._forced.append(k)
        self._known = len(state.steps)

    def give(self, i: int, rows: IntArray, need: float, share: float) -> bool:
        """Let a move off dir ``i`` take one of its ``rows`` that is larger by at least ``need`` and at most ``need + share``."""
        self._learn()
        steps = self._from.get(i)
        if not steps:
            return False
        state = self.state
        sizes = state.size[rows]
        # Usually no remaining log is larger than one that moves; check this before sorting.
        top = float(sizes.max(initial=0.0)) - need
        steps = [k for k in steps if state.size[state.steps[k].replica] <= top]
        if not steps:
            return False
        order = sizes.argsort(kind="stable")
        rows, sizes = rows[order], sizes[order]
        found: list[_Choice] = []
        for k in steps:
            old = state.steps[k]
            x, t = float(state.size[old.replica]), old.target
            most = min(need + share, float(state.free_in[t]), float(state.free_out[i]))
            first, last = np.searchsorted(sizes, (x + need, x + most)).tolist()
            for at in range(first, last):
                more = float(sizes[at]) - x
                wasted = max(0.0, more - float(state.useful_in[t]) - max(0.0, -state.gap))
                if wasted <= share:
                    found.append((more - need + wasted, k, int(rows[at])))
        return self._best(found, None)

    def take(self, j: int, need: float, share: float) -> bool:
        """Let a move into dir ``j`` take a log that is larger by ``need``, or redirect a replica here that its target does not need."""
        self._learn()
        state = self.state
        if self._turn(j, need):
            return True
        found: list[_Choice] = []
        for k in self._to.get(j, ()):
            old = state.steps[k]
            rows = self.on(old.source)
            more = state.size[rows] - state.size[old.replica]
            most = min(need + share, state.free_out[old.source], state.free_in[j])
            fit = np.flatnonzero((more >= need) & (more <= most))
            found += [(float(more[n]), k, int(rows[n])) for n in fit.tolist()]
        return self._best(found, None)

    def _turn(self, j: int, need: float) -> bool:
        """Redirect a replica that had to leave its dir to dir ``j`` from a dir that does not need it."""
        if not self._forced:
            return False
        state = self.state
        rows = np.array([state.steps[k].replica for k in self._forced])
        x = state.size[rows]
        fit = np.flatnonzero((x >= need) & (x <= state.free_in[j]) & (x <= state.free_out[state.dir[rows]]))
        return self._best([(float(x[n]), self._forced[n], int(rows[n])) for n in fit.tolist()], j)

    def _best(self, found: list[_Choice], j: int | None) -> bool:
        """Apply the cheapest legal one of these exchanges; the target is dir ``j``, or else that of the step."""
        for _, k, r in sorted(found)[:_TRIES]:
            target = self.state.steps[k].target if j is None else j
            if self._legal(k, r, target):
                self._make(k, r, target)
                return True
        return False

    def _legal(self, k: int, r: int, j: int) -> bool:
        """Whether step ``k`` could have moved replica ``r`` to dir ``j``, at its place in the order."""
        state = self.state
        old, part = state.steps[k], state.snapshot.part
        mine, its = int(part[r]), int(part[old.replica])
        if self._moving[its] > 1 or (r != old.replica and (mine == its or self._moving.get(mine, 0))):
            return False
        since = self._left[j] - (float(state.size[old.replica]) if j == old.target else 0.0)
        state.dir[old.replica] = old.source
        state.used[j] += since
        legal = state.legal(r, j)
        state.used[j] -= since
        state.dir[old.replica] = old.target
        return legal

    def _make(self, k: int, r: int, j: int) -> None:
        """Apply an exchange and update the indexes of the steps."""
        state = self.state
        old, part = state.steps[k], state.snapshot.part
        state.exchange(k, r, j)
        self._moving[int(part[old.replica])] -= 1
        self._moving[int(part[r])] += 1
        self._left[old.source] += float(state.size[r] - state.size[old.replica])
