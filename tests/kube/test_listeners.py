"""Doors at a real API server: what is refused of listeners and users, and with which sentence."""

from typing import Any

import pytest

from spindle.api.names import API_VERSION
from tests.kube.api import Resources
from tests.kube.samples import GONE, bent, cluster
from tests.kube.test_refusals import assert_says, case, refused

pytestmark = pytest.mark.kube

FIRST = "spec.listeners[0]"


def listener(**more: Any) -> dict[str, Any]:
    return {"name": "outside", "port": 9095, **more}


OAUTH = {
    "issuer": "https://login.example.com",
    "jwks": "https://login.example.com/certs",
    "audience": "kafka",
}
ROUTED: dict[str, Any] = {
    "type": "tlsroute",
    "parentRefs": [{"name": "outside", "namespace": "gateways", "sectionName": "kafka"}],
    "advertisedHostTemplate": "broker-{nodeId}.kafka.example.com",
    "bootstrap": {"host": "kafka.example.com"},
}
LISTENERS = [
    case("name-client", {f"{FIRST}": listener(name="client")}, f"{FIRST}.name", "choose another name"),
    case(
        "name-with-dash",
        {f"{FIRST}": listener(name="out-side")},
        f"{FIRST}.name",
        "lowercase letters and digits",
    ),
    case("name-too-long", {f"{FIRST}": listener(name="a" * 12)}, f"{FIRST}.name", "Too long"),
    case("port-taken", {f"{FIRST}": listener(port=9092)}, f"{FIRST}.port", "write for example 9095"),
    case("port-low", {f"{FIRST}": listener(port=80)}, f"{FIRST}.port", "write for example 9095"),
    case(
        "same-port",
        {"spec.listeners": [listener(), listener(name="other")]},
        "spec.listeners",
        "give each its own port",
    ),
    case(
        "same-name",
        {"spec.listeners": [listener(), listener(port=9096)]},
        "spec.listeners[1]",
        "Duplicate value",
    ),
    case(
        "auth-plain",
        {f"{FIRST}": listener(auth="plain")},
        f"{FIRST}.auth",
        '"none", "mtls", "scram", "oauth"',
    ),
    case("type-ingress", {f"{FIRST}": listener(type="ingress")}, f"{FIRST}.type", '"nodeport"'),
    case(
        "label-of-internal", {f"{FIRST}": listener(addressLabel="x")}, f"{FIRST}.type", "write type: nodeport"
    ),
    case(
        "label-and-types",
        {f"{FIRST}": listener(type="nodeport", addressLabel="x", addressTypes=["Hostname"])},
        f"{FIRST}.addressLabel",
        "one of the two",
    ),
    case(
        "class-of-nodeport",
        {f"{FIRST}": listener(type="nodeport", loadBalancerClass="x")},
        f"{FIRST}.type",
        "write type: loadbalancer",
    ),
    case("certificates-without-tls", {f"{FIRST}": listener(tls=False)}, f"{FIRST}.auth", "write auth: scram"),
    case(
        "template-of-internal",
        {f"{FIRST}": listener(advertisedHostTemplate="b-{nodeId}.x")},
        f"{FIRST}.type",
        "write type: loadbalancer",
    ),
    case(
        "template-without-number",
        {f"{FIRST}": listener(type="loadbalancer", advertisedHostTemplate="kafka.example.com")},
        f"{FIRST}.advertisedHostTemplate",
        "write for example broker-{nodeId}.kafka.example.com",
    ),
    case(
        "template-with-scheme",
        {f"{FIRST}": listener(type="loadbalancer", advertisedHostTemplate="ssl://b-{nodeId}")},
        f"{FIRST}.advertisedHostTemplate",
        "is a DNS name with {nodeId}",
    ),
    *(
        case(
            f"template-{name}",
            {f"{FIRST}": listener(type="loadbalancer", advertisedHostTemplate=template)},
            f"{FIRST}.advertisedHostTemplate",
            "write for example broker-{nodeId}.kafka.example.com",
        )
        for name, template in (
            ("with-two-dots", "..{nodeId}"),
            ("with-an-empty-label", "broker-{nodeId}..example.com"),
            ("that-ends-with-a-dot", "broker-{nodeId}.example.com."),
            ("that-ends-with-a-dash", "broker-{nodeId}-.example.com"),
            ("of-three-numbers", "10.0.{nodeId}"),
            ("that-ends-with-a-number", "broker.{nodeId}"),
        )
    ),
    case(
        "bootstrap-of-nodeport",
        {f"{FIRST}": listener(type="nodeport", bootstrap={"host": "kafka.example.com"})},
        f"{FIRST}.type",
        "write type: loadbalancer",
    ),
    case(
        "bootstrap-with-two-dots",
        {f"{FIRST}": listener(type="loadbalancer", bootstrap={"host": "kafka..com"})},
        f"{FIRST}.bootstrap.host",
        "write for example kafka.example.com",
    ),
    case(
        "oauth-without-issuer",
        {f"{FIRST}": listener(auth="oauth")},
        f"{FIRST}.oauth",
        "issuer, jwks and audience",
    ),
    case("issuer-of-others", {f"{FIRST}": listener(oauth=OAUTH)}, f"{FIRST}.oauth", "write both or neither"),
    case(
        "tokens-without-tls",
        {f"{FIRST}": listener(auth="oauth", tls=False, oauth=OAUTH)},
        f"{FIRST}.auth",
        "remove tls: false",
    ),
    *(
        case(
            f"oauth-{name}",
            {f"{FIRST}": listener(auth="oauth", oauth={**OAUTH, key: value})},
            f"{FIRST}.oauth.{key}",
            way_out,
        )
        for name, key, value, way_out in (
            ("issuer", "issuer", "login.example.com", "write for example https://"),
            ("file", "jwks", "file:///etc/passwd", "write for example https://"),
            ("two-urls", "jwks", "https://a.org/x,https://b.org", "write for example https://"),
            ("no-audience", "audience", "", "write for example kafka"),
            (
                "chosen-by-users",
                "principalClaim",
                "email",
                "write sub, or a claim that only the issuer assigns",
            ),
            ("no-claim", "principalClaim", "a b", "write for example sub"),
            ("no-bundle", "caBundle", "nonsense", "without keys and other text"),
        )
    ),
    case(
        "a-path-for-a-certificate",
        {f"{FIRST}": listener(certificate={"secretName": "../x"})},
        f"{FIRST}.certificate.secretName",
        "write for example kafka-outside",
    ),
    case(
        "certificate-without-tls",
        {f"{FIRST}": listener(tls=False, auth="scram", certificate={"secretName": "x"})},
        f"{FIRST}.certificate",
        "remove tls: false",
    ),
    case(
        "same-base",
        {
            "spec.listeners": [
                listener(type="nodeport", nodePortBase=31000),
                listener(name="other", port=9096, type="nodeport", nodePortBase=31000),
            ]
        },
        "spec.listeners",
        "further apart than the highest node id",
    ),
    case(
        "overlapping-bases",
        {
            "spec.listeners": [
                listener(type="nodeport", nodePortBase=31000),
                listener(name="other", port=9096, type="nodeport", nodePortBase=31002),
            ]
        },
        "spec.listeners",
        "choose bases that are further apart than the highest node id",
    ),
    case(
        "ranges-of-nodeport",
        {f"{FIRST}": listener(type="nodeport", loadBalancerSourceRanges=["10.0.0.0/8"])},
        f"{FIRST}.type",
        "write type: loadbalancer",
    ),
    *(
        case(f"route-{name}", {f"{FIRST}": listener(**{**ROUTED, **changes})}, f"{FIRST}.{field}", way_out)
        for name, changes, field, way_out in (
            ("without-gateway", {"parentRefs": None}, "parentRefs", "parentRefs: [{name: outside"),
            ("with-no-gateway", {"parentRefs": []}, "parentRefs", "at least 1"),
            (
                "without-hosts",
                {"advertisedHostTemplate": None},
                "advertisedHostTemplate",
                "write for example",
            ),
            (
                "of-addresses",
                {"advertisedHostTemplate": "10.0.0.{nodeId}"},
                "advertisedHostTemplate",
                "write names",
            ),
            ("bootstrap-address", {"bootstrap": {"host": "10.0.0.1"}}, "bootstrap.host", "write a name"),
            (
                "bootstrap-annotations",
                {"bootstrap": {"host": "kafka.example.com", "annotations": {"a": "b"}}},
                "bootstrap.annotations",
                "write type: loadbalancer",
            ),
            ("without-tls", {"tls": False, "auth": "scram"}, "tls", "remove tls: false"),
            ("policy", {"externalTrafficPolicy": "Local"}, "externalTrafficPolicy", "omit it"),
            ("port", {"advertisedPort": 0}, "advertisedPort", "write for example 443"),
            ("of-another-type", {"type": "loadbalancer"}, "type", "write type: tlsroute"),
            (
                "port-of-another-type",
                {"type": "nodeport", "parentRefs": None, "advertisedPort": 443},
                "type",
                "write type: tlsroute",
            ),
            (
                "gateways-name",
                {"parentRefs": [{"name": "a/b"}]},
                "parentRefs[0].name",
                "write for example outside",
            ),
            (
                "gateways-namespace",
                {"parentRefs": [{"name": "a", "namespace": "A"}]},
                "parentRefs[0].namespace",
                "write for example gateways",
            ),
            (
                "gateways-listener",
                {"parentRefs": [{"name": "a", "sectionName": "A"}]},
                "parentRefs[0].sectionName",
                "write for example kafka",
            ),
            ("balancers-class", {"loadBalancerClass": "x"}, "type", "write type: loadbalancer"),
        )
    ),
    case(
        "no-range",
        {f"{FIRST}": listener(type="loadbalancer", loadBalancerSourceRanges=["10.0.0.0"])},
        f"{FIRST}.loadBalancerSourceRanges[0]",
        "write for example 10.0.0.0/8",
    ),
    case(
        "base-of-loadbalancer",
        {f"{FIRST}": listener(type="loadbalancer", nodePortBase=31000)},
        f"{FIRST}.type",
        "write type: nodeport",
    ),
    case("no-connections", {f"{FIRST}": listener(maxConnections=0)}, f"{FIRST}.maxConnections", "1"),
    case(
        "certificates-outlive-their-authority",
        {"spec.security": {"caDays": 30, "certificateDays": 31}},
        "spec.security.certificateDays",
        "at most as large as caDays",
    ),
    case(
        "grace-longer-than-a-replacement-may-take",
        {"spec.security": {"caDays": 400, "clientGraceSeconds": 2592000}},
        "spec.security.clientGraceSeconds",
        "a larger caDays",
    ),
    case(
        "a-path-for-a-secret",
        {"spec.security": {"caSecret": "../secrets/x"}},
        "spec.security.caSecret",
        "write for example kafka-ca",
    ),
    case(
        "rotate-what-others-make",
        {"spec.security": {"caSecret": "kafka-ca", "rotate": "1"}},
        "spec.security.rotate",
        "remove rotate",
    ),
    case(
        "no-grace", {"spec.security": {"clientGraceSeconds": 0}}, "spec.security.clientGraceSeconds", "86400"
    ),
]


@pytest.mark.parametrize(("changes", "field", "way_out"), LISTENERS)
def test_of_a_cluster(shared: Resources, changes: dict[str, Any], field: str, way_out: str) -> None:
    assert_says(refused(shared, bent(bent(cluster(), {"spec.listeners": []}), changes)), field, way_out)


def test_what_is_well_written_is_taken(shared: Resources) -> None:
    listeners = [
        listener(auth="scram"),
        listener(name="nodes", port=9096, type="nodeport", addressTypes=["ExternalDNS", "Hostname"]),
        listener(name="cloud", port=9097, type="loadbalancer", auth="none", annotations={"a": "b"}),
        listener(name="routed", port=9098, **ROUTED, advertisedPort=9443),
    ]
    shared.create(bent(cluster(), {"spec.listeners": listeners, "spec.security": {"rotate": "1"}}), dry=True)
    shared.create(bent(cluster(), {"spec.security": {"caSecret": "kafka.ca-1"}}), dry=True)


def user(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "KafkaUser",
        "metadata": {"name": "orders"},
        "spec": {"cluster": "demo", **spec},
    }


ACL = {"resource": "topic", "name": "orders", "operations": ["Read"]}
USERS = [
    case("users-name-admin", {"metadata.name": "admin"}, "<nil>", "reserved for Spindle"),
    case("users-name-super", {"metadata.name": "spindle-operator"}, "<nil>", "reserved for Spindle"),
    case("users-name-longer-than-a-label", {"metadata.name": "o" * 64}, "<nil>", "at most 63 characters"),
    case("users-no-cluster", {"spec.cluster": GONE}, "spec.cluster", "Required value"),
    case("users-plain", {"spec.authentication": "plain"}, "spec.authentication", '"mtls", "scram", "oauth"'),
    case("users-principal-of-a-certificate", {"spec.principal": "x"}, "spec.principal", "write authentication: oauth"),
    case("users-principal-super", {"spec.authentication": "oauth", "spec.principal": "spindle-node"}, "spec.principal", "reserved"),
    case("users-principal-all", {"spec.authentication": "oauth", "spec.principal": "*"}, "spec.principal", "without spaces"),
    case("users-principal-anonymous", {"spec.authentication": "oauth", "spec.principal": "ANONYMOUS"}, "spec.principal", "reserved"),
    case("users-acl-unnamed", {"spec.acls": [{**ACL, "name": None}]}, "spec.acls[0].name", "set it for these"),
    case("users-acl-named-cluster", {"spec.acls": [{**ACL, "resource": "cluster"}]}, "spec.acls[0].name", "omit it for cluster"),
    case("users-quota-none", {"spec.quotas": {"producerBytesPerSecond": 0}}, "spec.quotas.producerBytesPerSecond", "no quota"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "field", "way_out"), USERS)
def test_of_users(shared: Resources, changes: dict[str, Any], field: str, way_out: str) -> None:
    assert_says(refused(shared, bent(user(), changes)), field, way_out)


def test_users_that_are_well_written_are_taken(shared: Resources) -> None:
    quotas = {"producerBytesPerSecond": 1, "consumerBytesPerSecond": 1, "requestPercentage": 10}
    all_of_it = {"resource": "cluster", "operations": ["Alter", "Describe"]}
    shared.create(user(authentication="scram", acls=[ACL, all_of_it], quotas=quotas), dry=True)
    shared.create(user(authentication="oauth", principal="auth0|5f7c8ec7c33c6c004bbafe82"), dry=True)
    bundle = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    tokens = {**OAUTH, "principalClaim": "client_id", "caBundle": bundle * 2}
    shared.create(bent(cluster(), {"spec.listeners": [listener(auth="oauth", oauth=tokens)]}), dry=True)
