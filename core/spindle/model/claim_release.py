"""Releases claims: the volume is retained, then the claim is deleted."""

from typing import Any, Final

from spindle.api import names
from spindle.model import objects
from spindle.model.actions import Patch
from spindle.model.cluster_identity import NodeIdentity
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting

REMOVE_DISK: Final = "RemoveDisk"

_RETAIN: Final = "Retain"


def release(
    state: ClusterState,
    builder: PlanBuilder,
    identity: NodeIdentity,
    there: SnapshotObject | None,
    object_name: str,
    why: str,
) -> None:
    """Set the claim's volume to Retain, then delete the claim.

    Safety rule "no log dir removed with replicas on it" (``docs/safety.md``). A claim of another cluster stays (safety rule "no data
    deleted unless requested"). ``why`` is a clause for the event: "disk1 holds no replicas".
    """
    if there is None:
        return
    if objects.deleting(there):
        builder.wait(
            Waiting(
                REMOVE_DISK,
                object_name,
                "ClaimBeingDeleted",
                f"Claim {objects.name(there)} is being deleted.",
                "Nothing to do: Spindle continues when no pod uses the claim and Kubernetes has removed it.",
                quiet=True,
            )
        )
        return
    if objects.annotation(there, names.ANN_CLUSTER_ID) != identity.cluster_id:
        return  # `reconcile_claims` reports it
    bound = str((there.get("spec") or {}).get("volumeName") or "")
    if bound and "persistentvolumes" in state.snap.unknown:
        return  # reported already (safety rule "unknown is not absent", docs/safety.md)
    volume = state.volumes.get(bound)
    if bound and volume is None and not objects.lost(there):
        return  # created since volumes were listed; the next pass sees it
    if volume is not None and not objects.claimed_by(volume, there):
        volume = None  # a claim can name any volume; Spindle changes only the one that belongs to it
    if volume is not None and not _retained(volume):
        builder.do(
            Patch(
                kind="PersistentVolume",
                name=bound,
                uid=objects.uid(volume),
                body={"spec": {"persistentVolumeReclaimPolicy": _RETAIN}},
                reason="VolumeRetained",
                message=f"Set volume {bound} to Retain: its claim will be deleted, and its data is kept for its owner.",
            )
        )
        return
    kept = f" Volume {bound} is kept." if volume is not None else ""
    message = f"Deleted claim {objects.name(there)}: {why}.{kept}"
    builder.delete("PersistentVolumeClaim", there, "ClaimDeleted", message)


def _retained(volume: SnapshotObject) -> bool:
    return (volume.get("spec") or {}).get("persistentVolumeReclaimPolicy") == _RETAIN


def refuse(found: SnapshotObject, problem: str) -> Patch:
    """Record on a claim why its volume was not used, so that the broker does not restart for it again and again."""
    return annotate_refusal(found, problem[:1000])


def annotate_refusal(found: SnapshotObject, text: str | None) -> Patch:
    """Set or remove the annotation of a claim that says why its volume was not used."""
    body: dict[str, Any] = {"metadata": {"annotations": {names.ANN_REFUSED: text}}}
    return Patch(kind="PersistentVolumeClaim", name=objects.name(found), uid=objects.uid(found), body=body)
