"""The three Services: host names for controllers and brokers, and the address that clients start from.

All publish addresses that are not ready: readiness is for disruption budgets, not for traffic. A broker that lags must be
reached to catch up, and Kafka's clients find out for themselves who leads what.
"""

from collections.abc import Mapping
from typing import Any

from spindle.cluster import names
from spindle.manifests.common import labels, owner_reference


def services(cluster: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """All Services of a KafkaCluster (given as its object)."""
    return (controllers_service(cluster), brokers_service(cluster), bootstrap_service(cluster))


def controllers_service(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Headless: the controllers' host names."""
    name = names.controllers_service(cluster["metadata"]["name"])
    ports = {"controller": names.PORT_CONTROLLER, "metrics": names.PORT_METRICS}
    return _service(cluster, name, names.ROLE_CONTROLLER, ports, headless=True)


def brokers_service(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Headless: the brokers' host names, which their listeners advertise."""
    name = names.brokers_service(cluster["metadata"]["name"])
    ports = {
        "replication": names.PORT_REPLICATION,
        "client": names.PORT_CLIENT,
        "metrics": names.PORT_METRICS,
    }
    return _service(cluster, name, names.ROLE_BROKER, ports, headless=True)


def bootstrap_service(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """One address for clients to start from; any broker answers."""
    name = names.bootstrap_service(cluster["metadata"]["name"])
    return _service(cluster, name, names.ROLE_BROKER, {"client": names.PORT_CLIENT}, headless=False)


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
        "metadata": {
            "name": name,
            "namespace": cluster["metadata"]["namespace"],
            "labels": labels(owner, role=role),
            "ownerReferences": [owner_reference(cluster)],
        },
        "spec": spec,
    }
