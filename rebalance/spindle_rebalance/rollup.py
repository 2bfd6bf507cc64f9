"""Hourly features as Parquet, for histories longer than the topic's retention: optional, incremental, repeatable.

    PATH/replicas/hour=2026-03-04T05/…   a row per replica and hour
    PATH/disks/hour=2026-03-04T05/…      a row per disk and hour
    PATH/hours/2026-03-04T05.json        the records from which both were made; an hour counts only if this file exists

An hour is written when it can no longer grow: samples that agents queued while Kafka was unreachable come late. An incomplete hour of
an aborted run is overwritten by the next run, and an hour that counts is never written again, so no hour is lost or duplicated.
PATH is any URL that Hadoop can write to. `catch_up` continues after the last run, a day of samples at a time, so that its memory does not
depend on the time since then.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from spindle_rebalance import features, source
from spindle_rebalance.summary import LATENCIES
from spindle_rebalance.tidy import CLOCK_OFF_S, CleanRecords, Dated, clean_records

HOUR_MS: Final = 3_600_000
LATE_MS: Final = 2 * HOUR_MS
_EARLY_MS: Final = 2 * int(CLOCK_OFF_S * 1000)  # a clock that is ahead by less is accepted
_STRETCH_MS: Final = 24 * HOUR_MS  # period of samples that are read at once
_SUFFIX: Final = ".json"
_FORMAT: Final = "%Y-%m-%dT%H"
_OFFSETS: Final = pa.struct([("partition", pa.int32()), ("first", pa.int64()), ("last", pa.int64())])
_HOURS: Final = pa.schema(
    [
        ("hour", pa.string()),
        ("offsets", pa.list_(pa.field("element", _OFFSETS))),
        *(field for field in features.BROKERS if field.name in ("broker", "records", "replicas", "disks")),
    ]
)


@dataclass(frozen=True)
class Rolled:
    """The hours that a run has written.

    Attributes:
        hours: names of the new hours.
        already: hours that already counted, although their records were read again.
    """

    hours: tuple[str, ...]
    already: tuple[str, ...]


def catch_up(
    spark: SparkSession, access: source.Access, path: str, until_ms: int, cluster_id: str | None = None
) -> tuple[str, ...]:
    """Write the complete hours in the topic after the last hour that counts.

    Args:
        spark: the session.
        access: address and credentials of the topic.
        path: URL of the roll-up; a separate one for each cluster.
        until_ms: current time (ms since 1970).
        cluster_id: see `study.Study`.

    Returns:
        The hours that were written.

    Raises:
        SourceError: Kafka could not be read.
        PySparkException, Py4JError: the URL cannot be written, or Spark failed; hours written before that count.
    """
    files = _Files(spark, path)
    files.prepare()
    kept = source.kept_since(access)
    if kept is None:
        return ()
    begins, whole = kept
    # The first hour that the topic contains completely, and not before an hour that counts: hours are written in order.
    start = max(begins // HOUR_MS, -(-whole // HOUR_MS), files.latest() + 1) * HOUR_MS
    last = (until_ms - LATE_MS) // HOUR_MS * HOUR_MS
    written: list[str] = []
    while start < last:
        end = min(start + _STRETCH_MS, last)
        ranges = source.find_ranges(access, start - _EARLY_MS, end + LATE_MS)
        if ranges:
            records = source.read(spark, access, ranges)
            written += roll(spark, records, path, start, end + LATE_MS, cluster_id).hours
        start = end
    return tuple(written)


def roll(
    spark: SparkSession,
    records: DataFrame,
    path: str,
    since_ms: int,
    until_ms: int,
    cluster_id: str | None = None,
) -> Rolled:
    """Write the complete hours that are not written yet.

    Args:
        spark: the session.
        records: records from `source.read`; only complete hours among them can be written.
        path: URL of the roll-up; a separate one for each cluster.
        since_ms: time from which all records are included (ms since 1970); an hour that started earlier is incomplete.
        until_ms: time up to which records are included (ms since 1970); hours that ended `LATE_MS` before it are complete.
        cluster_id: see `study.Study`.
    """
    last = (until_ms - LATE_MS) // HOUR_MS * HOUR_MS
    files = _Files(spark, path)
    found = records.transform(hourly(since_ms, last, cluster_id)).persist()
    try:
        marks = found.transform(_marks).collect()
        done = {row.hour for row in marks if files.counts(row.hour)}
        fresh = [row for row in marks if row.hour not in done]
        if fresh:
            todo = found.where(sf.col("hour").isin([row.hour for row in fresh]))
            for name, table in (("replicas", replicas(todo)), ("disks", disks(todo))):
                writer = table.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
                writer.partitionBy("hour").parquet(f"{path}/{name}")
            for row in fresh:
                files.mark(
                    row.hour, {"records": row.records, "offsets": [each.asDict() for each in row.offsets]}
                )
    finally:
        found.unpersist()
    return Rolled(tuple(row.hour for row in fresh), tuple(sorted(done)))


def hourly(since_ms: int, before_ms: int, cluster_id: str | None = None) -> Callable[[DataFrame], DataFrame]:
    """Records → one row per broker and hour between these times: hour, offsets, records, ``replicas`` and ``disks``."""

    def summarised(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = next(batches, None)
        if first is None:
            return
        broker = int(first.column("broker")[0].as_py())
        clean = clean_records(features.chained(first, batches), cluster_id)
        for hour, moments in _by_hour(clean.moments, since_ms, before_ms).items():
            row = features.summarise(broker, CleanRecords(moments, records=sum(map(len, moments))), 0)
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([hour], pa.string()),
                    pa.array([_offsets(moments)], _HOURS.field("offsets").type),
                    *(row.column(name) for name in _HOURS.names[2:]),
                ],
                schema=_HOURS,
            )

    return lambda records: records.groupBy("broker").applyInArrow(summarised, from_arrow_schema(_HOURS))


def _by_hour(moments: list[list[Dated]], since_ms: int, before_ms: int) -> dict[str, list[list[Dated]]]:
    found: dict[str, list[list[Dated]]] = {}
    for parts in moments:
        start = parts[0].at_ms // HOUR_MS * HOUR_MS
        if since_ms <= start <= before_ms - HOUR_MS:
            name = datetime.fromtimestamp(start / 1000, UTC).strftime(_FORMAT)
            found.setdefault(name, []).append(parts)
    return found


def _offsets(moments: list[list[Dated]]) -> list[dict[str, int]]:
    found: dict[int, tuple[int, int]] = {}
    for parts in moments:
        for each in parts:
            first, last = found.get(each.partition, (each.offset, each.offset))
            found[each.partition] = (min(first, each.offset), max(last, each.offset))
    return [
        {"partition": partition, "first": first, "last": last}
        for partition, (first, last) in sorted(found.items())
    ]


def replicas(hours: DataFrame) -> DataFrame:
    """Hours → one row per replica and hour."""
    return hours.select("hour", "broker", sf.explode("replicas").alias("found")).select(
        "hour", "broker", "found.*"
    )


def disks(hours: DataFrame) -> DataFrame:
    """Hours → one row per disk and hour: usage at its end and its peak, bytes appended, mean latencies."""
    each = hours.select("hour", "broker", sf.explode("disks").alias("d"))
    return each.select(
        "hour",
        "broker",
        *(f"d.{name}" for name in ("dir", "disk", "kind", "state")),
        sf.element_at("d.capacity", -1).alias("capacity"),
        sf.element_at("d.used", -1).alias("used"),
        sf.array_max("d.used").alias("used_peak"),
        sf.expr("aggregate(d.appended, 0D, (sum, x) -> sum + x)").alias("appended"),
        *(
            sf.expr(
                f"aggregate(filter(d.{name}, x -> NOT isnan(x)), 0D, (sum, x) -> sum + x,"
                f" sum -> sum / nullif(size(filter(d.{name}, x -> NOT isnan(x))), 0))"
            ).alias(name)
            for name in LATENCIES
        ),
        sf.size("d.at_s").alias("samples"),
    )


def _marks(hours: DataFrame) -> DataFrame:
    """Hours → one row per hour over all brokers: the records and offsets from which it is made."""
    # A broker's records are counted once, although they may be in several partitions.
    each = hours.select("hour", "records", sf.posexplode("offsets").alias("place", "o"))
    once = sf.when(sf.col("place") == 0, sf.col("records")).otherwise(0).alias("records")
    flat = each.select("hour", once, "o.*")
    places = flat.groupBy("hour", "partition").agg(
        sf.min("first").alias("first"), sf.max("last").alias("last"), sf.sum("records").alias("records")
    )
    return (
        places.groupBy("hour")
        .agg(
            sf.sum("records").alias("records"),
            sf.array_sort(sf.collect_list(sf.struct("partition", "first", "last"))).alias("offsets"),
        )
        .orderBy("hour")
    )


class _Files:
    """The small files that mark hours as complete, accessed through Hadoop's file systems."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        context: Any = spark.sparkContext
        self._jvm = context._jvm  # noqa: SLF001 - PySpark has no other way to Hadoop's file systems
        self._conf = context._jsc.hadoopConfiguration()  # noqa: SLF001
        self._path = path

    def prepare(self) -> None:
        """Create the folder and check that files can be written, so that an error shows before anything is read."""
        place, system = self._at(".writable")
        system.mkdirs(place.getParent())
        system.create(place, True).close()
        system.delete(place, False)

    def latest(self) -> int:
        """The last hour that counts, in hours since 1970; 0 if none does."""
        place, system = self._at("any")
        found = [
            status.getPath().getName().removesuffix(_SUFFIX)
            for status in system.listStatus(place.getParent())
            if status.getLen() > 0 and status.getPath().getName().endswith(_SUFFIX)
        ]
        if not found:
            return 0
        began = datetime.strptime(max(found), _FORMAT).replace(tzinfo=UTC)
        return int(began.timestamp()) * 1000 // HOUR_MS

    def counts(self, hour: str) -> bool:
        """Whether an hour was written completely."""
        place, system = self._at(hour)
        return bool(system.exists(place)) and system.getFileStatus(place).getLen() > 0

    def mark(self, hour: str, content: dict[str, Any]) -> None:
        """Mark an hour as complete. The file gets its final name when it is complete."""
        place, system = self._at(hour)
        new = self._jvm.org.apache.hadoop.fs.Path(f"{place.toString()}.new")
        stream = system.create(new, True)
        try:
            stream.write(bytearray(json.dumps(content), "utf-8"))
        finally:
            stream.close()
        system.delete(place, False)  # an empty file does not count
        if not system.rename(new, place):
            raise OSError(f"{new} cannot be renamed to {place}")

    def _at(self, hour: str) -> tuple[Any, Any]:
        place = self._jvm.org.apache.hadoop.fs.Path(f"{self._path}/hours/{hour}{_SUFFIX}")
        return place, place.getFileSystem(self._conf)
