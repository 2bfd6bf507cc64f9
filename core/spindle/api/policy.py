"""How a cluster is run: where its pods go, how its disks are watched, when replicas move, how brokers restart."""

from itertools import pairwise
from typing import Annotated, Literal

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
    rule,
    rules,
)
from spindle.api.engine import CRON, Engine, Rollup, Window
from spindle.api.samples import Samples
from spindle.api.scrub import Scrub

_LABEL_KEY = "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"


class Racks(ApiModel):
    """What a rack is."""

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
        description="The node label whose value is the broker's rack. Brokers and replicas are spread over its values.",
    )


class SecretRef(ApiModel):
    """A Secret in the same namespace."""

    name: Name = Field(description="Name of the Secret.")


class Scheduling(ApiModel):
    """Where pods may run."""

    tolerations: list[Toleration] = Field(
        default_factory=list,
        description="Taints that the pods put up with. Not-ready and unreachable nodes are always tolerated, without "
        "limit: when a broker goes down is Spindle's to say.",
        json_schema_extra=atomic(most=32),
    )
    priority_class_name: Name | None = Field(None, description="PriorityClass of the pods.")
    image_pull_secrets: list[SecretRef] = Field(
        default_factory=list,
        description="Secrets with which the images are pulled.",
        json_schema_extra=list_map("name", most=16),
    )
    node_selector: dict[str, ShortText] = Field(
        default_factory=dict,
        description="Labels that a node must have to get a broker or a controller.",
        json_schema_extra={"maxProperties": 32},
    )
    shared_nodes: bool = Field(
        False,
        description="Let several brokers of this cluster share a node when there are more brokers than nodes.",
    )


_PERCENT = "thresholds are percentages of the disk between 1 and 99: write for example 85"


def _less(one: str, other: str) -> dict[str, str]:
    """A rule that of two amounts the one has to be less than the other, where both are given and are amounts."""
    return rule(
        f"!has(self.{one}) || !has(self.{other}) || !isQuantity(self.{one}) || !isQuantity(self.{other}) || "
        f"quantity(self.{one}).isLessThan(quantity(self.{other}))",
        f"the later a step comes, the less is free: {one} must be less than {other}",
        field=f".{one}",
    )


class FreeThresholds(ApiModel):
    """Bytes free on a disk below which something is done. What is left out is judged by per cent alone."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            *(
                _less(later, sooner)
                for sooner, later in pairwise(("warn", "move", "cordon", "rejectMoves", "blockProducers"))
            )
        )
    )

    warn: Amount | None = Field(None, description="Warn when less is free, a quantity: 300Gi.")
    move: Amount | None = Field(None, description="Move replicas away when less is free.")
    cordon: Amount | None = Field(None, description="Cordon the disk when less is free.")
    reject_moves: Amount | None = Field(None, description="Refuse moves that would leave less free.")
    block_producers: Amount | None = Field(
        None, description="The last step, where it is turned on, when less is free."
    )


class Thresholds(ApiModel):
    """Fill levels of a disk at which something is done: in per cent, and as bytes free. The stricter one counts."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.warn < self.move && self.move < self.cordon && self.cordon < self.rejectMoves && self.rejectMoves < self.blockProducers",
                "thresholds must rise: warn < move < cordon < rejectMoves < blockProducers, as the defaults 70, 80, 85, 90, 95 do",
            ),
            rule(
                "self.hysteresis < self.warn",
                "hysteresis is how far below a threshold the fill must fall before its step is undone: write less than warn, by default 5",
                field=".hysteresis",
            ),
        )
    )

    warn: int = Field(
        70, description="Warn, in per cent of the disk.", ge=1, le=99, json_schema_extra=hint(_PERCENT)
    )
    move: int = Field(
        80,
        description="Move replicas away, first to other disks of the broker, in per cent of the disk.",
        ge=1,
        le=99,
        json_schema_extra=hint(_PERCENT),
    )
    cordon: int = Field(
        85,
        description="Cordon the disk: nothing new is placed on it, in per cent of the disk.",
        ge=1,
        le=99,
        json_schema_extra=hint(_PERCENT),
    )
    reject_moves: int = Field(
        90,
        description="Refuse moves that would fill the disk above this, in per cent of the disk.",
        ge=1,
        le=99,
        json_schema_extra=hint(_PERCENT),
    )
    block_producers: int = Field(
        95,
        description="The last step, where it is turned on: clients are stopped, in per cent of the disk.",
        ge=1,
        le=99,
        json_schema_extra=hint(_PERCENT),
    )
    hysteresis: int = Field(
        5,
        description="How far the fill must fall below a threshold before its step is undone, in percentage points.",
        ge=1,
        le=20,
        json_schema_extra=hint(
            "hysteresis is how far below a threshold the fill must fall before its step is undone, between 1 and 20 "
            "percentage points: write for example 5"
        ),
    )
    free: FreeThresholds = Field(
        default_factory=FreeThresholds,
        description="The same steps by bytes free. Whichever is reached first counts.",
    )


class LastResortActions(ApiModel):
    """Steps against a full disk that touch users' data or their clients; each has to be turned on."""

    reduce_retention: bool = Field(
        False,
        description="Halve the retention of the topics that fill the disk, by time and by size, for as long as it is that full. "
        "Older records are lost.",
    )
    delete_records: bool = Field(
        False,
        description="Delete the oldest records of the partitions on the disk, until it is below its threshold. "
        "They are lost. Topics that are only compacted are left alone.",
    )
    throttle_producers: bool = Field(
        False,
        description="Slow down all users that have no quota of their own, on every broker, for as long as a disk is that full.",
    )
    block_producers: bool = Field(
        False,
        description="Stop producers of the topics that have a replica on the disk: they get MESSAGE_TOO_LARGE until there is "
        "room again. The broker keeps its disk.",
    )


class DiskPolicy(ApiModel):
    """How disks are watched and when something is done about them."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.hungAfterSeconds > self.probeIntervalSeconds",
                "hungAfterSeconds must be longer than probeIntervalSeconds, else every slow write is a hung disk: "
                "write at least twice the interval, by default 10 and 2",
                field=".hungAfterSeconds",
            ),
        )
    )

    thresholds: Thresholds = Field(
        default_factory=Thresholds,
        description="Fill levels at which something is done.",
    )
    last_resort_actions: LastResortActions = Field(
        default_factory=LastResortActions,
        description="What may be done about a disk that fills though all else was tried. All of it is off by default.",
    )
    ballast: Amount | None = Field(
        None,
        description="Size of a file on each disk, beside the log dir, that takes up room until the disk has less than that left: "
        "then it is deleted, a last reserve. It is made again when four times as much is free. Left out, none.",
    )
    scrub: Scrub = Field(
        default_factory=Scrub,
        description="How segments that nobody writes to any more are checked for what disks do to them.",
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
        description="A disk on which no write completed for so many seconds is hung. Its broker is stopped then, "
        "since Kafka itself would go on as the leader of partitions that nobody can write to.",
        ge=2,
        le=600,
        json_schema_extra=hint(
            "a disk counts as hung after 2 to 600 seconds without a write: write for example 10"
        ),
    )
    grace_seconds: int = Field(
        600,
        description="Seconds that a broker with a hung disk may take to end before it counts as lost and its replicas "
        "are rebuilt elsewhere.",
        ge=0,
        le=86400,
        json_schema_extra=hint(
            "the grace time is between 0 seconds and a day (86400): write for example 600"
        ),
    )
    node_gone_after_seconds: int | None = Field(
        None,
        description="Seconds after which the disks of a node that is gone for good (its Node object is deleted, or tainted "
        "node.kubernetes.io/out-of-service) are given up by themselves: replicas are made anew elsewhere, claims go, volumes are "
        "kept. Left out, a person has to agree, by spec.acceptDataLoss.node of the KafkaBroker.",
        ge=0,
        le=604800,
        json_schema_extra=hint(
            "between 0 seconds and a week (604800), or left out so that a person has to agree: write for example 3600"
        ),
    )
    automatic_share: int = Field(
        10,
        description="How many of the cluster's disks, in per cent, may go bad within ten minutes (each broker counted "
        "once) before nothing is done about them by itself any more: when many go bad together, it is the network, "
        "the kernel or Spindle that is at fault. Two always may.",
        ge=0,
        le=100,
        json_schema_extra=hint(
            "automaticShare is a percentage of the cluster's disks between 0 and 100: write for example 10"
        ),
    )
    move_bytes_per_second: int = Field(
        50_000_000,
        description="Most bytes per second that one broker sends, and that it takes, for replicas that Spindle moves to "
        "another broker; and most that it copies between its own disks. Replicas that are in sync are never held back.",
        ge=1024,
        json_schema_extra=hint(
            "moveBytesPerSecond is a number of bytes, at least 1024: write for example 50000000",
            format="int64",
        ),
    )
    move_bytes_per_second_min: int = Field(
        1_000_000,
        description="Least bytes per second for such moves: however slow the disks become by them, and whoever falls behind, "
        "they are not throttled below this. In between, the rate follows what the disks feel. Where this is not less than "
        "moveBytesPerSecond, the rate is fixed at that.",
        ge=1024,
        json_schema_extra=hint(
            "moveBytesPerSecondMin is a number of bytes, at least 1024: write for example 1000000",
            format="int64",
        ),
    )
    shared_filesystem: bool = Field(
        False,
        description="Accept several disks of a broker on one file system. For trying things out: such disks fill and "
        "fail together.",
    )

    @property
    def ballast_bytes(self) -> int:
        """The ballast of each disk in bytes; 0 for none."""
        return quantity.whole(self.ballast) if self.ballast else 0


class Rebalance(ApiModel):
    """When and how replicas are moved for balance."""

    schedule: (
        Annotated[
            str,
            Field(
                json_schema_extra=rules(
                    rule(
                        f"self.matches('{CRON}')",
                        "schedule has the five fields of cron (minute, hour, day, month, weekday) or is @daily: write "
                        "for example '0 3 * * *' for three o'clock each night",
                    ),
                    maxLength=128,
                )
            ),
        ]
        | None
    ) = Field(
        None,
        description="When a plan is made, as cron writes it, in UTC: '0 3 * * *'. Left out, never by itself. A "
        "schedule also turns on samples.",
    )
    approval: Literal["manual", "auto"] = Field(
        "manual",
        description="manual: a person approves each KafkaRebalance; auto: it is approved by itself if it keeps maxBytes and "
        "maxDurationMinutes.",
    )
    max_bytes: Size | None = Field(
        None,
        description="Most bytes that one plan may move, and that is approved by rule, a quantity: 500Gi. Left out, no limit.",
    )
    max_duration_minutes: int | None = Field(
        None,
        description="Most minutes that one plan may take, and that is approved by rule. What takes longer when it is carried out begins "
        "nothing more. Left out, no limit.",
        ge=1,
        le=10080,
        json_schema_extra=hint("a plan may take between 1 minute and a week (10080): write for example 240"),
    )
    windows: list[Window] = Field(
        default_factory=list,
        description="When moves may begin, whoever approved them. What is in motion when a window closes goes on to its end. Left "
        "out, at any time.",
        json_schema_extra=atomic(most=16),
    )
    lifetime_minutes: int = Field(
        1440,
        description="Minutes after which a proposal that was not begun expires: what it was made from is no longer so.",
        ge=10,
        le=10080,
        json_schema_extra=hint(
            "a proposal holds between 10 minutes and a week (10080): write for example 1440 for a day"
        ),
    )
    engine: Engine = Field(
        default_factory=Engine,
        description="Where and with what the job that makes the plans runs.",
    )
    samples: Samples = Field(
        default_factory=Samples,
        description="What the agents publish of brokers and disks, from which plans are made.",
    )
    rollup: Rollup | None = Field(
        None,
        description="Hours of what samples showed, kept as Parquet for longer than the topic keeps samples. Left out, none are.",
    )

    @property
    def sampled(self) -> bool:
        """Whether samples are wanted."""
        wanted = self.samples.enabled
        return self.schedule is not None if wanted is None else wanted


class RollingPolicy(ApiModel):
    """How brokers are restarted."""

    max_unavailable: int | None = Field(
        None,
        description="Most brokers that Spindle takes down at once, all of one rack. Left out, a twelfth of the brokers, rounded up. "
        "Whatever it says, no partition goes below its minimum of in-sync replicas.",
        ge=1,
        le=100,
        json_schema_extra=hint(
            "maxUnavailable is between 1 and 100 brokers: write 1 to restart one at a time; to hold all restarts, "
            "write paused: true"
        ),
    )
    back_within_seconds: int = Field(
        600,
        description="Seconds in which a broker or controller that was restarted has to be back in sync. After that nothing else is "
        "restarted for a change until it is; time in which it recovers its logs does not count.",
        ge=60,
        le=86400,
        json_schema_extra=hint(
            "backWithinSeconds is between a minute (60) and a day (86400): write for example 600"
        ),
    )
    soak_hours: int = Field(
        24,
        description="Hours for which all nodes have to run a new release of Kafka before metadata.version is raised to it. Until then "
        "the cluster can go back to the release before.",
        ge=0,
        le=8760,
        json_schema_extra=hint(
            "soakHours is between 0, which raises metadata.version at once, and a year (8760): write for example 24"
        ),
    )


class Metrics(ApiModel):
    """What can be measured."""

    enabled: bool = Field(
        True,
        description="Offer the metrics of brokers and controllers to Prometheus, on port 9404. If not, the port is open inside of their pods alone.",
    )
