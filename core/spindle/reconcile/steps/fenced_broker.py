"""A broker that runs and that Kafka has shut out for good is restarted.

Seen on Kafka 4.3.1: a broker whose heartbeats had no controller to go to at a bad moment never sends one again. Its process runs and
its own probe is content, the controllers have fenced it, and it stays so until somebody restarts it.
"""

from typing import Final

from spindle.cluster import names
from spindle.reconcile import objects
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.state import ClusterState
from spindle.reconcile.steps.eviction import RestartRequest
from spindle.reconcile.times import seconds

PATIENCE: Final = 180.0  # seconds; a session with the controllers lasts nine, and an election no minute
_MINUTES: Final = round(PATIENCE / 60)


def reconcile_fenced_brokers(state: ClusterState, wanted: dict[int, RestartRequest]) -> None:
    """Have brokers restarted that run and are fenced for long, while the controllers take the heartbeats of others.

    One that starts is not meant, however long it takes for its logs: Kafka's own probe has passed, which it does only once the broker
    was let in. After a restart in vain it does not pass again, so there is no second one.
    """
    brokers = state.kafka.brokers or {}
    if state.kafka.error or not any(broker.fenced is False for broker in brokers.values()):
        return
    for node_id, broker in brokers.items():
        pod = state.pods.get(node_id)
        if broker.fenced is not True or pod is None or objects.deleting(pod) or node_id in wanted:
            continue
        since = _shut_out_since(pod)
        if since is not None and state.now - since >= PATIENCE:
            why = f"it runs, and Kafka has shut it out (fenced) for more than {_MINUTES} minutes"
            wanted[node_id] = RestartRequest("Fenced", why)


def _shut_out_since(pod: SnapshotObject) -> float | None:
    """Since when Kafka's own probe passes and the broker is not in sync all the same; None if that is not so."""
    ready = objects.condition(pod, "ContainersReady")
    gate = objects.condition(pod, names.READINESS_GATE) or {}
    if (
        not objects.kafka_runs(pod)
        or ready is None
        or ready.get("status") != "True"
        or gate.get("status") == "True"
    ):
        return None
    moments = [seconds(entry.get("lastTransitionTime")) for entry in (ready, gate) if entry]
    return None if None in moments else max(moment for moment in moments if moment is not None)
