"""The rebalance job: its CronJob, ServiceAccount, Role and RoleBinding, and the result of its latest run."""

import json
from collections.abc import Mapping
from typing import Any, Final

from spindle.api import names
from spindle.manifests.cronjob import rebalance_objects, report_map
from spindle.manifests.ensure_applied import ensure_applied
from spindle.model import objects
from spindle.model.ownership import OWN
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting

KINDS: Final = ("serviceaccounts", "roles", "rolebindings", "cronjobs")
_JOB_NAME: Final = "batch.kubernetes.io/job-name"
_LONGEST: Final = 2000  # characters of a run's message

JobCondition = tuple[str, str, str, str]


def reconcile_job(state: ClusterState, builder: PlanBuilder) -> None:
    """Create the job and revert changes to it; there is none without an image."""
    image = state.spec.rebalance.engine.image or state.snap.rebalance_image
    if not image:
        return
    unknown = sorted(state.snap.unknown & {*KINDS, "configmaps"})
    if unknown:
        builder.wait(_unreadable(state, unknown))
        return
    ensure_applied(
        builder, report_map(state.cluster), state.config_maps.get(names.rebalance_report(state.name))
    )
    live = {(str(obj["kind"]), objects.name(obj)): obj for obj in state.snap.rebalance_objects}
    for made in rebalance_objects(state.cluster, state.spec, image):
        there = live.get((str(made["kind"]), objects.name(made)))
        if made["kind"] != "CronJob" or _with_its_own(state):
            ensure_applied(builder, made, there)
        elif there is not None:
            ensure_applied(builder, {**made, "spec": {**made["spec"], "suspend": True}}, there)


def _with_its_own(state: ClusterState) -> bool:
    """Whether the ServiceAccount, its rights and its certificate are this KafkaCluster's own.

    A foreign ServiceAccount of the same name may be bound to any role (safety rule "only owned objects are changed", ``docs/safety.md``).
    """
    job = names.rebalance_job(state.name)
    parts = [(kind, OWN, job) for kind in ("ServiceAccount", "Role", "RoleBinding")]
    return not any(
        key in state.taken for key in [*parts, ("Secret", OWN, names.rebalance_secret(state.name))]
    )


def withdraw_job(state: ClusterState, builder: PlanBuilder) -> bool:
    """Delete the CronJob before the brokers of a deleted KafkaCluster stop. True when there is none left."""
    left = [obj for obj in state.snap.rebalance_objects if obj["kind"] == "CronJob"]
    for job in left:
        builder.delete("CronJob", job)
    return not left


def runs_row(state: ClusterState) -> JobCondition | None:
    """The condition ``RebalanceRuns``: the result of the latest run that has ended; None if none has, or it is unknown."""
    ended = [job for job in state.snap.jobs if _ended(job) is not None]
    if not ended:
        before = objects.condition(state.cluster, "RebalanceRuns")
        return _standing(before) if before and "jobs" in state.snap.unknown else None
    latest = max(ended, key=lambda job: (_ended_at(job), objects.name(job)))
    name, ok = objects.name(latest), objects.is_true(latest, "Complete")
    result = _reported(state, name)
    if result is None:
        before = objects.condition(state.cluster, "RebalanceRuns")
        if before and str(before.get("message", "")).startswith(f"{name}: "):
            return _standing(before)  # its pod is gone by now; the condition still has its message
        result = _of_the_job(latest)
    reason, message = result
    return (
        "RebalanceRuns",
        "True" if ok else "False",
        reason or ("RunSucceeded" if ok else "RunFailed"),
        f"{name}: {message}"[:_LONGEST],
    )


def _standing(condition: SnapshotObject) -> JobCondition:
    return ("RebalanceRuns", *(str(condition.get(key, "")) for key in ("status", "reason", "message")))  # type: ignore[return-value]


def _ended(job: SnapshotObject) -> SnapshotObject | None:
    return next(
        (
            condition
            for kind in ("Complete", "Failed")
            if (condition := objects.condition(job, kind)) and condition.get("status") == "True"
        ),
        None,
    )


def _ended_at(job: SnapshotObject) -> str:
    return str(
        (_ended(job) or {}).get("lastTransitionTime") or job["metadata"].get("creationTimestamp") or ""
    )


def _reported(state: ClusterState, job: str) -> tuple[str, str] | None:
    """Reason and message in the termination message of the run's pod; None if there is none."""
    for pod in state.snap.pods:
        if objects.labels(pod).get(_JOB_NAME) != job:
            continue
        ended = objects.terminated(pod, names.CONTAINER_REBALANCE)
        text = str((ended or {}).get("message") or "").strip()
        if text:
            return _parsed(text)
    return None


def _parsed(text: str) -> tuple[str, str]:
    """A message in JSON (reason, message, lines), or the last lines of a log."""
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):  # the job may be compromised, and must not end the pass
        document = None
    if not isinstance(document, Mapping):
        return "", f"It ended with: {text[-_LONGEST:]}"
    found = document.get("lines")
    lines = [line for line in found if isinstance(line, str)] if isinstance(found, list) else []
    last = " Last lines: " + " | ".join(lines) if lines else ""
    reason, message = (
        value if isinstance(value := document.get(key), str) else "" for key in ("reason", "message")
    )
    return reason[:63], f"{message}{last}"


def _of_the_job(job: SnapshotObject) -> tuple[str, str]:
    condition = _ended(job) or {}
    if condition.get("type") == "Complete":
        return "RunSucceeded", "It succeeded and left no message."
    why = condition.get("message") or condition.get("reason") or "Kubernetes gives no reason"
    return "RunFailed", f"It failed and left no message: {why}."


def _unreadable(state: ClusterState, kinds: list[str]) -> Waiting:
    return Waiting(
        "CreateRebalanceJob",
        f"CronJob/{names.rebalance_job(state.name)}",
        "JobUnreadable",
        f"{', '.join(kinds)} could not be listed, so Spindle does not change the rebalance job.",
        "Check that the operator's role may list them (chart 0.1.0 or later) and that the API server answers.",
    )
