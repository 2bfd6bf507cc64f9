"""The wait while KafkaUsers cannot be listed."""

from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting


def users_unknown(state: ClusterState, action: str) -> Waiting:
    """The wait while users cannot be listed: that does not mean that there are none (safety rule "unknown is not absent", ``docs/safety.md``)."""
    return Waiting(
        action,
        f"KafkaCluster/{state.name}",
        "UsersUnknown",
        "The cluster's KafkaUsers could not be listed, so Spindle does nothing that could leave one of them out.",
        "Check that the API server answers, that the chart's CRD for KafkaUsers is installed, and that the operator's role may list them.",
    )
