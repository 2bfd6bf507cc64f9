"""Budgets: the best part of a plan for a limited number of bytes or time, and the curve of gain against bytes.

The measure is *bytes out of band*, summed over dirs and brokers (:meth:`PlanningProblem.out_of_band`); bytes on a dir that must be
emptied count as well. The better of two parts of the full plan is used:

- its longest prefix that fits the budget, by whole waves and in the last wave by moves, cut back to where the measure was lowest;
- a selection by density: in order of priority (evacuate, drain, racks), then by the out-of-band bytes that a move removes per byte moved,
  with each move checked for legality again, so that less useful early waves do not use up the budget.

Both are legal, because every prefix of an order in which each move is legal is legal as well. The first never leaves more bytes out of band
than the full plan cut off at the same number of bytes, so neither does the result.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spindle.planner.problem import PlanBudget, PlanningProblem
from spindle.planner.snapshot import FloatArray, PlannerSnapshot
from spindle.planner.state import MoveReason, PlanState, PlanStep
from spindle.planner.waves import Schedule, schedule


@dataclass(frozen=True)
class Point:
    """Bytes moved, and bytes out of band after that."""

    moved: float
    out_of_band: float


@dataclass(frozen=True, eq=False)
class Chosen:
    """The steps within the budget, in order of planning, and their schedule."""

    steps: list[PlanStep]
    schedule: Schedule


def curve(problem: PlanningProblem, steps: Sequence[PlanStep], timetable: Schedule) -> tuple[Point, ...]:
    """Bytes out of band at the start and after each wave; never rising, because a budget is cut before a rise."""
    s = problem.snapshot
    used = s.used.copy()
    moved, least = 0.0, problem.out_of_band(used)
    points = [Point(0.0, least)]
    by_wave: list[list[PlanStep]] = [[] for _ in timetable.peak]
    for x, wave in zip(steps, timetable.wave.tolist(), strict=True):
        by_wave[wave].append(x)
    for wave in by_wave:
        for x in wave:
            _shift(used, s, x)
            moved += float(s.size[x.replica])
        least = min(least, problem.out_of_band(used))
        points.append(Point(moved, least))
    return tuple(points)


def within(
    problem: PlanningProblem, steps: list[PlanStep], timetable: Schedule, budget: PlanBudget
) -> Chosen:
    """The best part of a plan within the budget; the whole plan if the budget has no limits."""
    if budget.max_seconds is not None:
        steps, timetable = _in_time(problem, steps, timetable, budget)
    if budget.max_bytes is None or sum(_cost(problem, steps)) <= budget.max_bytes:
        return Chosen(steps, timetable)
    start = _prefix(problem, steps, timetable, budget.max_bytes)
    dense = _dense(problem, steps, budget.max_bytes)
    best = min((start, dense), key=lambda part: _remaining(problem, part))
    return Chosen(best, schedule(problem, best, budget))


def _cost(problem: PlanningProblem, steps: Sequence[PlanStep]) -> list[float]:
    return [float(problem.snapshot.size[x.replica]) for x in steps]


def _shift(used: FloatArray, s: PlannerSnapshot, x: PlanStep) -> None:
    used[x.source] -= s.planned[x.replica]
    used[x.target] += s.planned[x.replica]


def _remaining(problem: PlanningProblem, steps: Sequence[PlanStep]) -> float:
    used = problem.snapshot.used.copy()
    for x in steps:
        _shift(used, problem.snapshot, x)
    return problem.out_of_band(used)


def _prefix(
    problem: PlanningProblem, steps: list[PlanStep], timetable: Schedule, most: float
) -> list[PlanStep]:
    """The prefix of the execution order that fits and leaves the fewest bytes out of band, in order of planning."""
    s = problem.snapshot
    used, spent = s.used.copy(), 0.0
    best, count = problem.out_of_band(used), 0
    order = timetable.order.tolist()
    for n, k in enumerate(order, start=1):
        spent += float(s.size[steps[k].replica])
        if spent > most:
            break
        _shift(used, s, steps[k])
        now = problem.out_of_band(used)
        if now <= best:
            best, count = now, n
    return [steps[k] for k in order[:count]]


def _dense(problem: PlanningProblem, steps: list[PlanStep], most: float) -> list[PlanStep]:
    """Moves by priority, then by out-of-band bytes removed per byte moved, if they are legal and fit."""
    s = problem.snapshot
    used = s.used
    broker = problem.per_broker(used)
    rows = np.array([x.replica for x in steps], np.int64)
    i = np.array([x.source for x in steps], np.int64)
    j = np.array([x.target for x in steps], np.int64)
    x = np.maximum(s.planned[rows], 1.0)
    a, b = s.dir_broker[i], s.dir_broker[j]
    helped = (
        np.clip(used[i] - problem.hi[i], 0, x) + np.clip(problem.lo[j] - used[j], 0, x)
        + (a != b) * (np.clip(broker[a] - problem.broker_hi[a], 0, x) + np.clip(problem.broker_lo[b] - broker[b], 0, x))
    )  # fmt: skip
    kind = np.minimum([step.reason for step in steps], MoveReason.RACK + 1)
    state, spent = PlanState(problem), 0.0
    rest = np.lexsort((np.arange(len(steps)), -helped / x, kind)).tolist()
    while True:
        later: list[int] = []
        for k in rest:
            step, cost = steps[k], float(s.size[steps[k].replica])
            if spent + cost > most:
                continue
            if not state.legal(step.replica, step.target, lenient=True):
                later.append(k)
                continue
            state.move(step.replica, step.target, step.reason)
            spent += cost
        if len(later) == len(rest) or not later:
            return state.steps
        rest = later


def _in_time(
    problem: PlanningProblem, steps: list[PlanStep], timetable: Schedule, budget: PlanBudget
) -> tuple[list[PlanStep], Schedule]:
    """The waves that end in time, and the moves of the next wave that do."""
    s, left = problem.snapshot, (budget.max_seconds or 0.0) * budget.bytes_per_second
    kept: list[int] = []
    for wave in range(len(timetable.peak)):
        out, into = np.zeros(len(s.broker)), np.zeros(len(s.broker))
        whole = True
        for k in np.flatnonzero(timetable.wave == wave).tolist():
            a, b = s.dir_broker[steps[k].source], s.dir_broker[steps[k].target]
            size = float(s.size[steps[k].replica])
            if max(out[a], into[b]) + size > left:
                whole = False
                continue
            out[a] += size
            into[b] += size
            kept.append(k)
        left -= float(max(out.max(), into.max()))
        if not whole:
            break
    rows = np.sort(np.array(kept, np.int64))
    waves = int(timetable.wave[rows].max(initial=-1)) + 1
    return [steps[k] for k in rows.tolist()], Schedule(timetable.wave[rows], timetable.peak[:waves])
