"""The Services: host names for controllers and brokers, bootstrap addresses, and access from outside.

All of them publish addresses that are not ready: readiness serves the disruption budgets, not traffic. A broker that lags must be
reachable to catch up, and Kafka's clients find the leaders themselves.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from spindle.api import names
from spindle.api.listeners import TLS_ROUTE, Listener, of_broker
from spindle.model.metadata import owned_metadata


def services(cluster: Mapping[str, Any], *, metrics: bool = True) -> tuple[dict[str, Any], ...]:
    """The three Services that every KafkaCluster has.

    Args:
        cluster: the KafkaCluster object.
        metrics: ``spec.metrics.enabled``; without it the pods serve metrics on their loopback address only, and no Service has the port.
    """
    return (
        controllers_service(cluster, metrics=metrics),
        brokers_service(cluster, metrics=metrics),
        bootstrap_service(cluster),
    )


def controllers_service(cluster: Mapping[str, Any], *, metrics: bool = True) -> dict[str, Any]:
    """Headless Service for the controllers' host names."""
    name = names.controllers_service(cluster["metadata"]["name"])
    ports = {"controller": names.PORT_CONTROLLER, **_metrics_port(offered=metrics)}
    return _service(cluster, name, names.ROLE_CONTROLLER, ports, headless=True)


def brokers_service(cluster: Mapping[str, Any], *, metrics: bool = True) -> dict[str, Any]:
    """Headless Service for the brokers' host names, which their listeners advertise."""
    name = names.brokers_service(cluster["metadata"]["name"])
    ports = {
        "replication": names.PORT_REPLICATION,
        "client": names.PORT_CLIENT,
        **_metrics_port(offered=metrics),
    }
    return _service(cluster, name, names.ROLE_BROKER, ports, headless=True)


def _metrics_port(*, offered: bool) -> dict[str, int]:
    return {"metrics": names.PORT_METRICS} if offered else {}


def bootstrap_service(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """The bootstrap address; any broker answers."""
    name = names.bootstrap_service(cluster["metadata"]["name"])
    return _service(cluster, name, names.ROLE_BROKER, {"client": names.PORT_CLIENT}, headless=False)


def listener_service(
    cluster: Mapping[str, Any], listener: Listener, former: Iterable[int] = ()
) -> dict[str, Any]:
    """The bootstrap address of an internal listener, or of one behind a Gateway; clients then use the brokers' host names.

    Args:
        cluster: the KafkaCluster object.
        listener: the listener.
        former: additional ports, which some brokers still have.
    """
    name = names.listener_service(cluster["metadata"]["name"], listener.name)
    made = _service(cluster, name, names.ROLE_BROKER, {}, headless=False)
    made["spec"]["ports"] = _ports(listener, listener.port, former)
    made["metadata"]["labels"][names.LABEL_LISTENER] = listener.name
    return made


def bootstrap_load_balancer(
    cluster: Mapping[str, Any], listener: Listener, former: Iterable[int] = ()
) -> dict[str, Any]:
    """The load balancer that clients of a listener bootstrap from; any broker answers. Arguments as for `listener_service`."""
    made = listener_service(cluster, listener, former)
    _load_balancer(made, listener)
    annotations = listener.bootstrap.annotations if listener.bootstrap is not None else None
    if annotations:
        made["metadata"]["annotations"] = dict(annotations)
    return made


def broker_listener_service(
    cluster: Mapping[str, Any],
    listener: Listener,
    broker_id: int,
    *,
    port: int | None = None,
    former: Iterable[int] = (),
) -> dict[str, Any]:
    """Access from outside to one broker's listener.

    With NodePort, only the broker's node answers: its address is the advertised one, so no traffic goes through another node.

    Args:
        cluster: the KafkaCluster object.
        listener: the listener.
        broker_id: of the broker.
        port: of the Service; None for the listener's.
        former: as for `listener_service`.
    """
    owner = cluster["metadata"]["name"]
    name = names.broker_listener_service(owner, broker_id, listener.name)
    made = _service(cluster, name, names.ROLE_BROKER, {}, headless=False)
    made["spec"]["ports"] = _ports(listener, port or listener.port, former)
    made["metadata"]["labels"] |= {names.LABEL_LISTENER: listener.name, names.LABEL_NODE_ID: str(broker_id)}
    made["spec"]["selector"] |= {names.LABEL_NODE_ID: str(broker_id)}
    _ACCESS[listener.type](made, listener, broker_id)
    return made


def _node_port(service: dict[str, Any], listener: Listener, broker_id: int) -> None:
    policy = listener.external_traffic_policy or "Local"
    service["spec"] |= {"type": "NodePort", "externalTrafficPolicy": policy}
    if listener.node_port_base is not None:
        service["spec"]["ports"][0]["nodePort"] = listener.node_port_base + broker_id


def _behind_gateway(_service: dict[str, Any], _listener: Listener, _broker_id: int) -> None:
    """The Gateway reaches the broker inside Kubernetes."""


def _load_balancer_of_broker(service: dict[str, Any], listener: Listener, broker_id: int) -> None:
    _load_balancer(service, listener)
    if listener.annotations:
        service["metadata"]["annotations"] = {
            key: of_broker(value, broker_id) for key, value in listener.annotations.items()
        }


def _load_balancer(service: dict[str, Any], listener: Listener) -> None:
    service["spec"]["type"] = "LoadBalancer"
    if listener.external_traffic_policy:
        service["spec"]["externalTrafficPolicy"] = listener.external_traffic_policy
    if listener.load_balancer_source_ranges:
        service["spec"]["loadBalancerSourceRanges"] = list(listener.load_balancer_source_ranges)
    if listener.load_balancer_class:
        service["spec"]["loadBalancerClass"] = listener.load_balancer_class


# What each type of listener adds to a broker's Service.
_ACCESS: Final[Mapping[str, Callable[[dict[str, Any], Listener, int], None]]] = {
    "nodeport": _node_port,
    "loadbalancer": _load_balancer_of_broker,
    TLS_ROUTE: _behind_gateway,
}


def _ports(listener: Listener, port: int, former: Iterable[int]) -> list[dict[str, Any]]:
    """A listener's ports. They target the named port, whose number differs between pods during a rolling restart."""
    found = {listener.name: port} | {f"{listener.name}-{each}": each for each in sorted(set(former) - {port})}
    return [
        {"name": name, "port": number, "targetPort": listener.name, "protocol": "TCP"}
        for name, number in found.items()
    ]


def _service(
    cluster: Mapping[str, Any], name: str, role: str, ports: Mapping[str, int], *, headless: bool
) -> dict[str, Any]:
    owner = cluster["metadata"]["name"]
    spec: dict[str, Any] = {
        "type": "ClusterIP",
        "publishNotReadyAddresses": True,
        "selector": {names.LABEL_CLUSTER: owner, names.LABEL_ROLE: role},
        "ports": [
            {"name": port, "port": number, "targetPort": number, "protocol": "TCP"}
            for port, number in ports.items()
        ],
    }
    if headless:
        spec["clusterIP"] = "None"
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": owned_metadata(cluster, name, role=role),
        "spec": spec,
    }
