"""Stops a rolling restart when a restarted pod does not come back in time or Kafka crash-loops in one, whatever the change was."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spindle.api import names
from spindle.model import objects
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.times import seconds
from spindle.model.waiting import Waiting, counted, some
from spindle.rollout.crash_cause import crash_cause
from spindle.rollout.starts import loaded_at

# Restarts for a change; every other reason is a disk, a user's request or a broker that cannot work as it is.
CHANGES: Final = frozenset({"SpecChanged", "CertificateRenewed"})

_ACTION: Final = "Roll"
_OFTEN: Final = 3  # restarts of Kafka's container that count as a crash loop
_LATELY: Final = 600.0  # seconds after which a restart no longer counts
_LANDS_WITHIN: Final = 1800.0  # seconds that a restart waits for copies between disks, which resume after it


def overdue(state: ClusterState, mark: Mapping[str, Any]) -> bool:
    """Whether a node that went down is not back within ``spec.rolling.backWithinSeconds``; time in which it loads its logs does not count."""
    since = seconds(mark.get("since"))
    if since is not None:
        since = max(since, loaded_at(state, int(mark["nodeId"])))
    return since is not None and state.now - since > state.spec.rolling.back_within_seconds


def stalled_rollout(
    state: ClusterState, builder: PlanBuilder, away: Sequence[Mapping[str, Any]], outdated: Mapping[int, Any]
) -> list[str]:
    """The pods that stop the rolling restart, sorted; adds a wait with the reason for each.

    Args:
        state, builder: of this pass.
        away: marks of nodes that went down and are not back.
        outdated: nodes that will be recreated themselves; how they fare says nothing about the change.
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
        builder.wait(_crash_looping(pod))
    return sorted({str(mark["pod"]) for mark in late} | {objects.name(pod) for pod in again})


def crashed_pods(pods: Sequence[str]) -> Waiting:
    """Why no further pod is restarted for a change."""
    return Waiting.refused(
        rule=None,
        reason="RolloutStalled",
        message=f"The rolling restart has stopped: {some(pods)} {'is' if len(pods) == 1 else 'are'} not back in sync, or Kafka crash-loops there.",
        unblocked_by=f"Correct the change, or bring {some(pods)} back in sync.",
        objects=tuple(pods),
    )


def copies_between_disks(state: ClusterState, node_id: int) -> Waiting | None:
    """Why a restart for a change waits for copies between the broker's disks; None if none run, or it has waited for half an hour."""
    name = names.pod_name(state.name, node_id)
    if state.waited(("RestartPod", f"Pod/{name}", "IntraBrokerMovesInProgress")) > _LANDS_WITHIN:
        return None
    return copying(state, node_id)


def copying(state: ClusterState, node_id: int) -> Waiting | None:
    """The wait for copies between a broker's disks (future replicas, KIP-113); None if none run."""
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
        message=f"{counted(len(copied), 'replica')} {'is' if len(copied) == 1 else 'are'} being copied between disks of {name}: {some(copied)}.",
        unblocked_by="Nothing to do: Spindle continues when the copies are complete. After half an hour it restarts the broker anyway; the copies resume "
        "after that.",
        objects=tuple(copied),
    )


def crash_loops(state: ClusterState, pod: SnapshotObject) -> bool:
    """Whether Kafka in a pod has exited at least three times, the last time within ten minutes or without becoming ready since."""
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
        return _not_replaced(state, mark, standing)
    return Waiting(
        _ACTION,
        f"Pod/{pod}",
        "ProgressDeadlineExceeded",
        f"{pod} was restarted ({mark.get('reason') or 'requested'}) and is not back in sync after {counted(within, 'second')}. "
        "Spindle restarts no further pod for a change.",
        f"Bring {pod} back in sync, or correct the change. See the other entries about {pod} in status.waiting, and run: kubectl logs {pod}",
    )


def _not_replaced(state: ClusterState, mark: Mapping[str, Any], pod: SnapshotObject) -> Waiting:
    """A pod that should have been restarted and still is the old one."""
    name = objects.name(pod)
    within = counted(state.spec.rolling.back_within_seconds, "second")
    if objects.deleting(pod):
        happened = f"is being stopped, but has not terminated after {within}"
        way = f"Check with kubectl describe pod {name} what holds it; most often it is the node."
    else:
        happened = f"has not been evicted after {within}: its eviction is refused"
        way = (
            f"Check with kubectl describe pdb {' '.join(_counting(state, pod))} what blocks the eviction. Change any other PodDisruptionBudget or "
            "admission policy that forbids it."
        )
    return Waiting(
        _ACTION,
        f"Pod/{name}",
        "ProgressDeadlineExceeded",
        f"{name} must restart ({mark.get('reason') or 'requested'}) and {happened}. Spindle restarts no further pod for a change.",
        f"{way} Or revert the change.",
    )


def _counting(state: ClusterState, pod: SnapshotObject) -> list[str]:
    """The PodDisruptionBudgets that select a pod; if none is known, the one that should."""
    labels = objects.labels(pod)
    found = sorted(
        objects.name(budget)
        for budget in state.snap.budgets
        if (wanted := ((budget.get("spec") or {}).get("selector") or {}).get("matchLabels"))
        and all(labels.get(key) == value for key, value in wanted.items())
    )
    broker = labels.get(names.LABEL_ROLE) == names.ROLE_BROKER
    return found or [names.broker_budget(state.name) if broker else names.controller_budget(state.name)]


def _crash_looping(pod: SnapshotObject) -> Waiting:
    name = objects.name(pod)
    count = objects.container_status(pod, names.CONTAINER_KAFKA).get("restartCount")
    cause = crash_cause(pod, names.CONTAINER_KAFKA)
    return Waiting(
        _ACTION,
        f"Pod/{name}",
        "CrashLooping",
        f"Kafka in {name} has exited {count} times. Spindle restarts no further pod for a change. Its error: {cause}",
        f"Correct the change; for the cause run: kubectl logs {name} --previous. Spindle continues when Kafka has run there for ten minutes.",
    )
