"""PodDisruptionBudgets: what keeps others (drains, upgrades) from taking down more than Kafka bears."""

from collections.abc import Mapping
from typing import Any

from spindle.cluster import names
from spindle.manifests.common import labels, owner_reference


def budget(cluster: Mapping[str, Any], name: str, role: str, min_available: int) -> dict[str, Any]:
    """A budget over the pods whose budget label names it.

    Membership is a label with one value, so that no pod is ever counted by two budgets (eviction would fail). The
    number is whole and ``minAvailable``: Kubernetes allows nothing else for pods of an owner that it does not know.
    A pod that is not ready may be evicted only while enough others are, because it may hold the last good copy. Where none
    has to be ready it may always: ``IfHealthyBudget`` would let such a pod never go (EvictionREST asks for more than 0).

    Args:
        cluster: the KafkaCluster object.
        name: of the budget, and the value of its members' label.
        role: ``broker`` or ``controller``.
        min_available: how many of its members must stay ready; 0 or less: none.
    """
    least = max(0, min_available)
    owner = cluster["metadata"]["name"]
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": name,
            "namespace": cluster["metadata"]["namespace"],
            "labels": labels(owner, role=role),
            "ownerReferences": [owner_reference(cluster)],
        },
        "spec": {
            "minAvailable": least,
            "selector": {"matchLabels": {names.LABEL_CLUSTER: owner, names.LABEL_BUDGET: name}},
            "unhealthyPodEvictionPolicy": "IfHealthyBudget" if least else "AlwaysAllow",
        },
    }


def broker_budget(cluster: Mapping[str, Any], brokers: int, max_unavailable: int = 1) -> dict[str, Any]:
    """The usual budget of the brokers.

    Args:
        cluster: the KafkaCluster object.
        brokers: how many there are to be; a single one may be evicted, else its node could never be drained.
        max_unavailable: how many may be away at once.
    """
    name = names.broker_budget(cluster["metadata"]["name"])
    return budget(cluster, name, names.ROLE_BROKER, brokers - max(1, max_unavailable))


def drain_budget(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """The budget of brokers that the drain of their zone may take together: rule 2 has chosen them, so it forbids nothing."""
    name = names.drain_budget(cluster["metadata"]["name"])
    return budget(cluster, name, names.ROLE_BROKER, 0)


def controller_budget(cluster: Mapping[str, Any], controllers: int) -> dict[str, Any]:
    """The budget of the controllers: their majority stays, and never more than one goes at a time.

    A quorum of five could lose two and still decide, but not a third that fails meanwhile.
    """
    name = names.controller_budget(cluster["metadata"]["name"])
    return budget(cluster, name, names.ROLE_CONTROLLER, controllers - 1)
