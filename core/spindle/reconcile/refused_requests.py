"""Reports requests that the API server refuses: the action is tried again in each pass, and waits for somebody to permit it."""

from dataclasses import replace
from typing import Final

from spindle.api.reported_text import clipped
from spindle.model.plan_builder import PlanBuilder
from spindle.model.refused_requests import RefusedRequest, target_of
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting

_TOO_MANY: Final = 429
_FORBIDDEN: Final = 403
_PASSING: Final = 30.0  # seconds for which a refusal may be one of a moment
_AGAIN: Final = "Spindle tries it again in each reconciliation."
_ACTIONS: Final = {
    "Create": "creating",
    "Apply": "changing",
    "Patch": "changing",
    "Delete": "deleting",
    "Evict": "evicting",
    "SetPodCondition": "setting the readiness gate of",
    "IssueCertificate": "writing",
    "KeepPassword": "writing",
    "IssueCa": "creating",
    "TurnCa": "changing",
    "CertifyAgents": "writing",
}


def report_refused(state: ClusterState, builder: PlanBuilder) -> None:
    """Add a wait for each action of this pass that the API server refused in the previous one."""
    wanted = {target_of(action) for action in builder.actions}
    for each in state.snap.refused:
        if each.target in wanted:
            builder.wait(_refused(state, each))


def _refused(state: ClusterState, each: RefusedRequest) -> Waiting:
    action, kind, name = each.target
    wait = Waiting(
        action,
        f"{kind}/{name}",
        "RequestRefused",
        f"The API server refuses {_ACTIONS[action]} {kind} {name} ({each.status}): {clipped(each.message)}",
        f"{_way_out(state, each)} {_AGAIN}",
    )
    # The event about the failed action has told it, and much of it passes.
    return replace(wait, quiet=state.waited(wait.key) < _PASSING)


def _way_out(state: ClusterState, each: RefusedRequest) -> str:
    """Who can permit the request, by the texts of Kubernetes."""
    text = each.message.lower()
    if "exceeded quota" in text:
        return (
            f"Raise the ResourceQuota of namespace {state.namespace} that the message names, or free what it counts; or lower what the "
            "KafkaCluster requests."
        )
    if "violates podsecurity" in text:
        return f"Lower the label pod-security.kubernetes.io/enforce of namespace {state.namespace} to the level that the message asks for."
    if "webhook" in text or "validatingadmissionpolicy" in text:
        return "Change the webhook or policy that the message names, or exempt this object from it; a webhook that does not answer must be brought back or removed."
    if each.status == _TOO_MANY:
        return f"Check with kubectl get pdb -n {state.namespace} which PodDisruptionBudget forbids it, and what keeps the pods that it counts from being ready."
    if each.status == _FORBIDDEN:
        return "Give the operator that right again: upgrade or reinstall the chart with its roles."
    return "Correct what the message says; the operator's log has the request."
