"""Name conflicts: drops from the plan every action on an object that is not this cluster's, and reports the object.

Safety rule "only owned objects are changed" (``docs/safety.md``).
"""

from typing import Final

from spindle.api import names
from spindle.model.actions import (
    Action,
    Apply,
    CertifyAgents,
    CopyCertificates,
    Create,
    Delete,
    Evict,
    IssueCa,
    IssueCertificate,
    KeepPassword,
    Patch,
    SetPassword,
    SetPodCondition,
    TurnCa,
)
from spindle.model.ownership import OWN, NameConflict, OwnerKey, objects_without_owner
from spindle.model.plan_builder import PlanBuilder
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting

REASONS: Final = frozenset({"NameConflict", "OrphanedObject"})
_CLAIM: Final = "PersistentVolumeClaim"


def leave_alone(state: ClusterState, builder: PlanBuilder) -> None:
    """Remove actions from the plan that would change an object of another owner, and add a wait for each such object.

    Actions that need the journal do not run without it (safety rule "every changed setting can be restored", ``docs/safety.md``): where its name
    is taken, everything after its first write is dropped.
    """
    records = {names.identity_map(state.name), names.moves_map(state.name)}
    kept: list[Action] = []
    for action in builder.actions:
        found = [taken for key in regards(action, state.namespace) if (taken := state.taken.get(key))]
        builder.wait(*(_wait(state, taken) for taken in found))
        if any(taken.kind == "ConfigMap" and taken.name in records for taken in found):
            break
        if not found:
            kept.append(action)
    builder.actions[:] = kept


def name_conflict_reported(state: ClusterState, builder: PlanBuilder, kind: str, name: str) -> bool:
    """Whether an object of another owner has this name in the KafkaCluster's namespace; adds a wait for it if so."""
    taken = state.taken.get((kind, OWN, name))
    if taken is not None:
        builder.wait(_wait(state, taken))
    return taken is not None


def regards(action: Action, namespace: str) -> list[OwnerKey]:
    """The objects that an action would create, change, delete or bind a volume to.

    Args:
        action: of a plan.
        namespace: the KafkaCluster's.
    """
    match action:
        case Create(object=obj) | Apply(object=obj):
            return [_key(obj["kind"], obj["metadata"]["name"], obj["metadata"].get("namespace"), namespace)]
        case Patch(kind="PersistentVolume"):
            claim = ((action.body.get("spec") or {}).get("claimRef") or {}).get("name")
            return [(_CLAIM, OWN, str(claim))] if claim else []
        case Patch(kind=kind, name=name):
            return [(kind, OWN, name)]
        case Delete(kind=kind, name=name):
            return [_key(kind, name, action.namespace, namespace)]
        case Evict(pod=pod) | SetPodCondition(pod=pod):
            return [("Pod", OWN, pod)]
        case IssueCertificate(metadata=meta) | KeepPassword(metadata=meta) | CopyCertificates(metadata=meta):
            return [_key("Secret", meta["name"], meta.get("namespace"), namespace)]
        case CertifyAgents(metadata=meta):
            return [_key("ConfigMap", meta["name"], meta.get("namespace"), namespace)]
        case IssueCa(secret=secret) | TurnCa(secret=secret) | SetPassword(secret=secret):
            return [("Secret", OWN, secret)]
        case _:
            return []


def _key(kind: str, name: str, where: str | None, namespace: str) -> OwnerKey:
    return kind, OWN if where in (None, namespace) else str(where), name


def _wait(state: ClusterState, taken: NameConflict) -> Waiting:
    object_name = f"{taken.kind}/{taken.name}"
    if taken.goes:
        return Waiting(
            f"Make{taken.kind}",
            object_name,
            "OrphanedObject",
            f"{taken.kind} {taken.name} belonged to a former KafkaCluster, broker or user of this name, or is being deleted. Spindle does not "
            "use it and creates a new one when it is gone.",
            f"Nothing to do: the Kubernetes garbage collector deletes it. If it stays, run: {_delete(state, taken)}",
            quiet=True,
        )
    owner = f"it belongs to {taken.owner}" if taken.owner else "it has no owner"
    return Waiting(
        f"Make{taken.kind}",
        object_name,
        "NameConflict",
        f"{taken.kind} {taken.name} does not belong to this KafkaCluster: {owner}. Spindle does not use, change or delete it, so the cluster "
        f"has no {taken.kind} of that name.",
        f"If it is not needed, delete it: {_delete(state, taken)}. Otherwise, give the KafkaCluster another name.{_claim(state, taken)}",
    )


def _delete(state: ClusterState, taken: NameConflict) -> str:
    return f"kubectl delete {taken.kind.lower()} {taken.name} -n {taken.namespace or state.namespace}"


def _claim(state: ClusterState, taken: NameConflict) -> str:
    """How a user declares that the object is the cluster's own after all."""
    identity = state.known_identity
    if taken.kind == "Secret" and taken.namespace == OWN:
        return (
            f" If it belongs to this cluster and was restored from a backup: make sure that it has the label {names.LABEL_CLUSTER}={state.name}, then run: "
            f"kubectl annotate --overwrite kafkacluster {state.name} -n {state.namespace} {names.ANN_RESTORED}={taken.uid}"
        )
    if identity is not None and (taken.kind == _CLAIM or taken.name in objects_without_owner(state.name)):
        return (
            f" If it belongs to this cluster, run: kubectl annotate --overwrite {taken.kind.lower()} {taken.name} -n {state.namespace} "
            f"{names.ANN_CLUSTER_ID}={identity.cluster_id}"
        )
    return ""
