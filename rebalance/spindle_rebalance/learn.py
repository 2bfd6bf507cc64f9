"""From records to findings: the whole data part of a run."""

from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spindle_rebalance import features
from spindle_rebalance.findings import (
    REPLICAS,
    ClockOff,
    DiskFinding,
    Findings,
    Poisoned,
    ReadReport,
    SlowFinding,
)
from spindle_rebalance.forecasts import forecasts
from spindle_rebalance.slow import slow_disks
from spindle_rebalance.source import Ranges

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
    """Compute all findings from the history of one cluster.

    The topic is read once. The driver receives one row per replica and disk, never a sample.

    Args:
        records: records from `source.read`, or with the same columns.
        ranges: the ranges of these records.
        cluster_id: id of the cluster; records of another cluster are poison. None: the id in a broker's first record.
        level: share of capacity to forecast.
        replicas_since_ms: see `features.summaries`.

    Returns:
        Findings; without disks and replicas if there is no history.

    Raises:
        ValueError: the level is not a share.
    """
    forecast = forecasts(level)
    brokers = records.transform(features.summaries(cluster_id, replicas_since_ms)).persist()
    try:
        read = _report(brokers, ranges)
        disks = brokers.transform(features.disks)
        slow = {(row.broker, row.dir): _slow(row) for row in disks.transform(slow_disks()).collect()}
        rows = disks.transform(forecast).orderBy("broker", "dir").collect()
        replicas = brokers.transform(features.replicas).select(*REPLICAS.names)
        table = replicas.orderBy("broker", "topic", "partition", "dir").toArrow()
    finally:
        brokers.unpersist()
    return Findings(tuple(_disk(row, slow.get((row.broker, row.dir))) for row in rows), _cast(table), read)


def _cast(table: pa.Table) -> pa.Table:
    """The table with the schema's nullability."""
    return pa.Table.from_arrays([table.column(name) for name in REPLICAS.names], schema=REPLICAS)


def _report(brokers: DataFrame, ranges: Ranges) -> ReadReport:
    (count,) = brokers.transform(features.counts).collect()
    poison = brokers.transform(features.poison).orderBy("partition", "offset").limit(NAMED).collect()
    clocks = brokers.transform(features.clocks).orderBy(sf.col("broker")).collect()
    return ReadReport(
        records=count.records,
        rows=count.rows,
        poison=tuple(Poisoned(row.partition, row.offset, row.reason) for row in poison),
        offsets=dict(ranges),
        poisoned=count.poisoned,
        doubled=count.doubled,
        clocks=tuple(ClockOff(row.broker, row.seconds, row.records) for row in clocks),
    )


def _slow(row: Any) -> SlowFinding:
    found = row.asDict()
    return SlowFinding(**{name: found[name] for name in SlowFinding.__dataclass_fields__})


def _disk(row: Any, slow: SlowFinding | None) -> DiskFinding:
    return DiskFinding(
        broker=row.broker,
        dir=row.dir,
        disk=row.disk,
        kind=row.kind,
        capacity=row.capacity,
        used=row.used,
        history_s=row.history_s,
        level_per_s=row.rate,
        full_in_s=None if row.eta is None else (row.low, row.eta, row.high),
        slow=slow,
        backtest_error_h=row.error_h,
    )
