"""What may be wrong with a history: a plan comes of it all the same, the same as without the fault, or one on sizes alone.

Each goes the way of a run: records through Spark to findings, and with a look at the cluster to a proposal. Whether its moves are legal is
worked out here, from the look.
"""

from collections import Counter
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from spindle.api.rebalance import KafkaRebalanceSpec
from spindle.balance.picture import Picture
from spindle_rebalance import plan, source
from spindle_rebalance.findings import Findings
from spindle_rebalance.learn import learn
from tests.spark.day import COUNT, GROWTH, Row, at, day, row, value
from tests.unit.balance_samples import GB, picture, skewed

HOUR_MS = 3_600_000
RANGES = dict.fromkeys(range(3), (0, 3 * COUNT))


def planned(
    spark: SparkSession, rows: list[Row], look: Picture | None = None
) -> tuple[Findings, KafkaRebalanceSpec]:
    """What a run on these records finds, and what it proposes; its moves are legal, whatever the records say."""
    look = skewed() if look is None else look
    frame = spark.createDataFrame(rows, source.RECORDS).repartition(5)
    findings = learn(frame, RANGES, cluster_id=look.kafka.cluster_id, level=1.0)
    _, result = plan.plan(look, findings)
    assert result.proposal is not None, result.message
    assert_legal(look, result.proposal.spec)
    return findings, result.proposal.spec


def assert_legal(look: Picture, spec: KafkaRebalanceSpec) -> None:
    """Each replica moves once, from where it is, with the size that Kafka says; no disk ends above 80 %, no partition loses a copy."""
    held = {
        (broker.id, log_dir.path): dict(log_dir.replicas)
        for broker in (look.kafka.brokers or {}).values()
        for log_dir in broker.log_dirs or ()
    }
    size = {
        (b.id, d.path): d.total_bytes or 0
        for b in (look.kafka.brokers or {}).values()
        for d in b.log_dirs or ()
    }
    before = Counter(key for logs in held.values() for key in logs)
    for move in spec.moves:
        key = (move.topic, move.partition)
        assert held[move.from_broker, move.from_dir].pop(key) == move.bytes
        held[move.to_broker, move.to_dir][key] = move.bytes
    assert Counter(key for logs in held.values() for key in logs) == before
    brokers = [(broker, key) for (broker, _), logs in held.items() for key in logs]
    assert len(brokers) == len(set(brokers)), "two copies on one broker"
    assert all(sum(logs.values()) <= 0.8 * size[place] for place, logs in held.items())


def growths(findings: Findings) -> set[int]:
    """Bytes per second of all replicas, rounded."""
    return {round(each) for each in findings.replicas["growth_bytes_per_s"].to_pylist()}


@pytest.fixture(scope="module")
def clean(spark: SparkSession) -> KafkaRebalanceSpec:
    """The proposal of a day with nothing wrong."""
    findings, spec = planned(spark, day())
    assert growths(findings) == {GROWTH}
    assert findings.read.clocks == ()
    assert (findings.read.poisoned, findings.read.doubled) == (0, 0)
    return spec


@pytest.mark.parametrize(
    "rows", [pytest.param([], id="empty"), pytest.param([row(b, 9) for b in range(3)], id="one sample")]
)
def test_too_little_history_gives_a_plan_on_sizes_alone(spark: SparkSession, rows: list[Row]) -> None:
    _, without = plan.plan(skewed(), None)
    findings, spec = planned(spark, rows)

    assert without.proposal is not None
    assert spec.moves == without.proposal.spec.moves
    assert findings.read.records == len(rows)
    assert all(disk.full_in_s is None for disk in findings.disks)
    assert spec.forecast is None


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_off_by_an_hour_changes_nothing_and_is_told(
    spark: SparkSession, clean: KafkaRebalanceSpec, hours: int
) -> None:
    off = [row(0, k, value(0, k, at_ms=at(k) + hours * HOUR_MS)) for k in range(COUNT)]
    findings, spec = planned(spark, [*off, *(each for each in day() if each[0])])

    assert spec == clean
    (clock,) = findings.read.clocks
    assert (clock.broker, clock.seconds, clock.records) == (0, hours * 3600, COUNT)


def test_gaps_change_no_move(spark: SparkSession, clean: KafkaRebalanceSpec) -> None:
    """Nothing for six hours, and every third sample of the rest, of one broker; another one began late."""
    rows = [
        each
        for each in day()
        if not (each[0] == 0 and (100 <= each[1] < 172 or each[1] % 3))
        and not (each[0] == 1 and each[1] < 200)
    ]
    findings, spec = planned(spark, rows)

    assert growths(findings) == {GROWTH}
    assert spec.moves == clean.moves


def test_a_broker_that_reports_twice_counts_once(spark: SparkSession, clean: KafkaRebalanceSpec) -> None:
    """Two agents, a minute and a half apart, both believe that it is theirs; and a producer that tried again."""
    twice = [
        row(0, k, value(0, k, at_ms=at(k) + 90_000), offset=COUNT + k, late_ms=90_000) for k in range(COUNT)
    ]
    again = [row(1, k, offset=COUNT + k, late_ms=5) for k in range(COUNT)]
    findings, spec = planned(spark, [*day(), *twice, *again])

    assert spec == clean
    assert findings.read.doubled == 2 * COUNT


def test_poison_is_counted_named_and_changes_nothing(spark: SparkSession, clean: KafkaRebalanceSpec) -> None:
    whole = value(0, 5)
    poison = {
        "no sample at all": b"junk",
        "empty": b"",
        "cut off": whole[: len(whole) // 2],
        "a byte turned": bytes([*whole[:200], whole[200] ^ 1, *whole[201:]]),
        "of another cluster": value(0, 5, cluster="another", times=10),
        "of another broker": value(1, 5, times=10),
    }
    rows = [row(0, COUNT + k, each) for k, each in enumerate(poison.values())]
    findings, spec = planned(spark, [*day(), *rows])

    assert spec == clean
    assert findings.read.poisoned == len(poison)
    assert [each.offset for each in findings.read.poison] == [COUNT + k for k in range(len(poison))]
    assert all(each.reason for each in findings.read.poison)


@pytest.mark.parametrize("when", [pytest.param(150, id="once"), pytest.param(COUNT - 1, id="in the latest")])
def test_a_sample_with_ten_times_the_size_moves_nothing_else(
    spark: SparkSession, clean: KafkaRebalanceSpec, when: int
) -> None:
    rows = [
        row(each[0], each[1], value(each[0], each[1], times=10)) if each[1] == when else each
        for each in day()
    ]
    findings, spec = planned(spark, rows)

    assert growths(findings) == {GROWTH}
    assert spec.moves == clean.moves
    assert spec.forecast is not None


def test_a_replica_that_really_became_ten_times_as_large_is_planned_as_it_is(spark: SparkSession) -> None:
    """Three hours ago one log was replaced by one of sixty gigabytes: by what Kafka says, not by what was so before."""
    logs = [("orders", index, 6 * GB if index else 30 * GB) for index in range(9)]
    look = replace(picture({(broker, 0): logs for broker in range(3)}))
    _, spec = planned(spark, day(), look)

    moved = {move.partition: move.bytes for move in spec.moves}
    assert all(size == (6 * GB if partition else 30 * GB) for partition, size in moved.items())
