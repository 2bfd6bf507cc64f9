"""Listeners: the doors for clients, beside the one that every cluster has."""

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from spindle.api.common import ApiModel, Name, atomic, list_map, longest, rule, rules

MAX_LISTENERS: Final = 8
# What would clash with a listener or a Service that Spindle makes itself.
RESERVED: Final = ("controller", "controllers", "replication", "client", "brokers", "bootstrap")
_TAKEN_PORTS: Final = (9090, 9091, 9092, 9404)


class Listener(ApiModel):
    """One more port of every broker that clients may use. Always encrypted."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.type == 'nodeport' || (!has(self.addressTypes) && !has(self.addressLabel))",
                "addressTypes and addressLabel say which address of a node clients use, and so belong to type nodeport only: "
                "leave them out, or write type: nodeport",
                field=".type",
            ),
            rule(
                "!has(self.addressTypes) || !has(self.addressLabel)",
                "a node's address is taken from its status (addressTypes) or from a label (addressLabel): write one of the two",
                field=".addressLabel",
            ),
            rule(
                "self.type == 'loadbalancer' || (!has(self.annotations) && !has(self.loadBalancerClass))",
                "annotations and loadBalancerClass go to load balancers and so belong to type loadbalancer only: leave them "
                "out, or write type: loadbalancer",
                field=".type",
            ),
        )
    )

    name: Annotated[
        str,
        Field(
            json_schema_extra=rules(
                rule(
                    "self.matches('^[a-z][a-z0-9]*$')",
                    "a listener's name begins with a small letter and goes on with small letters and digits, because Kafka's "
                    "listener and the Services are named after it: write for example outside",
                ),
                rule(
                    f"!(self in {list(RESERVED)})",
                    f"{', '.join(RESERVED[:-1])} and {RESERVED[-1]} are names that Spindle uses itself: take another one, for "
                    "example inside",
                ),
                maxLength=11,
            )
        ),
    ] = Field(description="Name of the listener; Kafka knows it in capital letters.")
    port: Annotated[
        int,
        Field(
            json_schema_extra=rules(
                rule(
                    f"self >= 1024 && self <= 65535 && !(self in {list(_TAKEN_PORTS)})",
                    f"a listener's port is a number from 1024 to 65535, but for {', '.join(map(str, _TAKEN_PORTS))}, which the "
                    "brokers use already: write for example 9095",
                )
            )
        ),
    ] = Field(
        description="Port of the brokers. Load balancers listen on it, too; nodes on one that Kubernetes chooses."
    )
    type: Literal["internal", "nodeport", "loadbalancer"] = Field(
        "internal",
        description="internal: reached inside Kubernetes; nodeport: by a port of each broker's node; loadbalancer: by a "
        "load balancer for each broker.",
    )
    auth: Literal["none", "mtls", "scram"] = Field(
        "mtls",
        description="How clients say who they are. mtls: by a certificate; scram: by a password (SCRAM-SHA-512); none: not at "
        "all, such clients are User:ANONYMOUS and may do what ACLs give to that name.",
    )
    address_types: (
        Annotated[
            list[Literal["ExternalIP", "InternalIP", "Hostname", "ExternalDNS", "InternalDNS"]],
            Field(json_schema_extra=atomic(most=5)),
        ]
        | None
    ) = Field(
        None,
        description="nodeport: which of a node's addresses clients use, the first one that it has. Left out, ExternalIP, then "
        "InternalIP.",
    )
    address_label: Annotated[str, Field(json_schema_extra=longest(316))] | None = Field(
        None, description="nodeport: label of the nodes whose value is the address that clients use."
    )
    annotations: dict[str, Annotated[str, Field(json_schema_extra=longest(4096))]] | None = Field(
        None,
        description="loadbalancer: annotations of the Services, which tell the cloud what kind of load balancer to make.",
        json_schema_extra={"maxProperties": 32},
    )
    load_balancer_class: Name | None = Field(
        None, description="loadbalancer: who makes them, where there are several."
    )


Listeners = Annotated[
    list[Listener],
    Field(
        json_schema_extra=list_map(
            "name",
            most=MAX_LISTENERS,
            **rules(
                rule(
                    "self.all(a, self.exists_one(b, b.port == a.port))",
                    "two listeners cannot have the same port: give each one of its own",
                ),
            ),
        )
    ),
]


class ListenerStatus(ApiModel):
    """Where clients find a listener."""

    name: Annotated[str, Field(json_schema_extra=longest(63))] = Field(description="Name of the listener.")
    bootstrap: Annotated[str, Field(json_schema_extra=longest(8192))] = Field(
        "",
        description="host:port that clients start from, several with commas between them; empty while none is known.",
    )


__all__ = ["MAX_LISTENERS", "RESERVED", "Listener", "ListenerStatus", "Listeners"]
