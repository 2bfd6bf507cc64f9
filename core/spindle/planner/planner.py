"""Plans racks, brokers and disks together: :func:`plan` combines the stages.

    snapshot ─ pose ─► problem ─ rounding ─► steps ─ waves ─► schedule ─ budget ─► Plan
                          └ bound                                └ leaders

Pure and deterministic: the same snapshot, goals and budget give the same plan, byte for byte, on every machine.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spindle.planner.bound import bound
from spindle.planner.budget import Point, curve, within
from spindle.planner.leaders import Leaders
from spindle.planner.problem import Goals, PlanBudget, PlanningProblem, build_problem
from spindle.planner.rounding import improve, short_partitions
from spindle.planner.search import LARGEST, search
from spindle.planner.snapshot import FloatArray, IntArray, PlannerSnapshot
from spindle.planner.state import PlanState, PlanStep
from spindle.planner.waves import schedule

_PASSES = 8  # each pass reduces the remainder; more than two are rare
_RESTARTS = 8  # how often planning restarts; once in nearly all cases
_FLOOR = 1.0  # bytes; less counts as zero
_MOSTLY = 0.9  # of all partitions
_NAMED = 5  # problems of one kind that are listed in full
_CACHED = 64  # cached plans of small clusters


@dataclass(frozen=True, eq=False)
class PlacementPlan:
    """The moves in the order of execution, their cost and their result.

    Attributes:
        problem: snapshot, goals and bands of this plan.
        wave: wave of each move, from 0, ascending: int64[M].
        replica: row in the snapshot, int64[M].
        source, target: rows of dirs, int64[M].
        reason: :class:`spindle.planner.state.MoveReason`, int64[M].
        peak: highest usage of a usable dir during each wave, float64[waves].
        bound: the minimum number of bytes that any plan must move to reach all bands (with forecast sizes, if given).
        points: bytes moved and bytes out of band after each wave; the first point is the start.
        dropped: number of steps of the full plan that exceed the budget.
        leader: replicas that become preferred leaders, int64[…].
        unreached: one sentence for each goal that was not reached: why, and what would help.
    """

    problem: PlanningProblem
    wave: IntArray
    replica: IntArray
    source: IntArray
    target: IntArray
    reason: IntArray
    peak: FloatArray
    bound: float
    points: tuple[Point, ...]
    dropped: int
    leader: IntArray
    unreached: tuple[str, ...]

    @cached_property
    def bytes(self) -> FloatArray:
        """Bytes that each move copies, by the present sizes."""
        return self.problem.snapshot.size[self.replica]

    @cached_property
    def intra(self) -> IntArray:
        """Indices of the moves between dirs of one broker."""
        at = self.problem.snapshot.dir_broker
        return np.flatnonzero(at[self.source] == at[self.target])

    @property
    def bytes_intra(self) -> float:
        """Bytes copied between dirs of one broker."""
        return float(self.bytes[self.intra].sum())

    @property
    def bytes_inter(self) -> float:
        """Bytes copied between brokers."""
        return float(self.bytes.sum()) - self.bytes_intra

    @property
    def ratio(self) -> float:
        """Planned bytes divided by the bound; 1 if both are zero."""
        moved = float(self.problem.snapshot.planned[self.replica].sum())
        return moved / self.bound if self.bound > 0 else (1.0 if not moved else float("inf"))

    @property
    def digest(self) -> str:
        """Hash of the snapshot of this plan."""
        return self.problem.snapshot.digest

    @cached_property
    def after(self) -> FloatArray:
        """Planned bytes on each dir after the plan, float64[D]."""
        return self.result.used

    @cached_property
    def result(self) -> PlannerSnapshot:
        """The snapshot after the plan."""
        return self.problem.snapshot.moved(self.replica, self.target, self.leader)

    def seconds(self, budget: PlanBudget) -> float:
        """Duration if every broker copies at the budget's rate: the sum over waves of the busiest broker's time."""
        return float(sum(_wave_seconds(self, budget)))


def _wave_seconds(plan: PlacementPlan, budget: PlanBudget) -> list[float]:
    s = plan.problem.snapshot
    n = len(s.broker)
    seconds = []
    for k in range(int(plan.wave.max(initial=-1)) + 1):
        at = np.flatnonzero(plan.wave == k)
        out = np.bincount(s.dir_broker[plan.source[at]], plan.bytes[at], n)
        into = np.bincount(s.dir_broker[plan.target[at]], plan.bytes[at], n)
        seconds.append(float(np.maximum(out, into).max(initial=0.0)) / budget.bytes_per_second)
    return seconds


def plan(
    snapshot: PlannerSnapshot,
    goals: Goals | None = None,
    budget: PlanBudget | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> PlacementPlan:
    """Compute a plan.

    Args:
        snapshot: from :func:`spindle.planner.snapshot.build` or a constructor in :mod:`spindle.planner.sources`.
        goals: the defaults of :class:`Goals` if not given.
        budget: no limits if not given.
        tell: called with a progress message before each stage.
    """
    goals, budget = goals or Goals(), budget or PlanBudget()
    problem = build_problem(snapshot, goals)
    tell(f"finding moves for {len(snapshot.topic):,} replicas on {len(snapshot.capacity):,} dirs")
    steps = _cached_steps(problem)
    tell(f"packing {len(steps):,} moves into waves")
    timetable = schedule(problem, steps, budget)
    chosen = within(problem, steps, timetable, budget)
    where = snapshot.dir.copy()
    rows = np.array([x.replica for x in chosen.steps], np.int64)
    where[rows] = [x.target for x in chosen.steps]
    leader = np.zeros(0, np.int64)
    if goals.leader_band is not None and len(snapshot.topic):
        tell("balancing leaders")
        leaders = Leaders(problem, where, goals.leader_band)
        leaders.balance()
        leader = leaders.changes
    order = chosen.schedule.order
    at = [chosen.steps[k] for k in order.tolist()]
    return PlacementPlan(
        problem=problem, wave=chosen.schedule.wave[order], replica=rows[order],
        source=np.array([x.source for x in at], np.int64), target=np.array([x.target for x in at], np.int64),
        reason=np.array([x.reason for x in at], np.int64), peak=chosen.schedule.peak,
        bound=bound(problem, snapshot.used).bytes,
        points=curve(problem, chosen.steps, chosen.schedule), dropped=len(steps) - len(chosen.steps),
        leader=leader, unreached=_unreached(problem, where, len(steps) - len(chosen.steps)),
    )  # fmt: skip


known_steps: dict[tuple[str, Goals], tuple[PlanStep, ...]] = {}


def _cached_steps(problem: PlanningProblem) -> list[PlanStep]:
    """:func:`_steps`, which in a small cluster takes up to a second: found once for the same snapshot and goals, pass after pass.

    The key is complete: `_steps` depends only on the snapshot, which its digest identifies, and on the goals. A step is immutable.
    """
    snapshot, goals = problem.snapshot, problem.goals
    if len(snapshot.topic) * len(snapshot.capacity) > LARGEST:
        return _steps(problem)
    found = known_steps.get((snapshot.digest, goals))
    if found is None:
        found = tuple(_steps(problem))
        if len(known_steps) >= _CACHED:
            known_steps.clear()
        known_steps[snapshot.digest, goals] = found
    return list(found)


def _steps(problem: PlanningProblem) -> list[PlanStep]:
    """Repeat passes until one finds no move; returns one move per replica, in an order in which each move is legal.

    A pass depends only on the placement of replicas. So if the last pass finds no move, planning on its result finds none either. A
    replica moves once. If a later pass moves some replicas again and no order makes that one legal move each (in very full clusters),
    planning restarts without these replicas in the first pass.
    """
    best: PlanState | None = None
    waiting: list[frozenset[int]] = [frozenset()]
    seen = set(waiting)
    for _ in range(_RESTARTS):
        if not waiting:
            break
        held = waiting.pop(0)
        state, again = _from_start(problem, held)
        if best is None or _quality(state) < _quality(best):
            best = state
        if not again and _quality(state)[:2] <= _quality(best)[:2]:
            return state.steps
        one = [frozenset({r}) for r in sorted(again)]
        for other in (held | again, again, *one, *(held | x for x in one)):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return best.steps if best else []


def _from_start(problem: PlanningProblem, held: Collection[int]) -> tuple[PlanState, frozenset[int]]:
    """All passes; and, if the last one is impossible, the replicas that it would have moved a second time."""
    state = _pass(problem, problem.snapshot.dir, held)
    for _ in range(_PASSES):
        if _complete(state):
            break
        more = _pass(problem, state.dir)
        if not more.steps:
            break
        net = _net(problem, state.steps + more.steps)
        moved = frozenset(x.replica for x in state.steps)
        if _quality(net)[:3] >= _quality(state)[:3]:
            # Replicas that have not moved yet may achieve the same.
            other = _pass(problem, state.dir, moved)
            net = _net(problem, state.steps + other.steps)
            if _quality(net)[:3] >= _quality(state)[:3]:
                return state, moved & {x.replica for x in more.steps} or moved
        state = net
    return state, frozenset()


def _pass(problem: PlanningProblem, where: IntArray, held: Collection[int] = ()) -> PlanState:
    """The result of rounding, or in a small cluster that of the search if it is better."""
    state = PlanState(problem, where)
    state.done[list(held)] = True
    improve(state)
    goals = problem.goals
    if not held and goals.balance and goals.search and 0 < len(where) * len(problem.lo) <= LARGEST:
        other = PlanState(problem, where)
        for r, j in search(problem, where, [(x.replica, x.target) for x in state.steps]):
            other.move(r, j, other.reason_to_leave(int(other.dir[r])))
        if _quality(other) < _quality(state):
            return other
    return state


def _quality(state: PlanState) -> tuple[float, int, float, float, int]:
    """Quality of a state, lower is better: bytes on dirs to be emptied, partitions on too few racks, out-of-band bytes, bytes moved, moves."""
    stranded = float(state.size[~state.problem.usable[state.dir]].sum())
    unrest = state.imbalance if state.imbalance > state.floor else 0.0
    moved = float(sum(state.size[x.replica] for x in state.steps))
    return stranded, len(short_partitions(state)), unrest, moved, len(state.steps)


def _complete(state: PlanState) -> bool:
    """Whether all goals are reached."""
    stranded, short, unrest, *_ = _quality(state)
    return not stranded and not short and (not unrest or not state.problem.goals.balance)


def _net(problem: PlanningProblem, steps: list[PlanStep]) -> PlanState:
    """One move per replica, from its first to its last dir, as far as some order makes the moves legal."""
    last = {x.replica: k for k, x in enumerate(steps)}
    state = PlanState(problem)
    waiting = [x for k, x in enumerate(steps) if last[x.replica] == k]
    while waiting:
        later = []
        for x in waiting:
            if state.dir[x.replica] == x.target:
                continue
            if state.legal(x.replica, x.target, lenient=True):
                state.move(x.replica, x.target, x.reason)
            else:
                later.append(x)
        if len(later) == len(waiting):
            break
        waiting = later
    return state


def _unreached(problem: PlanningProblem, where: IntArray, dropped: int) -> tuple[str, ...]:
    """The goals that the plan does not reach: why, and what would help."""
    if dropped:
        return (
            *problem.notes,
            f"{dropped:,} moves of the full plan exceed the budget; increase the budget and plan again",
        )
    s = problem.snapshot
    state = PlanState(problem, where)
    found = list(problem.notes)
    for d in np.unique(where[~problem.usable[where]]).tolist():
        rows = np.flatnonzero(where == d)
        frozen = int(s.frozen[rows].sum())
        why = (
            f"{frozen} of them belong to partitions that another client is reassigning"
            if frozen
            else "no permitted dir has space"
        )
        found.append(
            f"{len(rows)} replicas ({s.planned[rows].sum():.3g} bytes) remain on {s.dir_label(d)}: {why}; "
            + (
                "plan again after that"
                if frozen
                else "add a broker or a disk in a rack that these partitions do not use yet"
            )
        )
    for p in short_partitions(state)[:_NAMED].tolist():
        r = int(s.start[p])
        found.append(
            f"{s.topic_name(r)}-{s.partition[r]} stays on fewer racks than possible: no dir in another rack can take it "
            "below the incoming limit; add space there"
        )
    if problem.goals.balance:
        off = np.maximum(np.maximum(state.used - problem.hi, problem.lo - state.used), 0) * problem.usable
        worst = np.argsort(-off, kind="stable")[:_NAMED]
        largest = np.zeros(len(off))
        np.maximum.at(largest, where, s.planned)
        far = worst[off[worst] > state.floor + 1e-7 * problem.hi[worst]]
        found += [_why_off(problem, state.used, d, float(largest[d])) for d in far.tolist()]
        found += _brokers_off(problem, state.used)
    return tuple(found)


def _brokers_off(problem: PlanningProblem, used: FloatArray) -> list[str]:
    """Brokers that end outside their bands, worst first, with the reason."""
    s, p = problem.snapshot, problem
    per, capacity = p.per_broker(used), np.maximum(p.per_broker(s.capacity * p.usable), 1.0)
    off = np.maximum(np.maximum(per - p.broker_hi, p.broker_lo - per), 0) * s.alive
    worst = np.argsort(-off, kind="stable")[:_NAMED]
    # If partitions have a replica in every rack, bytes cannot leave a rack.
    tied = p.racks > 1 and bool(np.sum(np.diff(s.start) >= p.racks) > _MOSTLY * (len(s.start) - 1))
    found = []
    for b in worst[off[worst] > _FLOOR + 1e-6 * capacity[worst]].tolist():
        lo, hi = p.broker_lo[b] / capacity[b], p.broker_hi[b] / capacity[b]
        text = f"broker {s.broker[b]} ends at {per[b] / capacity[b]:.1%}, outside {lo:.1%} to {hi:.1%}: "
        mates = s.rack == s.rack[b]
        mean = float(per[mates].sum() / capacity[mates].sum())
        if tied and not lo <= mean <= hi:
            text += (
                f"partitions have a replica in each of the {p.racks} racks, so bytes cannot leave a rack, and rack "
                f"{s.rack_names[int(s.rack[b])]} as a whole is {mean:.1%} full; add disks there or remove data"
            )
        else:
            text += "no permitted move or swap improves it; a wider band or smaller logs would help"
        found.append(text)
    return found


def _why_off(problem: PlanningProblem, used: FloatArray, d: int, largest: float) -> str:
    s = problem.snapshot
    fill, lo, hi = (x[d] / s.capacity[d] for x in (used, problem.lo, problem.hi))
    text = f"{s.dir_label(d)} ends at {fill:.1%}, outside {lo:.1%} to {hi:.1%}: "
    if largest > problem.hi[d]:
        return (
            text
            + f"one log of {largest:.3g} bytes is larger than the upper limit of the band; give the topic more partitions"
        )
    return (
        text
        + "no permitted move or swap improves it; a wider band, a larger budget or smaller logs would help"
    )
