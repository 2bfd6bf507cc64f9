"""KafkaCluster: what the user wants, and what is."""

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from spindle.api.common import (
    BOUNDS,
    ApiModel,
    Condition,
    Count,
    KafkaId,
    Name,
    NodeId,
    ObjectMeta,
    ResourceRequirements,
    Sentence,
    Short,
    Size,
    Time,
    Toleration,
    atomic,
    conditions_field,
    hint,
    list_map,
    longest,
    rule,
    rules,
)
from spindle.api.config_rules import config_rules
from spindle.cluster.names import API_VERSION

MAX_POOLS = 12  # more, and the API server finds the quantities' rules too dear
MAX_DISKS = 64
MAX_BROKERS = 8999

_LABEL_KEY = "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"

Config = Annotated[
    dict[str, Annotated[str, Field(json_schema_extra=longest(4096))]],
    Field(json_schema_extra=rules(*config_rules(), maxProperties=128)),
]


def _fixed(field: str, message: str) -> dict[str, str]:
    """A rule that an optional field never changes, not even from or to nothing."""
    return rule(
        f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})",
        message,
        field=f".{field}",
    )


def _no_shrink(otherwise: str) -> dict[str, str]:
    """A rule that a size never goes down. It holds its tongue about what is no size; the field's own rule says that."""
    return rule(
        "!isQuantity(self.size) || !isQuantity(oldSelf.size) || "
        "quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0",
        f"a disk cannot shrink: leave the size or make it larger{otherwise}",
        say=(
            "'a disk cannot shrink from ' + oldSelf.size + ' to ' + self.size + "
            f"': leave the size or make it larger{otherwise}'"
        ),
        field=".size",
    )


class Storage(ApiModel):
    """The disk of a controller."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            _no_shrink(""),
            _fixed(
                "storageClass",
                "the controllers' storage class cannot be changed, their claims are bound to volumes of it: "
                "put the former one back",
            ),
        )
    )

    size: Size = Field(
        description="Size of the volume, a quantity of at least 64Mi: 1Gi. It may grow, never shrink."
    )
    storage_class: Name | None = Field(
        None,
        description="StorageClass of the volume. Left out, the cluster's default one. It cannot be changed later.",
    )


Heap = Annotated[
    str,
    Field(
        json_schema_extra=rules(
            rule(
                "self.matches('^[1-9][0-9]*[kKmMgG]$')",
                "heap is a size as Java writes it, a whole number and k, m or g: write for example 512m or 4g (not 4Gi)",
            ),
            maxLength=16,
        )
    ),
]
_HEAP = "Size of the heap, least and most alike (-Xms, -Xmx), as Java writes it: 512m or 4g."


class Jvm(ApiModel):
    """Options of the Java virtual machine."""

    options: list[
        Annotated[
            str,
            Field(
                json_schema_extra=rules(
                    rule(
                        "self.startsWith('-') && !self.matches('[ \\t\\n]')",
                        "a JVM option begins with a dash and holds no blank: write each option as an item of its own, "
                        "for example -XX:+UseZGC",
                    ),
                    rule(
                        "!self.startsWith('-Xmx') && !self.startsWith('-Xms')",
                        "the heap's size has a field of its own: write jvm.heap instead of -Xmx and -Xms",
                    ),
                    maxLength=256,
                )
            ),
        ]
    ] = Field(
        default_factory=list,
        description="More options for the virtual machine, one an item: -XX:+UseZGC.",
        json_schema_extra=atomic(most=32),
    )


class ControllerJvm(Jvm):
    """Options of a controller's Java virtual machine."""

    heap: Heap = Field("384m", description=_HEAP)


class BrokerJvm(Jvm):
    """Options of a broker's Java virtual machine."""

    heap: Heap = Field(
        "1g",
        description=f"{_HEAP} Kafka leaves most of the memory to the page cache; more than 6g is seldom of use.",
    )


class Controllers(ApiModel):
    """The controllers, which keep the cluster's metadata."""

    replicas: Annotated[
        int,
        Field(
            json_schema_extra=rules(
                rule(
                    "self in [1, 3, 5]",
                    "a quorum of controllers has 1, 3 or 5 members: write replicas: 3 (5 survives two failures, 1 none)",
                ),
                **{BOUNDS: "1, 3 or 5"},
            )
        ),
    ] = Field(3, description="How many controllers: 1, 3 or 5. Three survive the loss of one, five of two.")
    storage: Storage = Field(description="The disk of each controller; the metadata log lives there.")
    resources: ResourceRequirements = Field(
        default_factory=ResourceRequirements,
        description="CPU and memory of each controller. What is not given is requested as 100m of CPU and 512Mi of memory, or as the limit where there is one.",
    )
    jvm: ControllerJvm = Field(
        default_factory=ControllerJvm, description="The controllers' Java virtual machine."
    )


class PoolDisks(ApiModel):
    """The disks of each broker of a pool."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            _no_shrink("; for smaller disks add a new pool"),
            _fixed(
                "storageClass",
                "a pool's storage class cannot be changed, its claims are bound to volumes of it: put the former one "
                "back and add a new pool with the other class",
            ),
        )
    )

    count: int = Field(
        description="How many disks each broker has. Each becomes a claim, a volume and a Kafka log dir.",
        ge=1,
        le=MAX_DISKS,
        json_schema_extra=hint(
            f"a broker has between 1 and {MAX_DISKS} disks: set count within that, and add brokers for more room"
        ),
    )
    size: Size = Field(
        description="Size of each disk, a quantity of at least 64Mi: 100Gi. It may grow, never shrink. Local volumes "
        "of at least this size are taken."
    )
    storage_class: Name | None = Field(
        None,
        description="StorageClass of the volumes. Left out, the cluster's default one. It cannot be changed later.",
    )


class BrokerPool(ApiModel):
    """Brokers of one kind."""

    name: Annotated[
        str,
        Field(
            json_schema_extra=rules(
                rule(
                    "self.matches('^[a-z]([-a-z0-9]{0,28}[a-z0-9])?$')",
                    "a pool's name begins with a small letter, goes on with small letters, digits and dashes, and has "
                    "at most 30 characters: write for example nvme or main-2",
                ),
                maxLength=63,
                **{BOUNDS: "at most 30 characters"},
            )
        ),
    ] = Field(description="Name of the pool, unique in the cluster, at most 30 characters.")
    replicas: int = Field(
        description="How many brokers the pool has. They are spread over the racks.",
        ge=1,
        le=1000,
        json_schema_extra=hint(
            "a pool has between 1 and 1000 brokers: set replicas within that, or remove the pool to have none"
        ),
    )
    disks: PoolDisks = Field(description="The disks of each broker.")
    config: Config = Field(
        default_factory=dict,
        description="Kafka's broker configuration for this pool, over that of the cluster. Values are text: quote "
        "numbers and true or false.",
    )
    resources: ResourceRequirements = Field(
        default_factory=ResourceRequirements,
        description="CPU and memory of each broker. What is not given is requested as 250m of CPU and 1200Mi of memory, or as the limit where there is one.",
    )
    jvm: BrokerJvm = Field(default_factory=BrokerJvm, description="The brokers' Java virtual machine.")


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
    node_selector: dict[str, Short] = Field(
        default_factory=dict,
        description="Labels that a node must have to get a broker or a controller.",
        json_schema_extra={"maxProperties": 32},
    )
    shared_nodes: bool = Field(
        False,
        description="Let several brokers of this cluster share a node when there are more brokers than nodes.",
    )


_PERCENT = "thresholds are percentages of the disk between 1 and 99: write for example 85"


class Thresholds(ApiModel):
    """Fill levels of a disk, in per cent, at which something is done."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.warn < self.move && self.move < self.cordon && self.cordon < self.refuse && self.refuse < self.hardStop",
                "thresholds must rise: warn < move < cordon < refuse < hardStop, as the defaults 70, 80, 85, 90, 95 do",
            ),
            rule(
                "self.release < self.warn",
                "release is how far below a threshold the fill must fall before its step is undone: write less than warn, by default 5",
                field=".release",
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
    refuse: int = Field(
        90,
        description="Refuse moves that would fill the disk above this, in per cent of the disk.",
        ge=1,
        le=99,
        json_schema_extra=hint(_PERCENT),
    )
    hard_stop: int = Field(
        95,
        description="The last step, where it is turned on: clients are stopped, in per cent of the disk.",
        ge=1,
        le=99,
        json_schema_extra=hint(_PERCENT),
    )
    release: int = Field(
        5,
        description="How far the fill must fall below a threshold before its step is undone, in percentage points.",
        ge=1,
        le=20,
        json_schema_extra=hint(
            "release is how far below a threshold the fill must fall before its step is undone, between 1 and 20 "
            "percentage points: write for example 5"
        ),
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
        description="Fill levels at which something is done. Nothing acts on them in this version.",
    )
    probe_interval_seconds: int = Field(
        2,
        description="Seconds between two probes of a disk. Nothing acts on it in this version.",
        ge=1,
        le=60,
        json_schema_extra=hint("disks are probed every 1 to 60 seconds: write for example 2"),
    )
    hung_after_seconds: int = Field(
        10,
        description="A disk on which no write completed for so many seconds is hung. Nothing acts on it in this version.",
        ge=2,
        le=600,
        json_schema_extra=hint(
            "a disk counts as hung after 2 to 600 seconds without a write: write for example 10"
        ),
    )
    grace_seconds: int = Field(
        600,
        description="Seconds that a lost disk or broker may take to come back before its replicas are rebuilt "
        "elsewhere. Nothing acts on it in this version.",
        ge=0,
        le=86400,
        json_schema_extra=hint(
            "the grace time is between 0 seconds and a day (86400): write for example 600"
        ),
    )
    shared_filesystem: bool = Field(
        False,
        description="Accept several disks of a broker on one file system. For trying things out: such disks fill and "
        "fail together.",
    )


class Rebalance(ApiModel):
    """When and how replicas are moved for balance. Nothing acts on it in this version."""

    schedule: (
        Annotated[
            str,
            Field(
                json_schema_extra=rules(
                    rule(
                        "self.matches('^(@(hourly|daily|weekly|monthly)|[-0-9A-Za-z*/,]+( [-0-9A-Za-z*/,]+){4})$')",
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
        description="When a plan is made, as cron writes it, in UTC: '0 3 * * *'. Left out, never by itself. "
        "Nothing acts on it in this version.",
    )
    approval: Literal["manual", "auto"] = Field(
        "manual",
        description="manual: a person approves each KafkaRebalance; auto: it is carried out once it is valid. "
        "Nothing acts on it in this version.",
    )
    max_bytes: Size | None = Field(
        None,
        description="Most bytes that one plan may move, a quantity: 500Gi. Left out, no limit. "
        "Nothing acts on it in this version.",
    )
    max_duration_minutes: int | None = Field(
        None,
        description="Most minutes that one plan may take. Left out, no limit. Nothing acts on it in this version.",
        ge=1,
        le=10080,
        json_schema_extra=hint("a plan may take between 1 minute and a week (10080): write for example 240"),
    )


class Rolling(ApiModel):
    """How brokers are restarted."""

    max_unavailable: int = Field(
        1,
        description="Most brokers that Spindle takes down at once. Whatever it says, no partition goes below its "
        "minimum of in-sync replicas.",
        ge=1,
        le=100,
        json_schema_extra=hint(
            "maxUnavailable is between 1 and 100 brokers: write 1 to restart one at a time; to hold all restarts, "
            "write paused: true"
        ),
    )


class Metrics(ApiModel):
    """What can be measured."""

    enabled: bool = Field(
        True, description="Offer the metrics of brokers and controllers to Prometheus, on port 9404."
    )


class KafkaClusterSpec(ApiModel):
    """What the cluster should be."""

    version: Annotated[
        str,
        Field(
            json_schema_extra=rules(
                rule(
                    "self.matches('^[0-9]{1,2}[.][0-9]{1,3}[.][0-9]{1,3}$')",
                    "version is a release of Apache Kafka with three numbers: write for example 4.3.1",
                    say='"\'" + self + "\' is no version of Apache Kafka: write the three numbers of a release, for example 4.3.1"',
                ),
                maxLength=32,
            )
        ),
    ] = Field(description="Release of Apache Kafka: 4.3.1.")
    image: Annotated[str, Field(json_schema_extra=longest(512))] | None = Field(
        None,
        description="Image of Kafka, laid out like the official one. Left out, apache/kafka:<version>.",
    )
    controllers: Controllers = Field(description="The controllers, which keep the cluster's metadata.")
    broker_pools: list[BrokerPool] = Field(
        description="The brokers, in pools of one kind each.",
        json_schema_extra=list_map(
            "name",
            most=MAX_POOLS,
            **rules(
                rule(
                    "self.size() >= 1", "a cluster needs brokers: write at least one pool under brokerPools"
                ),
                rule(
                    f"self.map(p, p.replicas).sum() <= {MAX_BROKERS}",
                    f"all pools together may have {MAX_BROKERS} brokers: lower replicas, or make a second KafkaCluster",
                ),
            ),
        ),
    )
    racks: Racks = Field(default_factory=Racks, description="What a rack is.")
    config: Config = Field(
        default_factory=dict,
        description="Kafka's broker configuration for all brokers. Values are text: quote numbers and true or false.",
    )
    scheduling: Scheduling = Field(default_factory=Scheduling, description="Where pods may run.")
    disks: DiskPolicy = Field(default_factory=DiskPolicy, description="How disks are watched.")
    rebalance: Rebalance = Field(
        default_factory=Rebalance,
        description="When and how replicas are moved. Nothing acts on it in this version.",
    )
    rolling: Rolling = Field(default_factory=Rolling, description="How brokers are restarted.")
    metrics: Metrics = Field(default_factory=Metrics, description="What can be measured.")
    paused: bool = Field(
        False,
        description="Hold everything: Spindle looks and reports but changes nothing until this is false again.",
    )
    delete_claims: bool = Field(
        False,
        description="Delete the claims, and so the data, when the KafkaCluster is deleted. Otherwise they stay, and a "
        "KafkaCluster of the same name finds its data again.",
    )


class Tally(ApiModel):
    """How many there are and how many are ready."""

    total: Count = Field(0, description="How many there should be.")
    ready: Count = Field(0, description="How many are ready.")
    summary: Short = Field("", description="Both as one text: 3/3.")

    @model_validator(mode="before")
    @classmethod
    def _sum_up(cls, raw: Any) -> Any:
        return (
            {**raw, "summary": f"{raw.get('ready', 0)}/{raw.get('total', 0)}"}
            if isinstance(raw, dict)
            else raw
        )


class DiskTally(ApiModel):
    """How many disks there are and how many are healthy."""

    total: Count = Field(0, description="How many there should be.")
    healthy: Count = Field(0, description="How many are healthy and in use.")
    summary: Short = Field("", description="Both as one text: 6/6.")

    @model_validator(mode="before")
    @classmethod
    def _sum_up(cls, raw: Any) -> Any:
        return (
            {**raw, "summary": f"{raw.get('healthy', 0)}/{raw.get('total', 0)}"}
            if isinstance(raw, dict)
            else raw
        )


class RackStatus(ApiModel):
    """One rack."""

    rack: Name = Field(description="Value of the topology label.")
    brokers: list[NodeId] = Field(
        default_factory=list, description="Ids of the brokers there.", json_schema_extra=atomic(most=9000)
    )


class Waiting(ApiModel):
    """An action that is held back."""

    action: Name = Field(description="What is held back.")
    object: Name = Field("", description="The object that it is about.")
    reason: Short = Field(description="One word in CamelCase.")
    message: Sentence = Field(description="Why it waits, as a sentence.")
    since: Time | None = Field(None, description="Since when it waits.")
    unblocked_by: Sentence = Field("", description="What would let it go on.")


class TakingDown(ApiModel):
    """A pod that is going down by our own hand; written before it goes."""

    pod: Name = Field(description="Name of the pod.")
    uid: Short = Field(description="UID of the pod; a successor has another one.")
    node_id: NodeId = Field(description="Kafka's node id.")
    since: Time = Field(description="When the decision was written.")
    reason: Sentence = Field("", description="Why it goes down.")


class KafkaClusterStatus(ApiModel):
    """What the cluster is."""

    observed_generation: int | None = Field(
        None,
        description="Generation of the spec that this status is about.",
        json_schema_extra={"format": "int64"},
    )
    phase: Sentence | None = Field(None, description="The state of things in one sentence.")
    conditions: list[Condition] = conditions_field()
    cluster_id: KafkaId | None = Field(None, description="Kafka's own id of the cluster.")
    version: Short | None = Field(None, description="Release of Kafka that all brokers and controllers run.")
    bootstrap: Name | None = Field(None, description="Host and port that clients start from.")
    racks: list[RackStatus] = Field(
        default_factory=list,
        description="Racks that have brokers, and which.",
        json_schema_extra=list_map("rack", most=1000),
    )
    rack_count: Count | None = Field(None, description="How many racks have brokers.")
    brokers: Tally | None = Field(None, description="Brokers: how many there should be, how many are ready.")
    controllers: Tally | None = Field(
        None, description="Controllers: how many there should be, how many are ready."
    )
    disks: DiskTally | None = Field(
        None, description="Disks of the brokers: how many there should be, how many are healthy."
    )
    waiting: list[Waiting] = Field(
        default_factory=list,
        description="Every action that is held back, why, since when, and what would let it go on.",
        json_schema_extra=atomic(most=1000),
    )
    taking_down: list[TakingDown] = Field(
        default_factory=list,
        description="Pods that are going down by Spindle's own hand.",
        json_schema_extra=atomic(most=1000),
    )

    @model_validator(mode="after")
    def _count_racks(self) -> Self:
        if self.racks and self.rack_count is None:
            object.__setattr__(self, "rack_count", len(self.racks))  # the model is frozen
        return self


class KafkaCluster(ApiModel):
    """A Kafka cluster: its brokers, their disks and racks."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
                "metadata.name begins with a small letter, goes on with small letters, digits and dashes, and has at most "
                "40 characters, because pods, services and claims are named after it: write for example orders or logs-eu",
            ),
        )
    )

    api_version: str = API_VERSION
    kind: str = "KafkaCluster"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: KafkaClusterSpec = Field(description="What the cluster should be.")
    status: KafkaClusterStatus | None = Field(None, description="What the cluster is, written by Spindle.")
