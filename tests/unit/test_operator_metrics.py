"""What the operator exports, as Prometheus reads it."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from spindle.metrics import table
from spindle.metrics.cluster import MetricSample, cluster_samples
from spindle.metrics.table import Metric
from spindle.reconcile.plan import plan
from spindle_operator import metrics, server
from spindle_operator.health import Health
from spindle_operator.server import application
from tests.unit.test_healing_plan import cluster
from tests.unit.test_metrics_cluster import thousand_brokers

A, B = ("ns", "a"), ("ns", "b")


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    yield
    for name in ("ns/a", "ns/b", "team-a/demo"):
        metrics.forget(name)


def exported() -> dict[str, dict[tuple[str, ...], float]]:
    """Name of the series → values of the labels in the order of the table → value; only Spindle's own."""
    order = {series: metric.labels for metric in table.all_metrics() for series in metric.series}
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(generate_latest().decode()):
        for sample in family.samples:
            if sample.name.startswith("spindle_"):
                labels = tuple(sample.labels[label] for label in order[sample.name])
                found.setdefault(sample.name, {})[labels] = sample.value
    return found


def of(metric: Metric) -> dict[tuple[str, ...], float]:
    return exported().get(metric.name, {})


def test_gauges_are_replaced_as_a_whole_and_forgotten() -> None:
    metrics.observe_cluster(
        "ns/a",
        [
            MetricSample(table.DISK_STATE, (*A, "b0", "disk0", "Active"), 1),
            MetricSample(table.PAUSED, A, 0),
        ],
    )
    metrics.observe_cluster("ns/b", [MetricSample(table.PAUSED, B, 1)])
    assert of(table.DISK_STATE) == {(*A, "b0", "disk0", "Active"): 1}
    assert of(table.PAUSED) == {A: 0, B: 1}
    metrics.observe_cluster("ns/a", [MetricSample(table.DISK_STATE, (*A, "b0", "disk0", "Failed"), 1)])
    assert of(table.DISK_STATE) == {(*A, "b0", "disk0", "Failed"): 1}
    metrics.forget("ns/a")
    assert of(table.DISK_STATE) == {}
    assert of(table.PAUSED) == {B: 1}


def test_counters_and_histograms_of_a_deleted_cluster_are_forgotten() -> None:
    for key in (A, B):
        metrics.DURATION.labels(*key).observe(1)
        metrics.RECONCILES.labels(*key, "settled").inc()
        metrics.ACTIONS.labels(*key, "Create", "done").inc()
        metrics.kafka_failed("/".join(key), TimeoutError())
    metrics.forget("ns/a")
    found = exported()
    assert found["spindle_reconciles_total"] == {(*B, "settled"): 1}
    assert found["spindle_reconcile_duration_seconds_count"] == {B: 1}
    assert found["spindle_actions_total"] == {(*B, "Create", "done"): 1}
    assert found["spindle_kafka_call_failures_total"] == {(*B, "TimeoutError"): 1}


def test_ages_are_computed_at_each_scrape() -> None:
    ages = {"ns/a": 1.0}
    metrics.expose_ages(lambda: ages)
    assert of(table.RECONCILE_AGE)[A] == 1.0
    ages["ns/a"] = 5.0
    assert of(table.RECONCILE_AGE)[A] == 5.0
    ages.clear()
    assert of(table.RECONCILE_AGE) == {}


def test_clocks_of_nodes_that_are_gone_disappear() -> None:
    metrics.clocks({"n1": 3.0, "n2": -1.0})
    assert of(table.CLOCK_AHEAD) == {("n1",): 3.0, ("n2",): -1.0}
    metrics.clocks({"n2": 0.5})
    assert of(table.CLOCK_AHEAD) == {("n2",): 0.5}


def test_types_are_those_of_the_list() -> None:
    world = cluster()
    snapshot = world.snapshot()
    metrics.observe_cluster("team-a/demo", cluster_samples(snapshot, plan(snapshot, world.now)))
    metrics.RECONCILES.labels("team-a", "demo", "settled").inc()
    metrics.DURATION.labels("team-a", "demo").observe(1)
    kinds = {metric.name.removesuffix("_total"): metric.kind for metric in table.all_metrics()}
    families = [
        family
        for family in text_string_to_metric_families(generate_latest().decode())
        if family.name.startswith("spindle_")
    ]
    assert {family.name: family.type for family in families} == {
        family.name: kinds[family.name] for family in families
    }
    assert "spindle_build_info" in kinds
    assert ("operator", metrics.own_version()) in of(table.BUILD_INFO)


def test_series_of_twelve_thousand_disks() -> None:
    metrics.observe_cluster("team-a/demo", cluster_samples(*thousand_brokers()))
    text = generate_latest().decode()
    series = sum(line.startswith("spindle_") for line in text.splitlines())
    print(f"{series} series, {len(text) / 1e6:.1f} MB")
    assert series > 100_000


async def test_the_loop_goes_on_during_a_scrape(monkeypatch: pytest.MonkeyPatch) -> None:
    began, answered = threading.Event(), threading.Event()

    def slow() -> bytes:
        began.set()
        assert answered.wait(30), "nothing else was answered during the scrape"
        return b"spindle_x 1\n"

    monkeypatch.setattr(server, "generate_latest", slow)
    async with TestClient(TestServer(application(Health()))) as client:
        scrape = asyncio.create_task(client.get("/metrics"))
        assert await asyncio.to_thread(began.wait, 30)
        assert (await client.get("/healthz")).status == 200
        answered.set()
        assert await (await scrape).text() == "spindle_x 1\n"
