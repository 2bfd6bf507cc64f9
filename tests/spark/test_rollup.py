"""Hours of features as Parquet: none lost, none twice, whatever happens in between."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spindle_rebalance.rollup import HOUR_MS, LATE_MS, roll
from tests.spark.rows import frame
from tests.unit.rebalance_samples import CLUSTER, INTERVAL, disk, record, replica, sample

START = 1_700_000_000_000 // HOUR_MS * HOUR_MS
EACH = 3600 // INTERVAL
HOURS = ["2023-11-14T22", "2023-11-14T23", "2023-11-15T00", "2023-11-15T01", "2023-11-15T02"]


def history(hours: int) -> list[dict[str, Any]]:
    return [
        record(
            sample(
                START + step * INTERVAL * 1000,
                [replica("t", 0, step)],
                [disk(used=step, write_ms=4.0 if step % 2 else None)],
                broker=broker,
            ),
            2 * step + broker,
            broker=broker,
        )
        for step in range(hours * EACH)
        for broker in range(2)
    ]


def found(spark: SparkSession, path: Path, table: str) -> list[tuple[Any, ...]]:
    rows = spark.read.parquet(f"{path}/{table}").orderBy("hour", "broker").collect()
    return [(row.hour, row.broker, row.bytes if table == "replicas" else row.used) for row in rows]


def run(
    spark: SparkSession, path: Path, hours: int, rows: list[dict[str, Any]] | None = None
) -> tuple[str, ...]:
    """Roll up what there is after so many hours."""
    records = frame(spark, history(hours) if rows is None else rows)
    return roll(spark, records, str(path), START, START + hours * HOUR_MS, CLUSTER).hours


def expected(hours: int) -> list[tuple[str, int, int]]:
    return [(HOURS[k], broker, (k + 1) * EACH - 1) for k in range(hours) for broker in range(2)]


def test_hours_are_written_once_as_they_become_complete(spark: SparkSession, tmp_path: Path) -> None:
    late = LATE_MS // HOUR_MS

    assert run(spark, tmp_path, 1 + late) == tuple(HOURS[:1])
    assert run(spark, tmp_path, 1 + late) == ()
    assert run(spark, tmp_path, 3 + late) == tuple(HOURS[1:3])

    assert found(spark, tmp_path, "replicas") == expected(3)
    assert found(spark, tmp_path, "disks") == expected(3)
    mark = json.loads((tmp_path / "hours" / f"{HOURS[1]}.json").read_text())
    assert mark == {
        "records": 2 * EACH,
        "offsets": [{"partition": 0, "first": 2 * EACH, "last": 4 * EACH - 1}],
    }


@pytest.mark.parametrize("left", ["", "nothing"])
def test_an_hour_that_a_dead_run_left_behind_is_made_again(
    spark: SparkSession, tmp_path: Path, left: str
) -> None:
    run(spark, tmp_path, 4)
    mark = tmp_path / "hours" / f"{HOURS[1]}.json"
    mark.unlink()
    (mark.parent / f".{mark.name}.crc").unlink(missing_ok=True)
    if left == "":
        mark.write_text("")

    assert run(spark, tmp_path, 4) == (HOURS[1],)
    assert found(spark, tmp_path, "replicas") == expected(2)
    assert found(spark, tmp_path, "disks") == expected(2)


def test_an_hour_whose_beginning_is_not_there_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    records = frame(spark, history(5)[5:])
    written = roll(spark, records, str(tmp_path), START + 1, START + 5 * HOUR_MS, CLUSTER)

    assert written.hours == tuple(HOURS[1:3])


def test_no_records_are_no_hours(spark: SparkSession, tmp_path: Path) -> None:
    assert run(spark, tmp_path, 5, []) == ()


def test_latencies_are_means_of_what_was_known(spark: SparkSession, tmp_path: Path) -> None:
    run(spark, tmp_path, 3)
    row = spark.read.parquet(f"{tmp_path}/disks").where("broker = 0").first()

    assert row is not None
    assert (row.write_ms, row.read_ms, row.samples, row.used_peak) == (4.0, None, EACH, EACH - 1)
    assert row.appended == pytest.approx(10.0 * 3600)
