"""The volumes of claims: those that refer to a claim by its name, reserved for it or retained from a former one, and where they are."""

from collections.abc import Iterator
from typing import Final

from spindle.api import names
from spindle.model import objects
from spindle.model.actions import Patch
from spindle.model.broker_disks import disks_of
from spindle.model.nodes import section
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState

VOLUMES_UNREADABLE: Final = "Check that the API server answers and that the operator's ClusterRole allows it to list PersistentVolumes."
"""What a user does if PersistentVolumes cannot be read."""


def hosts_of_volumes(state: ClusterState, broker: SnapshotObject) -> Iterator[str]:
    """The host names that a broker's local volumes are pinned to, by disk; also those of disks that it runs without."""
    for disk in disks_of(broker):
        volume = state.volume(state.claims.get(disk["claim"]))
        if volume is not None and (host := objects.pinned_to(volume)):
            yield host


def kept_volumes(state: ClusterState, claim_name: str) -> list[SnapshotObject]:
    """Volumes that are reserved for a claim and not bound to it yet."""
    return [
        volume
        for volume in state.volumes.values()
        if is_for(state, volume, claim_name) and not section(volume, "spec", "claimRef").get("uid")
    ]


def is_reserved(volume: SnapshotObject) -> bool:
    """Whether Spindle reserved a volume for a claim, and no claim was bound to it since.

    A volume without this mark may be kept with its data: `spindle volume rebind` and a restore reserve a volume that a claim had.
    """
    ref = section(volume, "spec", "claimRef")
    return ref.get("fieldPath") == names.RESERVED and not ref.get("uid")


def left_volumes(state: ClusterState, claim_name: str) -> list[SnapshotObject]:
    """Volumes that a former claim of this name had and that were retained when it was deleted."""
    return [
        volume
        for volume in state.volumes.values()
        if is_for(state, volume, claim_name)
        and section(volume, "spec", "claimRef").get("uid")
        and section(volume, "status").get("phase") == "Released"
    ]


def refer(volume: SnapshotObject, claim_ref: dict[str, str] | None, *, alone: bool = False) -> Patch:
    """Reserve a volume for a claim, or release it (None); the patch fails if the volume has changed in the meantime."""
    return Patch(
        kind="PersistentVolume",
        name=objects.name(volume),
        uid=objects.uid(volume),
        resource_version=objects.version(volume),
        body={"spec": {"claimRef": claim_ref}},
        alone=alone,
    )


def reserve(state: ClusterState, volume: SnapshotObject, claim_name: str) -> Patch:
    """Reserve a volume for a claim of this cluster's namespace, and mark it as reserved by Spindle (`is_reserved`)."""
    return refer(
        volume,
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": state.namespace,
            "name": claim_name,
            "fieldPath": names.RESERVED,
        },
    )


def note_volume(claim: SnapshotObject, volume: SnapshotObject) -> Patch:
    """Record on a claim which volume is reserved for it."""
    body = {"metadata": {"annotations": {names.ANN_VOLUME: objects.name(volume)}}}
    return Patch(kind="PersistentVolumeClaim", name=objects.name(claim), uid=objects.uid(claim), body=body)


def is_for(state: ClusterState, volume: SnapshotObject, claim_name: str) -> bool:
    """Whether a volume refers to a claim of this name, reserved for it, bound to it, or retained from it."""
    ref = section(volume, "spec", "claimRef")
    return (ref.get("namespace"), ref.get("name")) == (state.namespace, claim_name)
