"""Prometheus metrics of the agent, computed at each scrape, so that deleted objects disappear."""

import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import Final

from prometheus_client import REGISTRY, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from spindle.model.disk_verdict import DiskVerdict
from spindle_agent.disk import Disk
from spindle_agent.heartbeat import Heartbeat
from spindle_agent.moves.progress import State
from spindle_agent.node import Node
from spindle_agent.probing.pool import Key
from spindle_agent.publish import Publisher
from spindle_agent.watch import Brokers

disable_created_metrics()  # type: ignore[no-untyped-call]

_DISK: Final = ("namespace", "broker", "disk")

PROBES: Final = Histogram(
    "spindle_agent_probe_seconds",
    "Duration of a probe: write, flush and read back one block.",
    _DISK,
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 10),
)


class NodeState(Collector):
    """Gauges of the agent's current state."""

    def __init__(self, node: Node, publisher: Publisher, heartbeat: Heartbeat, brokers: Brokers) -> None:
        self._node = node
        self._publisher = publisher
        self._heartbeat = heartbeat
        self._brokers = brokers

    def describe(self) -> Iterable[Metric]:
        """Nothing, so that registration does not collect before there is any data."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Everything."""
        now = time.monotonic()
        disks = list(self._node.disks.items())
        yield self._verdicts(disks)
        yield from self._figures(disks, now)
        yield from self._forecasts(now_on_the_wall=time.time())
        yield from self._scrubs(time.time())
        yield from self._moves()
        yield from self._samples()
        yield from self._agent(now)

    def _verdicts(self, disks: list[tuple[Key, Disk]]) -> Metric:
        family = GaugeMetricFamily(
            "spindle_agent_disk_verdict", "1 for the current verdict on a disk.", labels=[*_DISK, "verdict"]
        )
        for key, disk in disks:
            if disk.judged is not None:
                for verdict in DiskVerdict:
                    family.add_metric([*key, verdict.value], float(disk.judged.verdict is verdict))
        return family

    def _figures(self, disks: list[tuple[Key, Disk]], now: float) -> Iterable[Metric]:
        capacity = GaugeMetricFamily(
            "spindle_agent_disk_capacity_bytes", "Size of the file system.", labels=_DISK
        )
        used = GaugeMetricFamily(
            "spindle_agent_disk_used_bytes", "Used bytes of the file system.", labels=_DISK
        )
        latency = GaugeMetricFamily(
            "spindle_agent_disk_request_seconds",
            "Mean time of a request to the device over the last ten seconds.",
            labels=_DISK,
        )
        peers = GaugeMetricFamily(
            "spindle_agent_disk_peers_request_seconds",
            "Median of the mean request time of the node's other disks.",
            labels=_DISK,
        )
        pending = GaugeMetricFamily(
            "spindle_agent_disk_pending_seconds",
            "Seconds for which the disk has not answered; 0 if it answers.",
            labels=_DISK,
        )
        for key, disk in disks:
            sizes, took = disk.glanced, self._node.latency_of(disk)
            if sizes is not None and sizes.total_bytes:
                capacity.add_metric(key, sizes.total_bytes)
                used.add_metric(key, sizes.used_bytes)
            if took.own_ms is not None:
                latency.add_metric(key, took.own_ms / 1000)
            if took.peers_ms is not None:
                peers.add_metric(key, took.peers_ms / 1000)
            pending.add_metric(key, disk.pending(now))
        return capacity, used, latency, peers, pending

    def _forecasts(self, now_on_the_wall: float) -> Iterable[Metric]:
        rate = GaugeMetricFamily(
            "spindle_agent_disk_growth_bytes_per_second",
            "Forecast growth of the disk's usage.",
            labels=_DISK,
        )
        until = GaugeMetricFamily(
            "spindle_agent_disk_threshold_seconds",
            "Seconds until the disk reaches a threshold: forecast (at), and a range that holds in four of five cases "
            "(low, high); infinite for never.",
            labels=[*_DISK, "threshold", "bound"],
        )
        for key, forecast in self._node.fills.forecasts():
            rate.add_metric(key, forecast.rate)
            for name, eta in forecast.etas.items():
                for bound, at in asdict(eta).items():
                    until.add_metric([*key, name.removesuffix("At"), bound], max(0.0, at - now_on_the_wall))
        return rate, until

    def _scrubs(self, now_on_the_wall: float) -> Iterable[Metric]:
        read = CounterMetricFamily(
            "spindle_agent_scrub_read_bytes", "Bytes read to check segments.", labels=_DISK
        )
        scans = CounterMetricFamily("spindle_agent_scrub_segments", "Checked segments.", labels=_DISK)
        checked = GaugeMetricFamily(
            "spindle_agent_scrub_checked_ratio",
            "Share of the bytes of inactive segments checked within spec.disks.scrub.everyDays.",
            labels=_DISK,
        )
        oldest = GaugeMetricFamily(
            "spindle_agent_scrub_unchecked_seconds",
            "Longest time that a segment has been unchecked, since its last check or its last write.",
            labels=_DISK,
        )
        corrupt = GaugeMetricFamily("spindle_agent_scrub_corrupt_segments", "Corrupt segments.", labels=_DISK)
        for key, report, size, count in self._node.scrubs.reports() if self._node.scrubs is not None else ():
            read.add_metric(key, size)
            scans.add_metric(key, count)
            checked.add_metric(key, report.checked / report.bytes if report.bytes else 1.0)
            oldest.add_metric(
                key, max(0.0, now_on_the_wall - report.oldest) if report.oldest is not None else 0.0
            )
            corrupt.add_metric(key, report.corrupt)
        return read, scans, checked, oldest, corrupt

    def _moves(self) -> Iterable[Metric]:
        labels = ("namespace", "broker")
        moves = GaugeMetricFamily(
            "spindle_agent_moves", "Moves between log dirs by state.", labels=[*labels, "state"]
        )
        copied = GaugeMetricFamily(
            "spindle_agent_moves_copied_bytes", "Bytes that running moves have copied.", labels=labels
        )
        rate = GaugeMetricFamily(
            "spindle_agent_moves_bytes_per_second", "Recent copy rate of running moves.", labels=labels
        )
        throttle = GaugeMetricFamily(
            "spindle_agent_moves_throttle_bytes_per_second",
            "Throttle for moves between log dirs.",
            labels=labels,
        )
        answers = GaugeMetricFamily(
            "spindle_agent_broker_answers", "1 while the broker reports its log dirs.", labels=labels
        )
        now = time.monotonic()
        for name, session in self._node.brokers():
            known = list(session.mover.moves.values())
            for state in State:
                moves.add_metric([*name, state.value], sum(each.state is state for each in known))
            copied.add_metric(name, sum(each.copied or 0 for each in known if each.state is State.COPYING))
            rate.add_metric(name, sum(each.rate or 0 for each in known if each.state is State.COPYING))
            if session.mover.busy and session.mover.throttle is not None:
                throttle.add_metric(name, session.mover.throttle)
            answers.add_metric(name, float(session.answered(now)))
        return moves, copied, rate, throttle, answers

    def _samples(self) -> Iterable[Metric]:
        labels = ("namespace", "broker")
        sent = CounterMetricFamily(
            "spindle_agent_samples_sent", "Records of samples written to Kafka.", labels=labels
        )
        dropped = CounterMetricFamily(
            "spindle_agent_samples_dropped",
            "Records of samples dropped while Kafka was unreachable.",
            labels=labels,
        )
        kept = GaugeMetricFamily(
            "spindle_agent_samples_kept", "Records of samples still to be sent.", labels=labels
        )
        for name, session in self._node.brokers():
            if session.sampler is not None:
                sent.add_metric(name, session.sampler.sent)
                dropped.add_metric(name, session.sampler.backlog.dropped)
                kept.add_metric(name, session.sampler.backlog.kept)
        return sent, dropped, kept

    def _agent(self, now: float) -> Iterable[Metric]:
        writes = CounterMetricFamily("spindle_agent_status_writes", "Status writes.")
        writes.add_metric([], self._publisher.writes)
        yield writes
        starved = GaugeMetricFamily(
            "spindle_agent_starved",
            "1 while the agent gets too little CPU to call a disk hung or slow.",
        )
        starved.add_metric([], float(bool(self._node.strain.fields())))
        yield starved
        for name, text, age in (
            ("heartbeat", "Seconds since the last renewal of the Lease.", self._heartbeat.age(now)),
            ("api", "Seconds since the last message from the API server.", self._brokers.silence(now)),
        ):
            if age is not None:
                family = GaugeMetricFamily(f"spindle_agent_{name}_age_seconds", text)
                family.add_metric([], age)
                yield family


def expose(state: NodeState) -> None:
    """Register the collector."""
    REGISTRY.register(state)
