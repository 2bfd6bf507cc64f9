"""Contents of a sample: one broker at one time, with its replicas and disks."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spindle.samples.framing import Poison, Version

VERSION: Final = Version(1, 0)  # the version that is written

# Columns. Nullable ones may be missing (older writers) and are then read as null. Unknown columns are ignored.
REPLICAS: Final = pa.schema(
    [
        pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("dir", pa.dictionary(pa.int32(), pa.string()), nullable=False),  # path of the log dir
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("append_rate", pa.float64()),  # bytes per second over the interval; null: unknown
        pa.field("leader", pa.bool_()),  # whether this broker led the partition; null: unknown
    ]
)
DISKS: Final = pa.schema(
    [
        pa.field("dir", pa.string(), nullable=False),  # path of the log dir
        pa.field("disk", pa.string(), nullable=False),  # name of the disk in the KafkaBroker
        pa.field("kind", pa.string()),  # class of comparable disks: rotational-4T, ssd-1T
        pa.field("capacity", pa.int64()),  # bytes of the file system; null: unknown
        pa.field("used", pa.int64()),
        pa.field("reads_per_s", pa.float64()),  # over the interval, like all following columns; null: unknown
        pa.field("writes_per_s", pa.float64()),
        pa.field("read_bytes_per_s", pa.float64()),
        pa.field("write_bytes_per_s", pa.float64()),
        pa.field("read_ms", pa.float64()),  # mean milliseconds of a request; null: no requests
        pa.field("write_ms", pa.float64()),
        pa.field("state", pa.string()),  # state in the KafkaBroker's status
    ]
)

MOST_REPLICAS: Final = 1_000_000  # in one record
MOST_DISKS: Final = 10_000
TABLES: Final = (("replicas", REPLICAS, MOST_REPLICAS), ("disks", DISKS, MOST_DISKS))
_LONGEST_TEXT: Final = 4096  # bytes: a path
_LATEST: Final = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z
_LONGEST: Final = 7 * 86400.0  # seconds between two samples of one broker
_MOST_PARTS: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One broker at one time; for very many replicas a part of it, with the disks only in the first part.

    Attributes:
        version: version of its record.
        cluster_id: Kafka's cluster id.
        broker: its node id.
        rack: the broker's rack; empty if it has none.
        at_ms: time of the sample by the clock of the broker's node, in milliseconds since the epoch.
        interval_s: seconds covered by its rates.
        replicas: rows of REPLICAS.
        disks: rows of DISKS.
        part, parts: number of this part, from 0, and number of parts.
    """

    version: Version = VERSION
    cluster_id: str
    broker: int
    rack: str
    at_ms: int
    interval_s: float
    replicas: Any
    disks: Any
    part: int = 0
    parts: int = 1


def check(sample: Sample) -> None:
    """Validate a sample.

    Raises:
        Poison: ``Invalid``, with the name of the field.
    """
    check_head(sample)
    for table, schema, most in TABLES:
        check_table(table, getattr(sample, table), schema, most)


def check_head(sample: Sample) -> None:
    """Validate what a sample has besides its tables.

    Raises:
        Poison: ``Invalid``, with the name of the field.
    """
    for what, value, least, most in (
        ("broker", sample.broker, 0, 2**31 - 1),
        ("at_ms", sample.at_ms, 0, _LATEST),
        ("parts", sample.parts, 1, _MOST_PARTS),
        ("part", sample.part, 0, sample.parts - 1),
    ):
        if not least <= value <= most:
            raise _invalid(f"{what} is {value}, but must be between {least} and {most}")
    if not 0 < sample.interval_s <= _LONGEST:  # also false for NaN
        raise _invalid(f"interval_s is {sample.interval_s}, but must be above 0 and at most {_LONGEST:.0f}")
    for name, text in (("cluster_id", sample.cluster_id), ("rack", sample.rack)):
        if len(text) > _LONGEST_TEXT:
            raise _invalid(f"{name} has {len(text)} characters")


def check_rows(table: str, batch: Any, most: int) -> None:
    """Validate the number of rows of a batch.

    Raises:
        Poison: ``TooLarge``.
    """
    if batch.num_rows > most:
        raise Poison("TooLarge", f"{table} has {batch.num_rows} rows; the limit is {most}")


def check_table(table: str, batch: Any, schema: Any, most: int) -> None:
    """Validate the rows of a sample, or of several that were read from one stream.

    Args:
        table: its name, for messages.
        batch: a RecordBatch, or a Table whose batches have the same dictionaries.
        schema: its columns.
        most: maximum rows.

    Raises:
        Poison: ``TooLarge``, ``Malformed``, or ``Invalid`` with the name of the column.
    """
    if not batch.schema.equals(schema):
        raise _invalid(f"{table} does not have the columns of a sample")
    check_rows(table, batch, most)
    try:
        batch.validate(full=True)
    except (pa.ArrowException, ValueError) as error:
        raise Poison("Malformed", f"{table}: {error}") from None
    for field, column in zip(schema, batch.columns, strict=True):
        _check_column(f"{table}.{field.name}", field, column)


def _check_column(name: str, field: Any, column: Any) -> None:
    if column.null_count and not field.nullable:
        raise _invalid(f"{name} is missing (rows: {column.null_count})")
    if pa.types.is_dictionary(field.type):
        column = (column.chunk(0) if isinstance(column, pa.ChunkedArray) else column).dictionary
        if column.null_count:
            raise _invalid(f"{name} has no name for a value")
    if pa.types.is_string(column.type):
        longest = _longest_text(column)
        if longest > _LONGEST_TEXT:
            raise _invalid(f"{name} has a string of {longest} bytes")
    elif not pa.types.is_boolean(column.type):
        values = column.to_numpy(zero_copy_only=False)  # nulls become NaN, but NaN can be a value too
        wrong = (values < 0) | np.isinf(values)
        if wrong.any():
            raise _invalid(f"{name} is {values[wrong][0]} in one row: it must be a non-negative number")
        if np.isnan(values).sum() != column.null_count:
            raise _invalid(f"{name} is NaN in one row; unknown values must be null")


def _longest_text(column: Any) -> int:
    """Bytes of the longest string; 0 if there is none."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    offsets = np.frombuffer(column.buffers()[1] or b"", np.int32)
    ends = offsets[column.offset : column.offset + len(column) + 1]
    return int(np.diff(ends).max(initial=0))


def _invalid(message: str) -> Poison:
    return Poison("Invalid", message)
