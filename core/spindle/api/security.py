"""Certificates: their authority (CA), lifetimes, and the replacement of the CA."""

from typing import Annotated, Final

from pydantic import ConfigDict, Field

from spindle.api.common import ApiModel, Name, hint, longest, rule, rules

_GRACE: Final = 86400 // 20  # seconds for each day of caDays


class Security(ApiModel):
    """The cluster's certificates."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.certificateDays <= self.caDays",
                "no certificate may outlive the CA that signed it: write certificateDays at most as large as caDays",
                field=".certificateDays",
            ),
            rule(
                f"self.clientGraceSeconds <= self.caDays * {_GRACE}",
                "the CA is replaced in the last fifth of its lifetime and clients get clientGraceSeconds twice meanwhile, so it is at "
                "most a twentieth of caDays: write a smaller clientGraceSeconds, or a larger caDays",
                field=".clientGraceSeconds",
            ),
            rule(
                "!has(self.caSecret) || self.caSecret.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
                "caSecret is the name of a Secret in the KafkaCluster's namespace: write for example kafka-ca",
                field=".caSecret",
            ),
            rule(
                "!(has(self.caSecret) && has(self.rotate))",
                "a CA from a Secret is replaced when the Secret holds another one: remove rotate, and renew the CA where it is issued "
                "(cmctl renew)",
                field=".rotate",
            ),
        )
    )

    ca_days: int = Field(
        3650,
        description="Validity of a new CA in days. In the last fifth of its lifetime it is replaced, without downtime.",
        ge=30,
        le=36500,
        json_schema_extra=hint("caDays is between 30 and 36500 days: write for example 3650 for ten years"),
    )
    certificate_days: int = Field(
        365,
        description="Validity of new certificates in days. In the last third of their lifetime they are renewed, with a rolling restart of "
        "brokers and controllers.",
        ge=7,
        le=3650,
        json_schema_extra=hint(
            "certificateDays is between 7 and 3650 days: write for example 365 for a year"
        ),
    )
    ca_secret: Name | None = Field(
        None,
        description="Sign with the CA in this Secret in the same namespace (tls.crt and tls.key, the format of cert-manager) instead of one "
        "that Spindle creates. Whenever the Secret holds another CA, Spindle replaces the CA without downtime. The Secret's "
        "owner must label it spindle.dev/usable-by: <KafkaCluster>.",
    )
    client_grace_seconds: int = Field(
        86400,
        description="Time that clients get, twice during a replacement of the CA, to reload their Secret: first to trust the new CA, then "
        "to present a certificate signed by it.",
        ge=120,
        le=2592000,
        json_schema_extra=hint(
            "clientGraceSeconds is between 120, which Spindle's own agents need, and 2592000 (30 days): write for example "
            "86400 for a day"
        ),
    )
    network_policies: bool = Field(
        False,
        description="Create NetworkPolicies that restrict the ports between nodes to the cluster's own pods and Spindle. They take effect "
        "only if the cluster's CNI plugin enforces NetworkPolicies.",
    )
    rotate: Annotated[str, Field(json_schema_extra=longest(64))] | None = Field(
        None,
        description="Any text. When it is changed to another text, Spindle replaces the CA, without downtime.",
    )


__all__ = ["Security"]
