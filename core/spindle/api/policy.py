"""Operating policies of a cluster: scheduling, disk monitoring, rebalancing, rolling restarts."""

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from spindle.api import quantity
from spindle.api.common import (
    Amount,
    ApiModel,
    Name,
    ShortText,
    Size,
    Toleration,
    atomic,
    hint,
    list_map,
    longest,
    rule,
    rules,
)
from spindle.api.engine import CRON, Engine, Rollup, Window
from spindle.api.samples import Samples
from spindle.api.scrub import Scrub
from spindle.api.thresholds import LastResortActions, Thresholds

_LABEL_KEY = "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"


# The broker setting by which Kafka lets consumers fetch from followers, and Kafka's class that chooses one in the consumer's rack.
REPLICA_SELECTOR: Final = "replica.selector.class"
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class Racks(ApiModel):
    """Which node label is the rack, and whether consumers fetch within it."""

    topology_key: Annotated[
        str,
        Field(
            json_schema_extra=rules(
                rule(
                    f"self.matches('{_LABEL_KEY}')",
                    "topologyKey is the key of a node label: write for example topology.kubernetes.io/zone",
                ),
                maxLength=317,
            )
        ),
    ] = Field(
        "topology.kubernetes.io/zone",
        description="Node label whose value is the broker's rack. Brokers and replicas are spread over its values.",
    )
    follower_fetching: bool = Field(
        False,
        description="Let consumers fetch from an in-sync replica in their own rack (KIP-392) if they set client.rack, in place of the leader. "
        "A change restarts the brokers.",
    )


class SecretRef(ApiModel):
    """A Secret in the same namespace."""

    name: Name = Field(description="Name of the Secret.")


class Scheduling(ApiModel):
    """Where pods may run."""

    tolerations: list[Toleration] = Field(
        default_factory=list,
        description="Tolerations of the pods. The taints not-ready and unreachable are always tolerated, without a time limit: Spindle "
        "decides when a broker is taken down.",
        json_schema_extra=atomic(most=32),
    )
    priority_class_name: Name | None = Field(None, description="PriorityClass of the pods.")
    image_pull_secrets: list[SecretRef] = Field(
        default_factory=list,
        description="Secrets for pulling the images.",
        json_schema_extra=list_map("name", most=16),
    )
    node_selector: dict[str, ShortText] = Field(
        default_factory=dict,
        description="Labels that a node must have to run a broker or a controller.",
        json_schema_extra={"maxProperties": 32},
    )
    shared_nodes: bool = Field(
        False,
        description="Allow several brokers of this cluster on one node when there are more brokers than nodes.",
    )


class DiskPolicy(ApiModel):
    """How disks are monitored, and when Spindle acts on them."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.hungAfterSeconds > self.probeIntervalSeconds",
                "hungAfterSeconds must be greater than probeIntervalSeconds, otherwise every slow write counts as a hung disk: write at "
                "least twice the interval; the defaults are 10 and 2",
                field=".hungAfterSeconds",
            ),
        )
    )

    thresholds: Thresholds = Field(
        default_factory=Thresholds,
        description="Usage thresholds at which Spindle acts.",
    )
    last_resort_actions: LastResortActions = Field(
        default_factory=LastResortActions,
        description="Actions on a disk that keeps filling although all else was tried. All are off by default.",
    )
    ballast: Amount | None = Field(
        None,
        description="Size of a ballast file on each disk, next to the log dir. Spindle deletes it as a last reserve when less than its size "
        "is free, and recreates it when four times its size is free. If unset, none.",
    )
    scrub: Scrub = Field(
        default_factory=Scrub,
        description="Scrubbing: how inactive segments are checked for corruption.",
    )
    probe_interval_seconds: int = Field(
        2,
        description="Seconds between two probes of a disk.",
        ge=1,
        le=60,
        json_schema_extra=hint("disks are probed every 1 to 60 seconds: write for example 2"),
    )
    hung_after_seconds: int = Field(
        10,
        description="A disk on which no write has completed for this many seconds is hung. Spindle then stops its broker, because Kafka "
        "itself would stay leader of partitions that cannot be written.",
        ge=2,
        le=600,
        json_schema_extra=hint(
            "a disk counts as hung after 2 to 600 seconds without a write: write for example 10"
        ),
    )
    grace_seconds: int = Field(
        600,
        description="Seconds that a broker with a hung disk may take to terminate before it counts as lost and its replicas are rebuilt "
        "elsewhere.",
        ge=0,
        le=86400,
        json_schema_extra=hint(
            "the grace time is between 0 seconds and a day (86400): write for example 600"
        ),
    )
    node_gone_after_seconds: int | None = Field(
        None,
        description="Seconds after which Spindle accepts the loss of the disks of a permanently lost node (its Node object is deleted or "
        "tainted node.kubernetes.io/out-of-service) without asking: replicas are rebuilt elsewhere, claims are deleted, volumes "
        "are kept. If unset, a user must agree with spec.acceptDataLoss.node of the KafkaBroker.",
        ge=0,
        le=604800,
        json_schema_extra=hint(
            "nodeGoneAfterSeconds is between 0 and a week (604800), or omitted so that a user must agree: write for example 3600"
        ),
    )
    automatic_share: int = Field(
        10,
        description="Percentage of the cluster's disks that may go bad within ten minutes (each broker counts once) before Spindle stops "
        "acting on them automatically: when many disks go bad together, the cause is the network, the kernel or Spindle. Two "
        "are always allowed.",
        ge=0,
        le=100,
        json_schema_extra=hint(
            "automaticShare is a percentage of the cluster's disks between 0 and 100: write for example 10"
        ),
    )
    move_bytes_per_second: int = Field(
        50_000_000,
        description="Upper limit in bytes per second that one broker sends, and that it receives, for replicas that Spindle moves to "
        "another broker, and for copies between its own disks. In-sync replicas are never throttled.",
        ge=1024,
        json_schema_extra=hint(
            "moveBytesPerSecond is a number of bytes, at least 1024: write for example 50000000",
            format="int64",
        ),
    )
    move_bytes_per_second_min: int = Field(
        1_000_000,
        description="Lower limit in bytes per second for such moves: however slow the disks become and whichever replicas fall behind, "
        "moves are not throttled below it. Between the limits the rate follows the load of the disks. If this is not less than "
        "moveBytesPerSecond, the rate is fixed at moveBytesPerSecond.",
        ge=1024,
        json_schema_extra=hint(
            "moveBytesPerSecondMin is a number of bytes, at least 1024: write for example 1000000",
            format="int64",
        ),
    )
    shared_filesystem: bool = Field(
        False,
        description="Allow several disks of a broker on one file system. For tests only: such disks fill up and fail together.",
    )

    @property
    def ballast_bytes(self) -> int:
        """Size of the ballast of each disk in bytes; 0 for none."""
        return quantity.whole(self.ballast) if self.ballast else 0


class Rebalance(ApiModel):
    """When and how replicas are moved to balance the cluster."""

    schedule: (
        Annotated[
            str,
            Field(
                json_schema_extra=rules(
                    rule(
                        f"self.matches('{CRON}')",
                        "schedule has the five cron fields (minute, hour, day, month, weekday) or is @daily: write for example '0 3 * * *' for "
                        "03:00 UTC each day",
                    ),
                    maxLength=128,
                )
            ),
        ]
        | None
    ) = Field(
        None,
        description="When a plan is computed, as a cron expression in UTC: '0 3 * * *'. If unset, no plans are computed automatically. A schedule "
        "also enables samples.",
    )
    approval: Literal["manual", "auto"] = Field(
        "manual",
        description="manual: a user approves each KafkaRebalance; auto: a KafkaRebalance within maxBytes and maxDurationMinutes is approved "
        "automatically.",
    )
    max_bytes: Size | None = Field(
        None,
        description="Upper limit of bytes that one plan may move; also the limit for automatic approval. A quantity: 500Gi. If unset, no "
        "limit.",
    )
    max_duration_minutes: int | None = Field(
        None,
        description="Upper limit of minutes that one plan may take; also the limit for automatic approval. A proposal whose execution exceeds it "
        "starts no more moves. If unset, no limit.",
        ge=1,
        le=10080,
        json_schema_extra=hint("a plan may take between 1 minute and a week (10080): write for example 240"),
    )
    windows: list[Window] = Field(
        default_factory=list,
        description="When moves may start, whether approved by a user or automatically. Moves in progress when a window closes are "
        "completed. If unset, at any time.",
        json_schema_extra=atomic(most=16),
    )
    lifetime_minutes: int = Field(
        1440,
        description="Minutes after which a proposal that was not started expires, because the state that it was computed from is out of date.",
        ge=10,
        le=10080,
        json_schema_extra=hint(
            "a proposal is valid for 10 minutes to a week (10080): write for example 1440 for a day"
        ),
    )
    engine: Engine = Field(
        default_factory=Engine,
        description="Image, resources and limits of the job that computes the plans.",
    )
    samples: Samples = Field(
        default_factory=Samples,
        description="Samples of brokers and disks that the agents publish; plans are computed from them.",
    )
    rollup: Rollup | None = Field(
        None,
        description="Hourly aggregates of samples, stored as Parquet for longer than the topic retains samples. If unset, none.",
    )

    @property
    def sampled(self) -> bool:
        """Whether samples are enabled, explicitly or by a schedule."""
        wanted = self.samples.enabled
        return self.schedule is not None if wanted is None else wanted


class RollingPolicy(ApiModel):
    """How brokers are restarted."""

    max_unavailable: int | None = Field(
        None,
        description="Maximum number of brokers that Spindle takes down at the same time, all in one rack. If unset, one twelfth of the "
        "brokers, rounded up. Regardless of this value, no partition falls below min.insync.replicas.",
        ge=1,
        le=100,
        json_schema_extra=hint(
            "maxUnavailable is between 1 and 100 brokers: write 1 to restart one at a time; to hold all restarts, "
            "write paused: true"
        ),
    )
    back_within_seconds: int = Field(
        600,
        description="Seconds within which a restarted broker or controller must be back in sync. After that, nothing else is restarted for "
        "a change until it is back in sync. The time of log recovery does not count.",
        ge=60,
        le=86400,
        json_schema_extra=hint(
            "backWithinSeconds is between a minute (60) and a day (86400): write for example 600"
        ),
    )
    restart: Annotated[str, Field(json_schema_extra=longest(64))] | None = Field(
        None,
        description="Any text. When it is changed or removed, Spindle restarts all controllers and brokers, one rack at a time (spindle rollout restart).",
    )
    soak_hours: int = Field(
        24,
        description="Hours that all nodes must run a new Kafka release before metadata.version is raised to it. Until then the cluster can "
        "be downgraded to the previous release.",
        ge=0,
        le=8760,
        json_schema_extra=hint(
            "soakHours is between 0 (metadata.version is raised at once) and a year (8760): write for example 24"
        ),
    )
