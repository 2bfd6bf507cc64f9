"""What the job costs: a day of samples through source, features and plan, at three sizes, with one core and with two.

    python -m bench.pipeline [--brokers 10 20 40] [--cores 1 2] [--files] [--folder FOLDER]

A broker has 1,000 replicas and 288 samples of each, a day: ``--brokers 10 100 1000`` ends with a million replicas, 288 million rows, 4 GB of records.
They lie in a topic of a real Kafka on this machine, which works beside what is measured (needs to be root, as its disks are loop-mounted); with
``--files`` Spark reads them from files instead. Each line is a process of its own, held to so many cores; its time is from the first question
to Kafka to the proposal with its hash, and its memory the sum of the peaks of the driver, its JVM and its Python workers.

*Share*: rows per second of source and features, with one core, as a part of what Arrow's compute functions alone do with the same bytes
and one core (`bench.plain`). Exit code 1 if a row costs more where there are more of them.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from bench import plain
from bench.publish import Record, publish
from bench.records import CLUSTER, INTERVAL_S, case, picture, rows_of, write
from spindle.samples.codec import decode
from spindle_rebalance import plan, session, source
from spindle_rebalance.learn import learn
from tests.kafka.cluster import Cluster

_EVEN: Final = 1.25  # times the cost per row at the smallest size: more would not be linear
_PARTITIONS: Final = 12  # as the operator makes the topic
_HEAP: Final = "2g"  # half of the memory that a job's pod has by default
_GIB: Final = 1024**3
_COLUMNS: Final = (
    "brokers", "rows", "MB of records", "cores", "history s", "plan s", "rows/s", "codec rows/s", "plain rows/s",
    "share", "peak MB", "proposal",
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """Where the records of one size are: files, and if there is a Kafka its topic."""

    folder: Path
    brokers: int
    access: source.Access | None = None


def main() -> None:
    """Run; exit 1 if a row costs much more where there are more of them, or two runs do not propose the same."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--brokers", type=int, nargs="+", default=[10, 20, 40])
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--files", action="store_true", help="without a Kafka")
    parser.add_argument(
        "--folder", type=Path, help="for the records, which are kept (default: a temporary one)"
    )
    parser.add_argument("--one", nargs=4, metavar="X", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(_one(*args.one)))  # noqa: T201 - to the process that started this one
        return
    console = Console(width=150, highlight=False)
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch)
        made = [_made(folder / f"brokers-{brokers}", brokers, console) for brokers in args.brokers]
        with _served(made, Path(scratch), console) if not args.files else _as_they_are(made) as places:
            sys.exit(0 if _compare(places, args.cores, console) else 1)


def _made(folder: Path, brokers: int, console: Console) -> Place:
    started = time.perf_counter()
    if not folder.is_dir():
        write(folder, case(brokers))
    console.print(f"records of {brokers} brokers: {time.perf_counter() - started:.0f} s")
    return Place(folder, brokers)


@contextmanager
def _as_they_are(places: list[Place]) -> Iterator[list[Place]]:
    yield places


@contextmanager
def _served(places: list[Place], scratch: Path, console: Console) -> Iterator[list[Place]]:
    """The same in a Kafka of one broker, a topic for each."""
    size = sum(path.stat().st_size for place in places for path in place.folder.glob("*.parquet"))
    cluster = Cluster(scratch / "kafka", brokers=1, disks=1, disk_size=2 * size + 4 * _GIB)
    try:
        cluster.up()
        started = time.perf_counter()
        found = [_published(cluster, place) for place in places]
        console.print(f"{size / 1e6:.0f} MB published: {time.perf_counter() - started:.0f} s")
        yield found
    finally:
        cluster.down()


def _published(cluster: Cluster, place: Place) -> Place:
    topic = f"samples-{place.brokers}"
    cluster.make_topic(topic, [[0]] * _PARTITIONS, **{"retention.ms": "-1"})
    publish(cluster, topic, _PARTITIONS, _records(place.folder))
    access = source.Access(tuple(cluster.bootstrap()), Path(cluster.operator), topic)
    return Place(place.folder, place.brokers, access)


def _records(folder: Path) -> Iterator[Record]:
    for path in sorted(folder.glob("*.parquet")):
        table = pq.read_table(path)
        columns = (table.column(name).to_pylist() for name in ("broker", "stored_ms", "value"))
        yield from zip(*columns, strict=True)


def _compare(places: list[Place], cores: list[int], console: Console) -> bool:
    table = Table(*_COLUMNS, box=None, header_style="bold")
    each: dict[int, list[float]] = {count: [] for count in cores}
    well = True
    for place in places:
        codec, alone = _plain(place.folder)
        hashes = set()
        for count in cores:
            found = _child(place, count)
            rows, history, planned = found["rows"], found["history_s"], found["plan_s"]
            each[count].append((history + planned) / rows)
            hashes.add(found["proposal"])
            row = [
                str(place.brokers), f"{rows:,}", f"{_size(place) / 1e6:,.0f}", str(count), f"{history:.1f}",
                f"{planned:.1f}", f"{rows / (history + planned):,.0f}", f"{codec:,.0f}", f"{alone:,.0f}",
                f"{rows / history / alone:.0%}" if count == 1 else "", f"{found['peak_mb']:,.0f}", found["proposal"],
            ]  # fmt: skip
            table.add_row(*row)
            console.print("\t".join(row))
        well &= len(hashes) == 1
    console.print()
    console.print(table)
    return well and all(costs[-1] <= _EVEN * costs[0] for costs in each.values())


def _size(place: Place) -> int:
    return sum(path.stat().st_size for path in place.folder.glob("*.parquet"))


def _plain(folder: Path, most: int = 10) -> tuple[float, float]:
    """Rows per second of the codec alone, and of Arrow's functions alone, on the records of up to so many files."""
    pa.set_cpu_count(1)
    rows, codec, alone = 0, 0.0, 0.0
    for path in sorted(folder.glob("*.parquet"))[:most]:
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):  # a broker each
            values = file.read_row_group(group, ["value"]).column("value").to_pylist()
            started = time.perf_counter()
            rows += sum(decode(value).replicas.num_rows for value in values)
            codec += time.perf_counter() - started
            started = time.perf_counter()
            plain.aggregate(values, INTERVAL_S)
            alone += time.perf_counter() - started
    return rows / codec, rows / alone


def _child(place: Place, cores: int) -> dict[str, Any]:
    """The same in a process of its own, so that memory is that of this run alone."""
    told = "" if place.access is None else json.dumps(place.access.options())
    command = [
        sys.executable,
        "-m",
        "bench.pipeline",
        "--one",
        str(cores),
        str(place.brokers),
        str(place.folder),
        told,
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _one(cores: str, brokers: str, folder: str, told: str) -> dict[str, Any]:
    """One run, held to the first so many cores; what starts from here is held to them too."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(cores)])
    made = case(int(brokers))
    look = picture(made)
    spark = session.start("bench", f"local[{cores}]", {"spark.driver.memory": _HEAP})
    files = sorted(str(path) for path in Path(folder).glob("*.parquet"))
    learn(spark.read.parquet(files[0]), {})  # warm: the JVM compiles, workers start
    started = time.perf_counter()
    if told:
        options = json.loads(told)
        access = source.Access((options["bootstrap"],), Path(options["tls"]), options["topic"])
        ranges = source.find_ranges(access)
        records = source.read(spark, access, ranges)
    else:
        ranges, records = {}, spark.read.parquet(*files)
    findings = learn(records, ranges, cluster_id=CLUSTER, level=1.0)
    read_s = time.perf_counter() - started
    started = time.perf_counter()
    _, result = plan.plan(look, findings)
    plan_s = time.perf_counter() - started
    peak = _peak_mb()
    spark.stop()
    if (findings.read.rows, findings.read.poisoned) != (rows_of(made), 0):  # else something else was measured
        raise RuntimeError(f"not {rows_of(made)} rows, all good, were read: {findings.read}")
    return {
        "rows": findings.read.rows,
        "history_s": read_s,
        "plan_s": plan_s,
        "peak_mb": peak,
        "proposal": result.proposal.name if result.proposal else result.reason,
    }


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
