"""Samples to test with."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from spindle.api import names
from spindle.samples.schema import DISKS, REPLICAS, Sample

Row = tuple[str, int, str, int, float | None, bool | None]


def replicas(rows: Iterable[Row]) -> Any:
    """A batch of (topic, partition, dir, bytes, append rate, leader)."""
    columns = list(zip(*rows, strict=True)) or [()] * len(REPLICAS)
    arrays = [
        pa.array(column, pa.string()).dictionary_encode()
        if pa.types.is_dictionary(field.type)
        else pa.array(column, field.type)
        for field, column in zip(REPLICAS, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=REPLICAS)


def disks(*rows: dict[str, Any]) -> Any:
    """A batch of disks; what a row leaves out is null."""
    return pa.RecordBatch.from_pylist(list(rows), schema=DISKS)


def sample(**changes: Any) -> Sample:
    """A small one."""
    values: dict[str, Any] = {
        "cluster_id": "kVxHPyFVSdiq1DTnCRzAzA",
        "broker": 2,
        "rack": "zone-b",
        "at_ms": 1_795_000_000_000,
        "interval_s": 300.0,
        "replicas": replicas(
            [
                ("orders", 0, names.log_dir("disk0"), 1 << 30, 1500.0, True),
                ("orders", 1, names.log_dir("disk1"), 1 << 31, None, False),
                ("clicks", 7, names.log_dir("disk0"), 0, 0.0, None),
            ]
        ),
        "disks": disks(
            {
                "dir": names.log_dir("disk0"),
                "disk": "disk0",
                "kind": "ssd-1T",
                "capacity": 10**12,
                "used": 10**11,
                "reads_per_s": 12.5,
                "writes_per_s": 40.0,
                "read_bytes_per_s": 1e6,
                "write_bytes_per_s": 4e6,
                "read_ms": 0.4,
                "write_ms": 1.25,
                "state": "Active",
            },
            {"dir": names.log_dir("disk1"), "disk": "disk1", "state": "Failed"},
        ),
    }
    return Sample(**values | changes)


def many(count: int, *, topics: int, dirs: int = 6, seed: int = 1) -> Any:
    """Replicas as a large broker has them: sizes and rates over many orders of magnitude, rates of about four digits."""
    rng = np.random.default_rng(seed)
    topic = np.sort(rng.integers(0, topics, count)).astype(np.int32)
    partition = np.arange(count) - np.searchsorted(topic, topic)
    partition = (partition * 3 + rng.integers(0, 3, count)).astype(np.int32)  # of three brokers' worth
    words = [f"team-{i % 37}.events.{rng.integers(10**6)}.v1" for i in range(topics)]
    rate = np.exp(rng.normal(8, 3, count)) * (rng.random(count) < 0.7)
    mantissa, exponent = np.frexp(rate)
    return pa.RecordBatch.from_arrays(
        [
            pa.DictionaryArray.from_arrays(topic, words),
            partition,
            pa.DictionaryArray.from_arrays(
                rng.integers(0, dirs, count).astype(np.int32),
                [names.log_dir(names.disk_name(i)) for i in range(dirs)],
            ),
            np.exp(rng.normal(21, 3, count)).astype(np.int64),
            np.ldexp(np.round(mantissa * 2**12) / 2**12, exponent),
            rng.random(count) < 0.33,
        ],
        schema=REPLICAS,
    )
