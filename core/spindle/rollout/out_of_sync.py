"""Reports brokers that run and have been out of sync for long, although nothing else is known to be wrong with them.

Where the network between nodes is cut or filtered, Kubernetes sees nothing: the kubelet still reports the pod. Without a way to the controllers, Kafka
fences the broker; without a way to the leaders, its replicas leave the ISR.
"""

from typing import Final

from spindle.api import names
from spindle.model import objects
from spindle.model.agents import NO_AGENT
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.times import seconds
from spindle.model.waiting import Waiting, counted, some
from spindle.rollout.overdue_starts import apart
from spindle.rollout.starts import loaded_at, unfinished

PATIENCE: Final = 300.0  # seconds; a follower that only stopped briefly has caught up by then
# Entries of these actions say why a broker does not work, or not with all its disks. Others may be about a disk that it runs without, or about a change.
_EXPLAIN: Final = frozenset(
    {
        "AcceptLoss",
        "ActivateDisk",
        "EvacuateDisk",
        "LocateDisks",
        "ReleaseNode",
        "Roll",
        "RunPod",
        "StartBroker",
        "StartPod",
        "StopBroker",
    }
)


def report_out_of_sync(state: ClusterState, builder: PlanBuilder) -> None:
    """Add a wait for each broker that has been out of sync for five minutes, if no other wait explains it.

    `report_overdue_starts` reports those that have not joined the cluster since their start.
    """
    if state.kafka.error or state.kafka.partitions is None or not state.kafka.brokers:
        return
    marked = {int(mark["nodeId"]) for mark in state.unavailable_records}
    named = {part for wait in builder.waits if wait.action in _EXPLAIN for part in wait.object.split("/")}
    for node_id, broker in state.brokers.items():
        pod = state.pods.get(node_id)
        if (
            pod is None
            or objects.deleting(pod)
            or not objects.kafka_runs(pod)
            or node_id in marked
            or objects.name(broker) in named
            or (unfinished(broker, pod) and apart(state, node_id))
        ):
            continue
        since = _since(state, node_id, pod)
        if since is None or state.now - since < PATIENCE:
            continue
        wait = _out_of_sync(state, node_id, objects.name(pod))
        if wait is not None:
            builder.wait(wait)


def _since(state: ClusterState, node_id: int, pod: SnapshotObject) -> float | None:
    """Since when a broker has had its logs loaded and was not in sync, by its pod's readiness gate; None if it is in sync or that is not known.

    A gate that was never set equals a false one: the broker has not been in sync since its start.
    """
    gate = objects.condition(pod, names.READINESS_GATE) or {}
    started = seconds(objects.kafka_started(pod))
    if gate.get("status") == "True" or started is None:
        return None
    started -= state.snap.agents.get(state.node_of(node_id) or "", NO_AGENT).offset
    return max(started, seconds(gate.get("lastTransitionTime")) or 0.0, loaded_at(state, node_id))


def _out_of_sync(state: ClusterState, node_id: int, name: str) -> Waiting | None:
    """The wait; None if nothing keeps the broker out of sync now: its gate is not written yet, or its replicas have no leader to copy from."""
    node, minutes = state.node_of(node_id) or "its node", round(PATIENCE / 60)
    known = (state.kafka.brokers or {}).get(node_id)
    late = sorted(
        p.name for p in state.kafka.partition_index.lagging.get(node_id, ()) if p.leader is not None
    )
    if known is None or known.fenced:
        message = f"for more than {minutes} minutes the controllers have had no heartbeat from it: it is fenced and leads no partition."
        way_out = (
            f"Check that {node} reaches the nodes of the controllers (network policies and firewalls included), and see kubectl logs {name} -c kafka. "
            "If the network is fine, delete the pod."
        )
    elif not late:
        return None
    else:
        have = "has" if len(late) == 1 else "have"
        message = f"{counted(len(late), 'replica')} on it {have} not been in sync for more than {minutes} minutes: {some(late)}."
        beside = names.log_dir(names.PLACEHOLDER_DIR)
        offline = sorted(d.path for d in known.log_dirs or () if d.error and d.path != beside)
        way_out = (
            f"Bring back or replace the disk of {some(offline)}, which Kafka has taken offline: they may be there."
            if offline
            else f"Nothing to do while they catch up. Otherwise check that {node} reaches the nodes of the other brokers (network policies and firewalls "
            f"included), and see kubectl logs {name} -c kafka."
        )
    message = f"Kafka runs in {name}, but {message}"
    return Waiting("SyncReplicas", f"Pod/{name}", "BrokerOutOfSync", message, way_out, objects=tuple(late))
