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
    """How many there are and how many are ready."""

    total: Count = Field(0, description="How many there should be.")
    ready: Count = Field(0, description="How many are ready.")
    summary: ShortText = Field("", description="Both as one text: 3/3.")

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
    summary: ShortText = Field("", description="Both as one text: 6/6.")

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


class QuorumMember(ApiModel):
    """A controller as the quorum's leader knows it."""

    id: NodeId = Field(description="Kafka's node id.")
    directory_id: KafkaId = Field(description="Directory id of the disk that it takes part with.")
    caught_up: bool | None = Field(
        None, description="Whether it has kept up with the leader in the last three seconds."
    )
    lag: Count | None = Field(
        None,
        description="Records of the metadata log that it lacks, to one digit; 0 as long as it keeps up.",
    )


class QuorumStatus(ApiModel):
    """The controllers' quorum as its leader describes it."""

    leader: NodeId = Field(description="The active controller.")
    voters: list[QuorumMember] = Field(
        default_factory=list,
        description="Controllers whose majority decides.",
        json_schema_extra=list_map("id", most=16),
    )
    observers: list[QuorumMember] = Field(
        default_factory=list,
        description="Controllers that only read along: about to join, or no voters any more. Brokers do so, too, and are not named.",
        json_schema_extra=list_map("id", most=16),
    )


class WaitingEntry(ApiModel):
    """An action that is held back."""

    action: Name = Field(description="What is held back.")
    object: Name = Field("", description="The object that it is about.")
    reason: ShortText = Field(description="One word in CamelCase.")
    message: Sentence = Field(description="Why it waits, as a sentence.")
    since: Time | None = Field(None, description="Since when it waits.")
    unblocked_by: Sentence = Field("", description="What would let it go on.")


class TakingDown(ApiModel):
    """A pod that is going down by our own hand; written before it goes."""

    pod: Name = Field(description="Name of the pod.")
    uid: ShortText = Field(description="UID of the pod; a successor has another one.")
    node_id: NodeId = Field(description="Kafka's node id.")
    since: Time = Field(description="When the decision was written.")
    reason: Sentence = Field("", description="Why it goes down.")


class FormerUser(ApiModel):
    """A principal whose KafkaUser is gone, while certificates of it are still good."""

    name: Name = Field(description="The principal, without User:.")
    until: Time = Field(
        description="When the last of its certificates ends; until then Kafka denies it everything."
    )


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
    version: ShortText | None = Field(
        None, description="Release of Kafka that all brokers and controllers run."
    )
    version_since: Time | None = Field(None, description="Since when all of them run it.")
    metadata_version: ShortText | None = Field(
        None, description="Release whose metadata.version the cluster has. An earlier release cannot read it."
    )
    bootstrap: Name | None = Field(None, description="Host and port that clients start from.")
    listeners: list[ListenerStatus] = Field(
        default_factory=list,
        description="Where clients find the listeners of the spec.",
        json_schema_extra=list_map("name", most=8),
    )
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
    quorum: QuorumStatus | None = Field(
        None, description="The controllers' quorum; missing while Kafka does not tell."
    )
    disks: DiskTally | None = Field(
        None, description="Disks of the brokers: how many there should be, how many are healthy."
    )
    waiting: list[WaitingEntry] = Field(
        default_factory=list,
        description="Every action that is held back, why, since when, and what would let it go on.",
        json_schema_extra=atomic(most=1000),
    )
    taking_down: list[TakingDown] = Field(
        default_factory=list,
        description="Pods that are going down by Spindle's own hand.",
        json_schema_extra=atomic(most=1000),
    )
    former_users: list[FormerUser] = Field(
        default_factory=list,
        description="Principals of deleted KafkaUsers that are denied everything; written down before Kafka is told.",
        json_schema_extra=atomic(most=10000),
    )

    @model_validator(mode="after")
    def _count_racks(self) -> Self:
        if self.racks and self.rack_count is None:
            object.__setattr__(self, "rack_count", len(self.racks))  # the model is frozen
        return self
