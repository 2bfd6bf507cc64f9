"""NetworkPolicies: which clients may reach which ports of a cluster's pods, if the network plugin enforces them."""

from collections.abc import Iterable, Mapping
from typing import Any

from spindle.api import names
from spindle.model.metadata import owned_metadata

PolicyRule = dict[str, Any]


def network_policies(
    cluster: Mapping[str, Any], listeners: Iterable[int], namespaces: Iterable[str], *, metrics: bool = True
) -> tuple[dict[str, Any], ...]:
    """One policy for the brokers and one for the controllers.

    Only the cluster's own pods may reach the ports between nodes; Spindle's namespaces may also reach those of brokers. The ports for
    clients and the metrics are open to all: Kafka authenticates its clients itself. Every network lets the kubelet's probes through.

    Args:
        cluster: the KafkaCluster object.
        listeners: ports of the spec's listeners.
        namespaces: of the operator and of the agents.
        metrics: ``spec.metrics.enabled``.
    """
    name = cluster["metadata"]["name"]
    own: PolicyRule = {"podSelector": {"matchLabels": {names.LABEL_CLUSTER: name}}}
    spindle: list[PolicyRule] = [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": each}}}
        for each in sorted(set(namespaces))
    ]
    scraped = [names.PORT_METRICS] if metrics else []
    brokers = [
        _rule([names.PORT_REPLICATION], [own, *spindle]),
        _rule([names.PORT_CLIENT, *listeners, *scraped]),
    ]
    controllers = [_rule([names.PORT_CONTROLLER], [own])]
    # A rule without ports would open all of them.
    controllers += [_rule(scraped)] if scraped else []
    return (
        _policy(cluster, names.brokers_service(name), names.ROLE_BROKER, brokers),
        _policy(cluster, names.controllers_service(name), names.ROLE_CONTROLLER, controllers),
    )


def spark_policy(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """The policy for the pods of a rebalance job with Spark executors: only driver and executors reach each other."""
    name = cluster["metadata"]["name"]
    job = {names.LABEL_CLUSTER: name, names.LABEL_ROLE: names.ROLE_REBALANCE}
    own: PolicyRule = {"podSelector": {"matchLabels": job}}
    ports = [names.PORT_SPARK_DRIVER, names.PORT_SPARK_BLOCKS]
    return _policy(cluster, names.rebalance_job(name), names.ROLE_REBALANCE, [_rule(ports, [own])])


def _rule(ports: Iterable[int], sources: list[PolicyRule] | None = None) -> PolicyRule:
    made: PolicyRule = {"ports": [{"protocol": "TCP", "port": port} for port in ports]}
    return made | {"from": sources} if sources else made


def _policy(cluster: Mapping[str, Any], name: str, role: str, ingress: list[PolicyRule]) -> dict[str, Any]:
    owner = cluster["metadata"]["name"]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": owned_metadata(cluster, name, role=role),
        "spec": {
            "podSelector": {"matchLabels": {names.LABEL_CLUSTER: owner, names.LABEL_ROLE: role}},
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    }
