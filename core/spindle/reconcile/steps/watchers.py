"""Whether the disks are watched at all: a healthy disk that nobody looks at is only not known to be dead."""

from spindle.cluster.refusal import some
from spindle.disks.health import AGENT_SILENT_SECONDS
from spindle.reconcile.state import State


def unwatched(state: State) -> str:
    """What the agents leave open, as a sentence; empty if all of the brokers' nodes are watched."""
    if not state.snap.agent_namespace:
        return "There are no agents: that a disk is dead is known when Kafka has touched it, that one hangs not at all."
    if "leases" in state.snap.unknown:
        return "It is not known whether agents watch them."
    nodes = {str(node) for broker in state.brokers.values() if (node := broker["spec"].get("node"))}
    latest = state.now - AGENT_SILENT_SECONDS
    silent = sorted(node for node in nodes if state.snap.agents.get(node, 0.0) < latest)
    if not silent:
        return ""
    return f"No agent watches the disks of {some(silent)}; what Kafka says of them counts."
