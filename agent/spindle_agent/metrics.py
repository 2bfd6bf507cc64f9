"""Prometheus metrics of the agent, computed at each scrape, so that deleted objects disappear; `spindle.metrics.table` lists them."""

import time
from collections.abc import Collection, Iterable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from prometheus_client import REGISTRY, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from spindle.api.enums import DirMoveState
from spindle.metrics import table
from spindle.metrics.table import Metric
from spindle_agent.disk import Disk
from spindle_agent.heartbeat import Heartbeat
from spindle_agent.node import Node
from spindle_agent.publish import Publisher
from spindle_agent.watch import Brokers

disable_created_metrics()  # type: ignore[no-untyped-call]

DISTRIBUTION: Final = "spindle-kafka"

Sample = tuple[Metric, tuple[str, ...], float]
_PROBES: Final = Histogram(
    table.AGENT_PROBES.name,
    table.AGENT_PROBES.help,
    table.AGENT_PROBES.labels,
    buckets=table.AGENT_PROBES.buckets,
)


def own_version() -> str:
    """Version of the installed package."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"


class ProbeTimes:
    """Durations of probes per disk."""

    def __init__(self) -> None:
        self._known: set[tuple[str, ...]] = set()

    def observe(self, labels: tuple[str, ...], seconds: float) -> None:
        """Count one probe of a disk, by the labels of a disk."""
        self._known.add(labels)
        _PROBES.labels(*labels).observe(seconds)

    def keep(self, labels: Collection[tuple[str, ...]]) -> None:
        """Forget all disks but these."""
        for gone in self._known.difference(labels):
            self._known.discard(gone)
            _PROBES.remove(*gone)


PROBES: Final = ProbeTimes()


class NodeState(Collector):
    """Gauges of the agent's current state."""

    def __init__(self, node: Node, publisher: Publisher, heartbeat: Heartbeat, brokers: Brokers) -> None:
        self._node = node
        self._publisher = publisher
        self._heartbeat = heartbeat
        self._brokers = brokers

    def describe(self) -> Iterable[Family]:
        """Nothing, so that registration does not collect before there is any data."""
        return []

    def collect(self) -> Iterable[Family]:
        """One family per metric that has a sample."""
        families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
        PROBES.keep([self._node.labels(key) for key in self._node.disks])
        for metric, labels, value in self._samples():
            if metric.name not in families:
                kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
                families[metric.name] = kind(metric.name, metric.help, labels=metric.labels)
            families[metric.name].add_metric(labels, value)
        return families.values()

    def _samples(self) -> Iterable[Sample]:
        now, now_on_the_wall = time.monotonic(), time.time()
        for key, disk in list(self._node.disks.items()):
            yield from self._of_disk(self._node.labels(key), disk, now)
        yield from self._forecasts(now_on_the_wall)
        yield from self._scrubs(now_on_the_wall)
        yield from self._moves(now)
        yield from self._sent()
        yield from self._agent(now)

    def _of_disk(self, labels: tuple[str, ...], disk: Disk, now: float) -> Iterable[Sample]:
        if disk.judged is not None and not disk.unwatched:
            yield table.AGENT_VERDICT, (*labels, disk.judged.verdict.value), 1
        sizes, took = disk.glanced, self._node.latency_of(disk)
        if sizes is not None and sizes.total_bytes:
            yield table.AGENT_CAPACITY, labels, sizes.total_bytes
            yield table.AGENT_USED, labels, sizes.used_bytes
        if took.own_ms is not None:
            yield table.AGENT_LATENCY, labels, took.own_ms / 1000
        if took.peers_ms is not None:
            yield table.AGENT_PEERS, labels, took.peers_ms / 1000
        yield table.AGENT_PENDING, labels, disk.pending(now)

    def _forecasts(self, now_on_the_wall: float) -> Iterable[Sample]:
        for key, forecast in self._node.fills.forecasts():
            labels = self._node.labels(key)
            yield table.AGENT_GROWTH, labels, forecast.rate
            for name, eta in forecast.etas.items():
                for bound, at in asdict(eta).items():
                    left = max(0.0, at - now_on_the_wall)
                    yield table.AGENT_THRESHOLD, (*labels, name.removesuffix("At"), bound), left

    def _scrubs(self, now_on_the_wall: float) -> Iterable[Sample]:
        for key, report, size, count in self._node.scrubs.reports() if self._node.scrubs is not None else ():
            labels = self._node.labels(key)
            unchecked = max(0.0, now_on_the_wall - report.oldest) if report.oldest is not None else 0.0
            yield table.SCRUB_READ, labels, size
            yield table.SCRUB_SEGMENTS, labels, count
            yield table.SCRUB_CHECKED, labels, report.checked / report.bytes if report.bytes else 1.0
            yield table.SCRUB_UNCHECKED, labels, unchecked
            yield table.SCRUB_CORRUPT, labels, report.corrupt

    def _moves(self, now: float) -> Iterable[Sample]:
        for name, session in self._node.brokers():
            labels = self._node.labels(name)
            known = list(session.mover.moves.values())
            copying = [each for each in known if each.state is DirMoveState.COPYING]
            for state in DirMoveState:
                yield table.AGENT_MOVES, (*labels, state.value), sum(each.state is state for each in known)
            yield table.AGENT_COPIED, labels, sum(each.copied or 0 for each in copying)
            yield table.AGENT_RATE, labels, sum(each.rate or 0 for each in copying)
            if session.mover.busy and session.mover.throttle is not None:
                yield table.AGENT_THROTTLE, labels, session.mover.throttle
            yield table.AGENT_ANSWERS, labels, float(session.answered(now))

    def _sent(self) -> Iterable[Sample]:
        for name, session in self._node.brokers():
            if session.sampler is not None:
                labels = self._node.labels(name)
                yield table.SAMPLES_SENT, labels, session.sampler.sent
                yield table.SAMPLES_DROPPED, labels, session.sampler.backlog.dropped
                yield table.SAMPLES_KEPT, labels, session.sampler.backlog.kept

    def _agent(self, now: float) -> Iterable[Sample]:
        yield table.BUILD_INFO, ("agent", own_version()), 1
        yield table.STATUS_WRITES, (), self._publisher.writes
        yield table.STARVED, (), float(bool(self._node.strain.fields()))
        for metric, age in (
            (table.HEARTBEAT_AGE, self._heartbeat.age(now)),
            (table.API_AGE, self._brokers.silence(now)),
        ):
            if age is not None:
                yield metric, (), age


def expose(state: NodeState) -> None:
    """Register the collector."""
    REGISTRY.register(state)
