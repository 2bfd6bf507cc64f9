"""The Services of the listeners, and the addresses that brokers advertise to clients."""

from typing import Any, Final

from spindle.api import names
from spindle.api.listeners import TLS_ROUTE, Listener, gateway_port
from spindle.listeners.advertised_listeners import (
    listeners_of,
    live_address,
    runs,
    serves,
    service_of,
    told,
)
from spindle.listeners.broker_listener import BrokerListener
from spindle.listeners.external_types import EXTERNAL_TYPES, port_of
from spindle.listeners.routes import may_have_route
from spindle.manifests.services import bootstrap_load_balancer, broker_listener_service, listener_service
from spindle.model import objects
from spindle.model.actions import Patch
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting

_MOST_NAMED: Final = 16  # bootstrap addresses; a client needs only one of them


def listener_services(state: ClusterState) -> list[SnapshotObject]:
    """The Services that the spec's listeners need, and those that running brokers still need for former listeners."""
    wanted: list[SnapshotObject] = []
    for listener in state.spec.listeners:
        if listener.type in EXTERNAL_TYPES:
            found = (_of_broker(state, listener, broker_id) for broker_id in state.staying)
            wanted += [service for service in found if service is not None]
            wanted += _bootstrap_service(state, listener)
        else:
            wanted.append(listener_service(state.cluster, listener, _former(state, listener, *state.brokers)))
    for service in wanted:
        if _is_routed(state, service):
            service["metadata"]["labels"][names.LABEL_ROUTED] = "true"
    return wanted


def _is_routed(state: ClusterState, service: SnapshotObject) -> bool:
    """Whether a Service gets the label of those with a TLSRoute, by which the operator knows that it has to read TLSRoutes."""
    listener = objects.labels(service)[names.LABEL_LISTENER]
    behind = any(each.name == listener and each.type == TLS_ROUTE for each in state.spec.listeners)
    return behind or may_have_route(state, objects.name(service))


def _bootstrap_service(state: ClusterState, listener: Listener) -> list[SnapshotObject]:
    """The Service for the bootstrap address of a listener for clients outside; empty if there is none, or if it must not change for now."""
    if listener.bootstrap is None:
        return []
    former = _former(state, listener, *state.brokers)
    if listener.type != TLS_ROUTE:
        return [bootstrap_load_balancer(state.cluster, listener, former)]
    live = state.services.get(names.listener_service(state.name, listener.name))
    if live is not None and _is(live, "LoadBalancer") and serves(state, live, "loadbalancer"):
        return []  # its load balancer would be deleted at once
    return [listener_service(state.cluster, listener, former)]


def listener_ports(state: ClusterState) -> list[int]:
    """The ports of the spec's listeners, and former ports that brokers still use for them."""
    found = {port for each in state.spec.listeners for port in _former(state, each, *state.brokers)}
    return sorted(found | {each.port for each in state.spec.listeners})


def _of_broker(state: ClusterState, listener: Listener, broker_id: int) -> SnapshotObject | None:
    """The Service of one broker's listener; None if it must not change for now."""
    live, former = service_of(state, listener, broker_id), _former(state, listener, broker_id)
    entry = port_of(live, listener.name) if live is not None else {}
    if live is None or not entry:
        return broker_listener_service(state.cluster, listener, broker_id, former=former)
    if listener.type == TLS_ROUTE:
        if not _is(live, "ClusterIP") and serves(state, live, "loadbalancer", "nodeport"):
            return None  # its load balancer or node port would be deleted at once
        return broker_listener_service(state.cluster, listener, broker_id, former=former)
    if EXTERNAL_TYPES[listener.type].node_port:
        if _is(live, "LoadBalancer") and entry.get("nodePort") and serves(state, live, "loadbalancer"):
            return None  # its load balancer would be deleted at once, and the node port exists already
        # The Service's own port is not used by clients, but changing it would also change the node port.
        return broker_listener_service(state.cluster, listener, broker_id, port=int(entry["port"]))
    if _is(live, "NodePort") or serves(state, live, "nodeport"):
        former = {*former, int(entry["port"]), *_further(live)}
    return broker_listener_service(state.cluster, listener, broker_id, former=former)


def _further(service: SnapshotObject) -> set[int]:
    return {int(each["port"]) for each in (service.get("spec") or {}).get("ports") or ()}


def _is(service: SnapshotObject, kind: str) -> bool:
    return (service.get("spec") or {}).get("type") == kind


def _former(state: ClusterState, listener: Listener, *brokers: int) -> set[int]:
    """Former ports of a listener that brokers still use and advertise."""
    found = (runs(state.pods[number], listener.name) for number in brokers if number in state.pods)
    return {port for _, port in (each for each in found if each is not None)} - {listener.port}


def reconcile_listeners(state: ClusterState, builder: PlanBuilder) -> None:
    """Record the advertised addresses, report unknown ones, and delete the Services of removed listeners."""
    for listener in state.spec.listeners:
        if listener.type in EXTERNAL_TYPES:
            for broker_id in state.staying:
                _reconcile_address(state, builder, listener, broker_id)
    wanted = {objects.name(service) for service in listener_services(state)}
    for service in state.snap.services:
        if names.LABEL_LISTENER not in objects.labels(service) or objects.name(service) in wanted:
            continue
        if may_have_route(state, objects.name(service)):
            continue  # the label of the Service makes the operator look for it
        if not serves(state, service, *_types_behind(state, service)):
            _remove(builder, service)  # no broker advertises it any more


def _types_behind(state: ClusterState, service: SnapshotObject) -> tuple[str, ...]:
    """The types of listener whose brokers still need a Service that the spec no longer has."""
    of = objects.labels(service)
    if names.LABEL_NODE_ID in of:
        return tuple(EXTERNAL_TYPES)
    # Without its bootstrap, a listener that stays has the addresses of its brokers.
    stays = any(
        each.name == of[names.LABEL_LISTENER] and each.bootstrap is None for each in state.spec.listeners
    )
    if not _is(service, "LoadBalancer"):
        return ("internal",) if stays else ("internal", TLS_ROUTE)
    return () if stays else tuple(EXTERNAL_TYPES)


def listener_status(state: ClusterState) -> list[dict[str, Any]]:
    """``status.listeners``: the bootstrap addresses."""
    listeners = [door for broker in state.brokers.values() for door in listeners_of(state, broker)]
    return [
        {"name": each.name, "bootstrap": _bootstrap(state, each, listeners)}
        for each in sorted(state.spec.listeners, key=lambda listener: listener.name)
    ]


def _bootstrap(state: ClusterState, listener: Listener, listeners: list[BrokerListener]) -> str:
    if listener.type not in EXTERNAL_TYPES:
        return f"{names.listener_service(state.name, listener.name)}.{state.namespace}.svc:{listener.port}"
    if listener.bootstrap is not None:
        port = gateway_port(listener) if listener.type == TLS_ROUTE else listener.port
        return f"{listener.bootstrap.host}:{port}"
    return ",".join([door.address for door in listeners if door.name == listener.name][:_MOST_NAMED])


def _reconcile_address(state: ClusterState, builder: PlanBuilder, listener: Listener, broker_id: int) -> None:
    service = service_of(state, listener, broker_id)
    if service is None:
        return  # it is created in this pass
    live, last = live_address(state, listener, broker_id), told(service)
    if live is None and last is None:
        builder.wait(_unknown(state, listener, broker_id))
    elif live is not None and live != last:
        before = f" instead of {last[0]}:{last[1]}" if last else ""
        builder.do(
            Patch(
                kind="Service",
                name=objects.name(service),
                uid=objects.uid(service),
                body={"metadata": {"annotations": {names.ANN_ADVERTISED: f"{live[0]} {live[1]}"}}},
                reason="ListenerAddress",
                message=f"{names.broker_name(state.name, broker_id)} advertises {live[0]}:{live[1]}{before} for listener {listener.name}; "
                "if it is running, it is restarted for that.",
            )
        )


def _unknown(state: ClusterState, listener: Listener, broker_id: int) -> Waiting:
    broker = names.broker_name(state.name, broker_id)
    service = names.broker_listener_service(state.name, broker_id, listener.name)
    missing = EXTERNAL_TYPES[listener.type].missing(state, listener, broker_id)
    return Waiting(
        "OpenListener",
        f"Service/{service}",
        "AddressPending",
        f"{missing.why}, so {broker} runs without listener {listener.name}.",
        f"{missing.resolve} Spindle then restarts the broker.",
        quiet=missing.quiet,
    )


def _remove(builder: PlanBuilder, service: SnapshotObject) -> None:
    message = f"Deleting Service {objects.name(service)}: no listener needs it any more."
    builder.delete("Service", service, "ListenerRemoved", message)
