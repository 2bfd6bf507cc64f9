"""The command ``spindle-forecast``: read a history of disk usage, print when each disk reaches a level."""

import importlib
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer

from spindle.forecast.forecast import forecast
from spindle.forecast.history import DAY, Columns, Floats, gather
from spindle_cli.screen import SafeConsole

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
console = SafeConsole(highlight=False)
_NEEDED: Final = ("disk", "t", "used", "capacity")
_SHOWN: Final = 5


@dataclass(frozen=True)
class Answer:
    """One row per disk; seconds from the last sample, infinite for never."""

    disk: Any
    eta: Floats
    low: Floats
    high: Floats


@app.command()
def run(
    history: Annotated[
        Path,
        typer.Argument(
            help="Parquet, one row per disk and time: disk, t (seconds), used, capacity (bytes); append (bytes since the row "
            "before) helps. Rows whose column future is true are ignored."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where to write disk, eta, low, high (seconds; NaN: never).")],
    level: Annotated[float, typer.Option(min=0, max=100, help="Percent of capacity.")] = 85,
) -> None:
    """Forecast when each disk reaches a level, with a range that holds in four of five cases."""
    try:
        columns = read_history(history)
    except (FileNotFoundError, ValueError) as error:
        SafeConsole(stderr=True, highlight=False).print(
            f"[red]cannot forecast[/red]: {error}", soft_wrap=True
        )
        raise typer.Exit(2) from None
    start = time.perf_counter()
    answer = answer_of(columns, level)
    took = time.perf_counter() - start
    write_answer(answer, out)
    _summary(answer, level, took)
    console.print(f"forecasts: {out}", style="dim")


def read_history(path: Path) -> Columns:
    """The rows of the table that are not marked as future.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: it is not a history table, or a needed number is missing.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    pa, pq = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    try:
        table = pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path}: {error}") from error
    missing = [name for name in _NEEDED if name not in table.column_names]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}: a history has {', '.join(_NEEDED)}")
    if "future" in table.column_names:
        table = table.filter(importlib.import_module("pyarrow.compute").invert(table["future"]))
    wanted = [name for name in (*_NEEDED, "append") if name in table.column_names]
    for name in wanted:
        if table[name].null_count:
            raise ValueError(f"{path}: column {name} has {table[name].null_count} empty values")
    return Columns(**{name: table[name].to_numpy() for name in wanted})


def answer_of(columns: Columns, level: float) -> Answer:
    """Forecast every disk of a table; one with a single row is omitted."""
    disks, parts = [], []
    for names, history in gather(columns):
        found = forecast(history, [level / 100])
        disks.append(names)
        parts.append(np.hstack([found.eta, found.low, found.high]))
    if not parts:
        nothing = np.zeros(0)
        return Answer(columns.disk[:0], nothing, nothing, nothing)
    rows = np.concatenate(parts)
    return Answer(np.concatenate(disks), rows[:, 0], rows[:, 1], rows[:, 2])


def write_answer(answer: Answer, path: Path) -> None:
    """Write ``disk, eta, low, high``; NaN means never."""
    pa, pq = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    times = {
        name: np.where(np.isfinite(values), values, np.nan)
        for name, values in (("eta", answer.eta), ("low", answer.low), ("high", answer.high))
    }
    pq.write_table(pa.table({"disk": answer.disk, **times}), path)


def _summary(answer: Answer, level: float, took: float) -> None:
    count = len(answer.eta)
    within = [
        f"{int((answer.eta <= days * DAY).sum()):,} within {text}"
        for days, text in ((1, "a day"), (7, "a week"))
    ]
    console.print(
        f"[bold]{count:,} disks[/bold], {level:g} % reached by {', by '.join(within)} ({took:.2f} s)"
    )
    for k in np.argsort(answer.eta, kind="stable")[:_SHOWN].tolist():
        if np.isfinite(answer.eta[k]):
            low, eta, high = (_span(float(x[k])) for x in (answer.low, answer.eta, answer.high))
            console.print(f"  disk {answer.disk[k]}: in {eta} ({low} to {high})", style="dim")


def _span(seconds: float) -> str:
    if not np.isfinite(seconds):
        return "never"
    for size, unit in ((DAY, "d"), (3600.0, "h")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.0f} min"


def main() -> None:
    """Entry point."""
    sys.exit(app())
