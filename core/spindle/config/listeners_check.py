"""Checks ``spec.listeners``: what a rule of the CRD cannot express, and what the CRD rejects, too, but not in an older spec, nor if it was not updated."""

import base64
import binascii
import ipaddress
import itertools
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from spindle.api.cluster import KafkaClusterSpec
from spindle.api.listeners import (
    AUDIENCE,
    CHOSEN_BY_USERS,
    CLAIM,
    TLS_ROUTE,
    URL,
    Listener,
    OAuth,
    of_broker,
)
from spindle.model.spec_findings import RejectedSettings

_LARGEST_PORT: Final = 65535
_LONGEST_HOST: Final = 253
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_BLOCK: Final = re.compile(r"-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----")
_SEQUENCE: Final = 0x30
_DER_HEADER: Final = 5
_EXAMPLE: Final = "broker-{nodeId}.kafka.example.com"


def refused_listeners(
    spec: KafkaClusterSpec, highest: int = 0, *, namespace: str | None = None
) -> tuple[RejectedSettings, ...]:
    """What is wrong in ``spec.listeners``.

    Args:
        spec: of the KafkaCluster.
        highest: the highest node id of a broker that exists; new brokers get higher ones if all lower ones are taken.
        namespace: of the KafkaCluster, in which Gateways are that name no other; None if it is not known.
    """
    last = max(highest, sum(pool.replicas for pool in spec.broker_pools) - 1)
    return (
        *_node_ports(spec, last),
        *_hosts(spec, last),
        *_routes(spec, last, namespace),
        *_tokens(spec),
    )


def _node_ports(spec: KafkaClusterSpec, last: int) -> Iterator[RejectedSettings]:
    bases = sorted(
        (each.node_port_base, each.name) for each in spec.listeners if each.node_port_base is not None
    )
    for (low, first), (high, second) in itertools.pairwise(bases):
        if high <= low + last:
            yield _refused(
                second,
                "nodePortBase",
                f"{high} lies within the node ports of listener {first} ({low} to {low + last}: its base and the node ids up to {last})",
                f"choose bases that are more than {last} apart, and leave room for further brokers: for example {low} and {low + _room(last)}",
            )
    for base, name in bases:
        if base + last > _LARGEST_PORT:
            yield _refused(
                name,
                "nodePortBase",
                f"with broker {last} it becomes {base + last}, and the largest port is {_LARGEST_PORT}",
                "choose a base within the range of node ports of the Kubernetes cluster: for example 31000",
            )


def _room(last: int) -> int:
    """The next round distance between two bases that leaves room for as many brokers again."""
    return max(100, -(-2 * last // 100) * 100)


def _hosts(spec: KafkaClusterSpec, last: int) -> Iterator[RejectedSettings]:
    for listener in spec.listeners:
        if listener.bootstrap is not None and not is_host(listener.bootstrap.host):
            yield _refused(
                listener.name,
                "bootstrap.host",
                f"{listener.bootstrap.host} is neither a DNS name nor an IPv4 address",
                "write for example kafka.example.com",
            )
        if listener.advertised_host_template is None:
            continue
        wrong = next((host for host in _made(listener, last) if not is_host(host)), None)
        if wrong is not None:
            yield _refused(
                listener.name,
                "advertisedHostTemplate",
                f"it gives {wrong}, which is neither a DNS name nor an IP address",
                f"write labels of at most 63 lowercase letters, digits and dashes between single dots: for example {_EXAMPLE}",
            )


def _routes(spec: KafkaClusterSpec, last: int, namespace: str | None) -> Iterator[RejectedSettings]:
    """What a Gateway could not tell apart by host name (SNI)."""
    behind = [each for each in spec.listeners if each.type == TLS_ROUTE]
    for listener in behind:
        yield from _unroutable(listener)
    for first, second in itertools.combinations(behind, 2):
        both = _routed(first, last) & _routed(second, last)
        if both and _on_one_listener(first, second, namespace):
            yield _refused(
                second.name,
                "advertisedHostTemplate",
                f"{min(both)} is a host of listener {first.name}, too, on the same Gateway, which could not tell them apart",
                "choose other names, or a Gateway or a sectionName of its own",
            )


def _unroutable(listener: Listener) -> Iterator[RejectedSettings]:
    template, bootstrap = listener.advertised_host_template, listener.bootstrap
    if not listener.tls:
        yield _refused(
            listener.name,
            "tls",
            "a Gateway tells brokers apart by the host name in the TLS handshake (SNI)",
            "remove tls: false, or write type: loadbalancer",
        )
    if not listener.parent_refs:
        yield _refused(
            listener.name,
            "parentRefs",
            "type: tlsroute needs the Gateways that clients connect to",
            "write for example parentRefs: [{name: outside, namespace: gateways}]",
        )
    if template is None or _is_address(of_broker(template, 0)):
        yield _refused(
            listener.name,
            "advertisedHostTemplate",
            "a Gateway tells brokers apart by the host name in the TLS handshake (SNI), which is no address",
            f"write for example {_EXAMPLE}",
        )
    if bootstrap is not None and _is_address(bootstrap.host):
        yield _refused(
            listener.name,
            "bootstrap.host",
            f"{bootstrap.host} is an address, and clients send only names in the TLS handshake",
            "write for example kafka.example.com",
        )
    elif bootstrap is not None and template is not None and _is_of_broker(template, bootstrap.host):
        yield _refused(
            listener.name,
            "bootstrap.host",
            f"{bootstrap.host} is the host of a broker, and a Gateway could not tell them apart",
            "write for example kafka.example.com",
        )


def _is_address(host: str) -> bool:
    return host.rpartition(".")[2].isdecimal()


def _is_of_broker(template: str, host: str) -> bool:
    """Whether a host is the one of a broker, whatever its number."""
    first, *more = map(re.escape, template.split("{nodeId}"))
    pattern = f"{first}(?P<id>0|[1-9][0-9]*)" + "(?P=id)".join(more)
    return bool(more) and re.fullmatch(pattern, host) is not None


def _routed(listener: Listener, last: int) -> set[str]:
    template = listener.advertised_host_template or ""
    hosts = {of_broker(template, number) for number in range(last + 1)} if template else set()
    return hosts | ({listener.bootstrap.host} if listener.bootstrap is not None else set())


def _on_one_listener(first: Listener, second: Listener, namespace: str | None) -> bool:
    """Whether two listeners share a Gateway and, where both name one, its listener."""
    return any(
        (one.name, one.namespace or namespace) == (other.name, other.namespace or namespace)
        and (one.section_name == other.section_name or None in (one.section_name, other.section_name))
        for one in first.parent_refs or ()
        for other in second.parent_refs or ()
    )


def _made(listener: Listener, last: int) -> tuple[str, ...]:
    """The shortest and the longest host of a listener's template. If both are valid, so are all between."""
    template = listener.advertised_host_template or ""
    return of_broker(template, 0), of_broker(template, last)


def _tokens(spec: KafkaClusterSpec) -> Iterator[RejectedSettings]:
    """What Kafka would not start with, and what would let in others than the issuer's clients."""
    for listener in spec.listeners:
        if (listener.auth == "oauth") != (listener.oauth is not None):
            yield _refused(
                listener.name,
                "oauth",
                "auth: oauth and the field oauth go together",
                "write both, or neither",
            )
        elif listener.oauth is not None:
            yield from _of_issuer(listener, listener.oauth)


def _of_issuer(listener: Listener, oauth: OAuth) -> Iterator[RejectedSettings]:
    if not listener.tls:
        yield _refused(
            listener.name,
            "tls",
            "without TLS, everybody on the way could use a token until it expires",
            "remove tls: false, or write auth: scram",
        )
    for key, url in (("issuer", oauth.issuer), ("jwks", oauth.jwks)):
        if not re.fullmatch(URL, url) or not _port_fits(url):
            yield _refused(
                listener.name,
                f"oauth.{key}",
                f"{url[:_LONGEST_HOST]} is no https URL",
                "write it as in the issuer's /.well-known/openid-configuration",
            )
    if not re.fullmatch(AUDIENCE, oauth.audience):
        yield _refused(
            listener.name,
            "oauth.audience",
            "it has spaces, commas or quotes",
            "write what tokens have as aud",
        )
    if not re.fullmatch(CLAIM, oauth.principal_claim) or oauth.principal_claim in CHOSEN_BY_USERS:
        yield _refused(
            listener.name,
            "oauth.principalClaim",
            f"{oauth.principal_claim[:_LONGEST_HOST]} is not a claim that only the issuer assigns",
            "write sub, or another claim that users cannot choose, such as client_id",
        )
    if oauth.ca_bundle is not None and not _is_bundle(oauth.ca_bundle):
        yield _refused(
            listener.name,
            "oauth.caBundle",
            "it is not a list of certificates in PEM",
            "write one or more certificates, from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE-----, and nothing else",
        )


def _port_fits(url: str) -> bool:
    try:
        return urlsplit(url).port != 0
    except ValueError:  # above the largest port
        return False


def _is_bundle(text: str) -> bool:
    """Whether a text is PEM blocks of one DER value each; whether these are certificates, only Kafka says."""
    blocks = _BLOCK.findall(text)
    return bool(blocks) and not _BLOCK.sub("", text).strip() and all(_is_der(block) for block in blocks)


def _is_der(block: str) -> bool:
    """Whether it is one DER SEQUENCE, with the length that it says (X.690, 8.1.3)."""
    try:
        data = base64.b64decode("".join(block.split()), validate=True)
    except (ValueError, binascii.Error):
        return False
    if (
        len(data) < _DER_HEADER
        or data[0] != _SEQUENCE
        or data[1] & 0x7F not in (1, 2, 3)
        or not data[1] & 0x80
    ):
        return False
    octets = data[1] & 0x7F
    return int.from_bytes(data[2 : 2 + octets], "big") == len(data) - 2 - octets


def is_host(text: str) -> bool:
    """Whether a text is a DNS name in lowercase or an IPv4 address. A name whose last label is a number is read as an address by clients."""
    labels = text.split(".")
    if labels[-1].isdecimal():
        try:
            ipaddress.IPv4Address(text)
        except ValueError:
            return False
        return True
    return len(text) <= _LONGEST_HOST and all(_LABEL.fullmatch(label) for label in labels)


def _refused(listener: str, key: str, message: str, way_out: str) -> RejectedSettings:
    return RejectedSettings(
        f"spec.listeners[{listener}].{key}", f"{listener}.{key}", f"{key}: {message}", way_out
    )
