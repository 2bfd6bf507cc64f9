"""Reports requests that the API server refuses: the action is tried again in each pass, and waits for somebody to permit it."""

from dataclasses import replace
from typing import Final

from spindle.api.reported_text import clipped
from spindle.model import objects
from spindle.model.plan_builder import PlanBuilder
from spindle.model.refused_requests import WRITE_STATUS, RefusedRequest, target_of
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting

_TOO_MANY: Final = 429
_FORBIDDEN: Final = 403
_INVALID: Final = (400, 422)
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
    "CopyCertificates": "writing",
    "IssueCa": "creating",
    "TurnCa": "changing",
    "CertifyAgents": "writing",
    "SetPassword": "annotating",
    "CreateTopic": "annotating",
    "MarkDown": "writing status.takingDown of",
    WRITE_STATUS: "writing the status of",
}
_STATUSES: Final = frozenset({"MarkDown", WRITE_STATUS})


def report_refused(state: ClusterState, builder: PlanBuilder) -> None:
    """Add a wait for each action of this pass, and each status, that the API server refused in the previous one.

    That the status of the KafkaCluster itself is refused cannot be told in it: `refused_text` is for an event.
    """
    wanted = {target_of(action) for action in builder.actions}
    snap = state.snap
    wanted |= {
        (WRITE_STATUS, kind, objects.name(each))
        for kind, found in (
            ("KafkaBroker", snap.brokers),
            ("KafkaUser", snap.users),
            ("KafkaTopic", snap.topics),
            ("KafkaRebalance", snap.rebalances),
        )
        for each in found
    }
    for request in snap.refused:
        if request.target in wanted:
            builder.wait(_refused(state, request))


def refused_text(namespace: str, cluster: str, request: RefusedRequest) -> tuple[str, str]:
    """What the API server refuses, and who can permit it."""
    action, kind, name = request.target
    told = f"The API server refuses {_ACTIONS[action]} {kind} {name or cluster} ({request.status}): {clipped(request.message)}"
    return told, f"{_way_out(namespace, request)} {_AGAIN}"


def _refused(state: ClusterState, request: RefusedRequest) -> Waiting:
    action, kind, name = request.target
    text, way_out = refused_text(state.namespace, state.name, request)
    wait = Waiting(action, f"{kind}/{name or state.name}", "RequestRefused", text, way_out)
    # The event about the failed action has told it, and much of it passes.
    return replace(wait, quiet=state.waited(wait.key) < _PASSING)


def _way_out(namespace: str, each: RefusedRequest) -> str:
    """Who can permit the request, by the texts of Kubernetes."""
    text = each.message.lower()
    if "exceeded quota" in text:
        return (
            f"Raise the ResourceQuota of namespace {namespace} that the message names, or free what it counts; or lower what the "
            "KafkaCluster requests."
        )
    if "violates podsecurity" in text:
        return f"Lower the label pod-security.kubernetes.io/enforce of namespace {namespace} to the level that the message asks for."
    if "webhook" in text or "validatingadmissionpolicy" in text:
        return "Change the webhook or policy that the message names, or exempt this object from it; a webhook that does not answer must be brought back or removed."
    if each.status == _TOO_MANY:
        return f"Check with kubectl get pdb -n {namespace} which PodDisruptionBudget forbids it, and what keeps the pods that it counts from being ready."
    if each.status == _FORBIDDEN:
        return "Give the operator that right again: upgrade or reinstall the chart with its roles."
    if each.target[0] in _STATUSES and each.status in _INVALID:
        return "Apply the CRDs of the operator's release (folder crds of the chart): those of another release do not know all fields of this status."
    return "Correct what the message says; the operator's log has the request."
