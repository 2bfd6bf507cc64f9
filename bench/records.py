"""Records of a made-up cluster as files with the columns of the samples' data source: what the job reads, without a Kafka."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spindle.samples.codec import encode
from spindle.samples.schema import DISKS, REPLICAS, Sample

STEPS: int = 288  # a day of samples, one in five minutes
INTERVAL_MS: int = 300_000
REPLICAS_EACH: int = 1000  # of a broker
_DISKS_EACH: int = 10
_TOPICS: int = 200
_START_MS: int = 1_700_000_000_000 // INTERVAL_MS * INTERVAL_MS
_GROUP: int = 4 * STEPS  # records of a row group


def write(folder: Path, brokers: int, seed: int = 1) -> int:
    """A day of samples of so many brokers, 1,000 replicas each, as Parquet: a file for each few brokers.

    Returns:
        Samples of replicas in them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for first in range(0, brokers, 4):
        rows = [row for broker in range(first, min(first + 4, brokers)) for row in _day(broker, seed)]
        columns = list(zip(*rows, strict=True))
        table = pa.table(
            {
                "partition": pa.array(columns[0], pa.int32()),
                "offset": pa.array(columns[1], pa.int64()),
                "stored_ms": pa.array(columns[2], pa.int64()),
                "broker": pa.array(columns[3], pa.int32()),
                "value": pa.array(columns[4], pa.binary()),
            }
        )
        pq.write_table(table, folder / f"{first:06}.parquet", compression="none", row_group_size=_GROUP)
    return brokers * REPLICAS_EACH * STEPS


def _day(broker: int, seed: int) -> list[tuple[int, int, int, int, bytes]]:
    rng = np.random.default_rng([seed, broker])
    number = np.arange(REPLICAS_EACH)
    topic = pa.DictionaryArray.from_arrays(
        pa.array(rng.integers(0, _TOPICS, REPLICAS_EACH), pa.int32()),
        pa.array([f"topic-{k:03}" for k in range(_TOPICS)]),
    )
    where = pa.DictionaryArray.from_arrays(
        pa.array(number % _DISKS_EACH, pa.int32()),
        pa.array([f"/var/lib/kafka/disks/d{k}/log" for k in range(_DISKS_EACH)]),
    )
    partition = pa.array(broker * REPLICAS_EACH + number, pa.int32())
    leader = pa.array(number % 3 == 0)
    rate = rng.lognormal(8, 2, REPLICAS_EACH)
    size = rng.lognormal(20, 2, REPLICAS_EACH)
    rows = []
    for step in range(STEPS):
        now = rate * rng.lognormal(0, 0.3, REPLICAS_EACH)
        size = size + now * INTERVAL_MS / 1000
        replicas = pa.RecordBatch.from_arrays(
            [topic, partition, where, pa.array(size.astype(np.int64)), pa.array(now), leader], schema=REPLICAS
        )
        at_ms = _START_MS + step * INTERVAL_MS
        sample = Sample(
            cluster_id="bench",
            broker=broker,
            rack=f"rack-{broker % 3}",
            at_ms=at_ms,
            interval_s=INTERVAL_MS / 1000,
            replicas=replicas,
            disks=_disks(rng, size),
        )
        rows.append((broker % 32, (broker // 32) * STEPS + step, at_ms, broker, encode(sample)))
    return rows


def _disks(rng: np.random.Generator, size: np.ndarray[tuple[int], np.dtype[np.float64]]) -> pa.RecordBatch:
    used = size.reshape(-1, _DISKS_EACH).sum(axis=0).astype(np.int64)
    return pa.RecordBatch.from_pylist(
        [
            {
                "dir": f"/var/lib/kafka/disks/d{k}/log",
                "disk": f"d{k}",
                "kind": "rotational-4T",
                "capacity": 4 * 10**12,
                "used": int(used[k]),
                "reads_per_s": 20.0,
                "writes_per_s": 60.0,
                "read_bytes_per_s": 1e7,
                "write_bytes_per_s": 3e7,
                "read_ms": 8 * float(rng.lognormal(0, 0.2)),
                "write_ms": 5 * float(rng.lognormal(0, 0.2)),
                "state": "Active",
            }
            for k in range(_DISKS_EACH)
        ],
        schema=DISKS,
    )
