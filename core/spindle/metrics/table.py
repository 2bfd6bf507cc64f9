"""Every metric that Spindle's programs export: the one place that names them.

The exporters, the reference page (``docs/reference/metrics.md``), the alerts and the dashboards take names and labels from here, so that none of
them can name a metric that is not exported. Names follow Prometheus' conventions: base units, counters end in ``_total``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["gauge", "counter", "histogram"]

CLUSTER: Final = ("namespace", "kafka_cluster")
BROKER: Final = (*CLUSTER, "broker")
DISK: Final = (*BROKER, "disk")


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        name: as Prometheus stores it; of a histogram without ``_bucket``, ``_sum`` and ``_count``.
        help: one sentence (Markdown).
        labels: in the order of the exporters' values.
        buckets: upper bounds, of a histogram only.
        each: series of one object (a cluster, broker or disk), if that is a fixed number.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    each: int = 1

    @property
    def count(self) -> int:
        """Series of one object; a histogram also has the bucket +Inf, its sum and its count."""
        return self.each if self.kind != "histogram" else len(self.buckets) + 3

    @property
    def series(self) -> tuple[str, ...]:
        """The names of its series."""
        if self.kind != "histogram":
            return (self.name,)
        return tuple(f"{self.name}_{part}" for part in ("bucket", "sum", "count"))


@dataclass(frozen=True)
class MetricSection:
    """Metrics about one subject that the same program exports."""

    title: str
    about: str
    metrics: tuple[Metric, ...]


def _gauge(name: str, text: str, *labels: str, each: int = 1) -> Metric:
    return Metric(name, "gauge", text, labels, each=each)


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, "counter", text, labels)


BUILD_INFO: Final = _gauge(
    "spindle_build_info",
    "1; the labels have the program (`operator` or `agent`) and its version.",
    "component",
    "version",
)

# --- The operator itself

LEADER: Final = _gauge("spindle_leader", "1 on the replica that leads, 0 on the others.")
CLUSTERS: Final = _gauge("spindle_clusters", "KafkaClusters that the operator manages.")
RECONCILES: Final = _counter(
    "spindle_reconciles_total",
    "Passes by outcome: `acted`, `waiting`, `settled`, `failed`.",
    *CLUSTER,
    "outcome",
)
RECONCILE_DURATION: Final = Metric(
    "spindle_reconcile_duration_seconds",
    "histogram",
    "Duration of passes.",
    CLUSTER,
    (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
)
RECONCILE_AGE: Final = _gauge("spindle_reconcile_age_seconds", "Time since the last pass ended.", *CLUSTER)
ACTIONS: Final = _counter(
    "spindle_actions_total",
    "Actions by type and outcome: `done`; `gone` (the object no longer exists); `conflict` (it has changed since it was read, or exists already); "
    "`refused` (by a PodDisruptionBudget, a quota or the API server); `taken` (somebody else's object has the name); `partly`; `failed`; "
    "`stale` (the facts behind it were read too long ago; the next pass reads them again). "
    "The type `WriteStatus` counts only statuses that the API server refuses.",
    *CLUSTER,
    "type",
    "outcome",
)
KAFKA_FAILURES: Final = _counter(
    "spindle_kafka_call_failures_total", "Requests to Kafka that failed, by error.", *CLUSTER, "error"
)
LOOKS: Final = _counter(
    "spindle_looks_total",
    "How passes read Kubernetes: `cached` from watches, `listed` by lists, because something is to be written or was just written.",
    *CLUSTER,
    "how",
)
WATCH_MISSED: Final = _counter(
    "spindle_watch_missed_total",
    "Changes of objects that a watch did not report, found by comparison with a list every ten minutes.",
    "resource",
)
CLOCK_AHEAD: Final = _gauge(
    "spindle_node_clock_ahead_seconds",
    "How far the clock of an agent's node is ahead of the operator's.",
    "node",
)

# --- A KafkaCluster

CLUSTER_INFO: Final = _gauge(
    "spindle_cluster_info",
    "1; the labels have Kafka's cluster id, the release that all nodes run and the release of `metadata.version`.",
    *CLUSTER,
    "cluster_id",
    "kafka_version",
    "metadata_version",
)
PAUSED: Final = _gauge("spindle_cluster_paused", "1 while `spec.paused` is true.", *CLUSTER)
CONDITION: Final = _gauge(
    "spindle_cluster_condition",
    "1 for each condition of the KafkaCluster, with its current status (`True`, `False`, `Unknown`) and reason.",
    *CLUSTER,
    "condition",
    "status",
    "reason",
)
WAITING: Final = _gauge(
    "spindle_waiting",
    "1 for each entry of `status.waiting`: an action that is held back. `urgency` is `page`, `ticket` or `none`, as in the list of reasons; `broker` "
    "and `disk` are empty if the object does not belong to a broker or disk.",
    *DISK,
    "action",
    "object",
    "reason",
    "urgency",
)
PARTITIONS: Final = _gauge("spindle_partitions", "Partitions of the cluster.", *CLUSTER)
OFFLINE_PARTITIONS: Final = _gauge("spindle_offline_partitions", "Partitions without a leader.", *CLUSTER)
UNDER_MIN_ISR: Final = _gauge(
    "spindle_under_min_isr_partitions",
    "Partitions with fewer in-sync replicas than `min.insync.replicas`: Kafka rejects writes with acks=all.",
    *CLUSTER,
)
CONTROLLERS: Final = _gauge(
    "spindle_controllers", "Controllers that the spec asks for (`spec.controllers.replicas`).", *CLUSTER
)
VOTER_CAUGHT_UP: Final = _gauge(
    "spindle_quorum_voter_caught_up",
    "1 if a voter of the controller quorum caught up with the leader within the last three seconds, 0 if not.",
    *CLUSTER,
    "controller",
)
VOTER_LAG: Final = _gauge(
    "spindle_quorum_voter_lag_records",
    "Records of the metadata log that a voter lacks.",
    *CLUSTER,
    "controller",
)
REBALANCES: Final = _gauge(
    "spindle_rebalances", "KafkaRebalances that are not finished, by phase.", *CLUSTER, "phase"
)
REBALANCED: Final = _gauge(
    "spindle_rebalance_moved_bytes", "Bytes that the KafkaRebalances in progress have moved.", *CLUSTER
)
TOPICS: Final = _gauge(
    "spindle_topics",
    "KafkaTopics by state: `ready` (the topic is as its spec says), `stalled` (only you can resolve it), `waiting`; absent without KafkaTopics.",
    *CLUSTER,
    "state",
    each=3,
)
TOPIC_BYTES: Final = _gauge(
    "spindle_topic_replica_bytes",
    "Bytes of all replicas of a topic of `spec.metrics.topics`, without those on dead disks; absent while a broker that holds one does not answer.",
    *CLUSTER,
    "topic",
)
CONSUMER_LAG: Final = _gauge(
    "kafka_consumergroup_lag",
    "Records between the offset that a consumer group committed and the end of the partition; only with `spec.metrics.consumerLag`. The name and labels are those of kafka_exporter. "
    "Absent while the group's coordinator or the partition's leader does not answer, and while the committed offset is beyond the end.",
    *CLUSTER,
    "consumergroup",
    "topic",
    "partition",
)
LAG_GROUPS: Final = _gauge(
    "spindle_consumer_lag_groups",
    "Consumer groups of the last reading by outcome: `exported`; `left_out`, since there would be more than 10,000 series; `unread`, since the coordinator did not report the group's offsets.",
    *CLUSTER,
    "outcome",
)

# --- Brokers

BROKER_INFO: Final = _gauge(
    "spindle_broker_info",
    "1; the labels have Kafka's broker id, the pool, rack, node and pod of the broker.",
    *BROKER,
    "broker_id",
    "pool",
    "rack",
    "node",
    "pod",
)
BROKER_STATE: Final = _gauge(
    "spindle_broker_state", "1 for the current `status.state` of the KafkaBroker.", *BROKER, "state"
)
MAINTENANCE: Final = _gauge(
    "spindle_broker_maintenance", "1 while `spec.maintenance.stopped` of the KafkaBroker is true.", *BROKER
)
AGENT_UP: Final = _gauge(
    "spindle_broker_agent_up",
    "1 while the agent on the broker's node renews its Lease, 0 if it does not; absent while that is not known, and without agents.",
    *BROKER,
    "node",
)
START: Final = _gauge(
    "spindle_broker_start_seconds",
    "Time from the start of the running broker until it was in sync; `kind` says how it started: `Clean`, `Dirty`, `Empty` or `Unknown`.",
    *BROKER,
    "kind",
)
LOADING: Final = _gauge(
    "spindle_broker_logs_to_load", "Logs that a starting broker still has to load.", *BROKER
)

# --- Disks, as the operator sees them

DISK_INFO: Final = _gauge(
    "spindle_disk_info",
    "1; the labels say where the disk is, for joins with other exporters.",
    *DISK,
    "rack",
    "node",
    "device",
    "persistentvolumeclaim",
    "persistentvolume",
    "pod",
)
DISK_STATE: Final = _gauge("spindle_disk_state", "1 for the current state of the disk.", *DISK, "state")
DISK_STATE_SINCE: Final = _gauge(
    "spindle_disk_state_timestamp_seconds", "Unix time at which the disk entered its state.", *DISK
)
DISK_LEVEL: Final = _gauge(
    "spindle_disk_usage_level", "1 for the current usage level of the disk.", *DISK, "level"
)
DISK_CAPACITY: Final = _gauge(
    "spindle_disk_capacity_bytes", "Size of the file system, as Kafka reports it.", *DISK
)
DISK_USED: Final = _gauge("spindle_disk_used_bytes", "Used bytes of the file system, likewise.", *DISK)
DISK_REPLICAS: Final = _gauge(
    "spindle_disk_replicas",
    "Replicas on the disk. On a dead disk, those that its broker should have and has on no other disk.",
    *DISK,
)
DISK_REPLICA_BYTES: Final = _gauge(
    "spindle_disk_replica_bytes", "Bytes of the replicas on the disk; absent for a dead disk.", *DISK
)

# --- Disks, as the agent of the node sees them

AGENT_VERDICT: Final = _gauge(
    "spindle_agent_disk_verdict", "1 for the current verdict on the disk.", *DISK, "verdict"
)
AGENT_PROBES: Final = Metric(
    "spindle_agent_probe_seconds",
    "histogram",
    "Time to write, flush and read back one block.",
    DISK,
    (0.001, 0.005, 0.02, 0.1, 0.5, 2, 10),
)
AGENT_PENDING: Final = _gauge(
    "spindle_agent_disk_pending_seconds",
    "How long the disk has not answered; 0 if it answers.",
    *DISK,
)
AGENT_LATENCY: Final = _gauge(
    "spindle_agent_disk_request_seconds",
    "Mean time of a request to the device over the last ten seconds.",
    *DISK,
)
AGENT_PEERS: Final = _gauge(
    "spindle_agent_disk_peers_request_seconds",
    "Median of the mean request times of the node's other disks.",
    *DISK,
)
AGENT_CAPACITY: Final = _gauge("spindle_agent_disk_capacity_bytes", "Size of the file system.", *DISK)
AGENT_USED: Final = _gauge("spindle_agent_disk_used_bytes", "Used bytes of the file system.", *DISK)
AGENT_GROWTH: Final = _gauge(
    "spindle_agent_disk_growth_bytes_per_second",
    "Forecast growth of the disk's usage; negative while usage decreases.",
    *DISK,
)
AGENT_THRESHOLD: Final = _gauge(
    "spindle_agent_disk_threshold_seconds",
    'Time until the disk reaches a threshold (`warn`, `move`, `cordon`, `blockProducers`): the forecast (`bound="at"`), and a range that holds in four '
    "of five cases (`low`, `high`); +Inf for never, 0 if it has reached it.",
    *DISK,
    "threshold",
    "bound",
    each=12,
)
SCRUB_READ: Final = _counter("spindle_agent_scrub_read_bytes_total", "Bytes read to check segments.", *DISK)
SCRUB_SEGMENTS: Final = _counter("spindle_agent_scrub_segments_total", "Checked segments.", *DISK)
SCRUB_CHECKED: Final = _gauge(
    "spindle_agent_scrub_checked_ratio",
    "Share of the bytes of inactive segments checked within `spec.disks.scrub.everyDays`.",
    *DISK,
)
SCRUB_UNCHECKED: Final = _gauge(
    "spindle_agent_scrub_unchecked_seconds",
    "Longest time that a segment has been unchecked, since its last check or its last write.",
    *DISK,
)
SCRUB_CORRUPT: Final = _gauge("spindle_agent_scrub_corrupt_segments", "Corrupt segments found.", *DISK)

# --- Brokers, as the agent of the node sees them

AGENT_MOVES: Final = _gauge(
    "spindle_agent_moves", "Moves between disks of the broker by state.", *BROKER, "state", each=4
)
AGENT_COPIED: Final = _gauge(
    "spindle_agent_moves_copied_bytes", "Bytes that the running moves have copied.", *BROKER
)
AGENT_RATE: Final = _gauge(
    "spindle_agent_moves_bytes_per_second",
    "Rate of the running moves, averaged over the last half minute.",
    *BROKER,
)
AGENT_THROTTLE: Final = _gauge(
    "spindle_agent_moves_throttle_bytes_per_second", "Their throttle; only while moves run.", *BROKER
)
AGENT_ANSWERS: Final = _gauge(
    "spindle_agent_broker_answers", "1 while the broker reports its log dirs.", *BROKER
)
SAMPLES_SENT: Final = _counter(
    "spindle_agent_samples_sent_total", "Records of samples written to Kafka.", *BROKER
)
SAMPLES_DROPPED: Final = _counter(
    "spindle_agent_samples_dropped_total", "Records dropped while Kafka was unreachable.", *BROKER
)
SAMPLES_KEPT: Final = _gauge("spindle_agent_samples_kept", "Records of samples still to be sent.", *BROKER)

# --- The agent itself

STATUS_WRITES: Final = _counter("spindle_agent_status_writes_total", "Status updates written.")
STARVED: Final = _gauge(
    "spindle_agent_starved",
    "1 while the machine gives the agent too little CPU time to report a disk as hung or slow.",
)
HEARTBEAT_AGE: Final = _gauge(
    "spindle_agent_heartbeat_age_seconds", "Time since the agent's Lease was renewed."
)
API_AGE: Final = _gauge("spindle_agent_api_age_seconds", "Time since the API server last answered.")

# --- Kafka's pods

START_KIND: Final = _gauge(
    "spindle_start",
    "1; `kind` says how the running Kafka process found its logs: `Clean`, `Dirty` or `Empty`.",
    "kind",
)

OF_BOTH: Final = (MetricSection("Operator and agents", "Both programs export this one.", (BUILD_INFO,)),)
OF_OPERATOR: Final = (
    MetricSection(
        "The operator",
        "All but `spindle_leader` come from the replica that leads.",
        (
            LEADER,
            CLUSTERS,
            RECONCILES,
            RECONCILE_DURATION,
            RECONCILE_AGE,
            ACTIONS,
            KAFKA_FAILURES,
            LOOKS,
            WATCH_MISSED,
            CLOCK_AHEAD,
        ),
    ),
    MetricSection(
        "KafkaClusters",
        "As of the last pass of the operator. A figure that Kafka does not report is absent, not zero.",
        (
            CLUSTER_INFO,
            PAUSED,
            CONDITION,
            WAITING,
            PARTITIONS,
            OFFLINE_PARTITIONS,
            UNDER_MIN_ISR,
            CONTROLLERS,
            VOTER_CAUGHT_UP,
            VOTER_LAG,
            REBALANCES,
            REBALANCED,
            TOPICS,
            TOPIC_BYTES,
            CONSUMER_LAG,
            LAG_GROUPS,
        ),
    ),
    MetricSection(
        "Brokers",
        "As of the last pass of the operator. `broker` is the name of the KafkaBroker, which is also that of its pod.",
        (BROKER_INFO, BROKER_STATE, MAINTENANCE, AGENT_UP, START, LOADING),
    ),
    MetricSection(
        "Disks",
        "As of the last pass of the operator. [Disk states](disk-life.md) and [full disks](../full-disks.md) explain states and levels.",
        (
            DISK_INFO,
            DISK_STATE,
            DISK_STATE_SINCE,
            DISK_LEVEL,
            DISK_CAPACITY,
            DISK_USED,
            DISK_REPLICAS,
            DISK_REPLICA_BYTES,
        ),
    ),
)
OF_AGENT: Final = (
    MetricSection(
        "Disks, from the agents",
        "Computed at each scrape, for the disks that the agent of the node can [probe](../agent.md).",
        (
            AGENT_VERDICT,
            AGENT_PROBES,
            AGENT_PENDING,
            AGENT_LATENCY,
            AGENT_PEERS,
            AGENT_CAPACITY,
            AGENT_USED,
            AGENT_GROWTH,
            AGENT_THRESHOLD,
            SCRUB_READ,
            SCRUB_SEGMENTS,
            SCRUB_CHECKED,
            SCRUB_UNCHECKED,
            SCRUB_CORRUPT,
        ),
    ),
    MetricSection(
        "Brokers, from the agents",
        "[Moves](../moves.md) between disks of a broker, and [samples](../samples.md).",
        (
            AGENT_MOVES,
            AGENT_COPIED,
            AGENT_RATE,
            AGENT_THROTTLE,
            AGENT_ANSWERS,
            SAMPLES_SENT,
            SAMPLES_KEPT,
            SAMPLES_DROPPED,
        ),
    ),
    MetricSection("The agents", "", (STATUS_WRITES, STARVED, HEARTBEAT_AGE, API_AGE)),
)
OF_KAFKA: Final = (
    MetricSection(
        "Kafka's pods",
        "Port 9404 has Kafka's own metrics, those of the Java process (`jvm_*`, `process_*`) and one of Spindle. Kafka's have the names that dashboards for the JMX "
        "exporter commonly use: the bean's domain, type and name in lower case, such as `kafka_server_replicamanager_underreplicatedpartitions`. A meter is a counter: "
        "`BytesInPerSec` is `kafka_server_brokertopicmetrics_bytesin_total`. Of a histogram or timer there are percentiles as a gauge with the label `quantile` "
        "(`0.50`, `0.95`, `0.99`, `0.999`) and a counter of its values, such as `kafka_network_requestmetrics_totaltimems` and "
        "`kafka_network_requestmetrics_totaltimems_count_total`. A name that ends in `_percent` is a ratio from 0 to 1. Metrics of partitions are left out, and so are those of topics, except of those in "
        "`spec.metrics.topics` ([topics](../monitoring.md#topics)): for each of these, a broker that leads a partition of it exports "
        "`kafka_server_brokertopicmetrics_bytesin_total`, `_bytesout_total`, `_messagesin_total`, `_totalproducerequests_total`, `_totalfetchrequests_total`, "
        "`_failedproducerequests_total` and `_failedfetchrequests_total` with the label `topic`, each once it has counted something, beside the sums over all topics, which have no such label.",
        (START_KIND,),
    ),
)
SECTIONS: Final = (*OF_BOTH, *OF_OPERATOR, *OF_AGENT, *OF_KAFKA)


def all_metrics() -> Iterator[Metric]:
    """Every metric, in the order of the reference page."""
    for section in SECTIONS:
        yield from section.metrics
