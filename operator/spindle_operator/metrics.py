"""Prometheus metrics of the operator and of the clusters that it manages; `spindle.metrics.table` lists them."""

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, TypeVar

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from spindle.metrics import table
from spindle.metrics.cluster import MetricSample
from spindle.metrics.table import Metric

disable_created_metrics()  # type: ignore[no-untyped-call]

_Made = TypeVar("_Made", Counter, Gauge)

DISTRIBUTION: Final = "spindle-kafka"


def _make(kind: type[_Made], metric: Metric) -> _Made:
    return kind(metric.name, metric.help, metric.labels)


RECONCILES: Final = _make(Counter, table.RECONCILES)
DURATION: Final = Histogram(
    table.RECONCILE_DURATION.name,
    table.RECONCILE_DURATION.help,
    table.RECONCILE_DURATION.labels,
    buckets=table.RECONCILE_DURATION.buckets,
)
ACTIONS: Final = _make(Counter, table.ACTIONS)
KAFKA_FAILURES: Final = _make(Counter, table.KAFKA_FAILURES)
LOOKS: Final = _make(Counter, table.LOOKS)
WATCH_MISSED: Final = _make(Counter, table.WATCH_MISSED)
CLUSTERS: Final = _make(Gauge, table.CLUSTERS)
LEADER: Final = _make(Gauge, table.LEADER)
BUILD_INFO: Final = _make(Gauge, table.BUILD_INFO)
_OF_CLUSTERS: Final = (RECONCILES, DURATION, ACTIONS, KAFKA_FAILURES, LOOKS)


def own_version() -> str:
    """Version of the installed package."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"


BUILD_INFO.labels("operator", own_version()).set(1)


class Samples(Collector):
    """Gauges that are computed as a whole: what is not computed again disappears.

    Read by the thread that serves a scrape; writers replace whole entries.
    """

    def __init__(self) -> None:
        self._found: dict[str, tuple[MetricSample, ...]] = {}
        self._sources: list[Callable[[], Iterable[MetricSample]]] = []

    def put(self, source: str, samples: Iterable[MetricSample]) -> None:
        """Replace the samples of one source."""
        self._found[source] = tuple(samples)

    def drop(self, source: str) -> None:
        """Remove the samples of one source."""
        self._found.pop(source, None)

    def compute(self, source: Callable[[], Iterable[MetricSample]]) -> None:
        """Add samples that are computed at each scrape, as they change between scrapes."""
        self._sources.append(source)

    def collect(self) -> Iterable[Family]:
        """One family per metric."""
        families: dict[str, GaugeMetricFamily] = {}
        for samples in (*self._found.copy().values(), *(source() for source in self._sources)):
            for metric, labels, value in samples:
                family = families.get(metric.name)
                if family is None:
                    family = families[metric.name] = GaugeMetricFamily(
                        metric.name, metric.help, labels=metric.labels
                    )
                family.add_metric(labels, value)
        return families.values()

    def describe(self) -> Iterable[Family]:
        """Nothing: keeps registration from collecting before there are values."""
        return []


SAMPLES: Final = Samples()
REGISTRY.register(SAMPLES)
_CLOCKS: Final = "clocks"  # no cluster's label is without a slash


def expose_ages(ages: Callable[[], Mapping[str, float]]) -> None:
    """Export the age of each cluster's last pass, in seconds, by ``namespace/name``."""
    SAMPLES.compute(
        lambda: [MetricSample(table.RECONCILE_AGE, key_of(cluster), age) for cluster, age in ages().items()]
    )


def observe_cluster(cluster: str, samples: Iterable[MetricSample]) -> None:
    """Replace the gauges of a cluster."""
    SAMPLES.put(cluster, samples)


def clocks(ahead: Mapping[str, float]) -> None:
    """Set the seconds by which nodes' clocks are ahead of this one; nodes that are not listed disappear."""
    SAMPLES.put(
        _CLOCKS, [MetricSample(table.CLOCK_AHEAD, (node,), seconds) for node, seconds in ahead.items()]
    )


def kafka_failed(cluster: str, error: BaseException) -> None:
    """Count a failed request to Kafka."""
    KAFKA_FAILURES.labels(*key_of(cluster), type(error).__name__).inc()


def forget(cluster: str) -> None:
    """Remove the metrics of a deleted cluster."""
    SAMPLES.drop(cluster)
    labels: dict[str, Any] = dict(zip(table.CLUSTER, key_of(cluster), strict=True))
    for metric in _OF_CLUSTERS:
        metric.remove_by_labels(labels)


def key_of(cluster: str) -> tuple[str, str]:
    """Namespace and name, from ``namespace/name``."""
    namespace, _, name = cluster.partition("/")
    return namespace, name
