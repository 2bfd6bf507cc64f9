"""A day of an aged cluster: its records as the agents would have published them, and the look that a run takes at its end.

Records are files with the columns of the samples' data source. No sample is ever an object of Python: a broker's replicas are
columns, and its next sample is the same columns with other numbers.
"""

import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.cases import Shape, columns
from spindle.api import names
from spindle.balance.picture import BrokerFact, DiskFact, Picture
from spindle.model.view import Broker, KafkaView, LogDir, Partition
from spindle.samples.codec import encode
from spindle.samples.schema import DISKS, REPLICAS, Sample

STEPS: Final = 288  # a day of samples, one in five minutes
REPLICAS_EACH: Final = 1000  # of a broker, on average
CLUSTER: Final = "bench"
INTERVAL_S: Final = 300.0
_INTERVAL_MS: Final = 300_000
_START_MS: Final = 1_700_000_000_000 // _INTERVAL_MS * _INTERVAL_MS
_DISKS_EACH: Final = 10
_RF: Final = 3
_RACKS: Final = 10
_GROUP: Final = 4  # brokers of a file
_MOST_GROWN: Final = 0.5  # of a log, within the day

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A cluster at the end of the day, as columns: one entry for each replica, but for ``capacity``, (brokers, disks)."""

    brokers: int
    topic: NDArray[np.int64]
    partition: NDArray[np.int64]
    broker: NDArray[np.int64]
    disk: NDArray[np.int64]
    position: NDArray[np.int64]
    size: NDArray[np.int64]
    rate: Floats
    capacity: NDArray[np.int64]


def case(brokers: int, seed: int = 1) -> Case:
    """A cluster of so many brokers, 1,000 replicas each on average; the same arguments give the same one."""
    shape = Shape(
        brokers=brokers, dirs=_DISKS_EACH, racks=min(_RACKS, brokers), replicas=REPLICAS_EACH * brokers,
        rf=min(_RF, brokers), seed=seed,
    )  # fmt: skip
    _, dirs, replicas = columns(shape)
    return Case(
        brokers=brokers,
        topic=replicas["topic"],
        partition=replicas["partition"],
        broker=replicas["broker"],
        disk=replicas["dir"],
        position=replicas["position"],
        size=replicas["size"].astype(np.int64),
        rate=replicas["rate"],
        capacity=np.asarray(dirs["capacity"]).astype(np.int64).reshape(brokers, _DISKS_EACH),
    )


def rows_of(made: Case) -> int:
    """Samples of replicas in its day."""
    return STEPS * len(made.topic)


def write(folder: Path, made: Case, processes: int = 2) -> None:
    """Its day of records as Parquet: a file for each few brokers."""
    folder.mkdir(parents=True, exist_ok=True)
    order = np.argsort(made.broker, kind="stable").astype(np.int64)
    cuts = np.searchsorted(made.broker[order], np.arange(made.brokers + 1))
    tasks = [
        (
            folder / f"{first:06}.parquet",
            [
                _Own.of(made, broker, order[cuts[broker] : cuts[broker + 1]])
                for broker in range(first, min(first + _GROUP, made.brokers))
            ],
        )
        for first in range(0, made.brokers, _GROUP)
    ]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        pool.starmap(_write, tasks, chunksize=1)


@dataclass(frozen=True)
class _Own:
    """What one broker has at the end of the day: columns of its replicas, and the capacity of its disks."""

    broker: int
    topic: NDArray[np.int64]
    partition: NDArray[np.int64]
    disk: NDArray[np.int64]
    leader: NDArray[np.bool_]
    size: Floats
    rate: Floats
    capacity: NDArray[np.int64]

    @classmethod
    def of(cls, made: Case, broker: int, rows: NDArray[np.int64]) -> "_Own":
        return cls(
            broker,
            made.topic[rows],
            made.partition[rows],
            made.disk[rows],
            made.position[rows] == 0,
            made.size[rows].astype(np.float64),
            made.rate[rows],
            made.capacity[broker],
        )


def _write(path: Path, brokers: Sequence[_Own]) -> None:
    found = [row for own in brokers for row in _day(own)]
    partition, offset, stored, broker, value = zip(*found, strict=True)
    table = pa.table(
        {
            "partition": pa.array(partition, pa.int32()),
            "offset": pa.array(offset, pa.int64()),
            "stored_ms": pa.array(stored, pa.int64()),
            "broker": pa.array(broker, pa.int32()),
            "value": pa.array(value, pa.binary()),
        }
    )
    pq.write_table(table, path, compression="none", row_group_size=STEPS)


def _day(own: _Own) -> Iterator[tuple[int, int, int, int, bytes]]:
    rng = np.random.default_rng([1, own.broker])
    topics, place = np.unique(own.topic, return_inverse=True)
    topic = pa.DictionaryArray.from_arrays(
        pa.array(place, pa.int32()), pa.array([topic_name(k) for k in topics.tolist()])
    )
    where = pa.DictionaryArray.from_arrays(
        pa.array(own.disk, pa.int32()), pa.array([_dir(k) for k in range(_DISKS_EACH)])
    )
    partition, leader = pa.array(own.partition, pa.int32()), pa.array(own.leader)
    growth = np.minimum(own.rate, _MOST_GROWN * own.size / (STEPS * _INTERVAL_MS / 1000))
    for step in range(STEPS):
        now = growth * rng.lognormal(0, 0.3, len(growth))
        size = own.size - growth * (STEPS - 1 - step) * _INTERVAL_MS / 1000
        replicas = pa.RecordBatch.from_arrays(
            [topic, partition, where, pa.array(size.astype(np.int64)), pa.array(now), leader], schema=REPLICAS
        )
        sample = Sample(
            cluster_id=CLUSTER,
            broker=own.broker,
            rack=_rack(own.broker),
            at_ms=_START_MS + step * _INTERVAL_MS,
            interval_s=_INTERVAL_MS / 1000,
            replicas=replicas,
            disks=_disks(rng, own, np.bincount(own.disk, size, _DISKS_EACH).astype(np.float64)),
        )
        yield own.broker, step, sample.at_ms, own.broker, encode(sample)


def _disks(rng: np.random.Generator, own: _Own, used: Floats) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "dir": _dir(k),
                "disk": names.disk_name(k),
                "kind": "rotational-1T",
                "capacity": int(own.capacity[k]),
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


def picture(made: Case) -> Picture:
    """The look that a run takes at the end of the day."""
    held: list[list[dict[tuple[str, int], int]]] = [
        [{} for _ in range(_DISKS_EACH)] for _ in range(made.brokers)
    ]
    assigned: dict[tuple[int, int], list[int]] = {}
    rows = (each.tolist() for each in (made.topic, made.partition, made.broker, made.disk, made.size))
    for topic, partition, broker, disk, size in zip(*rows, strict=True):
        held[broker][disk][topic_name(topic), partition] = size
        assigned.setdefault((topic, partition), []).append(broker)
    kafka = KafkaView(
        cluster_id=CLUSTER,
        brokers={broker: _broker(made, broker, dirs) for broker, dirs in enumerate(held)},
        partitions=tuple(
            Partition(topic_name(topic), index, at[0], tuple(at), tuple(at))
            for (topic, index), at in assigned.items()
        ),
    )
    disks = tuple(DiskFact(names.disk_name(k), "Active", "Active") for k in range(_DISKS_EACH))
    return Picture(
        namespace="bench",
        cluster=CLUSTER,
        at_ms=_START_MS + STEPS * _INTERVAL_MS,
        spec=_SPEC,
        brokers=tuple(BrokerFact(broker, disks) for broker in range(made.brokers)),
        kafka=kafka,
    )


def _broker(made: Case, broker: int, dirs: list[dict[tuple[str, int], int]]) -> Broker:
    shown = []
    for k, replicas in enumerate(dirs):
        total = int(made.capacity[broker, k])
        shown.append(
            LogDir(_dir(k), total_bytes=total, usable_bytes=total - sum(replicas.values()), replicas=replicas)
        )
    return Broker(broker, _rack(broker), fenced=False, log_dirs=tuple(shown))


def topic_name(number: int) -> str:
    """Of the case's topic with this number."""
    return f"topic-{number:05}"


def _dir(disk: int) -> str:
    return names.log_dir(names.disk_name(disk))


def _rack(broker: int) -> str:
    return f"rack-{broker % _RACKS}"


_SPEC: Final[dict[str, Any]] = {
    "version": "4.3.1",
    "controllers": {"replicas": 3, "storage": {"size": "1Gi"}},
    "brokerPools": [
        {"name": "main", "replicas": 3, "disks": {"count": 10, "size": "1Ti", "storageClass": "local"}}
    ],
}
