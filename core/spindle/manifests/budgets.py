"""PodDisruptionBudgets, which limit how many pods others (node drains, upgrades) may evict."""

from collections.abc import Mapping
from typing import Any

from spindle.api import names
from spindle.model.metadata import owned_metadata


def budget(cluster: Mapping[str, Any], name: str, role: str, min_available: int) -> dict[str, Any]:
    """A budget for the pods whose budget label has its name.

    The label has one value, so that no pod is in two budgets (eviction would fail). The number is an integer
    ``minAvailable``: Kubernetes accepts nothing else for pods whose owner has no scale subresource.
    A pod that is not ready may be evicted only while enough others are ready, because it may have the last in-sync replica. If the
    minimum is 0, it may always be evicted: ``IfHealthyBudget`` would never allow it (EvictionREST requires more than 0).

    Args:
        cluster: the KafkaCluster object.
        name: of the budget, and the value of the label.
        role: ``broker`` or ``controller``.
        min_available: number of pods that must stay ready; negative counts as 0.
    """
    least = max(0, min_available)
    owner = cluster["metadata"]["name"]
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": owned_metadata(cluster, name, role=role),
        "spec": {
            "minAvailable": least,
            "selector": {"matchLabels": {names.LABEL_CLUSTER: owner, names.LABEL_BUDGET: name}},
            "unhealthyPodEvictionPolicy": "IfHealthyBudget" if least else "AlwaysAllow",
        },
    }


def broker_budget(cluster: Mapping[str, Any], brokers: int, max_unavailable: int = 1) -> dict[str, Any]:
    """The regular budget of the brokers.

    Args:
        cluster: the KafkaCluster object.
        brokers: the desired number; a single broker may be evicted, since its node could otherwise never be drained.
        max_unavailable: how many may be unavailable at the same time.
    """
    name = names.broker_budget(cluster["metadata"]["name"])
    return budget(cluster, name, names.ROLE_BROKER, brokers - max(1, max_unavailable))


def drain_budget(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """The drain budget: brokers that a drain of their zone may evict together.

    It has no minimum, because Spindle adds a broker only if "no restart below min.insync.replicas" (`docs/safety.md`, rule 2) allows it.
    """
    name = names.drain_budget(cluster["metadata"]["name"])
    return budget(cluster, name, names.ROLE_BROKER, 0)


def controller_budget(cluster: Mapping[str, Any], controllers: int) -> dict[str, Any]:
    """The budget of the controllers: a majority stays, and at most one is evicted at a time.

    A quorum of five would still have a majority without two, but not if a third one fails meanwhile.
    """
    name = names.controller_budget(cluster["metadata"]["name"])
    return budget(cluster, name, names.ROLE_CONTROLLER, controllers - 1)
