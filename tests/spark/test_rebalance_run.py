"""A run from its record to its proposal, with real Spark on samples as agents write them."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from spindle.balance.picture import Picture
from spindle_rebalance import look, options, source
from spindle_rebalance.findings import Findings
from spindle_rebalance.learn import learn
from spindle_rebalance.options import Target
from spindle_rebalance.run import Ranges, Run, Spark
from tests.spark.day import COUNT, START_MS, Row, day, row
from tests.unit.balance_samples import skewed

TOLD = ("run", "--cluster-namespace=ns", "--cluster=demo", "--bootstrap=h:1", "--tls=/none")


def records() -> list[Row]:
    """A day; one of the records is poison."""
    return [*day(), row(0, COUNT, b"no sample")]


def run(spark: SparkSession, rows: list[Any], replay: Path, out: Path) -> tuple[Any, Findings]:
    studied: list[Findings] = []

    def study(_: Target, ranges: Ranges, picture: Picture) -> Findings:
        frame = spark.createDataFrame(rows, source.RECORDS).repartition(5)
        studied.append(learn(frame, ranges, cluster_id=picture.kafka.cluster_id, level=1.0))
        return studied[0]

    def no_ranges(*_: object) -> Ranges:
        raise AssertionError("a replay reads what its record says")

    chosen = options.parse([*TOLD, f"--replay={replay}", f"--record={out}", f"--report={out}"])
    no_kube: Any = None
    (outcome,) = Run(chosen, Spark(no_ranges, study), no_kube).all()
    return outcome, studied[0]


def test_the_same_offsets_and_the_same_look_give_the_same_proposal(
    spark: SparkSession, tmp_path: Path
) -> None:
    record = tmp_path / "record"
    look.write(record / "ns.demo", skewed())
    look.write_offsets(record / "ns.demo", {b: (0, COUNT + (b == 0)) for b in range(3)}, skewed().at_ms)
    rows = records()

    found = [run(spark, part, record, tmp_path / str(n)) for n, part in enumerate((rows, rows[::-1]))]

    (one, findings), (other, _) = found
    assert one.reason == "Proposed", one
    assert one == other
    pages = [(tmp_path / str(n) / "ns.demo.html").read_text() for n in range(2)]
    assert pages[0] == pages[1]
    assert "partition 0, offset 288: " in pages[0]
    assert findings.read.rows == 3 * COUNT * 12
    assert findings.read.poisoned == 1
    growth = findings.replicas["growth_bytes_per_s"].to_pylist()
    assert len(growth) == 36
    assert all(abs(each - 1000.0) < 1.0 for each in growth)
    # 28 GB are free on each first disk, and 12 kB come each second.
    full = [d.full_in_s for d in findings.disks if d.disk == "disk0"]
    assert len(full) == 3
    assert all(each is not None and 0.9 < each[1] / (28e9 / 12e3) < 1.1 for each in full)
    again = tmp_path / "0" / "ns.demo"
    assert (again / look.LOOK).read_bytes() == (record / "ns.demo" / look.LOOK).read_bytes()
    assert look.read_offsets(again) == look.read_offsets(record / "ns.demo")


def test_samples_that_are_all_poison_leave_a_plan_on_sizes_as_they_are(
    spark: SparkSession, tmp_path: Path
) -> None:
    look.write(tmp_path / "ns.demo", skewed())
    look.write_offsets(tmp_path / "ns.demo", {0: (0, 1)}, skewed().at_ms)
    outcome, findings = run(spark, [(0, 0, START_MS, 0, b"no sample")], tmp_path, tmp_path / "out")
    assert outcome.reason == "Proposed"
    assert "No sample was usable" in outcome.message
    assert findings.read.poisoned == 1
