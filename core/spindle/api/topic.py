"""KafkaTopic: a topic of a KafkaCluster, with its partitions, replicas and settings."""

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from spindle.api.common import (
    ApiModel,
    Bytes,
    Condition,
    Count,
    KafkaId,
    Name,
    ObjectMeta,
    ShortText,
    TopicName,
    atomic,
    conditions_field,
    hint,
    list_map,
    longest,
    rule,
    rules,
)
from spindle.api.names import API_VERSION

MAX_PARTITIONS: Final = 10_000  # Kafka creates no more in one request (ReplicationControlManager)
MAX_REPLICAS: Final = 10
# Lists of throttled replicas: Spindle sets them for its moves, and removes them again.
THROTTLED: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")

_THROTTLED_TEXT: Final = "Spindle sets the lists of throttled replicas while it moves replicas: remove them"

TopicConfig = Annotated[
    dict[str, Annotated[str, Field(json_schema_extra=longest(4096))]],
    Field(
        json_schema_extra=rules(
            rule(
                "self.all(k, k.matches('^[a-z][a-z0-9.]*$'))",
                "keys are names of Kafka's topic configuration, in lowercase letters and dots: write for example retention.ms",
            ),
            rule(f"self.all(k, !(k in [{', '.join(repr(key) for key in THROTTLED)}]))", _THROTTLED_TEXT),
            maxProperties=64,
        )
    ),
]


def _fixed(what: str) -> dict[str, Any]:
    return rule("self == oldSelf", f"{what} cannot be changed: create another KafkaTopic")


class KafkaTopicSpec(ApiModel):
    """Desired state of the topic."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.topicName) == has(oldSelf.topicName)",
                "topicName cannot be added or removed: create another KafkaTopic",
                field=".topicName",
            ),
        )
    )

    cluster: ShortText = Field(
        description="Name of the KafkaCluster, in the same namespace.",
        json_schema_extra=rules(_fixed("cluster")),
    )
    topic_name: TopicName | None = Field(
        None,
        description="Name of the topic in Kafka; by default `metadata.name`.",
        json_schema_extra=rules(
            _fixed("topicName"),
            rule(
                "self.matches('^[a-zA-Z0-9._-]+$') && self != '.' && self != '..'",
                "a topic's name has letters, digits, dots, underscores and dashes: write for example orders.v2",
            ),
            rule(
                "!self.startsWith('__')",
                "names that start with __ belong to Kafka and to Spindle: choose another name",
            ),
            minLength=1,
            maxLength=249,
        ),
    )
    partitions: int | None = Field(
        None,
        description="Number of partitions, which can only grow. By default that of the topic if it exists, else `num.partitions` of the cluster.",
        ge=1,
        le=MAX_PARTITIONS,
        json_schema_extra=hint(
            f"partitions is from 1 to {MAX_PARTITIONS}: omit it for the cluster's default", format="int32"
        ),
    )
    replicas: int | None = Field(
        None,
        description="Replication factor; replicas of an existing topic are added or removed. By default that of the topic if it exists, "
        "else `default.replication.factor` of the cluster.",
        ge=1,
        le=MAX_REPLICAS,
        json_schema_extra=hint(f"replicas is from 1 to {MAX_REPLICAS}: write for example 3", format="int32"),
    )
    config: TopicConfig = Field(
        default_factory=dict,
        description="Settings of the topic, by their names in Kafka. Those that are not listed are left as they are.",
    )
    deletion_policy: Literal["Retain", "Delete"] = Field(
        "Retain",
        description="What becomes of the topic when the KafkaTopic is deleted. Delete: it is deleted with all its records.",
    )
    adopt: bool = Field(
        False,
        description="Whether to take over a topic that exists already and that this KafkaTopic did not create.",
    )


class TopicRack(ApiModel):
    """The topic's replicas in one rack."""

    name: Annotated[str, Field(json_schema_extra=longest(253))] = Field(
        description="Name of the rack; empty for brokers without one."
    )
    replicas: Count = Field(description="Replicas of the topic's partitions in it.")
    leaders: Count = Field(description="Of these, preferred leaders.")


class TopicDrift(ApiModel):
    """One setting that differs from the spec."""

    key: Name = Field(description="Name of the setting.")
    wanted: Annotated[str, Field(json_schema_extra=longest(4096))] = Field(description="Value in the spec.")
    found: Annotated[str, Field(json_schema_extra=longest(4096))] | None = Field(
        None, description="Value that is set on the topic; omitted if none is."
    )


class KafkaTopicStatus(ApiModel):
    """Observed state of the topic."""

    observed_generation: int | None = Field(
        None,
        description="Generation of the spec that this status describes.",
        json_schema_extra={"format": "int64"},
    )
    conditions: list[Condition] = conditions_field()
    topic_name: TopicName | None = Field(None, description="Name of the topic in Kafka.")
    topic_id: KafkaId | None = Field(
        None,
        description="Kafka's id of the topic that this KafkaTopic created or took over. A topic of the same name with another id is not touched.",
    )
    partitions: Count | None = Field(None, description="Number of partitions.")
    replicas: Count | None = Field(None, description="Replication factor, the lowest of all partitions.")
    racks: list[TopicRack] = Field(
        default_factory=list,
        description="The topic's replicas by rack.",
        json_schema_extra=list_map("name", most=256),
    )
    out_of_place: Count | None = Field(
        None,
        description="Replicas that share a rack with another one of their partition although a rack without one is left.",
    )
    bytes: Bytes | None = Field(
        None,
        description="Bytes of all replicas together. To save writes, it follows changes of 10 % or more.",
    )
    config: list[Name] = Field(
        default_factory=list,
        description="Settings that Spindle set, and removes from the topic when the spec no longer has them.",
        json_schema_extra=atomic(most=128),
    )
    drift: list[TopicDrift] = Field(
        default_factory=list,
        description="Settings that differ from the spec and are being set again. Those that Spindle itself changed for a while do not count.",
        json_schema_extra=atomic(most=64),
    )
    held: list[Name] = Field(
        default_factory=list,
        description="Settings of the spec that Spindle has replaced for a while because a disk is full; it restores them afterwards.",
        json_schema_extra=atomic(most=64),
    )


class KafkaTopic(ApiModel):
    """A topic of a KafkaCluster: its partitions, replicas and settings."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.spec.topicName) || self.metadata.name.size() <= 249",
                "metadata.name is the topic's name and has at most 249 characters: set spec.topicName",
                field=".metadata.name",
            ),
            rule(
                "!has(self.spec.partitions) || !has(oldSelf.spec.partitions) || self.spec.partitions >= oldSelf.spec.partitions || "
                "!has(oldSelf.status) || !has(oldSelf.status.partitions) || !has(oldSelf.status.topicId) || "
                "self.spec.partitions >= oldSelf.status.partitions",
                "a topic's partitions can only grow: write status.partitions or more, or create another topic with fewer",
                field=".spec.partitions",
            ),
        )
    )

    api_version: str = API_VERSION
    kind: str = "KafkaTopic"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: KafkaTopicSpec = Field(description="Desired state of the topic.")
    status: KafkaTopicStatus | None = Field(
        None, description="Observed state of the topic, written by Spindle."
    )
