"""What the job's data side costs: records to features, forecasts and slow disks, at three sizes, with one and with two cores.

    python -m bench.pipeline [--brokers 5 10 20] [--cores 1 2] [--folder FOLDER]

A broker has 1,000 replicas and a day of samples, 288,000 rows; ``--brokers 1000`` is a day of a million replicas (4 GB of records).
Records come from files with the data source's columns, so that Kafka's own speed is left out. Next to it, on the same
bytes and in one process without Spark: the codec alone, and the codec with the features. *Share* is the time of the latter as a
part of Spark's with one core. Memory is the sum of the peaks of the JVM and of its Python workers.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from bench.records import REPLICAS_EACH, STEPS, write
from spindle.samples.codec import decode
from spindle_rebalance import features, session
from spindle_rebalance.learn import learn
from spindle_rebalance.tidy import tidy

_EVEN: Final = 1.5  # times the cost per row at the smallest size: more would not be linear


def main() -> None:
    """Run; exit 1 if a row costs much more where there are more of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--brokers", type=int, nargs="+", default=[5, 10, 20])
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--folder", type=Path, help="for the records (default: a temporary one)")
    parser.add_argument("--one", type=int, metavar="CORES", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(_spark(args.folder, args.one)))  # noqa: T201 - to the process that started this one
        return
    with tempfile.TemporaryDirectory() as scratch:
        sys.exit(0 if _compare(args.folder or Path(scratch), args.brokers, args.cores) else 1)


def _compare(folder: Path, sizes: list[int], cores: list[int]) -> bool:
    table = Table(box=None, header_style="bold")
    for name in (
        "rows",
        "MB of records",
        "codec s",
        "codec + features s",
        "cores",
        "Spark s",
        "rows/s",
        "share",
        "peak MB",
    ):
        table.add_column(name, justify="right")
    each: dict[int, list[float]] = {count: [] for count in cores}
    for brokers in sizes:
        place = folder / f"brokers-{brokers}"
        rows = brokers * REPLICAS_EACH * STEPS if place.is_dir() else write(place, brokers)
        size = sum(path.stat().st_size for path in place.glob("*.parquet")) / 1e6
        codec, both = _plain(place)
        for count in cores:
            found = _child(place, count)
            each[count].append(found["seconds"] / rows)
            share = f"{both / found['seconds']:.0%}" if count == 1 else ""
            table.add_row(
                f"{rows:,}",
                f"{size:.0f}",
                f"{codec:.1f}",
                f"{both:.1f}",
                str(count),
                f"{found['seconds']:.1f}",
                f"{rows / found['seconds']:,.0f}",
                share,
                f"{found['peak_mb']:.0f}",
            )
    Console(width=140).print(table)
    return all(costs[-1] <= _EVEN * costs[0] for costs in each.values())


def _plain(folder: Path) -> tuple[float, float]:
    """Seconds for the codec alone, and for codec and features, in this process."""
    codec = both = 0.0
    for path in sorted(folder.glob("*.parquet")):
        table = pq.read_table(path)
        started = time.perf_counter()
        for value in table.column("value"):
            decode(value.as_py())
        codec += time.perf_counter() - started
        for broker in sorted(set(table.column("broker").to_pylist())):
            started = time.perf_counter()
            mine = table.filter(pc.equal(table.column("broker"), broker))
            features.summarise(broker, tidy(mine.to_batches(), None), 0)
            both += time.perf_counter() - started
    return codec, both


def _child(folder: Path, cores: int) -> dict[str, float]:
    """The same in a process of its own, so that memory is that of this run alone."""
    command = [sys.executable, "-m", "bench.pipeline", "--one", str(cores), "--folder", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _spark(folder: Path, cores: int) -> dict[str, float]:
    spark = session.start("bench", f"local[{cores}]", {"spark.driver.memory": "2g"})
    files = sorted(str(path) for path in folder.glob("*.parquet"))
    learn(spark.read.parquet(files[0]), {})  # warm: the JVM compiles, workers start
    started = time.perf_counter()
    found = learn(spark.read.parquet(*files), {})
    seconds = time.perf_counter() - started
    peak = _peak_mb()
    spark.stop()
    assert found.replicas.num_rows > 0  # noqa: S101 - what was measured is what is meant
    return {"seconds": seconds, "peak_mb": peak}


def _peak_mb() -> float:
    """The sum of the peaks of this process and all below it."""
    parents: dict[int, int] = {}
    peaks: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
        except OSError:  # gone meanwhile
            continue
        pid = int(fields["Pid"])
        parents[pid] = int(fields["PPid"])
        peaks[pid] = float(fields.get("VmHWM", "0 kB").split()[0]) / 1000
    mine = os.getpid()

    def below(pid: int) -> bool:
        while pid and pid != mine:
            pid = parents.get(pid, 0)
        return pid == mine

    return sum(peak for pid, peak in peaks.items() if below(pid))


if __name__ == "__main__":
    main()
