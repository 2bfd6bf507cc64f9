"""Groups a sequence of moves into waves of parallel moves without breaking a rule.

The planner's sequence is legal if moves run one by one. Waves keep it legal and make it shorter: for each wave, the remaining
moves are checked in order, and a move joins the wave if

- its kind may run: dead dirs are copied before draining ones, and these before the rest (a later kind does not fill up a wave, since it
  would take bandwidth from more urgent copies);
- no other replica of its partition moves in this wave, and no earlier move of its partition is still waiting ("no rack lost" and "no
  conflicting move", `docs/safety.md`, rules 3 and 6: each move of a partition is legal after those before it);
- its target stays below the incoming limit ("no overfull target", `docs/safety.md`, rule 4). Every move of this wave into the dir counts
  in full and none out of it does (a log exists twice until its old copy is deleted), and space is reserved for every earlier move
  into that dir that is still waiting;
- neither of its brokers nor the target's rack has its maximum number of moves. Copies come from a live replica, so a dead
  source does not count.

**No deadlock.** The first waiting move always fits. All moves before it are done, so its target has lost the same bytes as
when the move was planned, and later moves that ran earlier left space for it. So every wave has at least one move.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spindle.planner.problem import PlanBudget, PlanningProblem
from spindle.planner.snapshot import FloatArray, IntArray
from spindle.planner.state import MoveReason, PlanStep

_WAVES = 28  # target for the choice of concurrency
_LEAST = 5  # minimum of parallel moves per broker, whatever the number of waves


@dataclass(frozen=True, eq=False)
class Schedule:
    """The wave of each step.

    Attributes:
        wave: wave of each step, from 0: int64[moves].
        peak: highest usage of a usable dir during each wave: float64[waves].
    """

    wave: IntArray
    peak: FloatArray

    @property
    def order(self) -> IntArray:
        """Steps ordered by wave; within a wave in order of planning."""
        return np.argsort(self.wave, kind="stable")


def schedule(problem: PlanningProblem, steps: Sequence[PlanStep], budget: PlanBudget) -> Schedule:
    """Group steps into waves."""
    run = _Waves(problem, steps, budget)
    number = 0
    while run.waiting:
        run.next(number)
        number += 1
    return Schedule(np.array(run.wave, np.int64), np.array(run.peaks))


class _Waves:
    """Builds wave by wave; uses plain lists, because each step is read a few times and never in bulk."""

    def __init__(self, problem: PlanningProblem, steps: Sequence[PlanStep], budget: PlanBudget) -> None:
        s = problem.snapshot
        self.steps, self.snapshot, self.problem = steps, s, problem
        broker = s.dir_broker.tolist()
        live = problem.live.tolist()
        rack = s.rack.tolist()
        # Per step: partition, source dir, target dir, bytes, source broker (-1 if dead), target broker, rack entered (-1 if none), kind.
        part = s.part[[x.replica for x in steps]].tolist() if steps else []
        size = s.planned[[x.replica for x in steps]].tolist() if steps else []
        # A kind late in the order may depend on moves before it.
        kinds = np.maximum.accumulate([min(x.reason, MoveReason.RACK) for x in steps] or [0]).tolist()
        self.rows = [
            (
                part[k], x.source, x.target, size[k],
                broker[x.source] if live[x.source] else -1,
                broker[x.target] if broker[x.source] != broker[x.target] else -1,
                rack[broker[x.target]] if broker[x.source] != broker[x.target] else -1,
                kinds[k],
            )
            for k, x in enumerate(steps)
        ]  # fmt: skip
        self.used: list[float] = s.used.tolist()
        self.limit: list[float] = problem.limit.tolist()
        self.wave = [-1] * len(steps)
        self.waiting = list(range(len(steps)))
        self.peaks: list[float] = []
        self.per_broker = budget.per_broker or self._concurrency(len(s.broker))
        self.per_rack = budget.per_rack or 10 * self.per_broker

    def _concurrency(self, brokers: int) -> int:
        """Moves per broker that give about the target number of waves."""
        touched = [0] * brokers
        for row in self.rows:
            for b in (row[4], row[5]):
                if b >= 0:
                    touched[b] += 1
        return max(_LEAST, -(-max(touched, default=0) // _WAVES))

    def next(self, number: int) -> None:
        """Build one wave."""
        kind = min(self.rows[k][7] for k in self.waiting)
        busy: dict[int, int] = {}
        racks: dict[int, int] = {}
        coming: dict[
            int, float
        ] = {}  # bytes into each dir: of this wave and of every earlier move that still waits
        partitions: set[int] = set()
        rest, chosen = [], []
        for k in self.waiting:
            p, _, target, size, b_out, b_in, rack, its_kind = self.rows[k]
            there = coming.get(target, 0.0) + size
            coming[target] = there
            fits = (
                its_kind == kind
                and p not in partitions
                and self.used[target] + there <= self.limit[target]
                and busy.get(b_out, 0) < self.per_broker
                and busy.get(b_in, 0) < self.per_broker
                and racks.get(rack, 0) < self.per_rack
            )
            partitions.add(p)  # partitions that move or wait: no other replica of them may move now
            if not fits:
                rest.append(k)
                continue
            chosen.append(k)
            self.wave[k] = number
            for counts, key in ((busy, b_out), (busy, b_in), (racks, rack)):
                if key >= 0:
                    counts[key] = counts.get(key, 0) + 1
        self._land(chosen)
        self.waiting = rest

    def _land(self, chosen: list[int]) -> None:
        """Apply a wave: first all copies arrive (the peak), then the old ones are deleted."""
        for k in chosen:
            self.used[self.rows[k][2]] += self.rows[k][3]
        fill = np.array(self.used) / self.snapshot.capacity
        self.peaks.append(float(fill[self.problem.usable].max(initial=0.0)))
        for k in chosen:
            self.used[self.rows[k][1]] -= self.rows[k][3]
