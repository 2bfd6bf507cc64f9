"""The reference page of all metrics, from the table in core."""

from collections.abc import Iterable

from spindle.api.metrics import MAX_TOPICS
from spindle.metrics import table
from spindle.metrics.consumer_lag import MAX_SERIES
from spindle.metrics.table import SECTIONS, Metric

_HEAD = "<!-- Generated from core/spindle/metrics/table.py by `make generate`. Change the table, not this file. -->\n\n"
_BROKERS, _DISKS = 1000, 12_000
# Series of Kafka's pods, as tests/kafka/test_kafka_metrics.py counts them: of a broker without its disks (rounded up), and of each disk.
KAFKA_BROKER, KAFKA_DISK = 400, 4
KAFKA_TOPIC = 7  # at most, of a topic of spec.metrics.topics, on each broker that leads a partition of it
_ABOUT = """\
What Spindle's programs export on `/metrics`. [Monitoring](../monitoring.md) describes how Prometheus finds them, [Alerts](alerts.md) what is made of
them. Metrics about a KafkaCluster have the labels `namespace` and `kafka_cluster`, those about a broker also `broker` (the name of its KafkaBroker and pod), those about
a disk also `disk`.
"""


def metrics_page() -> str:
    """Render the page as Markdown."""
    parts = [f"{_HEAD}# Metrics\n", _ABOUT]
    for section in SECTIONS:
        parts += [f"## {section.title}\n"]
        if section.about:
            parts += [f"{section.about}\n"]
        parts += [_table(section.metrics)]
    return "\n".join([*parts, _series()])


def _table(metrics: Iterable[Metric]) -> str:
    rows = [
        f"| `{m.name}` | {m.kind} | {', '.join(f'`{label}`' for label in m.labels)} | {m.help} |"
        for m in metrics
    ]
    return "\n".join(["| Metric | Type | Labels | Meaning |", "| --- | --- | --- | --- |", *rows, ""])


def _series() -> str:
    """The number of series of a large cluster."""
    operator = [metric for section in table.OF_OPERATOR for metric in section.metrics]
    agent = [metric for section in table.OF_AGENT for metric in section.metrics]
    rows = []
    total = 0
    for title, disk, broker in (
        ("operator", _of(operator, "disk"), _of(operator, "broker")),
        ("agents", _of(agent, "disk"), _of(agent, "broker")),
        ("Kafka's pods", KAFKA_DISK, KAFKA_BROKER),
    ):
        sum_ = _DISKS * disk + _BROKERS * broker
        total += sum_
        rows.append(f"| {title} | {disk} | {broker} | {sum_:,} |")
    large = (
        f"A cluster of {_BROKERS:,} brokers with {_DISKS:,} disks, all of them in use, with agents, scrubbing and samples, has about {total:,} series of disks and "
        "brokers. An entry of `status.waiting` adds one. In Kafka's pods each version of a request that clients use adds one to a broker. "
        f"A topic of `spec.metrics.topics` adds at most {KAFKA_TOPIC} to each broker that leads a partition of it, and 1 to the operator: at most {MAX_TOPICS} topics, so "
        f"{MAX_TOPICS * KAFKA_TOPIC:,} to a broker. `spec.metrics.consumerLag` adds one to the operator for each partition of which a group committed an offset: at most "
        f"{MAX_SERIES:,} for a KafkaCluster."
    )
    head = (
        f"| exported by | for each disk | for each broker | for {_BROKERS:,} brokers and {_DISKS:,} disks |"
    )
    return "\n".join(["## Number of series\n", f"{large}\n", head, "| --- | ---: | ---: | ---: |", *rows, ""])


def _of(metrics: Iterable[Metric], lowest: str) -> int:
    """Series of one object whose last label of identity is this; `spindle_waiting` and a starting broker's do not count."""
    order = table.DISK
    not_always = (table.WAITING, table.LOADING)
    return sum(
        metric.count
        for metric in metrics
        if metric not in not_always and [label for label in order if label in metric.labels][-1:] == [lowest]
    )
