"""From records to findings."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from spindle_rebalance.findings import REPLICAS
from spindle_rebalance.learn import LEVEL, by_piece, findings_of, learn
from spindle_rebalance.pieces import Piece
from spindle_rebalance.study import Study
from tests.spark.rows import frame
from tests.unit.rebalance_samples import CLUSTER, at, disk, record, records, replica, sample

RANGES = {0: (0, 100)}


def test_findings_have_what_the_history_tells(spark: SparkSession) -> None:
    rows = [
        record(
            sample(at(step), [replica("t", 0, 300 * step)], [disk(used=1000 + 300 * step, capacity=10**6)]),
            step,
        )
        for step in range(100)
    ]
    found = learn(frame(spark, [*rows, record(b"junk", 100)]), RANGES, cluster_id=CLUSTER)

    (only,) = found.disks
    assert (only.broker, only.dir, only.used, only.slow) == (0, "/d0", 1000 + 300 * 99, None)
    assert only.full_in_s is not None
    assert only.full_in_s[0] <= only.full_in_s[1] <= only.full_in_s[2]
    assert found.replicas.schema == REPLICAS
    assert found.replicas.to_pylist() == [
        {
            "topic": "t",
            "partition": 0,
            "broker": 0,
            "dir": "/d0",
            "bytes": 300 * 99,
            "growth_bytes_per_s": 1.0,
            "append_p95": 10.0,
        }
    ]
    assert (found.read.records, found.read.rows, found.read.poisoned, found.read.offsets) == (
        101,
        100,
        1,
        RANGES,
    )


def test_the_same_records_in_another_order_tell_the_same(spark: SparkSession) -> None:
    rows = [
        record(
            sample(at(step), [replica("t", k, 300 * step + k) for k in range(5)], [disk()], broker=broker),
            step,
            broker=broker,
        )
        for step in range(30)
        for broker in range(3)
    ]
    one, other = (learn(frame(spark, order), RANGES) for order in (rows, rows[::-1]))

    assert one.disks == other.disks
    assert one.replicas.equals(other.replicas)
    assert one.read == other.read


def test_tasks_that_read_the_records_themselves_tell_the_same(spark: SparkSession) -> None:
    rows = [
        record(
            sample(at(step), [replica("t", k, 300 * step + k) for k in range(5)], [disk()], broker=broker),
            step,
            broker=broker,
        )
        for step in range(30)
        for broker in range(4)
    ]
    parts = [Piece({0: (0, 1)}, share, 3) for share in range(3)]

    def read(_: Piece) -> Iterator[pa.RecordBatch]:
        yield records(rows[:50])
        yield records(rows[50:])

    found = findings_of(by_piece(spark, parts, read, Study(None, LEVEL)), RANGES)

    expected = learn(frame(spark, rows), RANGES)
    assert found.disks == expected.disks
    assert found.replicas.equals(expected.replicas)
    assert found.read == expected.read


def test_an_empty_history_tells_nothing(spark: SparkSession) -> None:
    found = learn(frame(spark, []), {})

    assert found.disks == ()
    assert found.replicas.equals(pa.Table.from_pylist([], schema=REPLICAS))
    assert found.read.records == 0


def test_one_sample_tells_sizes_and_no_more(spark: SparkSession) -> None:
    found = learn(frame(spark, [record(sample(at(0), [replica("t", 0, 5)], [disk()]), 0)]), RANGES)

    (only,) = found.disks
    assert (only.used, only.full_in_s, only.level_per_s, only.backtest_error_h) == (500, None, None, None)
    assert found.replicas.column("bytes").to_pylist() == [5]
    assert found.replicas.column("growth_bytes_per_s").to_pylist() == [None]
