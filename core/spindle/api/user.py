"""KafkaUser: a client of a KafkaCluster, with its credentials, ACLs and quotas."""

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
from spindle.api.names import API_VERSION

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
    return rules(rule("self == oldSelf", f"{what} cannot be changed: create another KafkaUser"))


class Acl(ApiModel):
    """An ACL of the user."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.resource == 'cluster' ? !has(self.name) : has(self.name) && self.name != ''",
                "name is the topic, group or transactional id: set it for these, and omit it for cluster",
                field=".name",
            ),
        )
    )

    resource: Literal["topic", "group", "transactionalId", "cluster"] = Field(
        description="Type of the resource."
    )
    name: Annotated[str, Field(json_schema_extra=longest(249))] | None = Field(
        None, description="Name of the resource; * means all."
    )
    pattern: Literal["literal", "prefixed"] = Field(
        "literal", description="literal: exactly this name; prefixed: all names with this prefix."
    )
    operations: list[Operation] = Field(description="Allowed operations.", json_schema_extra=atomic(most=11))
    host: Name = Field("*", description="Host that the client must connect from; * means any.")


class Quotas(ApiModel):
    """Quotas of the user, per broker."""

    producer_bytes_per_second: int | None = Field(
        None,
        description="Maximum bytes per second that the user may produce to one broker.",
        ge=1,
        json_schema_extra=hint("producerBytesPerSecond is at least 1: omit it for no quota", format="int64"),
    )
    consumer_bytes_per_second: int | None = Field(
        None,
        description="Maximum bytes per second that the user may consume from one broker.",
        ge=1,
        json_schema_extra=hint("consumerBytesPerSecond is at least 1: omit it for no quota", format="int64"),
    )
    request_percentage: int | None = Field(
        None,
        description="Maximum share of one broker's request and network threads, in per cent of one thread.",
        ge=1,
        json_schema_extra=hint("requestPercentage is at least 1: omit it for no quota"),
    )


class KafkaUserSpec(ApiModel):
    """Desired state of the user."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.authentication == 'oauth' || !has(self.principal)",
                "principal is what a token names, and applies to authentication: oauth only: omit it, or write authentication: oauth",
                field=".principal",
            ),
            rule(
                "has(self.principal) == has(oldSelf.principal)",
                "principal cannot be changed: create another KafkaUser",
                field=".principal",
            ),
        )
    )

    cluster: ShortText = Field(
        description="Name of the KafkaCluster, in the same namespace.", json_schema_extra=_fixed("cluster")
    )
    authentication: Literal["mtls", "scram", "oauth"] = Field(
        "mtls",
        description="mtls: with a certificate; scram: with a password (SCRAM-SHA-512); oauth: with a token of an issuer, so Spindle creates no "
        "credentials.",
        json_schema_extra=_fixed("authentication"),
    )
    principal: (
        Annotated[
            str,
            Field(
                json_schema_extra=rules(
                    rule("self == oldSelf", "principal cannot be changed: create another KafkaUser"),
                    rule(
                        "self.matches('^[A-Za-z0-9][A-Za-z0-9._@|:/+=-]*$')",
                        "principal is the value of the claim in tokens, without User: and without spaces: write for example auth0|5f7c8ec7c33c6c004bbafe82",
                    ),
                    rule(
                        "!(self in ['admin', 'ANONYMOUS']) && !self.startsWith('spindle-') && !self.startsWith('User:')",
                        "admin, ANONYMOUS and names that start with spindle- are reserved: write the value of the claim in the client's tokens",
                    ),
                    maxLength=253,
                )
            ),
        ]
        | None
    ) = Field(
        None,
        description="oauth: the value of the listener's principalClaim in the client's tokens. If unset, metadata.name.",
    )
    acls: list[Acl] = Field(
        default_factory=list,
        description="ACLs of the user. ACLs that were created by other means are kept.",
        json_schema_extra=atomic(most=MAX_ACLS),
    )
    quotas: Quotas = Field(default_factory=Quotas, description="Quotas of the user, per broker.")


class MadeAcl(ApiModel):
    """One ACL that Spindle created."""

    resource: ShortText = Field(description="Type of the resource.")
    name: Annotated[str, Field(json_schema_extra=longest(249))] = Field(description="Name of the resource.")
    pattern: ShortText = Field(description="literal or prefixed.")
    operation: ShortText = Field(description="Allowed operation.")
    host: Name = Field(description="Host.")


class MadeQuota(ApiModel):
    """One quota that Spindle set. Kafka stores quotas as floating-point numbers, so the values are strings."""

    name: ShortText = Field(description="Name of the quota in Kafka.")
    values: list[ShortText] = Field(
        description="Values that Spindle set: the latest and, until that one is confirmed, the previous one.",
        json_schema_extra=atomic(most=4),
    )
    before: ShortText | None = Field(
        None, description="Value before, which Spindle restores; omitted if there was none."
    )


class ServerCertificate(ApiModel):
    """A certificate of the user, issued by an earlier version, that is also valid for servers."""

    until: Time = Field(description="When the certificate expires.")
    authority: Name = Field(description="SHA-256 fingerprint of the CA that signed it.")


class KafkaUserStatus(ApiModel):
    """Observed state of the user."""

    observed_generation: int | None = Field(
        None,
        description="Generation of the spec that this status describes.",
        json_schema_extra={"format": "int64"},
    )
    conditions: list[Condition] = conditions_field()
    principal: Name | None = Field(
        None,
        description="Kafka principal: User:<name> (oauth: User:<principal>), or User:<name>_2 if that principal belonged to another user before.",
    )
    secret: Name | None = Field(None, description="Secret with its credentials.")
    acls: list[MadeAcl] = Field(
        default_factory=list,
        description="ACLs that Spindle created and will remove; recorded before they are created.",
        json_schema_extra=atomic(most=2048),
    )
    quotas: list[MadeQuota] = Field(
        default_factory=list,
        description="Quotas that Spindle set and will restore; recorded before they are set.",
        json_schema_extra=atomic(most=8),
    )
    password: bool | None = Field(
        None, description="Whether Spindle created SCRAM credentials for it in Kafka, which it will remove."
    )
    kept_out: bool | None = Field(
        None,
        description="Whether Spindle created a DENY ACL for writes to Spindle's own topics, because a pattern of the user's ACLs covers "
        "them; Spindle removes it again.",
    )
    certificate_until: Time | None = Field(
        None,
        description="When the last of its certificates expires: if the user is deleted before that, its principal is denied all access "
        "until then.",
    )
    server_certificate: ServerCertificate | None = Field(
        None,
        description="The user's certificate that could impersonate a host with the user's name; recorded before it is replaced.",
    )


class KafkaUser(ApiModel):
    """A client of a KafkaCluster: its credentials, ACLs and quotas."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.metadata.name.size() <= 63 && self.metadata.name != 'admin' && "
                "!self.metadata.name.startsWith('spindle-')",
                "metadata.name is the name of the Kafka principal: it has at most 63 characters; admin and names that start with "
                "spindle- are reserved for Spindle: write for example orders",
            ),
            rule(
                "!self.metadata.name.contains('.') && self.metadata.name != 'localhost'",
                "metadata.name is the common name of a certificate and must not look like a host name: write it without dots, for "
                "example orders-eu",
                field=".metadata.name",
                new=True,
            ),
        )
    )

    api_version: str = API_VERSION
    kind: str = "KafkaUser"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: KafkaUserSpec = Field(description="Desired state of the user.")
    status: KafkaUserStatus | None = Field(
        None, description="Observed state of the user, written by Spindle."
    )
