"""The command ``spindle-plan``: read a case, plan, write the moves, print their cost and gain."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NoReturn

import numpy as np
import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from spindle.planner.explain import explain, explain_partition, human
from spindle.planner.planner import PlacementPlan, plan
from spindle.planner.problem import Goals, PlanBudget
from spindle.planner.snapshot import SnapshotError
from spindle.report.page import page
from spindle_cli.plan_files import read_case, write_plan
from spindle_cli.screen import SafeConsole

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
console = SafeConsole(highlight=False)
_SHOWN = 5  # moves in the summary


@app.command()
def run(
    case: Annotated[
        Path, typer.Argument(help="Folder with brokers.parquet, dirs.parquet and replicas.parquet.")
    ],
    out: Annotated[Path, typer.Option(help="Where to write the moves (Parquet).")],
    broker_band: Annotated[
        float, typer.Option(help="Keep brokers within this share of the mean usage.")
    ] = 0.09,
    dir_band: Annotated[
        float, typer.Option(help="Keep log dirs within this share of the mean usage.")
    ] = 0.20,
    mark: Annotated[
        float, typer.Option(help="Highest usage of a log dir after the plan, as a share of its capacity.")
    ] = 0.90,
    incoming_limit: Annotated[
        float, typer.Option(help="Highest usage of a target log dir at any time during the plan.")
    ] = 0.90,
    max_bytes: Annotated[float | None, typer.Option(help="Most bytes to copy.")] = None,
    max_minutes: Annotated[
        float | None, typer.Option(help="Longest duration of the plan, at --rate per broker.")
    ] = None,
    rate: Annotated[float, typer.Option(help="Bytes per second that a broker copies, in or out.")] = 50e6,
    balance: Annotated[
        bool, typer.Option(help="Balance the cluster; otherwise only empty what must be emptied.")
    ] = True,
    leaders: Annotated[bool, typer.Option(help="Balance leaders by the order of replicas.")] = True,
    report: Annotated[Path | None, typer.Option(help="Also write a report (one HTML file).")] = None,
    explain_: Annotated[
        str | None,
        typer.Option("--explain", metavar="TOPIC-PARTITION", help="Explain why these replicas move or stay."),
    ] = None,
) -> None:
    """Find the moves that bring every log dir and every broker into its band, with the fewest bytes copied."""
    try:
        goals = Goals(
            dir_band=dir_band, broker_band=broker_band, mark=mark, incoming_limit=incoming_limit, balance=balance,
            leader_band=0.10 if leaders else None,
        )  # fmt: skip
        seconds = None if max_minutes is None else max_minutes * 60
        budget = PlanBudget(max_bytes=max_bytes, max_seconds=seconds, bytes_per_second=rate)
        found, took = _with_progress(lambda tell: _plan(case, goals, budget, tell))
    except (SnapshotError, FileNotFoundError, ValueError) as error:
        _refuse(error)
    write_plan(found, out)
    if report is not None:
        report.write_text(page(found, budget), encoding="utf-8")
    _summary(found, budget, took)
    console.print(f"moves: {out}" + (f"   report: {report}" if report else ""), style="dim")
    if explain_ is not None:
        _explain(found, explain_)


def _plan(
    case: Path, goals: Goals, budget: PlanBudget, tell: Callable[[str], None]
) -> tuple[PlacementPlan, float]:
    """Read and plan; the seconds are those of planning."""
    tell(f"reading {case}")
    snapshot = read_case(case)
    start = time.perf_counter()
    found = plan(snapshot, goals, budget, tell)
    return found, time.perf_counter() - start


def _with_progress(
    work: Callable[[Callable[[str], None]], tuple[PlacementPlan, float]],
) -> tuple[PlacementPlan, float]:
    """Show the current step and its duration on a line; nothing if the output is not a terminal."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=SafeConsole(stderr=True), transient=True) as progress:
        task = progress.add_task("")
        return work(lambda text: progress.update(task, description=text))


def _refuse(error: Exception) -> NoReturn:
    """Print what is wrong with the input, and exit."""
    problems = error.problems if isinstance(error, SnapshotError) else (str(error),)
    stderr = SafeConsole(stderr=True, highlight=False)
    stderr.print("[red]cannot plan[/red]: " + problems[0], soft_wrap=True)
    for problem in problems[1:]:
        stderr.print("  " + problem, soft_wrap=True)
    raise typer.Exit(2)


def _fills(found: PlacementPlan, used: np.ndarray) -> str:
    """Minimum, mean and maximum usage of usable log dirs."""
    fill = (used / found.problem.snapshot.capacity)[found.problem.usable]
    return f"{fill.min():.1%} / {fill.mean():.1%} / {fill.max():.1%}" if len(fill) else "no usable log dir"


def _summary(found: PlacementPlan, budget: PlanBudget, took: float) -> None:
    """Print the cost and the gain of the plan."""
    s, total = found.problem.snapshot, float(found.problem.snapshot.size.sum()) or 1.0
    after = found.after
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("", "before", "after"):
        table.add_column(name, justify="left" if not name else "right")
    table.add_row("log dir usage, min / mean / max", _fills(found, s.used), _fills(found, after))
    before_out, after_out = found.problem.outside(s.used), found.problem.outside(after)
    table.add_row("log dirs out of band", str(before_out[0]), str(after_out[0]))
    table.add_row("brokers out of band", str(before_out[1]), str(after_out[1]))
    console.print(table)
    moves, waves = len(found.replica), len(found.peak)
    if moves:
        console.print(
            f"\n[bold]{moves:,} moves[/bold] in {waves} waves, [bold]{human(float(found.bytes.sum()))}[/bold] "
            f"({found.bytes.sum() / total:.2%} of all bytes; {human(found.bytes_intra)} inside brokers), "
            f"about {_span(found.seconds(budget))} at {human(budget.bytes_per_second)}/s per broker"
        )
        bound = f"fewest bytes that any plan for all bands must copy (the bound): {human(found.bound)}"
        if not found.unreached:
            bound += f", this plan copies {found.ratio:.4f} times the bound"
        console.print(f"{bound}; no log dir exceeds {found.peak.max():.1%} while it runs")
    else:
        console.print("\n[bold]nothing to move[/bold]")
    if len(found.leader):
        console.print(f"preferred leaders to change (no data is copied): {len(found.leader):,}")
    for sentence in found.unreached:
        console.print(f"[yellow]not reached[/yellow]: {sentence}", soft_wrap=True)
    for k in np.argsort(-found.bytes, kind="stable")[:_SHOWN].tolist():
        console.print(f"  {explain(found, k)}", style="dim", soft_wrap=True)
    console.print(f"planned in {took:.2f} s; snapshot {found.digest[:12]}", style="dim")


def _span(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def _explain(found: PlacementPlan, text: str) -> None:
    topic, _, partition = text.rpartition("-")
    try:
        lines = explain_partition(found, topic, int(partition))
    except (KeyError, ValueError):
        console.print(f"[red]{text}[/red] is not in this case; use TOPIC-PARTITION, for example 12-3")
        raise typer.Exit(2) from None
    for line in lines:
        console.print(line, soft_wrap=True)


def main() -> None:
    """Entry point."""
    sys.exit(app())
