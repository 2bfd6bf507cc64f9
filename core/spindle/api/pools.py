"""Brokers and controllers as a user asks for them: how many, on what disks, with what memory."""

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
from spindle.api.policy import Thresholds

MAX_DISKS = 64


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
        description="More options for the virtual machine, one an item: -XX:+UseZGC. Which ones are allowed, the chart of Spindle says.",
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
        description="How many disks each broker has. Each becomes a claim, a volume and a Kafka log dir. More are added and "
        "filled while Kafka runs; fewer means that the highest are emptied and removed, if the rest has room.",
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
    thresholds: Thresholds | None = Field(
        None,
        description="Fill levels at which something is done about this pool's disks. Given, they stand in for those of the "
        "cluster (spec.disks.thresholds) as a whole.",
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
        description="How many brokers the pool has. They are spread over the racks. New ones are filled by planned moves; of fewer, the "
        "highest ids are emptied, if the rest has room, and leave.",
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
