"""Packs gathered data into the records of a sample. Loads pyarrow; runs in a thread."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

import pyarrow as pa

from spindle.samples.codec import encode
from spindle.samples.schema import DISKS, REPLICAS, Sample
from spindle_agent.broker.client import Replica
from spindle_agent.samples.gathered import Gathered, Row

RECORD_BYTES: Final = 900_000  # maximum of a record; the topic permits slightly more
_ROWS: Final = 40_000  # replicas in one record, which then has about half of that size
_DIGITS: Final = 12  # binary digits of a rate: an error of 1 in 8,000, and a third less data

_Found = tuple[Replica, str, int]  # replica, path of its log dir, bytes

pa.set_memory_pool(pa.system_memory_pool())  # small and rare: pyarrow's own pool would keep megabytes for it
pa.set_cpu_count(1)


def pack(gathered: Gathered, most: int = RECORD_BYTES, rows: int = _ROWS) -> list[bytes]:
    """The values of a sample's records: one, or several for very many replicas.

    Args:
        gathered: the sample.
        most: maximum bytes of a record.
        rows: maximum replicas in a record.

    Raises:
        Poison: the gathered data is impossible.
    """
    found = sorted(
        (replica, log_dir.path, size)
        for log_dir in gathered.dirs
        for replica, size in log_dir.replicas.items()
    )  # the order that compresses best
    while True:
        records = list(_parts(gathered, found, rows))
        if rows == 1 or all(len(record) <= most for record in records):
            return records
        rows = max(1, rows // 2)


def _parts(gathered: Gathered, found: Sequence[_Found], rows: int) -> Iterator[bytes]:
    disks = pa.RecordBatch.from_pylist([_disk(row) for row in gathered.disks], schema=DISKS)
    parts = max(1, math.ceil(len(found) / rows))
    for part in range(parts):
        yield encode(
            Sample(
                cluster_id=gathered.cluster_id,
                broker=gathered.broker,
                rack=gathered.rack,
                at_ms=gathered.at_ms,
                interval_s=gathered.interval_s,
                replicas=_replicas(gathered, found[part * rows : (part + 1) * rows]),
                disks=disks if part == 0 else disks.slice(0, 0),
                part=part,
                parts=parts,
            )
        )


def _replicas(gathered: Gathered, found: Sequence[_Found]) -> Any:
    columns = {
        "topic": _dictionary([topic for (topic, _), _, _ in found]),
        "partition": pa.array([partition for (_, partition), _, _ in found], pa.int32()),
        "dir": _dictionary([path for _, path, _ in found]),
        "bytes": pa.array([size for _, _, size in found], pa.int64()),
        "append_rate": pa.array(
            [coarse(gathered.rates.get((path, replica))) for replica, path, _ in found], pa.float64()
        ),
        "leader": pa.array([gathered.led.get(replica) for replica, _, _ in found], pa.bool_()),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in REPLICAS.names], schema=REPLICAS)


def _dictionary(texts: Sequence[str]) -> Any:
    """Dictionary encoding without pyarrow's compute functions, which would double its memory."""
    places: dict[str, int] = {}
    indices = [places.setdefault(text, len(places)) for text in texts]
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(list(places), pa.string()))


def _disk(row: Row) -> dict[str, Any]:
    return {
        "dir": row.disk.log_dir,
        "disk": row.disk.name,
        "kind": row.kind,
        "capacity": row.disk.capacity,
        "used": row.disk.used,
        "state": row.disk.state or None,
        **(asdict(row.rates) if row.rates is not None else {}),
    }


def coarse(rate: float | None) -> float | None:
    """A rate with twelve binary digits."""
    if rate is None:
        return None
    mantissa, exponent = math.frexp(rate)
    return math.ldexp(round(mantissa * 2**_DIGITS), exponent - _DIGITS)
