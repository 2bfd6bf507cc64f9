"""A judge of plans that shares no code with the planner: it walks the waves and names every broken rule."""

from collections import defaultdict

import numpy as np

from spindle.planner.planner import PlacementPlan
from spindle.planner.snapshot import DirState, PlannerSnapshot


def broken_rules(snapshot: PlannerSnapshot, plan: PlacementPlan) -> list[str]:
    """Rules 3, 4 and 6 in every wave, and that the moves are possible at all. Empty if all is well."""
    judge = _Judge(snapshot, plan.problem.goals.incoming_limit)
    waves: dict[int, list[int]] = defaultdict(list)
    for k, wave in enumerate(plan.wave.tolist()):
        waves[wave].append(k)
    for wave in sorted(waves):
        judge.wave(
            wave, [(int(plan.replica[k]), int(plan.source[k]), int(plan.target[k])) for k in waves[wave]]
        )
    return judge.found


class _Judge:
    def __init__(self, s: PlannerSnapshot, limit: float) -> None:
        self.s, self.limit = s, limit
        self.where = s.dir.tolist()
        self.used = [0.0] * len(s.capacity)
        for d, x in zip(self.where, s.planned.tolist(), strict=True):
            self.used[d] += x
        self.replicas: dict[int, list[int]] = defaultdict(list)
        for r, p in enumerate(s.part.tolist()):
            self.replicas[p].append(r)
        self.moved: set[int] = set()
        self.found: list[str] = []
        alive = [bool(s.alive[b]) for b in s.dir_broker]
        self.live = [a and x != DirState.OFFLINE for a, x in zip(alive, s.dir_state, strict=True)]
        self.takes = [a and x == DirState.ONLINE for a, x in zip(alive, s.dir_state, strict=True)]
        self.broken_brokers = {
            int(b) for b, x in zip(s.dir_broker, s.dir_state, strict=True) if x == DirState.OFFLINE
        }
        self.n_racks = len({int(x) for x, a in zip(s.rack, s.alive, strict=True) if a})

    def broker(self, d: int) -> int:
        return int(self.s.dir_broker[d])

    def racks(self, p: int) -> set[int]:
        return {
            int(self.s.rack[self.broker(self.where[r])]) for r in self.replicas[p] if self.live[self.where[r]]
        }

    def wave(self, number: int, moves: list[tuple[int, int, int]]) -> None:
        """Everything arrives while nothing has left; then the old copies go."""
        partitions: set[int] = set()
        leaving: list[tuple[int, float]] = []
        for r, source, target in moves:
            p, x = int(self.s.part[r]), float(self.s.planned[r])
            what = f"wave {number}, {self.s.topic_name(r)}-{self.s.partition[r]}"
            self._possible(what, r, source, target)
            if p in partitions:
                self.found.append(f"{what}: two replicas of it move at once (rule 6)")
            partitions.add(p)
            before = self.racks(p)
            self.where[r] = target
            if len(self.racks(p)) < len(before):
                self.found.append(f"{what}: fewer racks than before (rule 3)")
            self.used[target] += x
            leaving.append((source, x))
            if self.used[target] > self.limit * float(self.s.capacity[target]) * (1 + 1e-12):
                self.found.append(f"{what}: {self.s.dir_label(target)} above the incoming limit (rule 4)")
        for source, x in leaving:
            self.used[source] -= x

    def _possible(self, what: str, r: int, source: int, target: int) -> None:
        p = int(self.s.part[r])
        if self.where[r] != source or r in self.moved or source == target:
            self.found.append(f"{what}: it is not where the move says, or has moved already")
        self.moved.add(r)
        if self.s.frozen[r]:
            self.found.append(f"{what}: someone else is moving it (rule 6)")
        if not self.takes[target]:
            self.found.append(f"{what}: {self.s.dir_label(target)} takes nothing")
        if self.broker(source) == self.broker(target):
            if self.broker(source) in self.broken_brokers or not self.live[source]:
                self.found.append(f"{what}: moves inside a broker with an offline dir (rule 6)")
        elif any(self.broker(self.where[q]) == self.broker(target) for q in self.replicas[p] if q != r):
            self.found.append(f"{what}: twice on one broker")


def stranded(snapshot: PlannerSnapshot, where: np.ndarray) -> int:
    """Replicas on dirs that must be emptied."""
    alive = snapshot.alive[snapshot.dir_broker[where]]
    state = snapshot.dir_state[where]
    return int((~alive | (state == DirState.OFFLINE) | (state == DirState.DRAINING)).sum())
