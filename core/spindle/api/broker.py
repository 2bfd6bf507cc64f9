"""KafkaBroker: one per broker, made by the operator; the record of the broker's identity and of its disks.

The spec has two owners. The operator writes everything but ``stopped`` and ``wishes``; those are a person's, and the
operator never writes them.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from spindle.api.common import (
    ApiModel,
    Bytes,
    Condition,
    Count,
    KafkaId,
    Name,
    ObjectMeta,
    Path,
    Sentence,
    Short,
    TopicName,
    atomic,
    conditions_field,
    hint,
    list_map,
    longest,
    rule,
    rules,
)
from spindle.cluster.names import API_VERSION

_IDENTITY = "identifies the broker and its data and cannot be changed: put the former value back"


def _never_changes(field: str) -> dict[str, Any]:
    return rules(rule("self == oldSelf", f"{field} {_IDENTITY}"))


class BrokerDisk(ApiModel):
    """One disk of the broker and what it should be."""

    name: Short = Field(description="Name of the disk: disk0, disk1, …")
    claim: Name = Field(description="PersistentVolumeClaim of the disk.")
    pv: Name | None = Field(None, description="PersistentVolume behind the claim, once it is bound.")
    pv_uid: Short | None = Field(None, description="UID of that PersistentVolume.")
    fs_uuid: Annotated[str, Field(json_schema_extra=longest(128))] | None = Field(
        None, description="UUID of the file system on the volume, as preflight found it."
    )
    directory_id: KafkaId = Field(description="Kafka's id of the log dir; given once, for one file system.")
    mode: Literal["Active", "Placeholder"] = Field(
        "Active",
        description="Active: the disk is a log dir. Placeholder: the disk is dead, and a file stands in its place so "
        "that the broker can run with the others.",
    )


class ReplicaMove(ApiModel):
    """A replica that is to go from one disk of this broker to another."""

    topic: TopicName = Field(description="Topic of the replica.")
    partition: Count = Field(description="Partition of the replica.")
    from_dir: Path = Field(description="Log dir that it leaves.")
    to_dir: Path = Field(description="Log dir that it goes to.")


class Wish(ApiModel):
    """What a person wants of one disk."""

    disk: Short = Field(description="Name of the disk: disk0.")
    cordoned: bool = Field(
        False, description="Nothing new is placed on the disk. Nothing acts on it in this version."
    )
    drained: bool = Field(
        False, description="All replicas leave the disk. Nothing acts on it in this version."
    )
    accept_loss: (
        Annotated[
            str,
            Field(
                json_schema_extra=rules(
                    rule(
                        "self.matches('^[A-Za-z0-9_-]{22}:[0-9a-f]{8,64}$')",
                        "acceptLoss has the form <directory id>:<hash>: copy it from the message of the condition "
                        "DataAtRisk, which names the partitions that would be lost",
                    ),
                    maxLength=128,
                )
            ),
        ]
        | None
    ) = Field(
        None,
        description="Accept that the data of the disk is lost: <directory id>:<hash of the partitions that were named>. "
        "It counts for that loss only. Nothing acts on it in this version.",
    )


class KafkaBrokerSpec(ApiModel):
    """What the broker is and what its disks should be."""

    cluster: Short = Field(
        description="Name of its KafkaCluster.", json_schema_extra=_never_changes("cluster")
    )
    id: int = Field(
        description="Kafka's id of the broker.",
        ge=0,
        le=8999,
        json_schema_extra=hint(
            "broker ids are between 0 and 8999 (controllers begin at 9000): leave KafkaBrokers to the operator",
            **_never_changes("id"),
        ),
    )
    pool: Short = Field(
        description="Pool that the broker belongs to.", json_schema_extra=_never_changes("pool")
    )
    node: Name | None = Field(None, description="Kubernetes node that the broker's volumes are on.")
    rack: Name | None = Field(None, description="Rack of the broker, as broker.rack has it.")
    disks: list[BrokerDisk] = Field(
        default_factory=list,
        description="The broker's disks.",
        json_schema_extra=list_map("name", most=64),
    )
    moves: list[ReplicaMove] = Field(
        default_factory=list,
        description="Replicas that are to go to another disk of this broker. Nothing acts on it in this version.",
        json_schema_extra=atomic(most=2000),
    )
    throttle_bytes_per_second: int | None = Field(
        None,
        description="Most bytes per second that moves between disks may copy. Left out, no limit. "
        "Nothing acts on it in this version.",
        ge=1,
        json_schema_extra=hint("write at least 1 byte per second, or leave the throttle out", format="int64"),
    )
    stopped: bool = Field(
        False,
        description="Set by a person: take this broker down for maintenance and keep it down until this is false "
        "again. It goes down only when no partition falls below its minimum of in-sync replicas.",
    )
    wishes: list[Wish] = Field(
        default_factory=list,
        description="Set by a person: what is wanted of single disks.",
        json_schema_extra=list_map("disk", most=64),
    )


class BrokerDiskStatus(ApiModel):
    """One disk of the broker as it is."""

    name: Short = Field(description="Name of the disk: disk0, disk1, …")
    log_dir: Path | None = Field(None, description="Kafka's log dir on the disk.")
    state: Short | None = Field(
        None,
        description="State of the disk: Provisioning, Active, Failed, Foreign, Unknown and others that the manual lists.",
    )
    message: Sentence | None = Field(None, description="Why it is so, as a sentence.")
    pv: Name | None = Field(None, description="PersistentVolume behind the disk.")
    node: Name | None = Field(None, description="Kubernetes node that the volume is on.")
    device: Path | None = Field(None, description="Device that is mounted, as the node calls it.")
    path: Path | None = Field(None, description="Path of the volume on its node (local volumes).")
    capacity_bytes: Bytes | None = Field(None, description="Size of the file system in bytes.")
    used_bytes: Bytes | None = Field(None, description="Bytes of it in use.")
    replicas: Count | None = Field(None, description="How many replicas are on it.")


class KafkaBrokerStatus(ApiModel):
    """What the broker and its disks are."""

    observed_generation: int | None = Field(
        None,
        description="Generation of the spec that this status is about.",
        json_schema_extra={"format": "int64"},
    )
    state: Short | None = Field(
        None,
        description="State of the broker: Pending, Starting, Running, Degraded (without a disk), Stopping, Stopped, Unreachable.",
    )
    message: Sentence | None = Field(None, description="Why it is so, as a sentence.")
    conditions: list[Condition] = conditions_field()
    disks: list[BrokerDiskStatus] = Field(
        default_factory=list,
        description="The broker's disks as they are.",
        json_schema_extra=list_map("name", most=64),
    )
    disks_summary: Short | None = Field(None, description="Healthy disks of all disks: 2/2.")
    fullest: Short | None = Field(None, description="Fill of the fullest disk: 12%.")


class KafkaBroker(ApiModel):
    """One broker of a KafkaCluster, made by the operator: its identity, its disks, and how they are."""

    api_version: str = API_VERSION
    kind: str = "KafkaBroker"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: KafkaBrokerSpec = Field(description="What the broker is and what its disks should be.")
    status: KafkaBrokerStatus | None = Field(None, description="What the broker is, written by Spindle.")
