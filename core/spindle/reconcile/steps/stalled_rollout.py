"""What stops a roll: who did not come back in time, or restarts again and again. Whatever the change was, it goes no further then."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spindle.cluster import names
from spindle.cluster.waiting import Waiting, counted, some
from spindle.reconcile import objects
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.state import ClusterState
from spindle.reconcile.steps.starts import loaded_at
from spindle.reconcile.times import seconds

# Why a pod goes down for a change; every other reason is about a disk, a person's request or a broker that is no use as it is.
CHANGES: Final = frozenset({"SpecChanged", "CertificateRenewed"})

_ACTION: Final = "Roll"
_OFTEN: Final = 3  # restarts of Kafka's container; the first may be an accident, the second its echo
_LATELY: Final = 600.0  # seconds after which a restart is history
_LANDS_WITHIN: Final = 1800.0  # seconds that a restart waits for copies between disks, which go on after it


def overdue(state: ClusterState, mark: Mapping[str, Any]) -> bool:
    """Whether a node that went down has not come back in time."""
    since = seconds(mark.get("since"))
    if since is not None:
        since = max(since, loaded_at(state, int(mark["nodeId"])))
    return since is not None and state.now - since > state.spec.rolling.back_within_seconds


def stalled_rollout(
    state: ClusterState, builder: PlanBuilder, away: Sequence[Mapping[str, Any]], outdated: Mapping[int, Any]
) -> list[str]:
    """Pods because of which no further one is restarted for a change; each is told with its reason.

    Args:
        state, builder: of this pass.
        away: marks of nodes that went down and are not back.
        outdated: nodes that are to be made anew themselves: what they do is no verdict on the change.
    """
    late = [mark for mark in away if overdue(state, mark)]
    for mark in late:
        builder.wait(_late(state, mark))
    again = [
        pod
        for node_id, pod in state.pods.items()
        if node_id not in outdated and not objects.deleting(pod) and crash_loops(state, pod)
    ]
    for pod in again:
        builder.wait(_again(pod))
    return sorted({str(mark["pod"]) for mark in late} | {objects.name(pod) for pod in again})


def crashed_pods(pods: Sequence[str]) -> Waiting:
    """Why a change goes no further."""
    return Waiting.refused(
        rule=None,
        reason="RolloutStalled",
        message=f"Nothing further is restarted for a change: {some(pods)} did not come back as they should.",
        unblocked_by=f"{some(pods)} are back in sync, or the change is corrected.",
        objects=tuple(pods),
    )


def copies_between_disks(state: ClusterState, node_id: int) -> Waiting | None:
    """Why a restart for a change waits for copies between a broker's own disks; None if none run, or it has waited for too long already."""
    name = names.pod_name(state.name, node_id)
    if state.waited(("RestartPod", f"Pod/{name}", "IntraBrokerMovesInProgress")) > _LANDS_WITHIN:
        return None
    return copying(state, node_id)


def copying(state: ClusterState, node_id: int) -> Waiting | None:
    """The copies between a broker's own disks, for however long they run; to be told as long as they do."""
    broker = (state.kafka.brokers or {}).get(node_id)
    copied = sorted(
        f"{topic}-{partition}"
        for log_dir in (broker.log_dirs if broker else None) or ()
        for topic, partition in log_dir.futures
    )
    name = names.pod_name(state.name, node_id)
    if not copied:
        return None
    return Waiting.refused(
        rule=None,
        reason="IntraBrokerMovesInProgress",
        message=f"{counted(len(copied), 'replica')} is copied between disks of {name}: {some(copied)}.",
        unblocked_by="The copies land. After half an hour it is restarted all the same; they go on after that.",
        objects=tuple(copied),
    )


def crash_loops(state: ClusterState, pod: SnapshotObject) -> bool:
    """Whether Kafka in a pod has ended several times, the last time lately or with no success since."""
    status = objects.container_status(pod, names.CONTAINER_KAFKA)
    if int(status.get("restartCount") or 0) < _OFTEN:
        return False
    ended = seconds((objects.terminated(pod, names.CONTAINER_KAFKA) or {}).get("finishedAt"))
    lately = ended is not None and state.now - ended < _LATELY
    return lately or not objects.is_true(pod, "Ready")


def _late(state: ClusterState, mark: Mapping[str, Any]) -> Waiting:
    pod = str(mark["pod"])
    within = state.spec.rolling.back_within_seconds
    standing = state.pods.get(int(mark["nodeId"]))
    if standing is not None and objects.uid(standing) == mark.get("uid"):
        return _not_gone(state, mark, standing)
    return Waiting(
        _ACTION,
        f"Pod/{pod}",
        "ProgressDeadlineExceeded",
        f"{pod} was restarted ({mark.get('reason') or 'asked for'}) and is not back in sync after {counted(within, 'second')}. "
        "Nothing further is restarted for a change.",
        f"{pod} comes back, or the change is corrected: see its own entries here, and kubectl logs {pod}.",
    )


def _not_gone(state: ClusterState, mark: Mapping[str, Any], pod: SnapshotObject) -> Waiting:
    """One that was to be restarted, and whose pod still is the one of before."""
    name = objects.name(pod)
    within = counted(state.spec.rolling.back_within_seconds, "second")
    if objects.deleting(pod):
        happened = f"is being stopped, and its pod has not ended after {within}"
        way = f"Its process ends: kubectl describe pod {name} says what holds it, its node above all."
    else:
        happened = f"still runs as before after {within}: its eviction is refused"
        way = (
            f"The eviction is let through: kubectl describe pdb {' '.join(_counting(state, pod))} says what is waited for; another budget or an "
            "admission policy that forbids it is changed."
        )
    return Waiting(
        _ACTION,
        f"Pod/{name}",
        "ProgressDeadlineExceeded",
        f"{name} is to be restarted ({mark.get('reason') or 'asked for'}) and {happened}. Nothing further is restarted for a change.",
        f"{way} Or the change is taken back.",
    )


def _counting(state: ClusterState, pod: SnapshotObject) -> list[str]:
    """The disruption budgets that count a pod, as far as they are seen; else the one that should."""
    labels = objects.labels(pod)
    found = sorted(
        objects.name(budget)
        for budget in state.snap.budgets
        if (wanted := ((budget.get("spec") or {}).get("selector") or {}).get("matchLabels"))
        and all(labels.get(key) == value for key, value in wanted.items())
    )
    broker = labels.get(names.LABEL_ROLE) == names.ROLE_BROKER
    return found or [names.broker_budget(state.name) if broker else names.controller_budget(state.name)]


def _again(pod: SnapshotObject) -> Waiting:
    name = objects.name(pod)
    count = objects.container_status(pod, names.CONTAINER_KAFKA).get("restartCount")
    said = str((objects.terminated(pod, names.CONTAINER_KAFKA) or {}).get("message") or "").strip()
    last = f" It last said: {said[-300:]}" if said else ""
    return Waiting(
        _ACTION,
        f"Pod/{name}",
        "CrashLooping",
        f"Kafka in {name} has ended {count} times. Nothing further is restarted for a change.{last}",
        f"It runs for ten minutes, or the change is corrected: kubectl logs {name} --previous says why it ends.",
    )
