"""What Spindle reports of a KafkaCluster."""

from typing import Any, Self

from pydantic import Field, model_validator

from spindle.api.common import (
    ApiModel,
    Condition,
    Count,
    KafkaId,
    Name,
    NodeId,
    Sentence,
    ShortText,
    Time,
    atomic,
    conditions_field,
    list_map,
)
from spindle.api.listeners import ListenerStatus


class Tally(ApiModel):
    """Number of nodes and number of ready ones."""

    total: Count = Field(0, description="Desired number.")
    ready: Count = Field(0, description="Number of ready ones.")
    summary: ShortText = Field("", description="Both as text: 3/3.")

    @model_validator(mode="before")
    @classmethod
    def _sum_up(cls, raw: Any) -> Any:
        return (
            {**raw, "summary": f"{raw.get('ready', 0)}/{raw.get('total', 0)}"}
            if isinstance(raw, dict)
            else raw
        )


class DiskTally(ApiModel):
    """Number of disks and number of healthy ones."""

    total: Count = Field(0, description="Desired number.")
    healthy: Count = Field(0, description="Number of disks that are healthy and in use.")
    summary: ShortText = Field("", description="Both as text: 6/6.")

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
        default_factory=list,
        description="Ids of the brokers in the rack.",
        json_schema_extra=atomic(most=9000),
    )


class QuorumMember(ApiModel):
    """A controller as reported by the quorum leader."""

    id: NodeId = Field(description="Kafka's node id.")
    directory_id: KafkaId = Field(description="Directory id of the controller's disk.")
    caught_up: bool | None = Field(
        None, description="Whether it caught up with the leader within the last three seconds."
    )
    lag: Count | None = Field(
        None,
        description="Lag in records of the metadata log, rounded to one significant digit; 0 while it keeps up.",
    )


class QuorumStatus(ApiModel):
    """The controller quorum as reported by its leader."""

    leader: NodeId = Field(description="The active controller.")
    voters: list[QuorumMember] = Field(
        default_factory=list,
        description="The voters: controllers whose majority decides.",
        json_schema_extra=list_map("id", most=16),
    )
    observers: list[QuorumMember] = Field(
        default_factory=list,
        description="Controllers that are observers: about to become voters, or removed as voters. Brokers are observers too, but are not "
        "listed.",
        json_schema_extra=list_map("id", most=16),
    )


class WaitingEntry(ApiModel):
    """An action that Spindle holds back."""

    action: Name = Field(description="The action that is held back.")
    object: Name = Field("", description="The object of the action.")
    reason: ShortText = Field(description="Reason in CamelCase.")
    message: Sentence = Field(description="Why the action waits.")
    since: Time | None = Field(None, description="Since when the action waits.")
    unblocked_by: Sentence = Field("", description="What unblocks the action.")


class TakingDown(ApiModel):
    """A pod that Spindle takes down; recorded before the pod is deleted."""

    pod: Name = Field(description="Name of the pod.")
    uid: ShortText = Field(description="UID of the pod; its successor has a different one.")
    node_id: NodeId = Field(description="Kafka's node id.")
    since: Time = Field(description="When the decision was recorded.")
    reason: Sentence = Field("", description="Why the pod is taken down.")


class FormerUser(ApiModel):
    """A principal whose KafkaUser was deleted while some of its certificates are still valid."""

    name: Name = Field(description="The principal, without User:.")
    until: Time = Field(
        description="When the last of its certificates expires; until then Kafka denies the principal all access."
    )


class KafkaClusterStatus(ApiModel):
    """Observed state of the cluster."""

    observed_generation: int | None = Field(
        None,
        description="Generation of the spec that this status describes.",
        json_schema_extra={"format": "int64"},
    )
    phase: Sentence | None = Field(None, description="Summary of the cluster's state in one sentence.")
    conditions: list[Condition] = conditions_field()
    cluster_id: KafkaId | None = Field(None, description="Kafka's cluster id.")
    version: ShortText | None = Field(None, description="Kafka release that all brokers and controllers run.")
    version_since: Time | None = Field(None, description="Since when all of them run this release.")
    metadata_version: ShortText | None = Field(
        None,
        description="Kafka release of the cluster's metadata.version. Earlier releases cannot read its metadata.",
    )
    bootstrap: Name | None = Field(None, description="Bootstrap server (host:port) for clients.")
    listeners: list[ListenerStatus] = Field(
        default_factory=list,
        description="Bootstrap servers of the listeners in the spec.",
        json_schema_extra=list_map("name", most=8),
    )
    racks: list[RackStatus] = Field(
        default_factory=list,
        description="Racks with brokers, and their brokers.",
        json_schema_extra=list_map("rack", most=1000),
    )
    rack_count: Count | None = Field(None, description="Number of racks with brokers.")
    brokers: Tally | None = Field(None, description="Desired and ready brokers.")
    controllers: Tally | None = Field(None, description="Desired and ready controllers.")
    topics: Tally | None = Field(
        None, description="KafkaTopics, and those of them that are as their specs say; omitted without any."
    )
    quorum: QuorumStatus | None = Field(
        None, description="The controller quorum; omitted while Kafka does not report it."
    )
    disks: DiskTally | None = Field(None, description="Desired and healthy disks of the brokers.")
    waiting: list[WaitingEntry] = Field(
        default_factory=list,
        description="Every action that Spindle holds back: why, since when, and what unblocks it. "
        "Entries that need a confirmation come first; where the texts have more than 450 kB together, those of the last entries are left out.",
        json_schema_extra=atomic(most=1000),
    )
    waiting_more: Count | None = Field(
        None, description="Number of further actions that Spindle holds back, for which waiting has no room."
    )
    taking_down: list[TakingDown] = Field(
        default_factory=list,
        description="Pods that Spindle is taking down.",
        json_schema_extra=atomic(most=1000),
    )
    former_users: list[FormerUser] = Field(
        default_factory=list,
        description="Principals of deleted KafkaUsers that are denied all access; recorded before the ACLs are created in Kafka.",
        json_schema_extra=atomic(most=10000),
    )

    @model_validator(mode="after")
    def _count_racks(self) -> Self:
        if self.racks and self.rack_count is None:
            object.__setattr__(self, "rack_count", len(self.racks))  # the model is frozen
        return self
