"""Restarts a broker that runs but stays fenced.

Observed on Kafka 4.3.1: a broker that has no controller to send a heartbeat to at an unfavourable moment never sends one again. Its process
runs and its readiness probe passes, but the controllers have fenced it, and it stays fenced until it is restarted.
"""

from typing import Final

from spindle.api import names
from spindle.model import objects
from spindle.model.requests import RestartRequest
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.times import seconds

PATIENCE: Final = 180.0  # seconds; a session with the controllers lasts nine, and an election no minute
_MINUTES: Final = round(PATIENCE / 60)


def reconcile_fenced_brokers(state: ClusterState, wanted: dict[int, RestartRequest]) -> None:
    """Request a restart of brokers that run and have been fenced for long, while the controllers accept the heartbeats of others.

    Nor is a broker whose node is not ready: what its pod reports is old. Its eviction could not end before the node is back, and until then it would hold
    up rolling restarts; without it, the kubelet starts the same pod again. A starting broker is not affected, however long it loads its logs: the readiness probe passes only once the broker was unfenced. If a
    restart does not help, the probe does not pass again, so there is no second restart.
    """
    brokers = state.kafka.brokers or {}
    if state.kafka.error or not any(broker.fenced is False for broker in brokers.values()):
        return
    for node_id, broker in brokers.items():
        pod = state.pods.get(node_id)
        if broker.fenced is not True or pod is None or objects.deleting(pod) or node_id in wanted:
            continue
        since = _fenced_since(pod, _node_ready(state, node_id))
        if since is not None and state.now - since >= PATIENCE:
            why = f"it runs, but the controllers have fenced it for more than {_MINUTES} minutes"
            wanted[node_id] = RestartRequest("Fenced", why)


def _node_ready(state: ClusterState, node_id: int) -> SnapshotObject | None:
    """The condition Ready of the node of a broker's pod, if it is True."""
    node = state.nodes.get(state.node_of(node_id) or "")
    found = objects.condition(node, "Ready") if node is not None else None
    return found if found is not None and found.get("status") == "True" else None


def _fenced_since(pod: SnapshotObject, node: SnapshotObject | None) -> float | None:
    """Since when the node is ready and the readiness probe passes while the broker is not in sync; None if that is not the case."""
    ready = objects.condition(pod, "ContainersReady")
    gate = objects.condition(pod, names.READINESS_GATE) or {}
    if (
        node is None
        or not objects.kafka_runs(pod)
        or ready is None
        or ready.get("status") != "True"
        or gate.get("status") == "True"
    ):
        return None
    moments = [seconds(entry.get("lastTransitionTime")) for entry in (ready, gate) if entry]
    if None in moments:
        return None
    # A node that is back reports itself before its pods.
    back = seconds(node.get("lastTransitionTime"))
    return max(moment for moment in (*moments, back) if moment is not None)
