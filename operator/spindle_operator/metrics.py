"""Prometheus metrics of the operator and of the clusters that it manages."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

disable_created_metrics()  # type: ignore[no-untyped-call]

RECONCILES: Final = Counter("spindle_reconciles", "Finished passes.", ["cluster", "outcome"])
DURATION: Final = Histogram(
    "spindle_reconcile_duration_seconds",
    "Duration of a pass.",
    ["cluster"],
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
)
ACTIONS: Final = Counter("spindle_actions", "Executed actions.", ["type", "outcome"])
CLUSTERS: Final = Gauge("spindle_clusters", "KafkaClusters that the operator manages.")
CLOCKS: Final = Gauge(
    "spindle_node_clock_ahead_seconds",
    "Seconds by which the clock of an agent's node is ahead of the operator's.",
    ["node"],
)
LEADER: Final = Gauge("spindle_leader", "1 while this replica is the leader.")
WAITING: Final = Gauge("spindle_waiting", "Actions that wait for something.", ["cluster", "reason"])
BROKERS: Final = Gauge("spindle_brokers", "Brokers by state.", ["cluster", "state"])
DISKS: Final = Gauge("spindle_disks", "Disks by state.", ["cluster", "state"])
USAGE_LEVELS: Final = Gauge("spindle_disk_usage_level", "Disks by usage level.", ["cluster", "level"])
START: Final = Gauge(
    "spindle_broker_start_seconds",
    "Seconds from the start of the running broker until it was in sync.",
    ["cluster", "broker", "kind"],
)
LOADING: Final = Gauge(
    "spindle_broker_logs_to_load", "Logs that a starting broker still has to load.", ["cluster", "broker"]
)
REBALANCES: Final = Gauge("spindle_rebalances", "KafkaRebalances that have not ended.", ["cluster", "phase"])
REBALANCED: Final = Gauge(
    "spindle_rebalance_moved_bytes", "Bytes moved by the KafkaRebalance in progress.", ["cluster"]
)
KAFKA_FAILURES: Final = Counter(
    "spindle_kafka_call_failures", "Failed requests to Kafka.", ["cluster", "error"]
)


class Ages(Collector):
    """Ages, which grow between scrapes and so are computed at each scrape."""

    def __init__(self, name: str, text: str, label: str, ages: Callable[[], Mapping[str, float]]) -> None:
        self._name, self._text, self._label, self._ages = name, text, label, ages

    def collect(self) -> Iterable[Metric]:
        """One sample per key."""
        family = GaugeMetricFamily(self._name, self._text, labels=[self._label])
        for key, age in self._ages().items():
            family.add_metric([key], age)
        yield family

    def describe(self) -> Iterable[Metric]:
        """Nothing: keeps registration from collecting before there are values."""
        return []


def expose_ages(name: str, text: str, label: str, ages: Callable[[], Mapping[str, float]]) -> None:
    """Register a gauge of ages in seconds."""
    REGISTRY.register(Ages(name, text, label, ages))


def observe_status(
    cluster: str,
    status: Mapping[str, Any],
    broker_statuses: Mapping[str, Mapping[str, Any]],
    rebalance_statuses: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Set the gauges that mirror a cluster's status."""
    _fill(WAITING, cluster, [str(wait.get("reason")) for wait in status.get("waiting") or ()])
    _fill(BROKERS, cluster, [str(broker.get("state")) for broker in broker_statuses.values()])
    open_ones = (rebalance_statuses or {}).values()
    _fill(REBALANCES, cluster, [str(each.get("phase")) for each in open_ones])
    REBALANCED.labels(cluster).set(sum(int(each.get("movedBytes") or 0) for each in open_ones))
    disks = [disk for broker in broker_statuses.values() for disk in broker.get("disks") or ()]
    _fill(DISKS, cluster, [str(disk.get("state")) for disk in disks])
    _starts(cluster, broker_statuses)
    _fill(USAGE_LEVELS, cluster, [str(disk["usage"].get("level")) for disk in disks if disk.get("usage")])


def clocks(ahead: Mapping[str, float]) -> None:
    """Set the seconds by which nodes' clocks are ahead of this one; removes nodes that are not listed."""
    for family in CLOCKS.collect():
        for sample in family.samples:
            if sample.labels["node"] not in ahead:
                CLOCKS.remove(sample.labels["node"])
    for node, seconds in ahead.items():
        CLOCKS.labels(node).set(seconds)


def forget(cluster: str) -> None:
    """Remove the metrics of a deleted cluster."""
    for metric in (
        WAITING,
        BROKERS,
        DISKS,
        USAGE_LEVELS,
        START,
        LOADING,
        REBALANCES,
        REBALANCED,
        RECONCILES,
        DURATION,
        KAFKA_FAILURES,
    ):
        for labels in _label_sets(metric, cluster):
            metric.remove(*labels)


def _starts(cluster: str, broker_statuses: Mapping[str, Mapping[str, Any]]) -> None:
    for metric in (START, LOADING):
        for labels in _label_sets(metric, cluster):
            metric.remove(*labels)
    for broker, status in broker_statuses.items():
        start = status.get("start") or {}
        if "seconds" in start:
            START.labels(cluster, broker, str(start.get("kind") or "Unknown")).set(start["seconds"])
        elif "logsLeft" in start:
            LOADING.labels(cluster, broker).set(start["logsLeft"])


def _fill(gauge: Gauge, cluster: str, values: Iterable[str]) -> None:
    counts = Tally(values)
    for labels in _label_sets(gauge, cluster):
        if labels[1] not in counts:
            gauge.remove(*labels)
    for value, count in counts.items():
        gauge.labels(cluster, value).set(count)


def _label_sets(metric: Any, cluster: str) -> list[tuple[str, ...]]:
    """Label values of a metric's children for a cluster (the first label)."""
    names = metric._labelnames  # noqa: SLF001 - the library offers no other way to list children
    found = {
        tuple(sample.labels[name] for name in names)
        for family in metric.collect()
        for sample in family.samples
        if all(name in sample.labels for name in names)
    }
    return [labels for labels in found if labels[0] == cluster]
