"""Samples as agents publish them, made up."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from spindle.samples.codec import encode
from spindle.samples.schema import DISKS, REPLICAS, Sample

CLUSTER = "clusterA"
INTERVAL = 300
START_MS = 1_700_000_100_000
RECORDS = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("stored_ms", pa.int64()),
        ("broker", pa.int32()),
        ("value", pa.binary()),
    ]
)


def replica(topic: str, partition: int, size: int, where: str = "/d0", **more: Any) -> dict[str, Any]:
    row = {
        "topic": topic,
        "partition": partition,
        "dir": where,
        "bytes": size,
        "append_rate": 10.0,
        "leader": True,
    }
    return {**row, **more}


def disk(where: str = "/d0", used: int = 500, **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(DISKS.names)
    return {**row, "dir": where, "disk": where[1:], "kind": "ssd-1T", "capacity": 1000, "used": used, **more}


def sample(
    at_ms: int,
    replicas: Sequence[dict[str, Any]] = (),
    disks: Sequence[dict[str, Any]] = (),
    *,
    broker: int = 0,
    **more: Any,
) -> Sample:
    return Sample(
        cluster_id=more.pop("cluster_id", CLUSTER),
        broker=broker,
        rack="a",
        at_ms=at_ms,
        interval_s=float(INTERVAL),
        replicas=pa.RecordBatch.from_pylist(list(replicas), schema=REPLICAS),
        disks=pa.RecordBatch.from_pylist(list(disks), schema=DISKS),
        **more,
    )


def at(step: float) -> int:
    """The time of the step-th sample."""
    return START_MS + round(step * INTERVAL * 1000)


def record(
    value: bytes | Sample | None,
    offset: int,
    *,
    broker: int = 0,
    stored_ms: int | None = None,
    partition: int = 0,
) -> dict[str, Any]:
    """A row of the source: what Kafka has, stored when the sample was taken unless said otherwise."""
    if isinstance(value, Sample):
        stored_ms = value.at_ms if stored_ms is None else stored_ms
        value = encode(value)
    return {
        "partition": partition,
        "offset": offset,
        "stored_ms": START_MS if stored_ms is None else stored_ms,
        "broker": broker,
        "value": value,
    }


def records(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=RECORDS)
