"""Certificates: who signs them, how long they last, when the authority is replaced."""

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
                "no certificate outlives the authority that signed it: write certificateDays at most as large as caDays",
                field=".certificateDays",
            ),
            rule(
                f"self.clientGraceSeconds <= self.caDays * {_GRACE}",
                "clients get their time twice while an authority is replaced in its last fifth, so it is at most a twentieth of "
                "caDays: write a smaller clientGraceSeconds, or a larger caDays",
                field=".clientGraceSeconds",
            ),
            rule(
                "!has(self.caSecret) || self.caSecret.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
                "caSecret is the name of a Secret in the KafkaCluster's namespace: write for example kafka-ca",
                field=".caSecret",
            ),
            rule(
                "!(has(self.caSecret) && has(self.rotate))",
                "an authority that comes from a Secret is replaced when that Secret holds another one: take rotate out, and renew "
                "it where it is made (cmctl renew)",
                field=".rotate",
            ),
        )
    )

    ca_days: int = Field(
        3650,
        description="Days for which a new authority is valid. In the last fifth of its time it is replaced, without downtime.",
        ge=30,
        le=36500,
        json_schema_extra=hint("caDays is between 30 and 36500 days: write for example 3650 for ten years"),
    )
    certificate_days: int = Field(
        365,
        description="Days for which new certificates are valid. In the last third of their time they are renewed, and "
        "brokers and controllers restarted one after the other.",
        ge=7,
        le=3650,
        json_schema_extra=hint(
            "certificateDays is between 7 and 3650 days: write for example 365 for a year"
        ),
    )
    ca_secret: Name | None = Field(
        None,
        description="Sign with the authority in this Secret of the same namespace (tls.crt and tls.key, as cert-manager writes them), in "
        "place of one that Spindle makes. Whenever it holds another one the authority is replaced, without downtime. Its owner has to have labelled it spindle.dev/usable-by: <KafkaCluster>.",
    )
    client_grace_seconds: int = Field(
        86400,
        description="How long clients are given, twice in the course of a replacement of the authority, to read their "
        "Secret anew: first to trust the new one, then to show a certificate of it.",
        ge=120,
        le=2592000,
        json_schema_extra=hint(
            "clientGraceSeconds is between 120, which Spindle's own agents need, and 2592000 (30 days): write for example "
            "86400 for a day"
        ),
    )
    network_policies: bool = Field(
        False,
        description="Make NetworkPolicies: the ports between nodes are for the cluster's own pods and for Spindle alone. "
        "They act where the network of Kubernetes enforces them.",
    )
    rotate: Annotated[str, Field(json_schema_extra=longest(64))] | None = Field(
        None,
        description="Any text. Whenever it is changed to another one the authority is replaced, without downtime.",
    )


__all__ = ["Security"]
