"""Client listeners in addition to the one that every cluster has."""

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from spindle.api.common import ApiModel, Name, atomic, list_map, longest, rule, rules

MAX_LISTENERS: Final = 8
URL: Final = "^https://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[A-Za-z0-9._~%=&?/-]*)?$"
AUDIENCE: Final = "^[A-Za-z0-9._~:/@+=|-]+$"
CLAIM: Final = "^[A-Za-z_][A-Za-z0-9_.:/-]*$"
BUNDLE: Final = (
    "^(-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=[:space:]]+-----END CERTIFICATE-----[[:space:]]*)+$"
)
# Claims of OpenID Connect's scopes profile, email, phone and address, which users edit in many issuers; names that they choose when they sign up; and
# what a client writes into its request for a token.
CHOSEN_BY_USERS: Final = (
    "name",
    "given_name",
    "family_name",
    "middle_name",
    "nickname",
    "preferred_username",
    "username",
    "user_name",
    "cognito:username",
    "profile",
    "picture",
    "website",
    "email",
    "gender",
    "birthdate",
    "zoneinfo",
    "locale",
    "phone_number",
    "address",
    "nonce",
    "acr",
    "scope",
    "scp",
)
# Names that would clash with a listener or a Service that Spindle creates itself.
RESERVED: Final = ("controller", "controllers", "replication", "client", "brokers", "bootstrap")
_NODE_ID: Final = "{nodeId}"
# A character of a host, which the number of a broker may stand for; a label of a DNS name; a number of an address.
_HOST_CHARACTER: Final = "([a-z0-9]|[{]nodeId[}])"
_HOST_LABEL: Final = f"{_HOST_CHARACTER}(([a-z0-9-]|[{{]nodeId[}}])*{_HOST_CHARACTER})?"
_HOST_NUMBER: Final = "([0-9]|[{]nodeId[}])+"
_TAKEN_PORTS: Final = (9090, 9091, 9092, 9404)
TLS_ROUTE: Final = "tlsroute"
_GATEWAY_PORT: Final = 443
_DNS_NAME: Final = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
_NUMBER_LAST: Final = f"(^|[.]){_HOST_NUMBER}$"


class ListenerCertificate(ApiModel):
    """A certificate of the user's own."""

    secret_name: Annotated[
        str,
        Field(
            json_schema_extra=rules(
                rule(
                    "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
                    "secretName is the name of a Secret in the KafkaCluster's namespace: write for example kafka-outside",
                ),
                maxLength=253,
            )
        ),
    ] = Field(
        description="Secret in the same namespace with tls.crt (the certificate, followed by those of intermediate authorities) and tls.key, "
        "the format of cert-manager. The Secret's owner must label it spindle.dev/usable-by: <KafkaCluster>."
    )


class OAuth(ApiModel):
    """Which tokens a listener accepts."""

    issuer: Annotated[
        str,
        Field(
            json_schema_extra=rules(
                rule(
                    f"self.matches('{URL}')",
                    "issuer is the https URL that the tokens have as iss: write for example https://login.example.com/realms/kafka",
                ),
                maxLength=512,
            )
        ),
    ] = Field(description="Who must have issued a token (claim iss), as the issuer writes itself.")
    jwks: Annotated[
        str,
        Field(
            json_schema_extra=rules(
                rule(
                    f"self.matches('{URL}')",
                    "jwks is the https URL of the issuer's keys, jwks_uri in its /.well-known/openid-configuration: write for example "
                    "https://login.example.com/realms/kafka/certs",
                ),
                maxLength=512,
            )
        ),
    ] = Field(
        description="URL of the issuer's public keys (JWKS). Brokers read it when they start, once an hour, and for a key that they do not know."
    )
    audience: Annotated[
        str,
        Field(
            json_schema_extra=rules(
                rule(
                    f"self.matches('{AUDIENCE}')",
                    "audience is what tokens for this Kafka have as aud, without spaces, commas and quotes: write for example kafka",
                ),
                maxLength=256,
            )
        ),
    ] = Field(
        description="For whom a token must be (claim aud). Tokens that the issuer made for other services are rejected."
    )
    principal_claim: Annotated[
        str,
        Field(
            json_schema_extra=rules(
                rule(
                    f"self.matches('{CLAIM}')",
                    "principalClaim is the name of a claim: write for example sub",
                ),
                rule(
                    f"!(self in {list(CHOSEN_BY_USERS)})",
                    "users or clients may choose the value of this claim themselves, so each could take the rights of another, and of Spindle (OpenID Connect Core, "
                    "5.7): write sub, or a claim that only the issuer assigns, such as client_id or azp",
                ),
                maxLength=64,
            )
        ),
    ] = Field(
        "sub",
        description="The claim whose value is the principal: User:<value>. Whoever can choose that value in the issuer can be any principal.",
    )
    ca_bundle: (
        Annotated[
            str,
            Field(
                json_schema_extra=rules(
                    rule(
                        f"self.matches('{BUNDLE}')",
                        "caBundle is one or more certificates in PEM, -----BEGIN CERTIFICATE----- and so on, without keys and other text",
                    ),
                    maxLength=16384,
                )
            ),
        ]
        | None
    ) = Field(
        None,
        description="Certificates (PEM) of the authorities that may have signed the certificate of jwks. If unset, those that Java trusts.",
    )


class ParentRef(ApiModel):
    """A Gateway, or one listener of it."""

    name: Annotated[
        str,
        Field(
            json_schema_extra=rules(
                rule(
                    f"self.matches('{_DNS_NAME}')", "name is the name of a Gateway: write for example outside"
                ),
                maxLength=253,
            )
        ),
    ] = Field(description="Name of the Gateway.")
    namespace: (
        Annotated[
            str,
            Field(
                json_schema_extra=rules(
                    rule(
                        "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
                        "namespace is the namespace of the Gateway: write for example gateways, or omit it for the KafkaCluster's own",
                    ),
                    maxLength=63,
                )
            ),
        ]
        | None
    ) = Field(
        None,
        description="Namespace of the Gateway. If unset, the KafkaCluster's. The listener of the Gateway must allow routes of the KafkaCluster's "
        "namespace (allowedRoutes).",
    )
    section_name: (
        Annotated[
            str,
            Field(
                json_schema_extra=rules(
                    rule(
                        f"self.matches('{_DNS_NAME}')",
                        "sectionName is the name of one of the Gateway's listeners: write for example kafka, or omit it for all that fit",
                    ),
                    maxLength=253,
                )
            ),
        ]
        | None
    ) = Field(
        None,
        description="The Gateway's listener, which has protocol TLS and mode Passthrough. If unset, all of its listeners that fit the host names.",
    )


class Bootstrap(ApiModel):
    """One address for all brokers, which clients only bootstrap from."""

    host: Annotated[
        str,
        Field(
            json_schema_extra=rules(
                rule(
                    "self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')",
                    "host is a DNS name or an IPv4 address: write for example kafka.example.com",
                ),
                maxLength=253,
            )
        ),
    ] = Field(
        description="Name under which clients reach the load balancer or the Gateway, to which it must resolve. It is in the certificate of every broker."
    )
    annotations: dict[str, Annotated[str, Field(json_schema_extra=longest(4096))]] | None = Field(
        None,
        description="loadbalancer: annotations of its Service, for example for external-dns.",
        json_schema_extra={"maxProperties": 32},
    )


class Listener(ApiModel):
    """An additional listener of every broker. Connections are encrypted unless tls is false."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.type == 'nodeport' || (!has(self.addressTypes) && !has(self.addressLabel))",
                "addressTypes and addressLabel select the node address that clients use and apply to type nodeport only: omit them, or "
                "write type: nodeport",
                field=".type",
            ),
            rule(
                "!has(self.addressTypes) || !has(self.addressLabel)",
                "a node's address comes from its status (addressTypes) or from a label (addressLabel): write only one of the two",
                field=".addressLabel",
            ),
            rule(
                "self.type == 'loadbalancer' || (!has(self.annotations) && !has(self.loadBalancerClass))",
                "annotations and loadBalancerClass apply to type loadbalancer only: omit them, or write type: loadbalancer",
                field=".type",
            ),
            rule(
                "self.tls || self.auth != 'mtls'",
                "a listener without TLS cannot ask for client certificates: write auth: scram, or remove tls: false",
                field=".auth",
            ),
            rule(
                "(self.auth == 'oauth') == has(self.oauth)",
                "auth: oauth needs the field oauth with issuer, jwks and audience, and other listeners have none: write both or neither",
                field=".oauth",
            ),
            rule(
                "self.tls || self.auth != 'oauth'",
                "without TLS, everybody on the way could use a token until it expires: remove tls: false, or write auth: scram",
                field=".auth",
            ),
            rule(
                "self.tls || !has(self.certificate)",
                "a listener without TLS presents no certificate: omit certificate, or remove tls: false",
                field=".certificate",
            ),
            rule(
                "self.type == 'loadbalancer' || !has(self.loadBalancerSourceRanges)",
                "loadBalancerSourceRanges applies to type loadbalancer only: omit it, or write type: loadbalancer",
                field=".type",
            ),
            rule(
                "self.type in ['loadbalancer', 'tlsroute'] || !has(self.bootstrap)",
                "bootstrap applies to types loadbalancer and tlsroute only: omit it, or write type: loadbalancer",
                field=".type",
            ),
            rule(
                "self.type != 'internal' || (!has(self.advertisedHostTemplate) && !has(self.externalTrafficPolicy))",
                "advertisedHostTemplate and externalTrafficPolicy apply to listeners for clients outside Kubernetes: omit them, or write "
                "type: loadbalancer",
                field=".type",
            ),
            rule(
                "self.type == 'tlsroute' || (!has(self.parentRefs) && !has(self.advertisedPort))",
                "parentRefs and advertisedPort say which Gateway clients connect to and apply to type tlsroute only: omit them, or write type: tlsroute",
                field=".type",
            ),
            rule(
                "self.type != 'tlsroute' || has(self.parentRefs)",
                "type: tlsroute needs the Gateways that clients connect to: write for example parentRefs: [{name: outside, namespace: gateways}]",
                field=".parentRefs",
            ),
            rule(
                "self.type != 'tlsroute' || has(self.advertisedHostTemplate)",
                "a Gateway tells brokers apart by the host name in the TLS handshake (SNI), so each needs one of its own: write for example "
                "advertisedHostTemplate: broker-{nodeId}.kafka.example.com",
                field=".advertisedHostTemplate",
            ),
            rule(
                f"self.type != 'tlsroute' || !has(self.advertisedHostTemplate) || !self.advertisedHostTemplate.matches('{_NUMBER_LAST}')",
                "clients send no address in the TLS handshake, so a Gateway cannot tell brokers apart by it: write names, for example "
                "broker-{nodeId}.kafka.example.com",
                field=".advertisedHostTemplate",
            ),
            rule(
                f"self.type != 'tlsroute' || !has(self.bootstrap) || !self.bootstrap.host.matches('{_NUMBER_LAST}')",
                "clients send no address in the TLS handshake, so a Gateway cannot route by it: write a name, for example kafka.example.com",
                field=".bootstrap.host",
            ),
            rule(
                "self.type != 'tlsroute' || !has(self.bootstrap) || !has(self.bootstrap.annotations)",
                "bootstrap.annotations are those of a load balancer, and a Gateway has its own: omit them, or write type: loadbalancer",
                field=".bootstrap.annotations",
            ),
            rule(
                "self.type != 'tlsroute' || self.tls",
                "a Gateway tells brokers apart by the host name in the TLS handshake (SNI), so type: tlsroute needs TLS: remove tls: false, or write "
                "type: loadbalancer",
                field=".tls",
            ),
            rule(
                "self.type != 'tlsroute' || !has(self.externalTrafficPolicy)",
                "externalTrafficPolicy applies to types nodeport and loadbalancer only; for type tlsroute it is a matter of the Gateway: omit it",
                field=".externalTrafficPolicy",
            ),
            rule(
                "self.type == 'nodeport' || !has(self.nodePortBase)",
                "nodePortBase applies to type nodeport only: omit it, or write type: nodeport",
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
                    "a listener's name starts with a lowercase letter and contains only lowercase letters and digits, because Kafka's "
                    "listener and the Services are named after it: write for example outside",
                ),
                rule(
                    f"!(self in {list(RESERVED)})",
                    f"{', '.join(RESERVED[:-1])} and {RESERVED[-1]} are reserved for Spindle: choose another name, for "
                    "example inside",
                ),
                maxLength=11,
            )
        ),
    ] = Field(description="Name of the listener; in Kafka it is in uppercase.")
    port: Annotated[
        int,
        Field(
            json_schema_extra=rules(
                rule(
                    f"self >= 1024 && self <= 65535 && !(self in {list(_TAKEN_PORTS)})",
                    f"a listener's port is a number from 1024 to 65535, except {', '.join(map(str, _TAKEN_PORTS))}, which the "
                    "brokers already use: write for example 9095",
                )
            )
        ),
    ] = Field(
        description="Port of the listener on the brokers. Load balancers use the same port; for type nodeport, Kubernetes chooses the node "
        "port; for type tlsroute, clients use advertisedPort."
    )
    type: Literal["internal", "nodeport", "loadbalancer", "tlsroute"] = Field(
        "internal",
        description="internal: reachable inside Kubernetes; nodeport: through a port of each broker's node; loadbalancer: through a load "
        "balancer for each broker; tlsroute: through a Gateway of the Gateway API, which routes by host name (SNI).",
    )
    auth: Literal["none", "mtls", "scram", "oauth"] = Field(
        "mtls",
        description="How clients authenticate. mtls: with a certificate; scram: with a password (SCRAM-SHA-512); oauth: with a token of an issuer (OAUTHBEARER); none: not at all; such "
        "clients are User:ANONYMOUS and may do what ACLs grant to that principal.",
    )
    oauth: OAuth | None = Field(None, description="oauth: which tokens are accepted.")
    tls: bool = Field(
        True,
        description="Whether connections are encrypted. Without TLS, everybody on the way can read and change what is sent, also what clients "
        "with passwords send after they have logged in: only for networks that protect it otherwise.",
    )
    certificate: ListenerCertificate | None = Field(
        None,
        description="A certificate of your own for this listener, for clients that trust its authority and not the cluster's. When the Secret holds "
        "another one, brokers take it up without a restart. If unset, the certificates that Spindle issues.",
    )
    address_types: (
        Annotated[
            list[Literal["ExternalIP", "InternalIP", "Hostname", "ExternalDNS", "InternalDNS"]],
            Field(json_schema_extra=atomic(most=5)),
        ]
        | None
    ) = Field(
        None,
        description="nodeport: the types of node address for clients, in order of preference; the first that a node has is used. If unset, "
        "ExternalIP, then InternalIP.",
    )
    address_label: Annotated[str, Field(json_schema_extra=longest(316))] | None = Field(
        None, description="nodeport: node label whose value is the address for clients."
    )
    annotations: dict[str, Annotated[str, Field(json_schema_extra=longest(4096))]] | None = Field(
        None,
        description="loadbalancer: annotations of the Services, which configure the load balancers of the cloud provider. {nodeId} in a value "
        "is replaced by the broker's node id.",
        json_schema_extra={"maxProperties": 32},
    )
    bootstrap: Bootstrap | None = Field(
        None,
        description="loadbalancer and tlsroute: one more load balancer or route, for all brokers, so that clients need only one address to bootstrap from.",
    )
    parent_refs: Annotated[list[ParentRef], Field(json_schema_extra=atomic(most=8, minItems=1))] | None = (
        Field(
            None,
            description="tlsroute: the Gateways that clients connect to. The TLSRoutes have these parentRefs.",
        )
    )
    advertised_port: (
        Annotated[
            int,
            Field(
                json_schema_extra=rules(
                    rule(
                        "self >= 1 && self <= 65535",
                        "advertisedPort is the port of the Gateway's listener, a number from 1 to 65535: write for example 443",
                    )
                )
            ),
        ]
        | None
    ) = Field(
        None,
        description="tlsroute: the port that clients connect to, the one of the Gateway's listener. If unset, 443.",
    )
    load_balancer_class: Name | None = Field(
        None,
        description="loadbalancer: spec.loadBalancerClass of the Services, for clusters with several load balancer controllers.",
    )
    load_balancer_source_ranges: (
        Annotated[
            list[
                Annotated[
                    str,
                    Field(
                        json_schema_extra=rules(
                            rule(
                                "self.matches('^[0-9a-fA-F.:]+/[0-9]{1,3}$')",
                                "an entry of loadBalancerSourceRanges is a range of addresses: write for example 10.0.0.0/8",
                            ),
                            maxLength=43,
                        )
                    ),
                ]
            ],
            Field(json_schema_extra=atomic(most=64)),
        ]
        | None
    ) = Field(
        None,
        description="loadbalancer: the addresses that may connect, if the load balancer supports that. If unset, all.",
    )
    external_traffic_policy: Literal["Cluster", "Local"] | None = Field(
        None,
        description="nodeport and loadbalancer: spec.externalTrafficPolicy of the Services. If unset, Local for nodeport, and Kubernetes' default "
        "(Cluster) for loadbalancer.",
    )
    node_port_base: (
        Annotated[
            int,
            Field(
                json_schema_extra=rules(
                    rule(
                        "self >= 1024 && self <= 65535",
                        "nodePortBase is a number from 1024 to 65535, within the range of node ports of the Kubernetes cluster: write for example "
                        "31000",
                    )
                )
            ),
        ]
        | None
    ) = Field(
        None,
        description="nodeport: the node port of each broker is this number plus its node id. If unset, Kubernetes chooses them.",
    )
    advertised_host_template: (
        Annotated[
            str,
            Field(
                json_schema_extra=rules(
                    rule(
                        f"self.matches('^{_HOST_LABEL}([.]{_HOST_LABEL})*$') && self.contains('{_NODE_ID}')",
                        "advertisedHostTemplate is a DNS name with {nodeId}, so that each broker has its own: labels of lowercase letters, digits and "
                        "dashes, which neither begin nor end with a dash, between single dots: write for example broker-{nodeId}.kafka.example.com",
                    ),
                    rule(
                        f"!self.matches('(^|[.]){_HOST_NUMBER}$') || self.matches('^({_HOST_NUMBER}[.]){{3}}{_HOST_NUMBER}$')",
                        "a host whose last part is a number is an IPv4 address with four numbers: write for example broker-{nodeId}.kafka.example.com "
                        "or 10.0.0.{nodeId}",
                    ),
                    maxLength=240,
                )
            ),
        ]
        | None
    ) = Field(
        None,
        description="nodeport, loadbalancer and tlsroute: the host that each broker advertises in place of the address that Kubernetes reports; {nodeId} is "
        "replaced by its node id. It is in the broker's certificate. The names must resolve to the brokers' load balancers or nodes, or to the Gateway.",
    )
    max_connections: Annotated[int, Field(json_schema_extra={"minimum": 1, "maximum": 2147483647})] | None = (
        Field(
            None,
            description="Most connections to this listener of one broker at a time. Further clients wait until one closes. If unset, no limit of its own.",
        )
    )
    max_connection_creation_rate: (
        Annotated[int, Field(json_schema_extra={"minimum": 1, "maximum": 2147483647})] | None
    ) = Field(
        None,
        description="Most new connections to this listener of one broker per second. If unset, no limit of its own.",
    )


def gateway_port(listener: Listener) -> int:
    """The port that clients of a listener behind a Gateway connect to."""
    return listener.advertised_port or _GATEWAY_PORT


def of_broker(text: str, node_id: int) -> str:
    """A text that differs by broker, such as a host name: with its node id in place of ``{nodeId}``."""
    return text.replace(_NODE_ID, str(node_id))


Listeners = Annotated[
    list[Listener],
    Field(
        json_schema_extra=list_map(
            "name",
            most=MAX_LISTENERS,
            **rules(
                rule(
                    "self.all(a, self.exists_one(b, b.port == a.port))",
                    "two listeners cannot have the same port: give each its own port",
                ),
                rule(
                    "self.all(a, !has(a.nodePortBase) || self.exists_one(b, has(b.nodePortBase) && b.nodePortBase == a.nodePortBase))",
                    "two listeners cannot have the same nodePortBase: choose bases that are further apart than the highest node id of a broker, for "
                    "example 31000 and 31100",
                ),
            ),
        )
    ),
]


class ListenerStatus(ApiModel):
    """Bootstrap servers of a listener."""

    name: Annotated[str, Field(json_schema_extra=longest(63))] = Field(description="Name of the listener.")
    bootstrap: Annotated[str, Field(json_schema_extra=longest(8192))] = Field(
        "",
        description="Bootstrap servers (host:port, comma-separated); empty while none is known.",
    )


__all__ = [
    "MAX_LISTENERS",
    "RESERVED",
    "TLS_ROUTE",
    "Listener",
    "ListenerCertificate",
    "ListenerStatus",
    "Listeners",
    "OAuth",
    "ParentRef",
    "gateway_port",
    "of_broker",
]
