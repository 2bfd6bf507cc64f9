"""Desired brokers and controllers: how many, on which disks, with which resources."""

from typing import Annotated

from pydantic import ConfigDict, Field

from spindle.api.common import (
    BOUNDS,
    ApiModel,
    Name,
    ResourceRequirements,
    Size,
    atomic,
    hint,
    longest,
    rule,
    rules,
)
from spindle.api.config_rules import config_rules
from spindle.api.pod_template import PodTemplate, TemplateMetadata
from spindle.api.thresholds import Thresholds

MAX_DISKS = 64
SMALLEST = "64Mi"  # size of a disk


Config = Annotated[
    dict[str, Annotated[str, Field(json_schema_extra=longest(4096))]],
    Field(json_schema_extra=rules(*config_rules(), maxProperties=128)),
]


def _fixed(field: str, message: str) -> dict[str, str]:
    """A rule that an optional field never changes, nor is added or removed."""
    return rule(
        f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})",
        message,
        field=f".{field}",
    )


def _no_shrink(otherwise: str) -> dict[str, str]:
    """A rule that a size never decreases. It ignores invalid sizes; the field's own rule reports those."""
    return rule(
        "!has(self.size) || !has(oldSelf.size) || !isQuantity(self.size) || !isQuantity(oldSelf.size) || "
        "quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0",
        f"a disk cannot shrink: keep the size or increase it{otherwise}",
        say=(
            "'a disk cannot shrink from ' + oldSelf.size + ' to ' + self.size + "
            f"': keep the size or increase it{otherwise}'"
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
                "the controllers' storage class cannot be changed, because their claims are bound to volumes of it: restore the "
                "previous one",
            ),
        )
    )

    size: Size = Field(
        description="Size of the volume, a quantity of at least 64Mi: 1Gi. It may be increased, never decreased."
    )
    storage_class: Name | None = Field(
        None,
        description="StorageClass of the volume. If unset, the default StorageClass. It cannot be changed later.",
    )


Heap = Annotated[
    str,
    Field(
        json_schema_extra=rules(
            rule(
                "self.matches('^[1-9][0-9]*[kKmMgG]$')",
                "heap is a size in Java's format, a whole number and k, m or g: write for example 512m or 4g (not 4Gi)",
            ),
            maxLength=16,
        )
    ),
]


_HEAP = "Heap size, both initial and maximum (-Xms, -Xmx), in Java's format: 512m or 4g."


class Jvm(ApiModel):
    """JVM options."""

    options: list[
        Annotated[
            str,
            Field(
                json_schema_extra=rules(
                    rule(
                        "self.startsWith('-') && !self.matches('[ \\t\\n]')",
                        "a JVM option starts with a dash and contains no whitespace: write each option as an item of its own, for example "
                        "-XX:+UseZGC",
                    ),
                    rule(
                        "!self.startsWith('-Xmx') && !self.startsWith('-Xms')",
                        "the heap size has its own field: write jvm.heap instead of -Xmx and -Xms",
                    ),
                    maxLength=256,
                )
            ),
        ]
    ] = Field(
        default_factory=list,
        description="Additional JVM options, one per item: -XX:+UseZGC. Spindle's Helm chart defines which options are allowed.",
        json_schema_extra=atomic(most=32),
    )


class ControllerJvm(Jvm):
    """JVM options of a controller."""

    heap: Heap = Field("384m", description=_HEAP)


class BrokerJvm(Jvm):
    """JVM options of a broker."""

    heap: Heap = Field(
        "1g",
        description=f"{_HEAP} Kafka relies on the page cache for most of the memory; more than 6g rarely helps.",
    )


class Controllers(ApiModel):
    """The KRaft controllers, which store the cluster's metadata."""

    replicas: Annotated[
        int,
        Field(
            json_schema_extra=rules(
                rule(
                    "self in [1, 3, 5]",
                    "a quorum of controllers has 1, 3 or 5 members: write replicas: 3 (5 tolerates two failures, 1 none)",
                ),
                **{BOUNDS: "1, 3 or 5"},
            )
        ),
    ] = Field(
        3,
        description="Number of controllers: 1, 3 or 5. Three tolerate the loss of one, five the loss of two.",
    )
    storage: Storage = Field(description="The disk of each controller, which holds the metadata log.")
    resources: ResourceRequirements = Field(
        default_factory=ResourceRequirements,
        description="CPU and memory of each controller. Requests that are unset default to 100m of CPU and 512Mi of memory, or to the limit "
        "if one is set.",
    )
    jvm: ControllerJvm = Field(default_factory=ControllerJvm, description="JVM options of the controllers.")
    pod_template: PodTemplate | None = Field(None, description="What is added to the controllers' pods.")
    claim_metadata: TemplateMetadata | None = Field(
        None,
        description="Labels and annotations of the controllers' claims; they are changed without a restart.",
    )


class PoolDisks(ApiModel):
    """The disks of each broker of a pool."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.all || (has(self.count) && has(self.size))",
                "disks needs count and size: write for example count: 2 and size: 100Gi; or write all: true and storageClass, and each broker gets every "
                "local volume of that class on its node",
            ),
            rule(
                "!self.all || !has(self.count)",
                "with all: true, the volumes on the broker's node are the number of disks: remove count (maxCount limits the number), or remove all",
                field=".count",
            ),
            rule(
                "!self.all || !has(self.size)",
                "with all: true, each disk has the size of its volume: remove size, or remove all",
                field=".size",
            ),
            rule(
                "!self.all || has(self.storageClass)",
                "with all: true, every volume of one class is used: write in storageClass which one",
                field=".storageClass",
            ),
            rule(
                "self.all || !has(self.maxCount)",
                "maxCount limits the disks of all: true: write count for a fixed number of disks, or add all: true",
                field=".maxCount",
            ),
            _no_shrink("; for smaller disks, add a new pool"),
            _fixed(
                "storageClass",
                "a pool's storage class cannot be changed, because its claims are bound to volumes of it: restore the previous one and "
                "add a new pool with the other class",
            ),
        )
    )

    all: bool = Field(
        False,
        description="Whether every local volume of storageClass on the broker's node is one of its disks, whatever its size. It replaces count and size. "
        "Volumes that appear later are added; a volume that disappears is a failed disk. The class has no provisioner, and volumeBindingMode "
        "WaitForFirstConsumer.",
    )
    max_count: int | None = Field(
        None,
        description=f"With all: the largest number of disks of each broker, {MAX_DISKS} if unset. If decreased, the disks with the highest numbers are "
        "drained and removed, if the other disks have enough space.",
        ge=1,
        le=MAX_DISKS,
        json_schema_extra=hint(
            f"a broker has between 1 and {MAX_DISKS} disks: set maxCount within that range, or remove it"
        ),
    )
    count: int | None = Field(
        None,
        description="Number of disks of each broker. Each disk gets a claim, a volume and a Kafka log dir. If increased, disks are added "
        "and backfilled while Kafka runs; if decreased, the disks with the highest numbers are drained and removed, if the "
        "other disks have enough space.",
        ge=1,
        le=MAX_DISKS,
        json_schema_extra=hint(
            f"a broker has between 1 and {MAX_DISKS} disks: set count within that range, and add brokers for more space"
        ),
    )
    size: Size | None = Field(
        None,
        description="Size of each disk, a quantity of at least 64Mi: 100Gi. It may be increased, never decreased. Local volumes of at least "
        "this size are used.",
    )
    storage_class: Name | None = Field(
        None,
        description="StorageClass of the volumes. If unset, the default StorageClass; with all, it is required. It cannot be changed later.",
    )
    thresholds: Thresholds | None = Field(
        None,
        description="Usage thresholds for this pool's disks. If set, they replace all of the cluster's thresholds (spec.disks.thresholds).",
    )

    @property
    def most(self) -> int:
        """The largest number of disks of a broker."""
        return self.max_count or MAX_DISKS if self.all else self.count or 1

    @property
    def least_size(self) -> str:
        """The size that a volume has at least, a Kubernetes quantity."""
        return self.size or SMALLEST


class BrokerPool(ApiModel):
    """A pool of brokers that are configured alike."""

    name: Annotated[
        str,
        Field(
            json_schema_extra=rules(
                rule(
                    "self.matches('^[a-z]([-a-z0-9]{0,28}[a-z0-9])?$')",
                    "a pool's name starts with a lowercase letter, contains only lowercase letters, digits and dashes, ends with a letter "
                    "or digit, and has at most 30 characters: write for example nvme or main-2",
                ),
                maxLength=63,
                **{BOUNDS: "at most 30 characters"},
            )
        ),
    ] = Field(description="Name of the pool, unique in the cluster, at most 30 characters.")
    replicas: int = Field(
        description="Number of brokers in the pool. They are spread over the racks. If increased, new brokers are backfilled by planned "
        "moves; if decreased, the brokers with the highest ids are drained, if the others have enough space, and removed.",
        ge=1,
        le=1000,
        json_schema_extra=hint(
            "a pool has between 1 and 1000 brokers: set replicas within that range, or remove the pool to have none"
        ),
    )
    disks: PoolDisks = Field(description="The disks of each broker.")
    config: Config = Field(
        default_factory=dict,
        description="Kafka broker configuration for this pool; it overrides that of the cluster. Values are strings: quote numbers, true "
        "and false.",
    )
    resources: ResourceRequirements = Field(
        default_factory=ResourceRequirements,
        description="CPU and memory of each broker. Requests that are unset default to 250m of CPU and 1200Mi of memory, or to the limit if "
        "one is set.",
    )
    jvm: BrokerJvm = Field(default_factory=BrokerJvm, description="JVM options of the brokers.")
    pod_template: PodTemplate | None = Field(None, description="What is added to the pods of these brokers.")
    claim_metadata: TemplateMetadata | None = Field(
        None,
        description="Labels and annotations of these brokers' claims; they are changed without a restart.",
    )
