"""The TLSRoutes of listeners behind a Gateway, and whether the Gateway accepts them.

The Services have the same names. A Service that has a TLSRoute has a label, so that the operator does not read TLSRoutes of clusters without any.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from spindle.api import names
from spindle.api.listeners import TLS_ROUTE, Listener, ParentRef
from spindle.listeners.advertised_listeners import serves, service_of
from spindle.listeners.external_types import host_of, port_of
from spindle.manifests.ensure_applied import ensure_applied
from spindle.manifests.tls_routes import API_VERSION, tls_route
from spindle.model import objects
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.times import seconds
from spindle.model.waiting import Waiting, counted, some

PLURAL: Final = "tlsroutes"
_GRACE: Final = 60.0  # seconds in which a Gateway's controller normally answers
_LONGEST: Final = 300  # characters of what it says


def may_have_route(state: ClusterState, name: str) -> bool:
    """Whether there is a TLSRoute of this name; if TLSRoutes could not be read, whether the Service of this name tells so."""
    if PLURAL in state.snap.unknown:
        service = state.services.get(name)
        return service is not None and names.LABEL_ROUTED in objects.labels(service)
    return any(objects.name(route) == name for route in state.snap.tls_routes)


def reconcile_routes(state: ClusterState, builder: PlanBuilder) -> None:
    """Create the TLSRoutes, restore them, report those that a Gateway does not accept, and delete those of removed listeners."""
    behind = [each for each in state.spec.listeners if each.type == TLS_ROUTE]
    if PLURAL in state.snap.unknown or not state.snap.gateway_api:
        if behind:
            builder.wait(_unreadable(state) if state.snap.gateway_api else _missing(state, behind))
        return
    live, wanted = objects.by_name(state.snap.tls_routes), set[str]()
    for listener in behind:
        routes = list(_routes(state, listener))
        wanted |= {objects.name(route) for route in routes}
        for route in routes:
            ensure_applied(builder, route, live.get(objects.name(route)))
        for waiting in _unanswered(
            state, listener, [live[name] for name in map(objects.name, routes) if name in live]
        ):
            builder.wait(waiting)
    for name, route in live.items():
        if name not in wanted and not _still_used(state, route):
            builder.delete(
                "TLSRoute",
                route,
                "ListenerRemoved",
                f"Deleting TLSRoute {name}: no listener needs it any more.",
            )


def _routes(state: ClusterState, listener: Listener) -> Iterator[SnapshotObject]:
    for broker_id in state.staying:
        host = host_of(listener, broker_id)
        if host is not None:
            service = names.broker_listener_service(state.name, broker_id, listener.name)
            port = _port(service_of(state, listener, broker_id), listener)
            yield tls_route(state.cluster, listener, service, host, port=port, broker_id=broker_id)
    if listener.bootstrap is not None:
        service = names.listener_service(state.name, listener.name)
        port = _port(state.services.get(service), listener)
        yield tls_route(state.cluster, listener, service, listener.bootstrap.host, port=port)


def _port(live: SnapshotObject | None, listener: Listener) -> int:
    """The port of a Service. One that still has a load balancer or a node port may have a former one."""
    if live is None or (live.get("spec") or {}).get("type") == "ClusterIP":
        return listener.port
    return int(port_of(live, listener.name).get("port") or listener.port)


def _still_used(state: ClusterState, route: SnapshotObject) -> bool:
    """Whether brokers still advertise the host of a TLSRoute that the spec no longer has."""
    of = objects.labels(route)
    stays = any(
        each.name == of.get(names.LABEL_LISTENER) and each.type == TLS_ROUTE for each in state.spec.listeners
    )
    # Without its bootstrap, a listener that stays has the addresses of its brokers.
    return not (stays and names.LABEL_NODE_ID not in of) and serves(state, route, TLS_ROUTE)


def _missing(state: ClusterState, behind: list[Listener]) -> Waiting:
    return Waiting(
        "RouteListener",
        f"KafkaCluster/{state.name}",
        "GatewayApiMissing",
        f"The API server has no TLSRoute of {API_VERSION}, so no Gateway leads clients to listener {some([each.name for each in behind])}. The brokers "
        "run and have the listener.",
        "Install the CRDs of the Gateway API, version 1.5 or later, and a Gateway that supports TLSRoute; Spindle then creates the TLSRoutes without a "
        "restart. Or choose another type for the listener, such as loadbalancer.",
    )


def _unreadable(state: ClusterState) -> Waiting:
    return Waiting(
        "RouteListener",
        f"KafkaCluster/{state.name}",
        "RoutesUnknown",
        "TLSRoutes could not be read, so Spindle neither creates nor deletes any. Those that exist go on to work.",
        "The operator's log has the API server's answer. If it may not read them, update Spindle's chart, or give its role the rights of the chart's.",
    )


def _unanswered(state: ClusterState, listener: Listener, live: list[SnapshotObject]) -> Iterator[Waiting]:
    """What the Gateways say of those of a listener's TLSRoutes that they do not accept, each once."""
    found = defaultdict[tuple[str, str], list[SnapshotObject]](list)
    for route in live:
        for parent in listener.parent_refs or ():
            problem = _problem(route, parent, state.namespace)
            if problem is not None:
                found[_told(parent, state.namespace), problem].append(route)
    for (gateway, problem), routes in sorted(found.items(), key=lambda entry: entry[0]):
        affected = sorted(map(objects.name, routes))
        ages = [state.now - (seconds(each["metadata"].get("creationTimestamp")) or 0.0) for each in routes]
        yield Waiting(
            "RouteListener",
            f"TLSRoute/{affected[0]}",
            "RouteNotAccepted",
            f"{gateway} does not lead clients to {counted(len(affected), 'host')} of listener {listener.name} ({some(affected)}): "
            f"{problem or 'no controller has answered for it.'}",
            f"See that the Gateway exists, that parentRefs of listener {listener.name} name it and its listener, and that this has protocol TLS, mode "
            f"Passthrough, a hostname that includes these, and allowedRoutes for TLSRoutes of namespace {state.namespace}.",
            quiet=not problem and max(ages) < _GRACE,
            objects=tuple(affected),
        )


def _told(parent: ParentRef, namespace: str) -> str:
    listener = f", listener {parent.section_name}," if parent.section_name else ""
    return f"Gateway {parent.namespace or namespace}/{parent.name}{listener}"


def _problem(route: SnapshotObject, parent: ParentRef, namespace: str) -> str | None:
    """What a Gateway objects to in a TLSRoute: None if it accepts it, empty if it has not answered.

    Source: the API's ``RouteParentStatus``; a route is in use if Accepted and ResolvedRefs are True.
    """
    problems: list[str] = []
    for answer in (route.get("status") or {}).get("parents") or ():
        if not _same(answer.get("parentRef") or {}, parent, namespace):
            continue
        rows = {str(each.get("type")): each for each in answer.get("conditions") or ()}
        wrong = [rows[kind] for kind in ("Accepted", "ResolvedRefs") if _is(rows, kind, "False")]
        if wrong:
            # Traefik's message is empty when a listener of the Gateway refuses the route.
            said = (str(wrong[0].get(key) or "") for key in ("reason", "message"))
            problems.append(": ".join(filter(None, said))[:_LONGEST])
        elif _is(rows, "Accepted", "True"):
            return None
    return problems[0] if problems else ""


def _is(rows: Mapping[str, Any], kind: str, value: str) -> bool:
    return kind in rows and rows[kind].get("status") == value


def _same(ref: Mapping[str, Any], parent: ParentRef, namespace: str) -> bool:
    return (
        ref.get("name") == parent.name
        and (ref.get("namespace") or namespace) == (parent.namespace or namespace)
        and (ref.get("sectionName") or None) == parent.section_name
    )
