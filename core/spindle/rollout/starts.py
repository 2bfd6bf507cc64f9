"""``status.start`` of each KafkaBroker: why and how the running Kafka process started, and how long that took or still takes."""

from collections.abc import Mapping
from typing import Any

from spindle.api import names
from spindle.api.enums import StartKind
from spindle.model import objects
from spindle.model.snapshot import SnapshotObject
from spindle.model.start_progress import Start, seconds_left
from spindle.model.state import ClusterState
from spindle.model.times import seconds, stamp
from spindle.model.waiting import Waiting, counted

_BY_ITSELF = "ContainerRestarted"
_NEW = "PodCreated"


def reconcile_start(state: ClusterState, broker: SnapshotObject) -> dict[str, Any] | None:
    """``status.start`` of a broker; unchanged while no Kafka runs."""
    node_id = int(broker["spec"]["id"])
    before: Mapping[str, Any] = (broker.get("status") or {}).get("start") or {}
    pod = state.pods.get(node_id)
    at = objects.kafka_started(pod) if pod is not None else None
    if pod is None or at is None:
        return dict(before) or None
    if before.get("at") != at:
        before = {"at": at, "reason": _reason(state, node_id, pod)}
    elif "seconds" in before:
        return dict(before)
    start = state.snap.starts.get(node_id)
    entry = {
        key: before[key]
        for key in ("at", "reason", "kind", "logs", "loadingSince", "loadedAt")
        if key in before
    }
    if start is not None and start.kind is not None:
        entry["kind"] = start.kind
    if start is not None and start.loading:
        entry |= _loading(state, entry, start)
    elif objects.is_true(pod, "Ready"):
        ready = seconds((objects.condition(pod, "Ready") or {}).get("lastTransitionTime")) or state.now
        entry["seconds"] = max(0, round(ready - (seconds(at) or ready)))
    return entry


def unfinished(broker: SnapshotObject, pod: SnapshotObject) -> bool:
    """Whether the operator still has to poll the start of the Kafka that runs in a pod.

    Once the container's readiness probe has passed, Kafka has loaded its logs; a broker with a dead disk may never be in sync.
    """
    start = (broker.get("status") or {}).get("start") or {}
    if not objects.kafka_runs(pod) or start.get("at") != objects.kafka_started(pod):
        return objects.kafka_runs(pod)
    ready = bool(objects.container_status(pod, names.CONTAINER_KAFKA).get("ready"))
    return "seconds" not in start and not (ready and "kind" in start)


def loads(state: ClusterState, node_id: int) -> Waiting | None:
    """Why a broker is not restarted: it loads its logs, and a restart would start that again; None if it does not."""
    start = state.snap.starts.get(node_id)
    if start is None or not start.loading:
        return None
    return Waiting.refused(
        rule=None,
        reason="LoadingLogs",
        message=f"Broker {node_id} is loading its logs, {counted(start.logs_left, 'log')} left. A restart would start that again.",
        unblocked_by="Nothing to do: Spindle continues when the logs are loaded. status.start of the KafkaBroker shows the progress.",
    )


def loaded_at(state: ClusterState, node_id: int) -> float:
    """When a broker was last seen loading its logs, 0 for never."""
    broker = state.brokers.get(node_id) or {}
    start = (broker.get("status") or {}).get("start") or {}
    seen = state.snap.starts.get(node_id)
    return state.now if seen is not None and seen.loading else seconds(start.get("loadedAt")) or 0.0


def words(start: Mapping[str, Any] | None) -> str:
    """The progress of a start as a sentence; empty while no logs are left to load."""
    if not start or not start.get("logsLeft"):
        return ""
    how = "recovers" if start.get("kind") == StartKind.DIRTY else "loads"
    until = f", until about {start['readyBy']}" if start.get("readyBy") else ""
    return f"Kafka {how} its logs: {start['logsLeft']} of {start['logs']} left{until}."


def _loading(state: ClusterState, entry: Mapping[str, Any], start: Start) -> dict[str, Any]:
    most = max(int(entry.get("logs", 0)), start.logs_left)
    since = str(entry.get("loadingSince") or stamp(state.now))
    result: dict[str, Any] = {
        "logs": most,
        "loadingSince": since,
        "loadedAt": stamp(state.now),
        "logsLeft": start.logs_left,
        "segmentsLeft": start.segments_left,
    }
    left = seconds_left(seconds(since) or state.now, most, state.now, start.logs_left)
    if left is not None:
        result["readyBy"] = stamp(state.now + left)
    return result


def _reason(state: ClusterState, node_id: int, pod: SnapshotObject) -> str:
    """Why Kafka was started: the reason of its pod's restart, or that its container restarted by itself."""
    if objects.container_status(pod, names.CONTAINER_KAFKA).get("restartCount"):
        return _BY_ITSELF
    mark = next(
        (
            m
            for m in state.unavailable_records
            if int(m["nodeId"]) == node_id and m["uid"] != objects.uid(pod)
        ),
        None,
    )
    return str(mark.get("reason") or _NEW) if mark is not None else _NEW
