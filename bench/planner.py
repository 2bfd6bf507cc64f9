"""The planner's benchmark: quality against the bound, time against the bare linear programme, memory, and the exact optimum.

    python -m bench.planner [--cases M M65 events L XL] [--seeds 2] [--exact 60] [--case FOLDER …]

Time is processor time (of all threads, though there is one), from columns in memory to a plan with its hash (checking and sorting the snapshot, moves,
waves, leaders, curve); the linear programme (HiGHS, as in `spindle.planner.bound.solve`) is timed in the same run, best of
a few for both. Every plan is judged by `bench.check`, which shares no code with the planner.
"""

import argparse
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.cases import EVENTS, SIZES, columns, small
from bench.check import broken_rules, stranded
from bench.exact import optimum, reachable
from spindle.planner.bound import solve
from spindle.planner.planner import PlacementPlan, plan
from spindle.planner.problem import Goals, build_problem
from spindle.planner.snapshot import PlannerSnapshot, build

T = TypeVar("T")
_BANDS = (Goals(), Goals(broker_band=0.20, dir_band=0.40), Goals(broker_band=0.35, dir_band=0.60))
_COLUMNS = (
    "case",
    "moves",
    "waves",
    "% bytes",
    "of bound",
    "out of band",
    "broken",
    "peak",
    "plan s",
    "LP s",
    "x LP",
    "MB",
)


def main() -> None:
    """Run what was asked for; exit 1 if a plan broke a rule or left something out of band."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="*", default=["M", "M65", "events", "L", "XL"])
    parser.add_argument("--seeds", type=int, default=2, help="seeds of M and M65")
    parser.add_argument(
        "--exact", type=int, default=60, help="tiny clusters to compare with the exact optimum"
    )
    parser.add_argument(
        "--case", nargs="*", type=Path, default=[], help="folders with Parquet cases, instead of ours"
    )
    args = parser.parse_args()
    console = Console(width=140)
    table = Table(*_COLUMNS, box=None, header_style="bold")
    well = True
    makers = list(_folders(args.case)) if args.case else list(_ours(args.cases, args.seeds))
    for title, make in makers:
        row, good = _measure(title, make)
        well &= good
        table.add_row(*row)
        console.print("\t".join(row), style=None if good else "red", highlight=False)
    console.print()
    console.print(table)
    if args.exact and not args.case:
        _compare(console, args.exact)
    sys.exit(0 if well else 1)


def _ours(names: list[str], seeds: int) -> Iterator[tuple[str, Callable[[], PlannerSnapshot]]]:
    """Title and maker of each case; columns are made before the clock starts."""
    for name in names:
        if name == "events":
            shapes = [(f"M {event}", replace(SIZES["M"], event=event)) for event in EVENTS if event != "none"]
        else:
            count = seeds if name.startswith("M") else 1
            shapes = [(f"{name} seed {k}", replace(SIZES[name], seed=k)) for k in range(1, count + 1)]
        for title, shape in shapes:
            made = columns(shape)
            yield title, lambda made=made: build(*made)  # type: ignore[misc]


def _folders(paths: list[Path]) -> Iterator[tuple[str, Callable[[], PlannerSnapshot]]]:
    from spindle_cli.plan_files import read_case  # noqa: PLC0415 - pyarrow is needed only here

    for path in paths:
        s = read_case(path)
        brokers = {"broker": s.broker, "rack": [s.rack_names[k] or None for k in s.rack], "alive": s.alive}
        dirs = {
            "broker": s.broker[s.dir_broker], "dir": s.dir_name, "capacity": s.capacity, "state": s.dir_state,
        }  # fmt: skip
        replicas = {
            "topic": s.topic, "partition": s.partition, "broker": s.broker[s.dir_broker[s.dir]], "dir": s.dir_row[s.dir],
            "position": s.position, "size": s.size, "rate": s.rate,
        }  # fmt: skip
        yield path.name, lambda b=brokers, d=dirs, r=replicas: build(b, d, r)  # type: ignore[misc]


def _measure(title: str, make: Callable[[], PlannerSnapshot]) -> tuple[list[str], bool]:
    """One row of the table, and whether the plan is as it should be."""
    snapshot = make()
    problem = build_problem(snapshot, Goals())
    repeats = 3 if len(snapshot.topic) > 200_000 else 7
    lp = min(_timed(lambda: solve(problem, snapshot.used))[0] for _ in range(repeats))
    runs = [_timed(lambda: _whole(make)) for _ in range(repeats)]
    took, found = min(x[0] for x in runs), runs[0][1]
    broken = broken_rules(found.problem.snapshot, found)
    for sentence in broken[:3]:
        Console(stderr=True).print(f"{title}: {sentence}")
    out = found.problem.out_of_band(found.after)
    left = stranded(snapshot, found.result.dir)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    row = [
        title, f"{len(found.replica):,}", str(len(found.peak)), f"{100 * found.bytes.sum() / snapshot.size.sum():.3f}",
        f"{found.ratio:.4f}", f"{out / snapshot.size.sum():.1e}" if out > 1 else "0", str(len(broken) + left),
        f"{found.peak.max(initial=0):.3f}", f"{took:.3f}", f"{lp:.3f}", f"{took / lp:.1f}", f"{memory:.0f}",
    ]  # fmt: skip
    return row, not broken and not left and out <= 1e-9 * float(snapshot.size.sum()) + 1


def _whole(make: Callable[[], PlannerSnapshot]) -> PlacementPlan:
    found = plan(make())
    assert found.digest  # noqa: S101 - a property: computing it is part of what is timed
    return found


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def _compare(console: Console, count: int) -> None:
    """Plans of tiny clusters against the exact optimum."""
    ratios, fair, skipped, timeouts = [], [], 0, 0
    for seed in range(count):
        snapshot, goals = small(seed, crowded=False), _BANDS[seed % len(_BANDS)]
        problem = build_problem(snapshot, goals)
        least = optimum(problem)
        if least is None:
            timeouts += 1
            continue
        if np.isnan(least.bytes) or least.bytes <= 0:
            skipped += 1
            continue
        found = plan(snapshot, goals)
        fine = problem.out_of_band(found.after) <= 2 and not stranded(snapshot, found.result.dir)
        ratios.append(float(found.bytes.sum()) / least.bytes if fine else np.inf)
        fair.append(reachable(problem, least.where))
    r = np.array(ratios)
    console.print(
        f"\n{count} tiny clusters: {skipped} infeasible or balanced already, {timeouts} not solved in time, {len(r)} compared"
    )
    if not len(r):
        return
    for title, part in (("all", r), ("those whose optimum single legal moves lead to", r[np.array(fair)])):
        shares = ", ".join(
            f"within {x:.0%}: {(part <= 1 + x + 1e-6).mean():.1%}" for x in (0, 0.01, 0.05, 0.10, 0.25)
        )
        console.print(f"{title} ({len(part)}): {shares}; not reached: {int(np.isinf(part).sum())}")


if __name__ == "__main__":
    main()
