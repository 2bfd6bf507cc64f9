"""The list of metrics, and its reference page."""

import re

from spindle.metrics import table
from spindle.metrics.table import Metric, all_metrics


def test_every_metric_of_the_module_is_listed_once() -> None:
    defined = [value for value in vars(table).values() if isinstance(value, Metric)]
    listed = list(all_metrics())
    assert sorted(m.name for m in defined) == sorted(m.name for m in listed)
    assert len({m.name for m in listed}) == len(listed)


def test_names_follow_prometheus_conventions() -> None:
    for metric in all_metrics():
        ours = re.fullmatch(r"spindle_[a-z0-9]+(_[a-z0-9]+)*", metric.name)
        assert ours or metric is table.CONSUMER_LAG, metric.name  # that one has the name that dashboards use
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        # Base units only.
        assert not re.search(r"_(ms|milliseconds|minutes|hours|percent|kb|mb|gb|stat)(_|$)", metric.name), (
            metric.name
        )
        assert len(set(metric.labels)) == len(metric.labels)
        assert not {"stat", "cluster", "quantile", "le", "job", "instance"} & set(metric.labels), metric.name
        assert bool(metric.buckets) == (metric.kind == "histogram")


def test_a_metric_of_an_object_names_the_whole_object() -> None:
    """So that a metric of a disk can be joined with every other metric of it."""
    order = table.DISK
    for metric in all_metrics():
        named = [label for label in order if label in metric.labels]
        assert named == list(order[: len(named)]), metric.name
