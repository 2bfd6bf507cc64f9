"""Features of replicas and disks, and what is told of the records that they come from."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from spindle_rebalance import features
from tests.spark.rows import frame
from tests.unit.rebalance_samples import CLUSTER, at, disk, record, replica, sample

HOUR = 12  # samples


def growing(spark: SparkSession) -> DataFrame:
    """Two brokers, an hour each: t-0 grows by 5 bytes a second on both, t-1 is on broker 1 only and stands still."""
    rows = []
    for step in range(HOUR + 1):
        size = 1000 + 5 * 300 * step
        rows += [
            record(sample(at(step), [replica("t", 0, size)], [disk(used=size)]), step),
            record(
                sample(
                    at(step),
                    [replica("t", 0, size, leader=False), replica("t", 1, 7, append_rate=float(step))],
                    [disk(used=size), disk("/d1", used=1)],
                    broker=1,
                ),
                step,
                broker=1,
                partition=1,
            ),
        ]
    return frame(spark, rows)


def test_replicas_have_their_size_growth_and_rates(spark: SparkSession) -> None:
    found = growing(spark).transform(features.summaries(CLUSTER)).transform(features.replicas)

    size = 1000 + 5 * 300 * HOUR
    expected = spark.createDataFrame(
        [
            (0, "t", 0, "/d0", size, 5.0, 10.0, 10.0, True, HOUR + 1),
            (1, "t", 0, "/d0", size, 5.0, 10.0, 10.0, False, HOUR + 1),
            (1, "t", 1, "/d0", 7, 0.0, 6.0, 11.4, True, HOUR + 1),
        ],
        found.schema,
    )
    assertDataFrameEqual(found, expected)


def test_disks_have_their_history(spark: SparkSession) -> None:
    found = growing(spark).transform(features.summaries(CLUSTER)).transform(features.disks)

    expected = spark.createDataFrame(
        [
            (0, "/d0", 1000, 10.0 * 300),
            (1, "/d0", 1000, 10.0 * 300),
            (1, "/d1", 1, 0.0),
        ],
        "broker int, dir string, first_used bigint, appended double",
    )
    assertDataFrameEqual(
        found.selectExpr("broker", "dir", "used[0] as first_used", "appended[0] as appended"), expected
    )
    assert {len(row.at_s) for row in found.collect()} == {HOUR + 1}


def test_what_could_not_be_used_is_counted_and_named(spark: SparkSession) -> None:
    rows = [
        record(sample(at(0), [replica("t", 0, 1)]), 0),
        record(sample(at(0), [replica("t", 0, 1)]), 1),
        record(b"junk", 2),
        record(b"junk", 9, broker=-1, partition=3),
        record(sample(at(3) + 3_600_000, [], broker=2), 4, broker=2, stored_ms=at(3)),
    ]
    brokers = frame(spark, rows).transform(features.summaries(CLUSTER)).persist()

    assertDataFrameEqual(
        brokers.transform(features.counts),
        spark.createDataFrame([(5, 2, 2, 1)], "records bigint, rows bigint, poisoned bigint, doubled bigint"),
    )
    reason = "NotASample: 4 bytes that do not start with SPDL"
    assertDataFrameEqual(
        brokers.transform(features.poison),
        spark.createDataFrame(
            [(0, 2, reason), (3, 9, reason)], "partition int, offset bigint, reason string"
        ),
    )
    assertDataFrameEqual(
        brokers.transform(features.clocks),
        spark.createDataFrame([(2, 3600.0, 1)], "broker int, seconds double, records bigint"),
    )


def test_an_empty_history_has_no_features(spark: SparkSession) -> None:
    brokers = frame(spark, []).transform(features.summaries(CLUSTER)).persist()

    assert brokers.transform(features.replicas).count() == 0
    assert brokers.transform(features.disks).count() == 0
    assertDataFrameEqual(
        brokers.transform(features.counts),
        spark.createDataFrame([(0, 0, 0, 0)], "records bigint, rows bigint, poisoned bigint, doubled bigint"),
    )
