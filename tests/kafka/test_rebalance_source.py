"""The topic of samples in a real Kafka, read by Spark: exactly the ranges that were asked for, poison and all."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spindle.api import names
from spindle.samples.codec import encode, pack
from spindle.samples.framing import Version, seal, unseal
from spindle.samples.schema import VERSION
from spindle_rebalance import session, source
from spindle_rebalance.learn import learn, learn_topic
from spindle_rebalance.source import Access, RangeGoneError, SourceError
from tests.kafka.cluster import Cluster
from tests.unit.rebalance_samples import CLUSTER, at, disk, replica, sample

# The scenario of the rebalance runs the same job in a pod.
pytestmark = pytest.mark.slow

PARTITIONS = 2
BROKERS = 3
STEPS = 150


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    found = session.start(
        "kafka", "local[2]", {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}
    )
    yield found
    found.stop()


def send(cluster: Cluster, records: Sequence[tuple[int, bytes | None, bytes | None, int]]) -> None:
    """Records of partition, key, value and timestamp."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap(), **cluster.ssl(), acks="all")
    try:
        sent = [
            producer.send(names.TOPIC_SAMPLES, value=value, key=key, partition=partition, timestamp_ms=stored)
            for partition, key, value, stored in records
        ]
        for each in sent:
            each.get(timeout=30)
    finally:
        producer.close(timeout=5)


def good(broker: int, step: int) -> tuple[int, bytes, bytes, int]:
    value = encode(
        sample(at(step), [replica("t", broker, 1000 + 300 * step)], [disk(used=100 + step)], broker=broker)
    )
    return broker % PARTITIONS, str(broker).encode(), value, at(step)


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=1, disks=1)
    made.up()
    made.make_topic(names.TOPIC_SAMPLES, [[0]] * PARTITIONS, **{"retention.ms": "-1"})
    send(made, [good(broker, step) for step in range(STEPS) for broker in range(BROKERS)])
    return made


@pytest.fixture(scope="module")
def access(cluster: Cluster) -> Access:
    return Access(tuple(cluster.bootstrap()), Path(cluster.operator))


def rows(spark: SparkSession, access: Access, ranges: source.Ranges, splits: int) -> list[Any]:
    return source.read(spark, access, ranges, splits).orderBy("partition", "offset").collect()


def test_all_records_come_once_however_they_are_split(spark: SparkSession, access: Access) -> None:
    ranges = source.find_ranges(access)
    assert sum(end - first for first, end in ranges.values()) >= STEPS * BROKERS

    one, many = (rows(spark, access, ranges, splits) for splits in (1, 7))

    assert one == many
    assert [(row.partition, row.offset) for row in one] == [
        (partition, offset)
        for partition, (first, end) in sorted(ranges.items())
        for offset in range(first, end)
    ]
    assert source.read(spark, access, ranges, 7).rdd.getNumPartitions() > PARTITIONS


def test_a_run_can_be_repeated_whatever_has_come_since(
    spark: SparkSession, cluster: Cluster, access: Access
) -> None:
    ranges = source.find_ranges(access)
    before = learn_topic(spark, access, ranges, cluster_id=CLUSTER)
    send(cluster, [good(broker, STEPS + step) for step in range(3) for broker in range(BROKERS)])
    after = learn_topic(spark, access, ranges, cluster_id=CLUSTER)
    through_spark = learn(source.read(spark, access, ranges), ranges, cluster_id=CLUSTER)

    assert source.find_ranges(access) != ranges
    assert before.disks == after.disks
    assert before.replicas.equals(after.replicas)
    assert before.read == after.read
    assert before.disks == through_spark.disks
    assert before.replicas.equals(through_spark.replicas)
    assert before.read == through_spark.read
    assert {each.broker for each in before.disks} == set(range(BROKERS))


def test_a_broker_with_records_in_two_partitions_has_one_history(
    spark: SparkSession, cluster: Cluster, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after partitions were added to the topic; the tasks of this run have one partition each."""
    monkeypatch.setattr("spindle_rebalance.pieces._LEAST", 1)
    send(cluster, [(1, b"0", *good(0, STEPS + 10 + step)[2:]) for step in range(5)])
    ranges = source.find_ranges(access)

    found = learn_topic(spark, access, ranges, cluster_id=CLUSTER)

    expected = learn(source.read(spark, access, ranges), ranges, cluster_id=CLUSTER)
    assert (found.disks, found.read) == (expected.disks, expected.read)
    assert found.replicas.equals(expected.replicas)
    (size,) = (row["bytes"] for row in found.replicas.to_pylist() if row["broker"] == 0)
    assert size == 1000 + 300 * (STEPS + 14)


def test_poison_is_counted_and_named_and_other_versions_are_read(
    spark: SparkSession, cluster: Cluster, access: Access
) -> None:
    start = {partition: end for partition, (_, end) in source.find_ranges(access).items()}
    plain = encode(sample(at(900), [replica("t", 9, 1)], [disk()], broker=9))
    _, sections = unseal(plain, VERSION.major)
    newer = seal(Version(VERSION.major, VERSION.minor + 7), [*map(bytes, sections), b"what is not known yet"])
    bare = sample(at(901), [replica("t", 9, 2)], [disk()], broker=9)
    older = seal(
        Version(VERSION.major, 0),
        [
            bytes(unseal(encode(bare), VERSION.major)[1][0]),
            pack(bare.replicas.select(["topic", "partition", "dir", "bytes"])),
            pack(bare.disks),
        ],
    )
    alien = seal(Version(VERSION.major + 1, 0), [bytes(each) for each in sections])
    send(
        cluster,
        [
            (1, b"9", newer, at(900)),
            (1, b"9", older, at(901)),
            (1, b"9", alien, at(902)),
            (1, b"9", plain[:-8], at(903)),
            (1, b"9", None, at(904)),
            (1, None, plain, at(905)),
        ],
    )
    ranges = {1: (start[1], source.find_ranges(access)[1][1])}

    found = learn_topic(spark, access, ranges, cluster_id=CLUSTER)

    assert (found.read.records, found.read.poisoned, found.read.rows) == (6, 4, 2)
    assert [(each.partition, each.offset - start[1]) for each in found.read.poison] == [
        (1, k) for k in range(2, 6)
    ]
    assert [each.reason.split(":")[0] for each in found.read.poison] == [
        "UnknownVersion",
        "Truncated",
        "Empty",
        "OtherBroker",
    ]
    assert [(row["broker"], row["bytes"]) for row in found.replicas.to_pylist()] == [(9, 2)]


def test_a_range_begins_where_kafka_has_the_time(access: Access) -> None:
    whole, late = source.find_ranges(access), source.find_ranges(access, since_ms=at(STEPS - 1))

    assert late[0][0] > whole[0][0]
    assert source.find_ranges(access, since_ms=at(10_000)) == {}


def test_what_kafka_does_not_have_is_refused(spark: SparkSession, access: Access) -> None:
    _, end = source.find_ranges(access)[0]
    with pytest.raises(PySparkException, match=f"{RangeGoneError.__name__}.*start a new run instead"):
        rows(spark, access, {0: (0, end + 5)}, 1)
    with pytest.raises(PySparkException, match=f"{RangeGoneError.__name__}.*start a new run instead"):
        learn_topic(spark, access, {0: (0, end + 5)})


def test_a_topic_that_is_not_there_is_named(access: Access) -> None:
    absent = Access(access.bootstrap, access.tls, topic="nothing", timeout_s=10)
    with pytest.raises(SourceError, match="the topic nothing does not exist"):
        source.find_ranges(absent)


def test_plans_have_paths_and_no_keys(spark: SparkSession, access: Access) -> None:
    frame = source.read(spark, access, source.find_ranges(access))
    assert access.tls is not None
    secret = (access.tls / "tls.key").read_text().splitlines()[1]

    assert secret not in frame._jdf.queryExecution().toString()
