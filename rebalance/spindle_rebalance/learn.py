"""From records to findings: the whole data part of a run, as one job of Spark. The driver receives one row per broker, never a sample."""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from spindle_rebalance import source
from spindle_rebalance.features import chained
from spindle_rebalance.findings import (
    REPLICAS,
    ClockOff,
    DiskFinding,
    Findings,
    Poisoned,
    ReadReport,
    SlowFinding,
)
from spindle_rebalance.pieces import Piece, Read, pieces
from spindle_rebalance.slow import of_batches
from spindle_rebalance.source import NO_BROKER, Access, Ranges
from spindle_rebalance.study import COUNTS, FOUND, Study, exploded

LEVEL: Final = 0.85
NAMED: Final = 100  # unusable records that are listed


def learn(
    records: DataFrame,
    ranges: Ranges,
    *,
    cluster_id: str | None = None,
    level: float = LEVEL,
    replicas_since_ms: int = 0,
) -> Findings:
    """Compute all findings from the history of one cluster, wherever Spark has the records.

    Args:
        records: records from `source.read`, or with the same columns.
        ranges: the ranges of these records.
        cluster_id: id of the cluster; records of another cluster are poison. None: the id in a broker's first record.
        level: share of capacity to forecast.
        replicas_since_ms: see `study.Study`.

    Returns:
        Findings; without disks and replicas if there is no history.

    Raises:
        ValueError: the level is not a share.
    """
    return findings_of(_by_broker(records, Study(cluster_id, level, replicas_since_ms)), ranges)


def learn_topic(
    spark: SparkSession,
    access: Access,
    ranges: Ranges,
    *,
    cluster_id: str | None = None,
    level: float = LEVEL,
    replicas_since_ms: int = 0,
) -> Findings:
    """`learn` from a topic: each task reads whole partitions and makes the rows of their brokers itself.

    Agents write all records of a broker to one partition. Brokers that have records in the pieces of several tasks (somebody added
    partitions to the topic) are computed again, from records that Spark brings together.
    """
    study = Study(cluster_id, level, replicas_since_ms)
    parts = pieces(ranges, spark.sparkContext.defaultParallelism)
    found = by_piece(spark, parts, partial(source.records, access), study)
    brokers = found.column("broker")
    seen = pc.value_counts(brokers).to_pylist()
    several = [each["values"] for each in seen if each["counts"] > 1 and each["values"] != NO_BROKER]
    if several:
        again = source.read(spark, access, ranges).where(sf.col("broker").isin(several))
        once = found.filter(pc.invert(pc.is_in(brokers, pa.array(several, pa.int32()))))
        found = pa.concat_tables([once, _by_broker(again, study)])
    return findings_of(found, ranges)


def by_piece(spark: SparkSession, parts: Sequence[Piece], read: Read, study: Study) -> pa.Table:
    """The rows of all brokers, with the columns `study.FOUND`: one task for each piece.

    Args:
        spark: the session.
        parts: what the tasks read.
        read: reads it, in a task.
        study: what is made of it.
    """

    def found(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from study.piece(parts[number], read, _scratch())

    # Spark starts with the numbers of the pieces, one in each task.
    numbers = spark.range(0, len(parts), 1, max(1, len(parts)))
    return _table(numbers.mapInArrow(found, from_arrow_schema(FOUND)))


def _scratch() -> Path | None:
    """Where this task may write: Spark tells its workers."""
    folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return Path(folders[0]) if folders[0] else None


def _by_broker(records: DataFrame, study: Study) -> pa.Table:
    """The same from records anywhere in Spark, which brings those of a broker together."""

    def found(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = next(batches, None)
        if first is not None:
            yield study.broker(int(first.column("broker")[0].as_py()), chained(first, batches))

    return _table(records.groupBy("broker").applyInArrow(found, from_arrow_schema(FOUND)))


def _table(rows: DataFrame) -> pa.Table:
    return rows.toArrow().cast(FOUND).sort_by("broker")


def findings_of(found: pa.Table, ranges: Ranges) -> Findings:
    """The findings of a cluster from the rows of all its brokers (`by_piece`), which were made of the records in these ranges."""
    slow = {
        (row["broker"], row["dir"]): _slow(row) for row in of_batches(exploded(found, "latest").to_batches())
    }
    disks = exploded(found, "disks").sort_by([("broker", "ascending"), ("dir", "ascending")])
    return Findings(
        tuple(_disk(row, slow.get((row["broker"], row["dir"]))) for row in disks.to_pylist()),
        _replicas(exploded(found, "replicas")),
        _report(found, ranges),
    )


def _replicas(table: pa.Table) -> pa.Table:
    order = [(name, "ascending") for name in ("broker", "topic", "partition", "dir")]
    ordered = table.sort_by(order)
    return pa.Table.from_arrays([ordered.column(name) for name in REPLICAS.names], schema=REPLICAS)


def _report(found: pa.Table, ranges: Ranges) -> ReadReport:
    count = {name: pc.sum(found.column(name)).as_py() or 0 for name in COUNTS}
    poison = exploded(found, "poison").sort_by([("partition", "ascending"), ("offset", "ascending")])
    clocks = found.select(["broker", "clock_s", "clock_records"]).to_pylist()
    return ReadReport(
        records=count["records"],
        rows=count["rows"],
        poison=tuple(
            Poisoned(row["partition"], row["offset"], row["reason"])
            for row in poison.slice(0, NAMED).to_pylist()
        ),
        offsets=dict(ranges),
        poisoned=count["poisoned"],
        doubled=count["doubled"],
        clocks=tuple(
            ClockOff(row["broker"], row["clock_s"], row["clock_records"])
            for row in clocks
            if row["clock_records"]
        ),
    )


def _slow(row: dict[str, Any]) -> SlowFinding:
    return SlowFinding(**{name: row[name] for name in SlowFinding.__dataclass_fields__})


def _disk(row: dict[str, Any], slow: SlowFinding | None) -> DiskFinding:
    return DiskFinding(
        broker=row["broker"],
        dir=row["dir"],
        disk=row["disk"],
        kind=row["kind"],
        capacity=row["capacity"],
        used=row["used"],
        history_s=row["history_s"],
        level_per_s=row["rate"],
        full_in_s=None if row["eta"] is None else (row["low"], row["eta"], row["high"]),
        slow=slow,
        backtest_error_h=row["error_h"],
    )
