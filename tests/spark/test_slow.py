"""Slow disks among their peers, from their histories."""

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from spindle_rebalance import features
from spindle_rebalance.slow import slow_disks
from tests.spark.rows import frame
from tests.unit.rebalance_samples import CLUSTER, at, disk, record, sample

BROKERS, EACH, STEPS = 4, 2, 40


def fleet(spark: SparkSession, slow: dict[tuple[int, str], int], kind: str | None = "ssd-1T") -> DataFrame:
    """Disks that take 4 ms a write, those that are named ten times as long from a step on; brokers sample at times of their own."""
    rng = np.random.default_rng(1)
    rows = []
    for broker in range(BROKERS):
        for step in range(STEPS):
            disks = []
            for name in (f"/d{k}" for k in range(EACH)):
                ill = step >= slow.get((broker, name), STEPS)
                ms = 4.0 * float(rng.lognormal(0, 0.1)) * (10 if ill else 1)
                disks.append(disk(name, kind=kind, reads_per_s=0.0, writes_per_s=20.0, write_ms=ms))
            rows.append(
                record(
                    sample(at(step + broker / 10), [], disks, broker=broker),
                    step,
                    broker=broker,
                    partition=broker,
                )
            )
    return frame(spark, rows).transform(features.summaries(CLUSTER)).transform(features.disks)


def test_a_slow_disk_is_found_and_explained(spark: SparkSession) -> None:
    (found,) = fleet(spark, {(2, "/d1"): 25}).transform(slow_disks()).collect()

    assert (found.broker, found.dir, found.peers) == (2, "/d1", BROKERS * EACH - 1)
    assert found.times == pytest.approx(10, rel=0.5)
    assert found.peers_ms == pytest.approx(4, rel=0.3)
    assert abs(found.since_ms - at(27)) <= 300_000
    assert found.message.startswith("d1 (ssd-1T): request latency is ")


def test_among_well_disks_none_is_slow(spark: SparkSession) -> None:
    assert fleet(spark, {}).transform(slow_disks()).count() == 0


def test_disks_of_unknown_kind_have_no_peers(spark: SparkSession) -> None:
    assert fleet(spark, {(2, "/d1"): 25}, kind=None).transform(slow_disks()).count() == 0


def test_only_the_window_counts(spark: SparkSession) -> None:
    assert fleet(spark, {(2, "/d1"): 38}).transform(slow_disks(window=2)).count() == 0


def test_no_disks_are_none_that_are_slow(spark: SparkSession) -> None:
    disks = frame(spark, []).transform(features.summaries(CLUSTER)).transform(features.disks)

    assert disks.transform(slow_disks()).count() == 0
