"""KafkaUser: a client of a KafkaCluster, with its credentials, rights and quotas."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from spindle.api.common import (
    ApiModel,
    Condition,
    Name,
    ObjectMeta,
    ShortText,
    Time,
    atomic,
    conditions_field,
    hint,
    longest,
    rule,
    rules,
)
from spindle.cluster.names import API_VERSION

MAX_ACLS = 128

Operation = Literal[
    "All",
    "Read",
    "Write",
    "Create",
    "Delete",
    "Alter",
    "Describe",
    "ClusterAction",
    "DescribeConfigs",
    "AlterConfigs",
    "IdempotentWrite",
]


def _fixed(what: str) -> dict[str, Any]:
    return rules(rule("self == oldSelf", f"{what} cannot be changed: make another KafkaUser"))


class Acl(ApiModel):
    """Something that the user may do."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.resource == 'cluster' ? !has(self.name) : has(self.name) && self.name != ''",
                "name says which topic, group or transactional id is meant: write it for these, and leave it out for cluster",
                field=".name",
            ),
        )
    )

    resource: Literal["topic", "group", "transactionalId", "cluster"] = Field(
        description="What the right is about."
    )
    name: Annotated[str, Field(json_schema_extra=longest(249))] | None = Field(
        None, description="Which one; * means all of them."
    )
    pattern: Literal["literal", "prefixed"] = Field(
        "literal", description="literal: the name as it stands; prefixed: all whose names begin so."
    )
    operations: list[Operation] = Field(
        description="What may be done with it.", json_schema_extra=atomic(most=11)
    )
    host: Name = Field("*", description="Address that the client must come from; * means any.")


class Quotas(ApiModel):
    """How much of each broker the user may take."""

    producer_bytes_per_second: int | None = Field(
        None,
        description="Most bytes per second that it may write to one broker.",
        ge=1,
        json_schema_extra=hint(
            "producerBytesPerSecond is at least 1: leave it out for no quota", format="int64"
        ),
    )
    consumer_bytes_per_second: int | None = Field(
        None,
        description="Most bytes per second that it may read from one broker.",
        ge=1,
        json_schema_extra=hint(
            "consumerBytesPerSecond is at least 1: leave it out for no quota", format="int64"
        ),
    )
    request_percentage: int | None = Field(
        None,
        description="Most time of one broker's threads that it may take, in per cent of one thread.",
        ge=1,
        json_schema_extra=hint("requestPercentage is at least 1: leave it out for no quota"),
    )


class KafkaUserSpec(ApiModel):
    """The user."""

    cluster: ShortText = Field(
        description="Name of the KafkaCluster, in the same namespace.", json_schema_extra=_fixed("cluster")
    )
    authentication: Literal["mtls", "scram"] = Field(
        "mtls",
        description="mtls: by a certificate; scram: by a password (SCRAM-SHA-512).",
        json_schema_extra=_fixed("authentication"),
    )
    acls: list[Acl] = Field(
        default_factory=list,
        description="What the user may do. ACLs that a person gave it otherwise stay.",
        json_schema_extra=atomic(most=MAX_ACLS),
    )
    quotas: Quotas = Field(default_factory=Quotas, description="How much of each broker it may take.")


class MadeAcl(ApiModel):
    """One right that Spindle gave."""

    resource: ShortText = Field(description="What it is about.")
    name: Annotated[str, Field(json_schema_extra=longest(249))] = Field(description="Which one.")
    pattern: ShortText = Field(description="literal or prefixed.")
    operation: ShortText = Field(description="What may be done.")
    host: Name = Field(description="From where.")


class MadeQuota(ApiModel):
    """One quota that Spindle set. Kafka keeps quotas as fractions, so the values are text."""

    name: ShortText = Field(description="Kafka's name of it.")
    values: list[ShortText] = Field(
        description="What Spindle set it to: the latest, and while that is on its way the one before.",
        json_schema_extra=atomic(most=4),
    )
    before: ShortText | None = Field(
        None, description="What it was before, and is to be again; left out for none."
    )


class ServerCertificate(ApiModel):
    """A certificate of the user's, of an earlier version, that is good for servers as well."""

    until: Time = Field(description="When it ends.")
    authority: Name = Field(description="SHA-256 fingerprint of the authority that signed it.")


class KafkaUserStatus(ApiModel):
    """What the user has."""

    observed_generation: int | None = Field(
        None,
        description="Generation of the spec that this status is about.",
        json_schema_extra={"format": "int64"},
    )
    conditions: list[Condition] = conditions_field()
    principal: Name | None = Field(
        None,
        description="Who it is to Kafka: User:<name>, or User:<name>_2 if that was somebody else before.",
    )
    secret: Name | None = Field(None, description="Secret with its credentials.")
    acls: list[MadeAcl] = Field(
        default_factory=list,
        description="Rights that Spindle gave, and takes away again; written down before they are given.",
        json_schema_extra=atomic(most=2048),
    )
    quotas: list[MadeQuota] = Field(
        default_factory=list,
        description="Quotas that Spindle set, and puts back to what they were; written down before they are set.",
        json_schema_extra=atomic(most=8),
    )
    password: bool | None = Field(
        None, description="Whether Spindle gave Kafka a password for it, and takes it away again."
    )
    kept_out: bool | None = Field(
        None,
        description="Whether Spindle denied it to write to Spindle's own topics, which a pattern of its ACLs covers; lifted again by Spindle.",
    )
    certificate_until: Time | None = Field(
        None,
        description="When the last of its certificates ends: if it is deleted before, its principal is denied everything until then.",
    )
    server_certificate: ServerCertificate | None = Field(
        None,
        description="Which of its certificates could pass for a host of its name; written down before it is replaced.",
    )


class KafkaUser(ApiModel):
    """A client of a KafkaCluster: its credentials, rights and quotas."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.metadata.name.size() <= 63 && self.metadata.name != 'admin' && "
                "!self.metadata.name.startsWith('spindle-')",
                "metadata.name is who the user is to Kafka: it has at most 63 characters, and admin and what begins with "
                "spindle- are Spindle's own: write for example orders",
            ),
            rule(
                "!self.metadata.name.contains('.') && self.metadata.name != 'localhost'",
                "metadata.name is the common name of a certificate, and so must not look like a host's: write it without dots, "
                "for example orders-eu",
                field=".metadata.name",
                new=True,
            ),
        )
    )

    api_version: str = API_VERSION
    kind: str = "KafkaUser"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: KafkaUserSpec = Field(description="The user.")
    status: KafkaUserStatus | None = Field(None, description="What it has, written by Spindle.")
