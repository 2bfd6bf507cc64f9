"""The same figures from the same bytes by Arrow's own compute functions alone: no Spark, no source, no checks, one core.

What a run makes of a replica's samples are its latest size and leader, the number of its samples, the median and the 95th percentile of the rate
that it is appended to, and the median of its growth over half of the time. Arrow has grouped quantiles as t-digests only.
"""

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from spindle.samples.framing import unseal
from spindle.samples.schema import VERSION

_KEYS: Final = ["topic", "partition", "dir"]
_REPLICAS: Final = 1  # the section of a record that they are in


def aggregate(records: Iterable[bytes], interval_s: float) -> pa.Table:
    """One line for each replica of one broker.

    Args:
        records: its samples by time, all with the same replicas in the same order, as `bench.records` makes them.
        interval_s: between two of them.
    """
    samples = [_replicas(value) for value in records]
    each, count = samples[0].num_rows, len(samples)
    table = pa.concat_tables(samples).unify_dictionaries().combine_chunks()
    half = count // 2
    later, before = table["bytes"].slice(half * each), table["bytes"].slice(0, (count - half) * each)
    change = pc.divide(pc.cast(pc.subtract(later, before), pa.float64()), half * interval_s)
    growth = _grouped(
        table.select(_KEYS).slice(half * each).append_column("change", change),
        [("change", "approximate_median", None)],
    )
    rates = _grouped(
        table,
        [
            ("bytes", "last", None),
            ("leader", "last", None),
            ("bytes", "count", None),
            ("append_rate", "tdigest", pc.TDigestOptions(q=[0.5, 0.95])),
        ],
    )
    return rates.append_column("growth", growth["change_approximate_median"])


def _grouped(table: pa.Table, wanted: list[tuple[str, str, Any]]) -> pa.Table:
    return table.group_by(_KEYS, use_threads=False).aggregate(wanted)


def _replicas(value: bytes) -> pa.Table:
    _, sections = unseal(value, VERSION.major)
    options = ipc.IpcReadOptions(use_threads=False)
    return ipc.open_stream(pa.py_buffer(sections[_REPLICAS]), options=options).read_all()
