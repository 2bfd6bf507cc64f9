"""Tolerations that all pods have."""

from typing import Any, Final

# Without these, Kubernetes would evict the brokers of an unreachable zone after five minutes, without a check of min.insync.replicas.
STANDING_TOLERATIONS: Final[tuple[dict[str, Any], ...]] = tuple(
    {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute"}
    for what in ("not-ready", "unreachable")
)
