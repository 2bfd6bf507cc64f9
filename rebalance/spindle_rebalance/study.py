"""What a task of Spark makes of the records of one broker: one row with everything that the driver needs of them.

broker, counts    see `features.BROKERS`
poison            the listed unusable records
replicas          size and growth of each replica
disks             latest state and forecast of each disk
latest            the last part of each disk's history, which the driver compares with those of all other disks
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spindle_rebalance import features, forecasts
from spindle_rebalance.arrays import lists
from spindle_rebalance.pieces import Piece, Read
from spindle_rebalance.spool import IN_MEMORY, Spool
from spindle_rebalance.summary import LATENCIES
from spindle_rebalance.tidy import clean_records

WINDOW: Final = 288  # number of latest samples of a disk: a day at one per five minutes
COUNTS: Final = ("records", "rows", "poisoned", "doubled")
_SAME: Final = ("broker", *COUNTS, "clock_s", "clock_records", "poison")
_REPLICA: Final = ("topic", "partition", "dir", "bytes", "growth_bytes_per_s", "append_p95")
_LATEST: Final = ("dir", "disk", "kind", "at_s", *LATENCIES)


def _elements(name: str) -> pa.DataType:
    return features.BROKERS.field(name).type.value_type


def _list_of(fields: list[pa.Field]) -> pa.DataType:
    return pa.list_(pa.field("element", pa.struct(fields)))


FOUND: Final = pa.schema(
    [
        *(features.BROKERS.field(name) for name in _SAME),
        ("replicas", _list_of([_elements("replicas").field(name) for name in _REPLICA])),
        ("disks", _list_of([field for field in forecasts.COLUMNS if field.name != "broker"])),
        ("latest", _list_of([_elements("disks").field(name) for name in _LATEST])),
    ]
)
"""Columns of the rows; Spark passes them on."""


@dataclass(frozen=True)
class Study:
    """How records become rows; passed to the tasks.

    Attributes:
        cluster_id: id of the cluster; records of another cluster are poison. None: the id in a broker's first record.
        level: share of capacity to forecast, above 0 and at most 1.
        replicas_since_ms: replica features use only samples that Kafka stored at or after this time (ms since 1970);
            disk histories use all.
        window: number of latest samples of a disk in ``latest``.
    """

    cluster_id: str | None
    level: float
    replicas_since_ms: int = 0
    window: int = WINDOW

    def __post_init__(self) -> None:
        """Raise ValueError if the level is not a share."""
        if not 0 < self.level <= 1:
            raise ValueError(f"level {self.level} must be a share of capacity above 0 and at most 1")

    def broker(self, broker: int, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
        """The row of a broker, with the columns `FOUND`.

        Args:
            broker: its id.
            batches: all its records, with the columns `source.RECORDS`, in any order.
        """
        clean = clean_records(batches, self.cluster_id, self.replicas_since_ms)
        row = features.summarise(broker, clean, self.replicas_since_ms)
        disks = exploded(row, "disks")
        forecast = forecasts.of_batch(disks, self.level)
        return pa.RecordBatch.from_arrays(
            [
                *(row.column(name) for name in _SAME),
                _row(FOUND, "replicas", row.column("replicas").flatten()),
                _row(FOUND, "disks", forecast.to_struct_array()),
                _row(FOUND, "latest", _latest(disks, self.window)),
            ],
            schema=FOUND,
        )

    def piece(
        self, piece: Piece, read: Read, folder: Path | None = None, in_memory: int = IN_MEMORY
    ) -> Iterator[pa.RecordBatch]:
        """The row of each broker in a piece.

        Args:
            piece: which records.
            read: reads them.
            folder: for what does not fit into memory; None for the system's temporary folder.
            in_memory: bytes of records that are kept in memory.
        """
        with Spool(folder, in_memory) as spool:
            for batch in read(piece):
                spool.add(_share(batch, piece))
            for broker, batches in spool.brokers():
                yield self.broker(broker, batches)


def _share(batch: pa.RecordBatch, piece: Piece) -> pa.RecordBatch:
    if piece.shares == 1:
        return batch
    own = batch.column("broker").to_numpy() % piece.shares == piece.share
    return batch.filter(pa.array(own))


def exploded(rows: Any, name: str) -> Any:
    """One row for each struct in a column of lists, with its broker.

    Args:
        rows: a RecordBatch or Table with the columns ``broker`` and ``name``.
        name: the column.

    Returns:
        Of the same kind: broker, and the fields of the structs.
    """
    if isinstance(rows, pa.Table):
        batches = rows.to_batches() or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
        return pa.Table.from_batches([exploded(batch, name) for batch in batches])
    column = rows.column(name)
    found = column.flatten()  # a slice has only its own elements
    counts = np.diff(column.offsets.to_numpy())
    brokers = pa.array(np.repeat(rows.column("broker").to_numpy(), counts), pa.int32())
    return pa.RecordBatch.from_arrays(
        [brokers, *found.flatten()], names=["broker", *(field.name for field in found.type)]
    )


def _row(schema: pa.Schema, name: str, structs: pa.StructArray) -> pa.ListArray:
    """A list array with these structs as its only element, reduced to the fields of the column."""
    kind = schema.field(name).type
    fields = list(kind.value_type)
    chosen = pa.StructArray.from_arrays([structs.field(field.name) for field in fields], fields=fields)
    return pa.ListArray.from_arrays(np.array([0, len(chosen)], np.int32), chosen, type=kind)


def _latest(disks: pa.RecordBatch, window: int) -> pa.StructArray:
    """The last samples of each disk."""
    fields = [_elements("disks").field(name) for name in _LATEST]
    columns = []
    for field in fields:
        if pa.types.is_list(field.type):
            ends = [each[-window:] for each in lists(disks, field.name)]
            columns.append(features.list_array(ends, field.type.value_type))
        else:
            columns.append(disks.column(field.name))
    return pa.StructArray.from_arrays(columns, fields=fields)
