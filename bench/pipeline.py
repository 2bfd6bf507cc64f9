"""What the job costs: a day of samples through source, features and plan, at three sizes, with one core and with two.

    python -m bench.pipeline [--brokers 10 20 40] [--cores 1 2] [--files] [--small] [--folder FOLDER]

A broker has 1,000 replicas and 288 samples of each, a day: ``--brokers 10 100 1000`` ends with a million replicas, 288 million rows, 4 GB of records.
They lie in a topic of a real Kafka on this machine, which works beside what is measured (needs to be root, as its disks are loop-mounted); with
``--files`` the tasks read them from files instead. Each line is a process of its own, held to so many cores; its time is from the first question
to Kafka to the proposal with its hash, and its memory the sum of the peaks of the driver, its JVM and its Python workers.

*Share*: what Arrow's compute functions alone need for the same bytes (`bench.plain`), as a part of what source and features need with one core: both in
CPU time, which other load on the machine changes less than the time on the clock. Kafka's own is in neither; ``kafka cpu s`` has it.

``--small`` measures a run on a few records instead, from the start of Spark on: what every run costs. Exit code 1 if a row costs more where there are more of them.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from bench import plain
from bench.publish import Record, publish
from bench.records import CLUSTER, INTERVAL_S, STEPS, case, picture, rows_of, write
from spindle.samples.codec import decode
from spindle_rebalance import engine, options, plan, session, source
from spindle_rebalance.findings import Findings
from spindle_rebalance.learn import by_piece, findings_of, learn_topic
from spindle_rebalance.pieces import Piece
from spindle_rebalance.study import Study
from tests.kafka.cluster import Cluster

_EVEN: Final = 1.25  # times the cost per row at the smallest size: more would not be linear
_PARTITIONS: Final = 12  # as the operator makes the topic
_POD: Final = "4Gi"  # memory that a job's pod has by default
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_GIB: Final = 1024**3
_FEW: Final = 2  # records of each broker in a small run
_COLUMNS: Final = (
    "brokers", "rows", "MB of records", "cores", "history s", "plan s", "rows/s", "cpu s", "kafka cpu s", "plain cpu s",
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
        "--small", action="store_true", help="a run on a few records, with the start of Spark"
    )
    parser.add_argument(
        "--folder", type=Path, help="for the records, which are kept (default: a temporary one)"
    )
    parser.add_argument("--one", nargs=5, metavar="X", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(_one(*args.one)))  # noqa: T201 - to the process that started this one
        return
    console = Console(width=150, highlight=False)
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch)
        made = [_made(folder / f"brokers-{brokers}", brokers, console) for brokers in args.brokers]
        with _served(made, Path(scratch), console) if not args.files else _as_they_are(made) as places:
            sys.exit(0 if _compare(places, args.cores, args.small, console) else 1)


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


def _compare(places: list[Place], cores: list[int], small: bool, console: Console) -> bool:
    table = Table(*_COLUMNS, box=None, header_style="bold")
    each: dict[int, list[float]] = {count: [] for count in cores}
    well = True
    for place in places:
        alone = _plain(place.folder)
        hashes = set()
        for count in cores:
            before = _kafka_s()
            found = _child(place, count, small)
            kafka = _kafka_s() - before
            rows, history, planned = found["rows"], found["history_s"], found["plan_s"]
            each[count].append((history + planned) / rows)
            hashes.add(found["proposal"])
            row = [
                str(place.brokers), f"{rows:,}", f"{_size(place) / 1e6:,.0f}", str(count), f"{history:.1f}",
                f"{planned:.1f}", f"{rows / (history + planned):,.0f}", f"{found['cpu_s']:.1f}", f"{kafka:.1f}",
                f"{rows * alone:.1f}", f"{rows * alone / found['cpu_s']:.0%}" if count == 1 else "",
                f"{found['peak_mb']:,.0f}", found["proposal"],
            ]  # fmt: skip
            table.add_row(*row)
            console.print("\t".join(row))
        well &= len(hashes) == 1
    console.print()
    console.print(table)
    return well and (small or all(costs[-1] <= _EVEN * costs[0] for costs in each.values()))


def _size(place: Place) -> int:
    return sum(path.stat().st_size for path in place.folder.glob("*.parquet"))


def _plain(folder: Path, most: int = 10) -> float:
    """CPU seconds for a row of Arrow's functions alone, on the records of up to so many files."""
    pa.set_cpu_count(1)
    rows, alone = 0, 0.0
    for path in sorted(folder.glob("*.parquet"))[:most]:
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):  # a broker each
            values = file.read_row_group(group, ["value"]).column("value").to_pylist()
            rows += sum(decode(value).replicas.num_rows for value in values)
            started = time.process_time()
            plain.aggregate(values, INTERVAL_S)
            alone += time.process_time() - started
    return alone / rows


def _child(place: Place, cores: int, small: bool) -> dict[str, Any]:
    """The same in a process of its own, so that memory is that of this run alone."""
    told = "" if place.access is None else json.dumps(place.access.options())
    one = [str(cores), str(place.brokers), str(place.folder), told, "small" if small else ""]
    command = [sys.executable, "-m", "bench.pipeline", "--one", *one]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _one(cores: str, brokers: str, folder: str, told: str, small: str) -> dict[str, Any]:
    """One run, held to the first so many cores; what starts from here is held to them too."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(cores)])
    made = case(int(brokers))
    look = picture(made)
    files = sorted(Path(folder).glob("*.parquet"))
    chosen = options.parse(["run", "--cluster=bench", "--bootstrap=h:1", "--tls=/", f"--memory={_POD}"])

    def begin() -> SparkSession:
        return session.start("bench", f"local[{cores}]", engine.settings(chosen))

    if not small:
        _of_files(begin(), files[:1], _FEW)  # warm: the JVM compiles, workers start
    started, spent = time.perf_counter(), _cpu_s(os.getpid())
    spark = begin()  # the same one, if there is one
    if told:
        access = json.loads(told)
        findings = _of_topic(spark, access, _FEW if small else None)
    else:
        findings = _of_files(spark, files, _FEW if small else STEPS)
    read_s, cpu_s = time.perf_counter() - started, _cpu_s(os.getpid()) - spent
    started = time.perf_counter()
    _, result = plan.plan(look, findings)
    plan_s = time.perf_counter() - started
    peak = _peak_mb()
    spark.stop()
    wanted = rows_of(made) * (_FEW if small else STEPS) // STEPS
    if (findings.read.rows, findings.read.poisoned) != (wanted, 0):  # else something else was measured
        raise RuntimeError(f"not {wanted} rows, all good, were read: {findings.read}")
    return {
        "rows": findings.read.rows,
        "history_s": read_s,
        "cpu_s": cpu_s,
        "plan_s": plan_s,
        "peak_mb": peak,
        "proposal": result.proposal.name if result.proposal else result.reason,
    }


def _of_topic(spark: SparkSession, told: dict[str, str], few: int | None) -> Findings:
    access = source.Access((told["bootstrap"],), Path(told["tls"]), told["topic"])
    ranges = source.find_ranges(access)
    if few is not None:  # a broker's records are next to each other, and each partition has as many of each
        ranges = {
            place: (first, first + (end - first) * few // STEPS) for place, (first, end) in ranges.items()
        }
    return learn_topic(spark, access, ranges, cluster_id=CLUSTER, level=1.0)


def _of_files(spark: SparkSession, files: Sequence[Path], steps: int) -> Findings:
    """The same from files, each a piece of its own: so many records of each broker."""

    def read(piece: Piece) -> Iterator[pa.RecordBatch]:
        for number in piece.ranges:
            file = pq.ParquetFile(files[number])
            for group in range(file.num_row_groups):  # a broker each
                yield from file.read_row_group(group).slice(0, steps).combine_chunks().to_batches()

    parts = [Piece({number: (0, 1)}) for number in range(len(files))]
    return findings_of(by_piece(spark, parts, read, Study(CLUSTER, 1.0)), {})


def _kafka_s() -> float:
    """CPU time of what runs below this process while none is measured: Kafka."""
    return _cpu_s(os.getpid()) - _fields(os.getpid())[1] / _TICKS


def _cpu_s(parent: int) -> float:
    """CPU time of all processes below this one and of itself, with that of children that ended."""
    return sum(_fields(pid)[1] for pid in _below(parent)) / _TICKS


def _below(parent: int) -> list[int]:
    """This process and all below it."""
    parents = {int(path.name): _fields(int(path.name))[0] for path in Path("/proc").glob("[0-9]*")}

    def mine(pid: int) -> bool:
        while pid and pid != parent:
            pid = parents.get(pid, 0)
        return pid == parent

    return [pid for pid in parents if mine(pid)]


def _fields(pid: int) -> tuple[int, int]:
    """A process's parent, and its CPU time in ticks; zeros if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return 0, 0
    fields = text.rpartition(")")[2].split()
    return int(fields[1]), sum(map(int, fields[11:15]))


def _peak_mb() -> float:
    """The sum of the peaks of this process and all below it."""
    found = 0.0
    for pid in _below(os.getpid()):
        try:
            text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        except OSError:  # gone meanwhile
            continue
        fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        found += float(fields.get("VmHWM", "0 kB").split()[0]) / 1000
    return found


if __name__ == "__main__":
    main()
