"""Pods that should have ended: their grace period is over, and their node still shows them.

The kubelet kills the processes when the grace period is over. A process that waits in the kernel for a disk ends only when the disk answers or is
removed, and no successor is started before. An agent reports such a disk only if it was formatted before.
"""

from typing import Final

from spindle.model import disk_facts, objects
from spindle.model.reports import handed_over
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.times import seconds
from spindle.model.waiting import Waiting, counted, some

_LATE: Final = 120.0  # seconds after the grace period: the kubelet kills the processes, unmounts the volumes and deletes the object
_ACTION: Final = "StopPod"
_REASON: Final = "StopDeadlineExceeded"


def overdue_stop(state: ClusterState, node_id: int, pod: SnapshotObject) -> Waiting | None:
    """The wait for a pod that is being deleted: it should have ended, or somebody else deleted it and it still has time; None if Spindle stops it."""
    # The API server adds the grace period to the time of the request.
    due = seconds(pod["metadata"].get("deletionTimestamp"))
    if due is None or state.now - due < _LATE:
        marked = any(mark["uid"] == objects.uid(pod) for mark in state.unavailable_records)
        return None if marked or objects.deleting(state.cluster) else _stopping(pod)
    held = pod["metadata"].get("finalizers") or ()
    return _held(pod, held) if held else _does_not_end(state, node_id, pod)


def _stopping(pod: SnapshotObject) -> Waiting:
    name = objects.name(pod)
    return Waiting(
        _ACTION,
        f"Pod/{name}",
        "PodsTerminating",
        f"Pod {name} was deleted and is terminating; Kafka closes its logs first. It must have ended by {pod['metadata'].get('deletionTimestamp')}.",
        "Nothing to do: Spindle creates its successor when it has ended.",
        quiet=True,
    )


def _held(pod: SnapshotObject, finalizers: list[str]) -> Waiting:
    name = objects.name(pod)
    return Waiting(
        _ACTION,
        f"Pod/{name}",
        _REASON,
        f"Pod {name} is being deleted, but {counted(len(finalizers), 'finalizer')} {'keeps' if len(finalizers) == 1 else 'keep'} it: {some(finalizers)}. "
        "Spindle creates its successor when it is gone.",
        f"Find out who set {some(finalizers)} on the pod, and let them remove it.",
    )


def _does_not_end(state: ClusterState, node_id: int, pod: SnapshotObject) -> Waiting:
    name, node = objects.name(pod), state.node_of(node_id) or "its node"
    happened = f"Pod {name} is being deleted and should have ended, but {node} still shows it. Spindle creates its successor when it has ended."
    found = handed_over(pod)
    dead = sorted(disk for disk, seen in found.items() if seen.get("state") == disk_facts.DEAD)
    if dead:
        problem = str(found[dead[0]].get("problem") or f"{dead[0]} does not answer.")
        return Waiting(
            _ACTION,
            f"KafkaBroker/{name}/{dead[0]}",
            _REASON,
            f"{happened} Most likely its process waits in the kernel for {dead[0]}; preflight reported: {problem}",
            f"Replace {dead[0]} on {node}. If the pod does not end then, restart the node.",
        )
    return Waiting(
        _ACTION,
        f"Pod/{name}",
        _REASON,
        f"{happened} Most likely its process waits in the kernel for a disk that does not answer.",
        f"See in the kernel log of {node} which disk does not answer, and remove it from the machine; or restart node {node}.",
    )
