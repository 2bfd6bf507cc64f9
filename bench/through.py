"""A history of disks through everything: samples, a real Kafka topic, Spark, the job; and the forecaster alone on the same.

    python -m bench.through HISTORY.parquet [--level 85] [--out FORECAST.parquet] [--brokers 4] [--score "python score.py"]

HISTORY is a table as ``spindle-forecast`` takes it. Its disks become the disks of so many brokers, with one replica each that is
appended to as the disk is. Both forecasts have to be the same to the last but one digit. ``--score`` is a command that judges a
forecast; it is called with HISTORY, the forecast and ``--level``, once for each. Needs to be root: Kafka runs on loop-mounted disks.
"""

import argparse
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from rich.console import Console

from bench.publish import publish
from spindle.api import names
from spindle.forecast.history import Columns
from spindle.samples.codec import encode
from spindle.samples.schema import DISKS, REPLICAS, Sample
from spindle_cli.forecast import Answer, answer_of, read_history, write_answer
from spindle_rebalance import session, source
from spindle_rebalance.learn import learn
from tests.kafka.cluster import Cluster

_SAME: Final = 1e-9  # relative
_PARTITIONS: Final = 4
_CLUSTER: Final = "bench"


def main() -> None:
    """Run; exit 1 if the job's figures are not the forecaster's."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("history", type=Path)
    parser.add_argument("--level", type=float, default=85)
    parser.add_argument("--brokers", type=int, default=4)
    parser.add_argument("--out", type=Path, help="where to write the job's forecast")
    parser.add_argument("--score", help="a command that judges a forecast")
    args = parser.parse_args()
    console = Console(width=140, highlight=False)
    columns = read_history(args.history)
    with tempfile.TemporaryDirectory() as scratch:
        job = _through(columns, args.level, args.brokers, Path(scratch), console)
        alone = answer_of(columns, args.level)
        worst = _differs(job, alone)
        console.print(
            f"{len(alone.eta)} disks: largest difference to the forecaster alone {worst:.1e} (relative)"
        )
        paths = {
            "through the job": args.out or Path(scratch) / "job.parquet",
            "alone": Path(scratch) / "alone.parquet",
        }
        for (title, path), answer in zip(paths.items(), (job, alone), strict=True):
            write_answer(answer, path)
            if args.score:
                command = [
                    *shlex.split(args.score),
                    str(args.history),
                    str(path),
                    "--level",
                    f"{args.level:g}",
                ]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                console.print(f"\n{title}\n{done.stdout}")
    sys.exit(0 if worst <= _SAME else 1)


def _through(columns: Columns, level: float, brokers: int, scratch: Path, console: Console) -> Answer:
    """The job's forecast of a history that went through Kafka."""
    cluster = Cluster(scratch / "kafka", brokers=1, disks=1, disk_size=4 * 1024**3)
    try:
        cluster.up()
        cluster.make_topic(names.TOPIC_SAMPLES, [[0]] * _PARTITIONS, **{"retention.ms": "-1"})
        started = time.perf_counter()
        samples = ((broker, each.at_ms, encode(each)) for broker, each in _samples(columns, brokers))
        sent = publish(cluster, names.TOPIC_SAMPLES, _PARTITIONS, samples)
        console.print(f"{sent:,} records published in {time.perf_counter() - started:.0f} s")
        spark = session.start("bench", conf={"spark.driver.memory": "2g"})
        access = source.Access(tuple(cluster.bootstrap()), Path(cluster.operator))
        started = time.perf_counter()
        ranges = source.find_ranges(access)
        found = learn(source.read(spark, access, ranges), ranges, cluster_id=_CLUSTER, level=level / 100)
        console.print(
            f"{found.read.records:,} records read and forecast in {time.perf_counter() - started:.0f} s"
        )
        spark.stop()
    finally:
        cluster.down()
    times = {int(each.disk): each.full_in_s for each in found.disks}
    known = [disk for disk in np.unique(columns.disk).tolist() if times.get(disk) is not None]
    low, eta, high = np.array([times[disk] for disk in known], np.float64).T
    return Answer(np.array(known), eta, low, high)


def _samples(columns: Columns, brokers: int) -> Iterator[tuple[int, Sample]]:
    """What the agents of so many brokers would have published, up to now."""
    now = int(time.time()) - int(columns.t.max())
    disks = np.unique(columns.disk)
    step = float(np.median(np.diff(np.unique(columns.t))))
    for broker in range(brokers):
        mine = disks[broker::brokers]
        rows = np.flatnonzero(np.isin(columns.disk, mine))
        order = rows[np.lexsort((columns.disk[rows], columns.t[rows]))]
        for at in np.split(order, np.flatnonzero(np.diff(columns.t[order])) + 1):
            yield broker, _sample(columns, at, broker, now, step)


def _sample(columns: Columns, rows: Any, broker: int, start: int, step: float) -> Sample:
    replicas, disks = [], []
    for number, row in enumerate(rows.tolist()):
        name = f"/d/{columns.disk[row]}"
        rate = None if columns.append is None else float(columns.append[row]) / step
        replicas.append(
            {"topic": "t", "partition": number, "dir": name, "bytes": 1, "append_rate": rate, "leader": True}
        )
        disks.append(
            dict.fromkeys(DISKS.names)
            | {
                "dir": name,
                "disk": str(columns.disk[row]),
                "capacity": int(columns.capacity[row]),
                "used": int(columns.used[row]),
            }
        )
    return Sample(
        cluster_id=_CLUSTER,
        broker=broker,
        rack="",
        at_ms=(start + int(columns.t[rows[0]])) * 1000,
        interval_s=step,
        replicas=pa.RecordBatch.from_pylist(replicas, schema=REPLICAS),
        disks=pa.RecordBatch.from_pylist(disks, schema=DISKS),
    )


def _differs(one: Answer, other: Answer) -> float:
    """The largest relative difference; infinite where one has a forecast and the other has not."""
    if list(one.disk) != list(other.disk):
        return float("inf")
    worst = 0.0
    for name in ("eta", "low", "high"):
        a, b = (np.nan_to_num(getattr(each, name), nan=-1.0, posinf=-1.0) for each in (one, other))
        with np.errstate(invalid="ignore"):
            worst = max(worst, float(np.max(np.abs(a - b) / np.maximum(np.abs(b), 1.0), initial=0.0)))
    return worst


if __name__ == "__main__":
    main()
