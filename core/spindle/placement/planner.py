"""One plan over racks, brokers and disks: :func:`plan` puts the parts together.

    snapshot ─ pose ─► problem ─ rounding ─► steps ─ waves ─► schedule ─ budget ─► Plan
                          └ bound                                └ leaders

Pure and deterministic: the same snapshot, goals and budget give the same plan, byte for byte, on any machine.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spindle.placement.bound import bound
from spindle.placement.budget import Point, curve, within
from spindle.placement.leaders import Leaders
from spindle.placement.problem import Goals, PlanBudget, PlanningProblem, build_problem
from spindle.placement.rounding import improve, short_partitions
from spindle.placement.search import LARGEST, search
from spindle.placement.snapshot import FloatArray, IntArray, PlannerSnapshot
from spindle.placement.state import PlanState, PlanStep
from spindle.placement.waves import schedule

_PASSES = 8  # each pass lowers what is left; more than two are rare
_BEGINNINGS = 8  # how often planning begins anew; once, nearly always
_FLOOR = 1.0  # bytes; less is nothing
_MOSTLY = 0.9  # of all partitions
_NAMED = 5  # findings of one kind that are spelled out
_REMEMBERED = 64  # plans of small clusters that are kept


@dataclass(frozen=True, eq=False)
class PlacementPlan:
    """What to do, what it costs, and how good it is. Moves stand in the order of execution.

    Attributes:
        problem: snapshot, goals and bands that it was made for.
        wave: wave of each move, from 0, ascending: int64[M].
        replica: row in the snapshot, int64[M].
        source, target: rows of dirs, int64[M].
        reason: :class:`spindle.placement.state.MoveReason`, int64[M].
        peak: highest fill of a usable dir during each wave, float64[waves].
        bound: the fewest bytes that any plan must move to bring everything into its band (forecast sizes, if given).
        points: bytes moved against bytes out of band after every wave; the first point is the start.
        dropped: steps of the full plan that the budget did not allow.
        leader: replicas that become preferred leaders, int64[…].
        unreached: what could not be had, why, and what would make it possible; one sentence each.
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
        """Bytes that each move copies, by size now."""
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
        """Planned bytes over the bound; 1 if neither is anything."""
        moved = float(self.problem.snapshot.planned[self.replica].sum())
        return moved / self.bound if self.bound > 0 else (1.0 if not moved else float("inf"))

    @property
    def digest(self) -> str:
        """Hash of the snapshot that this plan is for."""
        return self.problem.snapshot.digest

    @cached_property
    def after(self) -> FloatArray:
        """Planned bytes on each dir once the plan is done, float64[D]."""
        return self.result.used

    @cached_property
    def result(self) -> PlannerSnapshot:
        """The cluster once the plan is done."""
        return self.problem.snapshot.moved(self.replica, self.target, self.leader)

    def seconds(self, budget: PlanBudget) -> float:
        """How long the plan takes if every broker copies at the budget's rate: wave by wave, its busiest broker."""
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
    """Find the moves.

    Args:
        snapshot: from :func:`spindle.placement.snapshot.build` or a constructor in :mod:`spindle.placement.sources`.
        goals: what is wanted; the defaults of :class:`Goals` if not given.
        budget: what it may cost; nothing is limited if not given.
        tell: called with what is being done, for whoever waits for a large plan.
    """
    goals, budget = goals or Goals(), budget or PlanBudget()
    problem = build_problem(snapshot, goals)
    tell(f"finding moves for {len(snapshot.topic):,} replicas on {len(snapshot.capacity):,} dirs")
    steps = _known_steps(problem)
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


_known: dict[tuple[str, Goals], tuple[PlanStep, ...]] = {}


def _known_steps(problem: PlanningProblem) -> list[PlanStep]:
    """:func:`_steps`, which in a small cluster takes up to a second: found once for the same snapshot and goals, pass after pass."""
    snapshot, goals = problem.snapshot, problem.goals
    if not goals.search or len(snapshot.topic) * len(snapshot.capacity) > LARGEST:
        return _steps(problem)
    found = _known.get((snapshot.digest, goals))
    if found is None:
        found = tuple(_steps(problem))
        if len(_known) >= _REMEMBERED:
            _known.clear()
        _known[snapshot.digest, goals] = found
    return list(found)


def _steps(problem: PlanningProblem) -> list[PlanStep]:
    """Passes until one finds nothing more, as net moves in an order that is legal one by one.

    A pass depends on nothing but where replicas stand, so if planning ends with a pass that finds nothing, planning on its
    result finds nothing either. A replica moves once. Where a later pass wants to move some again and no order allows that
    as one move each (in very full clusters), planning begins anew with those held back in the first pass.
    """
    best: PlanState | None = None
    waiting: list[frozenset[int]] = [frozenset()]
    seen = set(waiting)
    for _ in range(_BEGINNINGS):
        if not waiting:
            break
        held = waiting.pop(0)
        state, again = _from_start(problem, held)
        if best is None or _standing(state) < _standing(best):
            best = state
        if not again and _standing(state)[:2] <= _standing(best)[:2]:
            return state.steps
        one = [frozenset({r}) for r in sorted(again)]
        for other in (held | again, again, *one, *(held | x for x in one)):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return best.steps if best else []


def _from_start(problem: PlanningProblem, held: Collection[int]) -> tuple[PlanState, frozenset[int]]:
    """All passes; and, if the last one could not be had, the replicas that it would have moved a second time."""
    state = _pass(problem, problem.snapshot.dir, held)
    for _ in range(_PASSES):
        if _settled(state):
            break
        more = _pass(problem, state.dir)
        if not more.steps:
            break
        net = _net(problem, state.steps + more.steps)
        moved = frozenset(x.replica for x in state.steps)
        if _standing(net)[:3] >= _standing(state)[:3]:
            # Perhaps as much can be had with replicas that have not moved yet.
            other = _pass(problem, state.dir, moved)
            net = _net(problem, state.steps + other.steps)
            if _standing(net)[:3] >= _standing(state)[:3]:
                return state, moved & {x.replica for x in more.steps} or moved
        state = net
    return state, frozenset()


def _pass(problem: PlanningProblem, where: IntArray, held: Collection[int] = ()) -> PlanState:
    """Rounding, and in a small cluster also searching; the better of the two."""
    state = PlanState(problem, where)
    state.done[list(held)] = True
    improve(state)
    goals = problem.goals
    if not held and goals.balance and goals.search and 0 < len(where) * len(problem.lo) <= LARGEST:
        other = PlanState(problem, where)
        for r, j in search(problem, where, [(x.replica, x.target) for x in state.steps]):
            other.move(r, j, other.reason_to_leave(int(other.dir[r])))
        if _standing(other) < _standing(state):
            return other
    return state


def _standing(state: PlanState) -> tuple[float, int, float, float, int]:
    """How good a state is, least is best: stranded bytes, partitions short of a rack, unrest, bytes moved, moves."""
    stranded = float(state.size[~state.problem.usable[state.dir]].sum())
    unrest = state.imbalance if state.imbalance > state.floor else 0.0
    moved = float(sum(state.size[x.replica] for x in state.steps))
    return stranded, len(short_partitions(state)), unrest, moved, len(state.steps)


def _settled(state: PlanState) -> bool:
    """Whether nothing is left to wish for."""
    stranded, short, unrest, *_ = _standing(state)
    return not stranded and not short and (not unrest or not state.problem.goals.balance)


def _net(problem: PlanningProblem, steps: list[PlanStep]) -> PlanState:
    """One move per replica, from where it is to where it ends, as far as moves are legal in some order."""
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
    """What is not as wanted once the plan is done, with the reason and the way out."""
    if dropped:
        return (
            *problem.notes,
            f"{dropped:,} moves of the full plan are beyond the budget; allow more and plan again",
        )
    s = problem.snapshot
    state = PlanState(problem, where)
    found = list(problem.notes)
    for d in np.unique(where[~problem.usable[where]]).tolist():
        rows = np.flatnonzero(where == d)
        frozen = int(s.frozen[rows].sum())
        why = f"{frozen} of them are being reassigned by someone else" if frozen else "no legal dir has room"
        found.append(
            f"{len(rows)} replicas ({s.planned[rows].sum():.3g} bytes) remain on {s.dir_label(d)}: {why}; "
            + (
                "let that end"
                if frozen
                else "add a broker or a disk, in a rack that these partitions do not use yet"
            )
        )
    for p in short_partitions(state)[:_NAMED].tolist():
        r = int(s.start[p])
        found.append(
            f"{s.topic_name(r)}-{s.partition[r]} stays on fewer racks than it should: no dir in another rack can take it "
            "below the incoming limit; add room there"
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
    # Where partitions have a replica in every rack, no byte can leave a rack.
    tied = p.racks > 1 and bool(np.sum(np.diff(s.start) >= p.racks) > _MOSTLY * (len(s.start) - 1))
    found = []
    for b in worst[off[worst] > _FLOOR + 1e-6 * capacity[worst]].tolist():
        lo, hi = p.broker_lo[b] / capacity[b], p.broker_hi[b] / capacity[b]
        text = f"broker {s.broker[b]} ends at {per[b] / capacity[b]:.1%}, outside {lo:.1%} to {hi:.1%}: "
        mates = s.rack == s.rack[b]
        mean = float(per[mates].sum() / capacity[mates].sum())
        if tied and not lo <= mean <= hi:
            text += (
                f"partitions have a replica in each of the {p.racks} racks, so no byte can leave a rack, and rack "
                f"{s.rack_names[int(s.rack[b])]} as a whole is {mean:.1%} full; give it more disks, or take from it"
            )
        else:
            text += "no legal move or swap brings it nearer; a wider band or smaller logs would"
        found.append(text)
    return found


def _why_off(problem: PlanningProblem, used: FloatArray, d: int, largest: float) -> str:
    s = problem.snapshot
    fill, lo, hi = (x[d] / s.capacity[d] for x in (used, problem.lo, problem.hi))
    text = f"{s.dir_label(d)} ends at {fill:.1%}, outside {lo:.1%} to {hi:.1%}: "
    if largest > problem.hi[d]:
        return (
            text
            + f"one log of {largest:.3g} bytes is larger than the band's upper end; give the topic more partitions"
        )
    return (
        text
        + "no legal move or swap brings it nearer; a wider band, a budget that allows more, or smaller logs would"
    )
