"""The row of one broker: counts, its replicas, and the histories of its disks.

A day of a million replicas is 288 million samples, but only 288,000 records of a thousand brokers. All records of a broker are summarised
together, as arrays; everything after that is small.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spindle_rebalance import summary
from spindle_rebalance.summary import LATENCIES
from spindle_rebalance.tidy import CleanRecords, Dated


def _list(of: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", of))  # Spark's name of the element


_POISON: Final = pa.struct([("partition", pa.int32()), ("offset", pa.int64()), ("reason", pa.string())])
_REPLICA: Final = pa.struct(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("dir", pa.string()),
        ("bytes", pa.int64()),
        ("growth_bytes_per_s", pa.float64()),
        ("append_p50", pa.float64()),
        ("append_p95", pa.float64()),
        ("leader", pa.bool_()),
        ("samples", pa.int64()),
    ]
)
_DISK: Final = pa.struct(
    [
        ("dir", pa.string()),
        ("disk", pa.string()),
        ("kind", pa.string()),
        ("state", pa.string()),
        ("at_s", _list(pa.float64())),
        ("used", _list(pa.int64())),
        ("capacity", _list(pa.int64())),
        ("appended", _list(pa.float64())),
        *((name, _list(pa.float64())) for name in LATENCIES),
    ]
)
BROKERS: Final = pa.schema(
    [
        ("broker", pa.int32()),
        ("cluster_id", pa.string()),
        ("rack", pa.string()),
        ("records", pa.int64()),
        ("rows", pa.int64()),
        ("poisoned", pa.int64()),
        ("doubled", pa.int64()),
        ("clock_s", pa.float64()),
        ("clock_records", pa.int64()),
        ("poison", _list(_POISON)),
        ("replicas", _list(_REPLICA)),
        ("disks", _list(_DISK)),
    ]
)


def chained(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches one after the other."""
    yield first
    yield from rest


def summarise(broker: int, clean: CleanRecords, replicas_since_ms: int) -> pa.RecordBatch:
    """The row of one broker."""
    recent = [parts for parts in clean.moments if parts[0].stored_ms >= replicas_since_ms]
    latest: Dated | None = clean.moments[-1][0] if clean.moments else None
    return pa.RecordBatch.from_arrays(
        [
            pa.array([broker], pa.int32()),
            pa.array([latest.sample.cluster_id if latest else None], pa.string()),
            pa.array([latest.sample.rack if latest else None], pa.string()),
            *(pa.array([n], pa.int64()) for n in (clean.records, clean.rows, clean.poisoned, clean.doubled)),
            pa.array([clean.clock_s], pa.float64()),
            pa.array([clean.clock_records], pa.int64()),
            pa.array([[vars(each) for each in clean.poison]], _list(_POISON)),
            _one(_replicas(recent)),
            _one(_disks(summary.disks(clean.moments))),
        ],
        schema=BROKERS,
    )


def _one(structs: pa.StructArray) -> pa.ListArray:
    """A list array with these structs as its only element."""
    return pa.ListArray.from_arrays(np.array([0, len(structs)], np.int32), structs, type=_list(structs.type))


def _replicas(moments: list[list[Dated]]) -> pa.StructArray:
    if not moments:
        return pa.array([], _REPLICA)
    found = summary.replicas(moments)
    return pa.StructArray.from_arrays(
        [
            pa.array(found.topic, pa.string()),
            pa.array(found.partition, pa.int32()),
            pa.array(found.dir, pa.string()),
            pa.array(found.size, pa.int64()),
            *(
                pa.array(each, pa.float64(), from_pandas=True)
                for each in (found.growth, found.p50, found.p95)
            ),
            pa.array(found.leader, pa.bool_()),
            pa.array(found.samples, pa.int64()),
        ],
        fields=list(_REPLICA),
    )


def _disks(found: Sequence[summary.DiskHistory]) -> pa.StructArray:
    return pa.StructArray.from_arrays(
        [
            *(
                pa.array([getattr(each, name) for each in found], pa.string())
                for name in ("dir", "disk", "kind", "state")
            ),
            list_array([each.at_s for each in found], pa.float64()),
            list_array([each.used for each in found], pa.int64()),
            list_array([each.capacity for each in found], pa.int64()),
            list_array([each.appended for each in found], pa.float64()),
            *(list_array([each.columns[name] for each in found], pa.float64()) for name in LATENCIES),
        ],
        fields=list(_DISK),
    )


def list_array(values: Sequence[Any], of: pa.DataType) -> pa.ListArray:
    """An array of lists; None stays None."""
    lengths = np.array([0 if each is None else len(each) for each in values], np.int64)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    content = [each for each in values if each is not None]
    flat = np.concatenate(content) if content else np.zeros(0)
    absent = pa.array([each is None for each in values], pa.bool_())
    return pa.ListArray.from_arrays(ends, pa.array(flat, of), type=_list(of), mask=absent)
