"""How well slow disks are told from their peers, on latency histories whose truth is known (`bench.latencies`).

    python -m bench.slow [--seeds 301 302 … 308] [--days 14]

Found: of the disks that became ten times slower, those that are called slow with the third sample that shows it, or before.
False: times that a disk was called slow that was not even twice as slow as it used to be, per thousand days of a disk. The rule
was tuned on seeds 1 to 20; these are never reported.
"""

import argparse
import sys
import time
from typing import Final

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.latencies import STEP, Truth, make
from spindle.disks.peers import SAMPLES, Verdicts, judge

_FOUND: Final = 0.95
_FALSE: Final = 1.0  # per thousand disk-days
_REQUESTS: Final = 0.1  # per second: a sample without any shows nothing
_A_DAY: Final = 86400 // STEP


def main() -> None:
    """Run; exit 1 if too few are found or too many called slow that are not."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(301, 309)))
    parser.add_argument("--days", type=int, default=14)
    args = parser.parse_args()
    table = Table(box=None, header_style="bold")
    for name in (
        "seed",
        "disks",
        "disk-days",
        "became slow",
        "found in 15 min",
        "found later",
        "false",
        "per 1,000 disk-days",
        "s",
    ):
        table.add_column(name, justify="right")
    total = np.zeros(6)
    for seed in args.seeds:
        truth = make(seed, args.days)
        started = time.process_time()
        verdicts = judge(truth.fleet)
        took = time.process_time() - started
        row = score(truth, verdicts)
        total += row
        table.add_row(str(seed), *_cells(row), f"{took:.1f}")
    table.add_row("all", *_cells(total), "")
    Console(width=140).print(table)
    well = total[3] >= _FOUND * total[2] and total[5] <= _FALSE * total[1] / 1000
    sys.exit(0 if well else 1)


def score(truth: Truth, verdicts: Verdicts) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Disks, disk-days, disks that became slow, found with the third sample, found at all, and false verdicts."""
    disks, steps = verdicts.slow.shape
    sick = np.flatnonzero(truth.since >= 0)
    with np.errstate(invalid="ignore"):
        shows = (truth.fleet.reads >= _REQUESTS) | (truth.fleet.writes >= _REQUESTS)
    count = np.cumsum(shows[sick] & (np.arange(steps) >= truth.since[sick, None]), axis=1)
    sick, count = sick[count[:, -1] >= SAMPLES], count[count[:, -1] >= SAMPLES]
    soon = verdicts.slow[sick, (count >= SAMPLES).argmax(axis=1)]
    later = verdicts.slow[sick, -1]
    begins = verdicts.slow & ~np.pad(verdicts.slow, ((0, 0), (1, 0)))[:, :-1]
    false = begins & (truth.factor < 2)
    counts = (disks, disks * steps / _A_DAY, len(sick), soon.sum(), (soon | later).sum(), false.sum())
    return np.array(counts, np.float64)


def _cells(row: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[str, ...]:
    disks, days, sick, soon, ever, false = row.tolist()
    share = f"{soon:.0f} ({soon / sick:.1%})" if sick else "0"
    return (
        f"{disks:.0f}",
        f"{days:.0f}",
        f"{sick:.0f}",
        share,
        f"{ever - soon:.0f}",
        f"{false:.0f}",
        f"{1000 * false / days:.2f}",
    )


if __name__ == "__main__":
    main()
