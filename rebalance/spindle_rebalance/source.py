"""The topic of samples as a Spark data source: one row per Kafka record, exactly those in the given ranges.

Ranges are determined once at the start (`find_ranges`) and reported with the results: the same ranges give the same rows
as long as Kafka keeps them. A range that Kafka no longer has completely is refused, never read partially. Values are passed on
unchanged, in Arrow batches of a few megabytes; they are decoded where all records of a broker are together.

A run reads pieces of the topic in tasks that use the records themselves (`records`); the roll-up, and brokers whose
records are in several partitions, use the data source (`read`).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, OffsetOutOfRangeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spindle.api import names
from spindle_rebalance.pieces import Piece

FORMAT: Final = "spindle-samples"
RECORDS: Final = "partition int, offset bigint, stored_ms bigint, broker int, value binary"
"""Columns: position of the record, Kafka's timestamp (ms since 1970), the broker in its key (-1: none), its value."""

NO_BROKER: Final = -1
_ARROW: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("stored_ms", pa.int64()),
        ("broker", pa.int32()),
        ("value", pa.binary()),
    ]
)
_BATCH_BYTES: Final = 8 * 1024 * 1024
_FETCH_BYTES: Final = 8 * 1024 * 1024
_LEAST: Final = 64  # records: a split with fewer costs more to start than to read
_LARGEST_ID: Final = 2**31 - 1

Ranges = Mapping[int, tuple[int, int]]
"""Partition → first offset and last offset + 1."""


class RangeGoneError(ValueError):
    """Records of a range are no longer in Kafka; the message says which, and what to do."""


class SourceError(RuntimeError):
    """Kafka could not be read; the message names the request and the error."""


@dataclass(frozen=True)
class Access:
    """Address and credentials of a topic of samples.

    Attributes:
        bootstrap: ``host:port``, one or more.
        tls: folder with ``ca.crt``, ``tls.crt`` and ``tls.key`` (PEM), at the same path on all of Spark's workers; None for no TLS. Only
            the path is passed on: no plan, log or message contains the contents.
        topic: name of the topic.
        timeout_s: seconds for one response of Kafka.
    """

    bootstrap: tuple[str, ...]
    tls: Path | None = None
    topic: str = names.TOPIC_SAMPLES
    timeout_s: float = 60.0

    def options(self) -> dict[str, str]:
        """The options of the data source."""
        found = {"bootstrap": ",".join(self.bootstrap), "topic": self.topic, "timeout": str(self.timeout_s)}
        return found if self.tls is None else {**found, "tls": str(self.tls)}


def find_ranges(
    access: Access, since_ms: int | None = None, until_ms: int | None = None
) -> dict[int, tuple[int, int]]:
    """Determine the current ranges of the topic.

    Args:
        access: of the topic.
        since_ms: leave out records with an earlier Kafka timestamp (ms since 1970); None for all.
        until_ms: leave out records from the first one with this or a later timestamp on; None for no limit.

    Returns:
        Ranges without empty ones; none if there is no history yet.

    Raises:
        SourceError: Kafka did not answer, or the topic does not exist.
    """
    with _Asked(access) as consumer:
        places = _places(consumer, access)
        first, end = consumer.beginning_offsets(places), consumer.end_offsets(places)
        if since_ms is not None:
            later = consumer.offsets_for_times(dict.fromkeys(places, since_ms))
            first = {
                place: end[place] if later.get(place) is None else max(first[place], later[place].offset)
                for place in places
            }
        if until_ms is not None:
            later = consumer.offsets_for_times(dict.fromkeys(places, until_ms))
            end = {
                place: end[place] if later.get(place) is None else min(end[place], later[place].offset)
                for place in places
            }
        return {place.partition: (first[place], end[place]) for place in places if end[place] > first[place]}


def kept_since(access: Access) -> tuple[int, int] | None:
    """How far back the topic goes, in ms since 1970.

    Returns:
        Time of its first record, and the time from which every partition is complete (0 if nothing was deleted yet);
        None for an empty topic.

    Raises:
        SourceError: Kafka did not answer, or the topic does not exist.
    """
    with _Asked(access) as consumer:
        places = _places(consumer, access)
        first = consumer.beginning_offsets(places)
        found = consumer.offsets_for_times(dict.fromkeys(places, 0))
        times = {place: found[place].timestamp for place in places if found.get(place) is not None}
        if not times:
            return None
        return min(times.values()), max((at for place, at in times.items() if first[place]), default=0)


def _places(consumer: Any, access: Access) -> list[TopicPartition]:
    partitions = consumer.partitions_for_topic(access.topic)
    if not partitions:
        raise SourceError(
            f"the topic {access.topic} does not exist: check that samples are enabled and that agents publish them"
        )
    return [TopicPartition(access.topic, number) for number in sorted(partitions)]


def read(spark: SparkSession, access: Access, ranges: Ranges, splits: int | None = None) -> DataFrame:
    """The records of these ranges as rows of `RECORDS`, read lazily.

    Args:
        spark: the session.
        access: of the topic.
        ranges: the ranges to read.
        splits: approximate number of read tasks; None for three per core.
    """
    spark.dataSource.register(SamplesSource)
    wanted = splits or 3 * spark.sparkContext.defaultParallelism
    options = {**access.options(), "ranges": json.dumps(dict(ranges)), "splits": str(wanted)}
    return spark.read.format(FORMAT).options(**options).load()


def records(access: Access, piece: Piece) -> Iterator[pa.RecordBatch]:
    """The records of a piece, all shares of it, in batches of about `_BATCH_BYTES`.

    Raises:
        RangeGoneError: Kafka no longer has all of them.
        SourceError: Kafka did not answer.
    """
    wanted = [Split(partition, first, end) for partition, (first, end) in sorted(piece.ranges.items())]
    if wanted:
        with _Asked(access) as consumer:
            yield from _batches(consumer, access, wanted)


class SamplesSource(DataSource):
    """The data source. Options: those of `Access`, ``ranges`` (JSON: partition → [first, end]) and ``splits``."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Columns."""
        return RECORDS

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - the interface has it; ours is fixed
        """A reader for these options."""
        options = self.options
        for needed in ("bootstrap", "ranges"):
            if not options.get(needed):
                raise ValueError(f"the source {FORMAT} needs the option {needed}")
        tls = options.get("tls")
        access = Access(
            tuple(options["bootstrap"].split(",")),
            Path(tls) if tls else None,
            options.get("topic", names.TOPIC_SAMPLES),
            float(options.get("timeout", "60")),
        )
        return SamplesReader(access, _ranges(options["ranges"]), int(options.get("splits", "1")))


class Split(InputPartition):
    """The range of one task: offsets from ``first`` up to but excluding ``end``."""

    def __init__(self, partition: int, first: int, end: int) -> None:
        super().__init__((partition, first, end))
        self.partition, self.first, self.end = partition, first, end


class SamplesReader(DataSourceReader):
    """Reads ranges, split for the requested number of tasks."""

    def __init__(self, access: Access, ranges: Ranges, splits: int) -> None:
        self._access, self._ranges, self._splits = access, ranges, splits

    def partitions(self) -> list[InputPartition]:
        """The splits of all tasks."""
        return list(split(self._ranges, self._splits))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """All records of a split."""
        if not isinstance(partition, Split):  # Spark's placeholder if there is nothing to read
            return
        with _Asked(self._access) as consumer:
            yield from _batches(consumer, self._access, [partition])


def split(ranges: Ranges, wanted: int) -> list[Split]:
    """About ``wanted`` splits of one partition each; more if there are more partitions, fewer if there are few records."""
    total = sum(end - first for first, end in ranges.values())
    each = max(_LEAST, -(-total // max(wanted, 1)))
    found = []
    for partition, (first, end) in sorted(ranges.items()):
        pieces = -(-(end - first) // each)
        cuts = [first + (end - first) * k // pieces for k in range(pieces + 1)] if pieces else []
        found += [Split(partition, a, b) for a, b in pairwise(cuts)]
    return found


def _ranges(text: str) -> dict[int, tuple[int, int]]:
    """Parse the option's JSON.

    Raises:
        ValueError: it is not valid.
    """
    try:
        found = {
            int(partition): (int(first), int(end)) for partition, (first, end) in json.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError('option ranges: must look like {"0": [120, 4500]}') from error
    for partition, (first, end) in found.items():
        if not 0 <= first <= end or partition < 0:
            raise ValueError(f"option ranges: partition {partition} cannot have offsets {first} to {end}")
    return found


class _Asked:
    """Context manager for a consumer; its errors become `SourceError`."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._consumer: Any = None

    def __enter__(self) -> Any:
        """Open the consumer. Raises SourceError."""
        access = self._access
        security: dict[str, Any] = {}
        if access.tls is not None:
            absent = [name for name in ("ca.crt", "tls.crt", "tls.key") if not (access.tls / name).is_file()]
            if absent:
                raise SourceError(f"{access.tls} has no {', '.join(absent)}")
            security = {
                "security_protocol": "SSL",
                "ssl_cafile": str(access.tls / "ca.crt"),
                "ssl_certfile": str(access.tls / "tls.crt"),
                "ssl_keyfile": str(access.tls / "tls.key"),
            }
        try:
            self._consumer = KafkaConsumer(
                bootstrap_servers=list(access.bootstrap),
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="none",
                allow_auto_create_topics=False,
                exclude_internal_topics=False,
                request_timeout_ms=int(access.timeout_s * 1000),
                bootstrap_timeout_ms=int(access.timeout_s * 1000),
                max_partition_fetch_bytes=_FETCH_BYTES,
                max_poll_records=1000,
                metrics_enabled=False,
                **security,
            )
        except (KafkaError, OSError) as error:
            raise self._told(error) from error
        return self._consumer

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close the consumer, and convert an error."""
        self._consumer.close(autocommit=False, timeout_ms=5000)
        if isinstance(error, KafkaError):
            raise self._told(error) from error

    def _told(self, error: BaseException) -> SourceError:
        text = str(error) or type(error).__name__
        return SourceError(f"topic {self._access.topic} at {', '.join(self._access.bootstrap)}: {text}")


def _batches(consumer: Any, access: Access, wanted: Sequence[Split]) -> Iterator[pa.RecordBatch]:
    """The records of splits of different partitions, in batches of about `_BATCH_BYTES`."""
    kept: list[Any] = []
    size = 0
    for record in _records(consumer, access, wanted):
        kept.append(record)
        size += len(record.value or b"")
        if size >= _BATCH_BYTES:
            yield _batch(kept)
            kept, size = [], 0
    if kept:
        yield _batch(kept)


def _records(consumer: Any, access: Access, wanted: Sequence[Split]) -> Iterator[Any]:
    """The same one by one. Offsets without a record (compaction, transactions) are skipped."""
    left = {TopicPartition(access.topic, piece.partition): piece for piece in wanted}
    _begin(consumer, left)
    while left:
        before = {place: consumer.position(place) for place in left}
        try:
            polled = consumer.poll(timeout_ms=int(access.timeout_s * 1000))
        except OffsetOutOfRangeError as error:
            gone = next((piece for place, piece in left.items() if place in error.args[0]), wanted[0])
            raise RangeGoneError(_gone(gone, "they were deleted in the meantime")) from error
        if not polled and all(consumer.position(place) == at for place, at in before.items()):
            waiting = ", ".join(f"{place.topic}-{place.partition}" for place in left)
            raise SourceError(f"no record of {waiting} came within {access.timeout_s:g} s")
        for place, found in polled.items():
            yield from (record for record in found if record.offset < left[place].end)
        _drop_read(consumer, left)


def _begin(consumer: Any, left: dict[TopicPartition, Split]) -> None:
    """Start reading at the beginning of each split. Raises RangeGoneError."""
    places = list(left)
    consumer.assign(places)
    lowest, highest = consumer.beginning_offsets(places), consumer.end_offsets(places)
    for place, piece in left.items():
        if lowest[place] > piece.first or highest[place] < piece.end:
            raise RangeGoneError(_gone(piece, f"Kafka has {lowest[place]} to {highest[place]}"))
        consumer.seek(place, piece.first)
    _drop_read(consumer, left)


def _drop_read(consumer: Any, left: dict[TopicPartition, Split]) -> None:
    """Do not read on what is read to its end."""
    for place in [place for place, piece in left.items() if consumer.position(place) >= piece.end]:
        consumer.pause(place)
        del left[place]


def _gone(piece: Split, why: str) -> str:
    return (
        f"partition {piece.partition}: offsets {piece.first} to {piece.end} were requested, but {why}. "
        "Retention deletes old samples: a run can be repeated only while they exist; start a new run instead"
    )


def _batch(records: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([record.partition for record in records], pa.int32()),
            pa.array([record.offset for record in records], pa.int64()),
            pa.array([record.timestamp for record in records], pa.int64()),
            pa.array([broker_of(record.key) for record in records], pa.int32()),
            pa.array([record.value for record in records], pa.binary()),
        ],
        schema=_ARROW,
    )


def broker_of(key: bytes | None) -> int:
    """The broker id in a record's key; `NO_BROKER` if there is none."""
    if key is None or not key.isdigit() or len(key) > len(str(_LARGEST_ID)):
        return NO_BROKER
    number = int(key)
    return number if number <= _LARGEST_ID else NO_BROKER
