"""Hours of features from a real topic: what is new each time, and whole after a run that was killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition
from pyspark.sql import SparkSession

from spindle.api import names
from spindle.samples.schema import Sample
from spindle_rebalance import session
from spindle_rebalance.rollup import HOUR_MS, LATE_MS, catch_up
from spindle_rebalance.source import Access
from tests.kafka.cluster import Cluster
from tests.kafka.job import publish
from tests.kafka.node import wait_for
from tests.unit.rebalance_samples import CLUSTER, INTERVAL, disk, replica, sample

# The scenario of the rebalance runs the same job in a pod.
pytestmark = pytest.mark.slow

START = 1_700_000_000_000 // HOUR_MS * HOUR_MS
EACH = 3600 // INTERVAL
BROKERS = 2
HOURS = 30  # more than are read at once
CONF = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}


def samples() -> Iterator[Sample]:
    for step in range(HOURS * EACH):
        at_ms = START + step * INTERVAL * 1000
        for broker in range(BROKERS):
            yield sample(at_ms, [replica("t", 0, step)], [disk(used=step)], broker=broker)


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=1, disks=1)
    made.up()
    made.make_topic(names.TOPIC_SAMPLES, [[0]] * BROKERS, **{"retention.ms": "-1"})
    publish(made, samples(), BROKERS)
    return made


@pytest.fixture(scope="module")
def access(cluster: Cluster) -> Access:
    return Access(tuple(cluster.bootstrap()), Path(cluster.operator))


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    found = session.start("rollup", "local[2]", CONF)
    yield found
    found.stop()


def until(hours: int) -> int:
    """The time at which so many hours can be written."""
    return START + hours * HOUR_MS + LATE_MS


def kept(spark: SparkSession, path: Path, table: str) -> list[tuple[int, int, int]]:
    """Number of the hour, broker, bytes at its end; of all lines that the folder has."""
    hours = sorted(name.name for name in (path / table).glob("hour=*"))
    rows = spark.read.parquet(f"{path}/{table}").orderBy("hour", "broker").collect()
    value = "bytes" if table == "replicas" else "used"
    return [(hours.index(f"hour={row.hour}"), row.broker, row[value]) for row in rows]


def whole(hours: int) -> list[tuple[int, int, int]]:
    return [(hour, broker, (hour + 1) * EACH - 1) for hour in range(hours) for broker in range(BROKERS)]


def marks(path: Path) -> list[str]:
    return sorted(each.name for each in (path / "hours").glob("*.json"))


def test_each_run_goes_on_where_the_last_one_ended(
    spark: SparkSession, access: Access, tmp_path: Path
) -> None:
    written = [len(catch_up(spark, access, str(tmp_path), until(n), CLUSTER)) for n in (2, 2, 3, HOURS)]

    assert written == [2, 0, 1, HOURS - 3]
    assert len(marks(tmp_path)) == HOURS
    for table in ("replicas", "disks"):
        assert kept(spark, tmp_path, table) == whole(HOURS)
    for name in marks(tmp_path):
        mark = json.loads((tmp_path / "hours" / name).read_text())
        assert mark["records"] == BROKERS * EACH
        assert [each["last"] - each["first"] + 1 for each in mark["offsets"]] == [EACH] * BROKERS


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("replicas/hour=*", id="when it writes", marks=pytest.mark.slow),
        pytest.param("hours/*.json", id="when it counts"),
    ],
)
def test_a_run_that_is_killed_is_made_up_for_by_the_next_one(
    spark: SparkSession, access: Access, tmp_path: Path, moment: str
) -> None:
    program = (
        "import sys; from pathlib import Path; from spindle_rebalance import session; from spindle_rebalance.source import Access; "
        "from spindle_rebalance.rollup import catch_up; path, bootstrap, tls, until, cluster = sys.argv[1:]; "
        f"spark = session.start('killed', 'local[2]', {CONF!r}); "
        "catch_up(spark, Access((bootstrap,), Path(tls)), path, int(until), cluster)"
    )
    told = [str(tmp_path), access.bootstrap[0], str(access.tls), str(until(HOURS)), CLUSTER]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *told], stdout=log, stderr=log, start_new_session=True
        )
        try:
            wait_for(moment, lambda: _seen(process, tmp_path, moment), pause=0.001)
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # with its JVM
            process.wait()
    left = len(marks(tmp_path))
    assert left < HOURS

    written = catch_up(spark, access, str(tmp_path), until(HOURS), CLUSTER)

    assert len(written) >= HOURS - left
    for table in ("replicas", "disks"):
        assert kept(spark, tmp_path, table) == whole(HOURS)


def _seen(process: Any, path: Path, moment: str) -> bool:
    assert process.poll() is None, (path / "log").read_text()
    return any(path.glob(moment))


def test_an_hour_that_retention_has_cut_into_is_left_out(
    spark: SparkSession, cluster: Cluster, access: Access, tmp_path: Path
) -> None:
    cut = 2 * EACH + 5  # in the third hour
    cluster.admin().delete_records({TopicPartition(names.TOPIC_SAMPLES, 0): cut})

    written = catch_up(spark, access, str(tmp_path), until(5), CLUSTER)

    assert len(written) == 2
    assert [row[1:] for row in kept(spark, tmp_path, "replicas")] == [row[1:] for row in whole(5)[6:]]


def test_an_empty_topic_is_no_hours(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    cluster.make_topic("nothing", [[0]])
    nothing = Access(tuple(cluster.bootstrap()), Path(cluster.operator), topic="nothing")

    assert catch_up(spark, nothing, str(tmp_path), until(5), CLUSTER) == ()
