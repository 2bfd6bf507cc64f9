"""``server.properties`` of brokers and controllers; equal inputs give equal text.

Spindle owns the keys for a node's identity, for its data and for who may connect to it: they override the user's configuration, which in turn
overrides all other defaults. ``log.dirs`` is missing: preflight adds it, because only preflight sees the disks.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from spindle.api import names
from spindle.api.policy import RACK_AWARE, REPLICA_SELECTOR
from spindle.listeners.broker_listener import BrokerListener, listener_settings, protocols
from spindle.model.layout import Layout

_FULL_REPLICATION: Final = 3
_HEAP: Final = re.compile(r"(\d+)([kKmMgG]?)")
_HEAP_UNITS: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_ROOMY_HEAP: Final = 2**30
_LEAST_DEDUPE_BUFFER: Final = 2 * 2**20
# Only a CN that comes first and consists of these characters becomes a principal; any other subject stays whole, and so matches no known
# principal.
# A throttled copy that exceeded its rate pauses for this long: with Kafka's default of one second it stays up to a fifth below its rate.
_PACE: Final = {"replica.fetch.backoff.ms": "200"}
_PRINCIPAL_RULE: Final = "RULE:^CN=([A-Za-z0-9._-]+)(,.*)?$/$1/,DEFAULT"
# Preflight adds log.dirs, which takes precedence over log.dir.
_BY_PREFLIGHT: Final = ("log.dir", "log.dirs")
_ASKED: Final = "asked"
# Text that `java.util.Properties` reads unescaped: printable ASCII without a backslash, no space at the start of a value.
_PLAIN_KEY: Final = re.compile(r'["$-9;<>-\[\]-~]*')
_PLAIN_VALUE: Final = re.compile(r"(?:[!-\[\]-~][ -\[\]-~]*)?")
_ESCAPED: Final = re.compile(r"((?:\\u[0-9a-f]{4})+)|\\(.)")
# One pass renders each node's configuration several times, and the next pass mostly renders the same again.
_RENDERED: Final = 4096


@dataclass(frozen=True, kw_only=True)
class NodeConfig:
    """The inputs of one node's configuration.

    Attributes:
        host: name or address under which the others reach the node.
        controllers: node id → host of all desired controllers; with a static quorum, of its voters.
        brokers: the desired number of brokers; replication factors are derived from it.
        config: the user's configuration of the whole cluster.
        pool_config: the user's configuration of the broker's pool; overrides `config`.
        heap: the JVM's heap (``512m``, ``1g``), None for the default: buffers that Kafka sizes independently of the heap are
            reduced to fit a small one.
        bind: address to listen on; empty for all.
        listeners: the broker's listeners from the spec.
        follower_fetching: whether brokers send a consumer with ``client.rack`` to a replica in that rack (KIP-392).
        static_quorum: whether the voters are part of the configuration, as they are until kraft.version is 1 (KIP-853).
    """

    node_id: int
    host: str
    controllers: Mapping[int, str]
    brokers: int
    config: Mapping[str, str] = field(default_factory=dict)
    pool_config: Mapping[str, str] = field(default_factory=dict)
    heap: str | None = None
    bind: str = ""
    layout: Layout = field(default_factory=Layout)
    listeners: tuple[BrokerListener, ...] = ()
    follower_fetching: bool = False
    static_quorum: bool = False


def node_config(
    cluster: str,
    namespace: str,
    node_id: int,
    *,
    controllers: tuple[int, ...],
    brokers: int,
    config: Mapping[str, str] | None = None,
    pool_config: Mapping[str, str] | None = None,
    heap: str | None = None,
    follower_fetching: bool = False,
) -> NodeConfig:
    """The inputs of a node in Kubernetes, with the host names of its Services.

    ``controllers`` are the node ids of all controllers; for the rest, see `NodeConfig`.
    """
    return NodeConfig(
        node_id=node_id,
        host=names.node_host(cluster, namespace, node_id),
        controllers=_hosts(cluster, namespace, controllers),
        brokers=brokers,
        config=config or {},
        pool_config=pool_config or {},
        heap=heap,
        follower_fetching=follower_fetching,
    )


@lru_cache(maxsize=_RENDERED)
def _hosts(cluster: str, namespace: str, controllers: tuple[int, ...]) -> Mapping[int, str]:
    """Node id → host, in order: the same for every node of a cluster."""
    return MappingProxyType({i: names.node_host(cluster, namespace, i) for i in sorted(controllers)})


def broker_settings(node: NodeConfig, *, rack: str | None) -> dict[str, str]:
    """A broker's ``server.properties`` without ``log.dirs``."""
    listeners = node.listeners
    listening = {names.LISTENER_REPLICATION: names.PORT_REPLICATION, names.LISTENER_CLIENT: names.PORT_CLIENT}
    own = [f"{listener}://{node.host}:{port}" for listener, port in listening.items()]
    listening |= {broker_listener.listener: broker_listener.port for broker_listener in listeners}
    owned = _common(node, protocols(listeners)) | {
        "process.roles": "broker",
        "listeners": ",".join(f"{listener}://{node.bind}:{port}" for listener, port in listening.items()),
        "advertised.listeners": ",".join(
            [
                *own,
                *(f"{broker_listener.listener}://{broker_listener.address}" for broker_listener in listeners),
            ]
        ),
        "inter.broker.listener.name": names.LISTENER_REPLICATION,
        **listener_settings(listeners, node.layout.listeners_dir),
    }
    if rack is not None:
        owned["broker.rack"] = rack
    if node.follower_fetching:
        owned[REPLICA_SELECTOR] = RACK_AWARE
    return {**_defaults(node), **_PACE, **node.config, **node.pool_config, **owned}


def controller_settings(node: NodeConfig) -> dict[str, str]:
    """A controller's ``server.properties`` without ``log.dirs``.

    It includes the cluster's defaults: the controllers assign the replication factor of a new topic, and use min.insync.replicas.
    """
    owned = _common(node) | {
        "process.roles": "controller",
        "listeners": f"{names.LISTENER_CONTROLLER}://{node.bind}:{names.PORT_CONTROLLER}",
        "advertised.listeners": f"{names.LISTENER_CONTROLLER}://{node.host}:{names.PORT_CONTROLLER}",
    }
    return {**_defaults(node), **node.config, **owned}


@lru_cache(maxsize=256)
def overrides(key: str) -> bool:
    """Whether Spindle's own value of a setting is in effect on each broker, whatever the user sets."""
    if key in _BY_PREFLIGHT:
        return True
    node = NodeConfig(node_id=0, host="", controllers={}, brokers=1, config={key: _ASKED})
    return broker_settings(node, rack="").get(key) != _ASKED


def render(properties: Mapping[str, str]) -> str:
    """Properties as ``java.util.Properties`` reads them back, sorted by key."""
    return _render(tuple(sorted(properties.items())))


@lru_cache(maxsize=_RENDERED)
def _render(properties: tuple[tuple[str, str], ...]) -> str:
    return "".join(f"{_escape(key, key=True)}={_escape(value, key=False)}\n" for key, value in properties)


def parsed(text: str) -> dict[str, str]:
    """Parse properties from the output of `render`."""
    lines = (line.partition("=") for line in text.replace("\\=", "\\u003d").splitlines())
    return {_unescape(key): _unescape(value) for key, equals, value in lines if equals}


def _common(node: NodeConfig, listeners: Mapping[str, str] | None = None) -> dict[str, str]:
    own = (names.LISTENER_CONTROLLER, names.LISTENER_REPLICATION, names.LISTENER_CLIENT)
    protocol = dict.fromkeys(own, "SSL") | dict(listeners or {})
    tls = node.layout.tls_dir
    quorum = (
        {
            "controller.quorum.voters": ",".join(
                f"{voter}@{host}:{names.PORT_CONTROLLER}" for voter, host in sorted(node.controllers.items())
            )
        }
        if node.static_quorum
        else {}
    )
    return quorum | {
        "node.id": str(node.node_id),
        "controller.listener.names": names.LISTENER_CONTROLLER,
        "controller.quorum.bootstrap.servers": ",".join(
            f"{host}:{names.PORT_CONTROLLER}" for _, host in sorted(node.controllers.items())
        ),
        "listener.security.protocol.map": ",".join(
            f"{listener}:{security}" for listener, security in protocol.items()
        ),
        "metadata.log.dir": node.layout.metadata_log_dir,
        "ssl.client.auth": "required",
        "ssl.endpoint.identification.algorithm": "https",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": f"{tls}/keystore.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": f"{tls}/ca.crt",
        "ssl.principal.mapping.rules": _PRINCIPAL_RULE,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "false",
        "super.users": f"User:{names.PRINCIPAL_NODE};User:{names.PRINCIPAL_OPERATOR}",
    }


def _defaults(node: NodeConfig) -> dict[str, str]:
    """Defaults of a cluster: three replicas if there are enough brokers, of which two must acknowledge a record."""
    copies = max(1, min(_FULL_REPLICATION, node.brokers))
    in_sync = max(1, copies - 1)
    result = {
        "default.replication.factor": str(copies),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(copies),
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(copies),
        "share.coordinator.state.topic.min.isr": str(in_sync),
    }
    heap = heap_bytes(node.heap)
    if heap is not None and heap < _ROOMY_HEAP:
        # The log cleaner allocates its whole buffer at start: 128 MiB by default, which is an OutOfMemoryError in a small JVM.
        result["log.cleaner.dedupe.buffer.size"] = str(max(_LEAST_DEDUPE_BUFFER, heap // 16))
    return result


def heap_bytes(heap: str | None) -> int | None:
    """Bytes of a heap size in the JVM's notation; None if it is not given or not in that notation."""
    match = _HEAP.fullmatch(heap or "")
    return None if match is None else int(match[1]) * _HEAP_UNITS[match[2].lower()]


def _escape(text: str, *, key: bool) -> str:
    if (_PLAIN_KEY if key else _PLAIN_VALUE).fullmatch(text):
        return text
    result = []
    for position, character in enumerate(text):
        if character in "\\\t\n\r\f":
            result.append({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}[character])
        elif (character == " " and (key or position == 0)) or (key and character in "=:#!"):
            result.append("\\" + character)
        elif " " <= character <= "~":
            result.append(character)
        else:
            units = character.encode("utf-16-be")
            result += [f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2)]
    return "".join(result)


def _unescape(text: str) -> str:
    """Reverse `_escape`; characters outside the basic multilingual plane are two UTF-16 units."""

    def plain(found: re.Match[str]) -> str:
        if found[1]:
            units = found[0].replace("\\u", "")
            return bytes.fromhex(units).decode("utf-16-be")
        return {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(found[2], found[2])

    return _ESCAPED.sub(plain, text)
