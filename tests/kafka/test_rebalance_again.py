"""The same offsets and the same look give the same proposal: real brokers, their real topic of samples, real Spark."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spindle.api import names
from spindle.api.rebalance import KafkaRebalance
from spindle.samples.schema import Sample
from spindle_rebalance import look, options
from spindle_rebalance.errors import ROLLUP
from spindle_rebalance.main import Engine
from spindle_rebalance.outcome import Outcome
from spindle_rebalance.run import Run, Spark
from tests.kafka.cluster import Cluster
from tests.kafka.job import Kubernetes, access, publish, skewed
from tests.unit.rebalance_samples import INTERVAL, disk, replica, sample

PARTITIONS = 2
STEPS = 40
GROWTH = 50.0  # bytes per second


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Everything stands on the first of three brokers, and has grown for some hours."""
    made = skewed(make_cluster(brokers=3, disks=2))
    made.make_topic(names.TOPIC_SAMPLES, [[0], [1]], **{"retention.ms": "-1"})
    publish(made, samples(made, range(-STEPS, 0)), PARTITIONS)
    return made


def samples(cluster: Cluster, steps: range) -> Iterator[Sample]:
    """Of what each broker holds now, so many intervals ago; it has grown since."""
    now = int(time.time())
    for broker in (cluster.view().brokers or {}).values():
        for step in steps:
            grown = int(GROWTH * INTERVAL * step)
            replicas, disks = list[dict[str, Any]](), list[dict[str, Any]]()
            for d in broker.log_dirs or ():
                assert d.total_bytes is not None
                assert d.usable_bytes is not None
                replicas += [
                    replica(topic, index, max(0, size + grown), d.path, append_rate=GROWTH)
                    for (topic, index), size in sorted(d.replicas.items())
                ]
                used = d.total_bytes - d.usable_bytes
                disks.append(disk(d.path, max(0, used + grown), capacity=d.total_bytes))
            yield sample(
                (now + step * INTERVAL) * 1000,
                replicas,
                disks,
                broker=broker.id,
                cluster_id=cluster.cluster_id,
            )


def run(cluster: Cluster, kube: Kubernetes, *more: str) -> Outcome:
    told = access(cluster)
    chosen = options.parse(
        [
            "run", "--cluster-namespace=ns", "--cluster=demo", f"--bootstrap={told.bootstrap}", f"--tls={told.tls}",
            "--master=local[2]", "--memory=2Gi", *more,
        ]
    )  # fmt: skip
    api: Any = kube
    engine = Engine(chosen)
    try:
        (found,) = Run(chosen, Spark(engine.ranges, engine.study, engine.roll_up), lambda: api).all()
    finally:
        engine.stop()
    return found


@pytest.mark.slow
def test_two_runs_on_the_same_record_propose_the_same_whatever_has_come_since(
    cluster: Cluster, tmp_path: Path
) -> None:
    kube = Kubernetes()
    first = run(cluster, kube, f"--record={tmp_path / 'record'}", f"--report={tmp_path / 'first'}")
    assert (first.reason, first.failed) == ("Proposed", False), first.message
    assert "not known" not in first.message  # of growth: there are samples, and they were read
    made = KafkaRebalance.parse(kube.written[first.proposal]).spec
    assert {move.from_broker for move in made.moves} == {0}
    assert made.forecast is not None

    # The cluster and its topic go on.
    publish(cluster, samples(cluster, range(1, 4)), PARTITIONS)
    cluster.produce("skewed", 0, (bytes(900_000) for _ in range(3)), compression_type=None)
    hashes, pages = [], []
    for name in ("second", "third"):
        again = Kubernetes()
        out = tmp_path / name
        found = run(cluster, again, f"--replay={tmp_path / 'record'}", f"--record={out}", f"--report={out}")
        assert again.written == {}
        hashes.append(found.proposal)
        pages.append((out / "ns.demo.html").read_bytes())
        for part in (look.LOOK, look.OFFSETS):
            assert (out / "ns.demo" / part).read_bytes() == (
                tmp_path / "record" / "ns.demo" / part
            ).read_bytes()

    assert hashes == [first.proposal] * 2
    assert made.input_hash.startswith(first.proposal.removeprefix("demo-"))
    assert pages == [(tmp_path / "first" / "ns.demo.html").read_bytes()] * 2
    # A new look at the cluster as it is now is another one.
    shutil.rmtree(tmp_path / "first")
    assert run(cluster, Kubernetes(), "--dry-run").proposal != first.proposal


@pytest.mark.slow
def test_a_roll_up_that_cannot_be_written_fails_the_run_and_not_its_proposal(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    kube = Kubernetes()
    found = run(cluster, kube, f"--rollup=file://{tmp_path}/file")

    assert (found.reason, found.failed) == (ROLLUP, True)
    assert f"file://{tmp_path}/file/ns/demo/{cluster.cluster_id}" in found.message
    assert "spec.rebalance.rollup" in found.message
    assert KafkaRebalance.parse(kube.written[found.proposal]).spec.moves

    unknown = run(cluster, Kubernetes(), "--rollup=nothing://bucket/x")
    assert unknown.reason == ROLLUP
    assert 'No FileSystem for scheme "nothing"' in unknown.message
