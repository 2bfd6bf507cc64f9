"""Tolerations of the pods."""

from collections.abc import Mapping
from typing import Any, Final

from spindle.model.state import ClusterState

# Without these, Kubernetes would evict the brokers of an unreachable zone after five minutes, without a check of min.insync.replicas.
STANDING_TOLERATIONS: Final[tuple[dict[str, Any], ...]] = tuple(
    {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute"}
    for what in ("not-ready", "unreachable")
)


def tolerations(state: ClusterState) -> list[Mapping[str, Any]]:
    """Tolerations of the pods."""
    return [*STANDING_TOLERATIONS, *(t.to_dict() for t in state.spec.scheduling.tolerations)]
