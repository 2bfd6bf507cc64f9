"""The types of listener that clients outside Kubernetes use: where the broker's address comes from, and what is missing while it is unknown.

The Service of each type is in `spindle.manifests.services`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from spindle.api import names
from spindle.api.listeners import TLS_ROUTE, Listener, gateway_port, of_broker
from spindle.model import objects
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState

_ADDRESS_TYPES: Final = ("ExternalIP", "InternalIP")
_HOST: Final = re.compile(r"[A-Za-z0-9:._-]{1,253}")  # a name, or an address of either version


@dataclass(frozen=True)
class Missing:
    """Why the address of a broker's listener is unknown, and what to do about it.

    Attributes:
        quiet: whether it is part of every normal start.
    """

    why: str
    resolve: str
    quiet: bool = False


@dataclass(frozen=True)
class ExternalType:
    """A type with a Service for each broker.

    Attributes:
        address: host and port as Kubernetes reports them in the Service or the node; None while they are unknown.
        missing: what is missing then.
        node_port: whether clients use the Service's node port. Then the Service's own port stays, because Kubernetes would choose another
            node port for another port.
    """

    address: Callable[[ClusterState, Listener, int, SnapshotObject], tuple[str, int] | None]
    missing: Callable[[ClusterState, Listener, int], Missing]
    node_port: bool = False


def host_of(listener: Listener, broker_id: int) -> str | None:
    """The host from the listener's template; None if it has none."""
    template = listener.advertised_host_template
    return of_broker(template, broker_id) if template else None


def port_of(service: SnapshotObject, name: str) -> SnapshotObject:
    """The entry of a Service's ports for a listener; empty if there is none."""
    ports = (service.get("spec") or {}).get("ports") or ()
    return next((dict(each) for each in ports if each.get("name") == name), {})


def _load_balancer(
    _state: ClusterState, listener: Listener, broker_id: int, service: SnapshotObject
) -> tuple[str, int] | None:
    if (named := host_of(listener, broker_id)) is not None:
        return named, listener.port
    ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    host = next((each.get("hostname") or each.get("ip") for each in ingress), None)
    return (str(host), listener.port) if host else None


def _no_load_balancer(state: ClusterState, listener: Listener, broker_id: int) -> Missing:
    service = names.broker_listener_service(state.name, broker_id, listener.name)
    return Missing(
        f"The load balancer of {service} has no address yet",
        f"Check the load balancer controller of this Kubernetes cluster; `kubectl describe service {service}` shows what it waits for.",
    )


def _gateway(
    _state: ClusterState, listener: Listener, broker_id: int, _service: SnapshotObject
) -> tuple[str, int] | None:
    named = host_of(listener, broker_id)
    return None if named is None else (named, gateway_port(listener))


def _no_host(_state: ClusterState, listener: Listener, _broker_id: int) -> Missing:
    return Missing(
        f"Listener {listener.name} has no advertisedHostTemplate",
        "Set it, for example to broker-{nodeId}.kafka.example.com.",
    )


def _node_port(
    state: ClusterState, listener: Listener, broker_id: int, service: SnapshotObject
) -> tuple[str, int] | None:
    port = port_of(service, listener.name).get("nodePort")
    host = host_of(listener, broker_id) or _node_address(state, listener, broker_id)
    return (host, int(port)) if host and port else None


def _no_node_address(state: ClusterState, listener: Listener, broker_id: int) -> Missing:
    node = _node_of(state, broker_id)
    if node is None:
        return Missing(
            f"The node of {names.broker_name(state.name, broker_id)} is not known yet",
            "Nothing to do: Spindle continues when the broker's pod is scheduled.",
            quiet=True,
        )
    which = listener.address_label or " or ".join(listener.address_types or _ADDRESS_TYPES)
    return Missing(
        f"Node {node} has no address for {which}",
        f"Give node {node} the label or the address, or set another one for the listener (addressTypes, addressLabel).",
    )


def _node_address(state: ClusterState, listener: Listener, broker_id: int) -> str | None:
    node = state.nodes.get(_node_of(state, broker_id) or "")
    if node is None:
        return None
    if listener.address_label:
        return objects.labels(node).get(listener.address_label) or None
    known: dict[str, str] = {}
    for entry in (node.get("status") or {}).get("addresses") or ():
        # The kubelet writes it, and the API server does not check it.
        if _HOST.fullmatch(str(entry.get("address"))):
            known.setdefault(str(entry.get("type")), str(entry.get("address")))
    return next((known[kind] for kind in listener.address_types or _ADDRESS_TYPES if known.get(kind)), None)


def _node_of(state: ClusterState, broker_id: int) -> str | None:
    """The node that a broker's pod is on, or else its volumes."""
    recorded = (state.brokers.get(broker_id, {}).get("spec") or {}).get("node")
    return state.node_of(broker_id) or (str(recorded) if recorded else None)


EXTERNAL_TYPES: Final[Mapping[str, ExternalType]] = {
    "nodeport": ExternalType(_node_port, _no_node_address, node_port=True),
    "loadbalancer": ExternalType(_load_balancer, _no_load_balancer),
    TLS_ROUTE: ExternalType(_gateway, _no_host),
}
