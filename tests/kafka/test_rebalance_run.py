"""A run of the rebalance job on real brokers: the look, the plan, what is written. Samples have tests of their own."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spindle.api import names
from spindle.api.rebalance import KafkaRebalance
from spindle.model.view import KafkaView
from spindle_rebalance import kafka_look, look, options
from spindle_rebalance.errors import CREDENTIALS, KAFKA, RunError
from spindle_rebalance.kafka_look import Access
from spindle_rebalance.options import Target
from spindle_rebalance.run import Run, Spark
from tests.kafka.cluster import Cluster
from tests.kafka.job import Kubernetes, access, skewed
from tests.kafka.node import wait_for

pytestmark = pytest.mark.slow

MB = 2**20
TIMEOUT = 5.0


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Three brokers with two disks each; everything stands on the first broker."""
    return skewed(make_cluster(brokers=3, disks=2))


def nothing(*_: object) -> Any:
    raise AssertionError("there is no topic of samples")


def run(cluster: Cluster, kube: Kubernetes, *more: str) -> Run:
    told = access(cluster)
    arguments = [
        "run",
        "--cluster-namespace=ns",
        "--cluster=demo",
        f"--bootstrap={told.bootstrap}",
        f"--tls={told.tls}",
    ]
    chosen = options.parse(
        [*arguments, "--report-configmap=demo-rebalance-report", f"--kafka-timeout={TIMEOUT}", *more]
    )
    api: Any = kube
    return Run(chosen, Spark(nothing, nothing), lambda: api)


def test_the_look_is_what_the_operator_sees(cluster: Cluster) -> None:
    seen, ours = cluster.view(), kafka_look.look(access(cluster), TIMEOUT)
    assert ours.cluster_id == seen.cluster_id
    assert _shown(ours) == _shown(seen)
    assert {(p.name, p.replicas, p.isr) for p in ours.partitions or ()} == {
        (p.name, p.replicas, p.isr) for p in seen.partitions or ()
    }


def _shown(view: KafkaView) -> Any:
    return {
        (b.id, b.rack, b.fenced, d.path): (
            d.error,
            d.cordoned,
            d.total_bytes,
            dict(d.replicas),
            dict(d.futures),
        )
        for b in (view.brokers or {}).values()
        for d in b.log_dirs or ()
    }


def test_a_skewed_cluster_gets_a_proposal_and_its_record_gives_it_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    kube = Kubernetes()
    (outcome,) = run(cluster, kube, f"--record={tmp_path}", f"--report={tmp_path}").all()
    assert (outcome.reason, outcome.failed) == ("Proposed", False), outcome.message
    assert "growth and slow disks are unknown" in outcome.message
    body = kube.written[outcome.proposal]
    spec = KafkaRebalance.parse(body).spec
    assert {m.from_broker for m in spec.moves} == {0}
    assert {m.topic for m in spec.moves} == {"skewed"}
    assert {m.to_broker for m in spec.moves} == {1, 2}
    shown = {d.path: d for b in (cluster.view().brokers or {}).values() for d in b.log_dirs or ()}
    for move in spec.moves:
        assert move.bytes == shown[move.from_dir].replicas[move.topic, move.partition]
        target = shown[move.to_dir]
        coming = sum(m.bytes for m in spec.moves if m.to_dir == move.to_dir)
        assert target.total_bytes is not None
        assert target.usable_bytes is not None
        assert target.total_bytes - target.usable_bytes + coming < 0.9 * target.total_bytes  # rule 4
    gain = spec.gain
    assert (gain.brokers_out_of_band_before, gain.disks_out_of_band_before) == (3, 6)
    # Logs of 12 MB each do not fit everywhere exactly.
    assert (gain.brokers_out_of_band_after or 0) < 3
    assert (gain.disks_out_of_band_after or 0) < 6
    assert (gain.fullest_percent_after or 0) < (gain.fullest_percent_before or 0)
    assert names.REPORT_KEY in kube.written["demo-rebalance-report"]["binaryData"]
    assert "skewed-" in (tmp_path / "ns.demo.html").read_text()

    again = [Kubernetes(), Kubernetes()]
    found = [
        run(cluster, k, f"--replay={tmp_path}", f"--record={tmp_path / str(n)}").all()[0]
        for n, k in enumerate(again)
    ]
    assert [f.proposal for f in found] == [outcome.proposal] * 2
    assert [k.written for k in again] == [{}, {}]  # a replay publishes nothing
    records = [(tmp_path / name / "ns.demo" / look.LOOK).read_bytes() for name in (".", "0", "1")]
    assert records[0] == records[1] == records[2]


def test_a_broker_that_hangs_is_unknown_and_costs_one_time_out(cluster: Cluster) -> None:
    process = cluster.nodes[2].kafka
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        view = kafka_look.look(access(cluster), TIMEOUT)
        assert view.brokers is not None
        assert view.brokers[2].log_dirs is None or view.brokers[2].fenced
        assert view.brokers[0].log_dirs is not None
        kube = Kubernetes()
        (outcome,) = run(cluster, kube).all()
        assert not outcome.failed, outcome.message
        for body in kube.written.values():
            for move in body.get("spec", {}).get("moves", ()):
                assert 2 not in (move["fromBroker"], move["toBroker"])
    finally:
        process.send_signal(signal.SIGCONT)
    wait_for("all brokers answer", lambda: _whole(cluster), pause=0.5)


def _whole(cluster: Cluster) -> bool:
    try:
        brokers = kafka_look.look(access(cluster), TIMEOUT).brokers or {}
    except RunError:
        return False
    return all(b.log_dirs and not b.fenced for b in brokers.values())


def test_nobody_there_and_no_certificate(cluster: Cluster, tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(RunError) as refused:
        kafka_look.look(Access(f"{cluster.nodes[0].address}:1", cluster.operator), 1.0)
    assert refused.value.reason == KAFKA
    assert time.monotonic() - began < 60  # it ends: no more is said
    with pytest.raises(RunError) as unreadable:
        kafka_look.look(Access(access(cluster).bootstrap, tmp_path), 1.0)
    assert unreadable.value.reason == CREDENTIALS


def test_one_cluster_that_fails_does_not_fail_the_others(cluster: Cluster, tmp_path: Path) -> None:
    made = run(cluster, Kubernetes(), "--dry-run")
    good = made.options.targets[0]
    bad = Target("ns", "gone", Access(good.access.bootstrap, tmp_path))
    object.__setattr__(made.options, "targets", (bad, good))
    first, second = made.all()
    assert (first.cluster, first.reason, first.failed) == ("ns/gone", CREDENTIALS, True)
    assert (second.cluster, second.failed) == ("ns/demo", False)
