"""Volumes that Spindle reserved for claims that do not exist. They are released when no disk needs them, and before the record of their disk goes.

Only volumes that Spindle reserved itself, and that no claim had since, are released (`spindle.model.claim_volumes.is_reserved`). Any other may be kept with
its data (`docs/safety.md`, rule 11): it stays reserved, and an event names it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from spindle.api import names
from spindle.brokers.all_disks import chosen
from spindle.brokers.volume_choice import unavailable
from spindle.model import objects
from spindle.model.actions import Patch
from spindle.model.broker_disks import disks_of
from spindle.model.claim_volumes import is_reserved, kept_volumes, refer
from spindle.model.events import Event
from spindle.model.nodes import section
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState

_NEEDED: Final = frozenset({"persistentvolumes", "persistentvolumeclaims", "kafkabrokers"})


def release_unneeded(state: ClusterState, builder: PlanBuilder) -> None:
    """Release the volumes that are reserved for claims that neither exist nor belong to a disk on record."""
    builder.do(*unneeded(state))


def unneeded(state: ClusterState) -> list[Patch]:
    """The patches that release them; none while it is unknown what exists."""
    if state.snap.unknown & _NEEDED:
        return []
    absent = [(volume, claim) for volume, claim in _reserved(state) if claim not in state.claims]
    if not absent:
        return []
    recorded = {disk["claim"] for broker in state.brokers.values() for disk in disks_of(broker)}
    return [refer(volume, None, alone=True) for volume, claim in absent if claim not in recorded]


def _reserved(state: ClusterState) -> Iterator[tuple[SnapshotObject, str]]:
    """Volumes that Spindle reserved for claims of this KafkaCluster's brokers, and the names of the claims."""
    for volume in state.volumes.values():
        if not is_reserved(volume):
            continue
        ref = section(volume, "spec", "claimRef")
        if (
            not objects.deleting(volume)
            and ref.get("namespace") == state.namespace
            and names.is_broker_claim(state.name, str(ref.get("name")))
        ):
            yield volume, str(ref["name"])


def release_disk(
    state: ClusterState,
    builder: PlanBuilder,
    broker: SnapshotObject,
    disk: Mapping[str, Any],
    *,
    goes: bool = False,
) -> bool:
    """Release what Spindle reserved for a disk without a claim, before the disk's record goes. True while a volume is or may be reserved.

    Args:
        state: of the pass.
        builder: of the pass.
        broker: the KafkaBroker.
        disk: its entry of the disk.
        goes: whether the whole broker is removed.
    """
    kept = [v for v in kept_volumes(state, disk["claim"]) if is_reserved(v) and not objects.deleting(v)]
    for volume in kept:
        builder.do(refer(volume, None))
    if kept:
        return True
    name = chosen(state, broker, disk)
    if name is not None and name not in state.volumes:
        builder.wait(unavailable(state, broker, disk, goes=goes))
        return True
    return False


def release_broker(state: ClusterState, builder: PlanBuilder, broker: SnapshotObject) -> bool:
    """The same for all disks of a broker that is removed; an event names each volume that stays reserved for one of its claims."""
    without = [disk for disk in disks_of(broker) if disk["claim"] not in state.claims]
    left = [disk for disk in without if release_disk(state, builder, broker, disk, goes=True)]
    if left:
        return True
    for disk in without:
        builder.events += [
            _stays(state, broker, volume, disk["claim"]) for volume in kept_volumes(state, disk["claim"])
        ]
    return False


def _stays(state: ClusterState, broker: SnapshotObject, volume: SnapshotObject, claim: str) -> Event:
    name = objects.name(volume)
    return Event(
        "Warning",
        "VolumeStaysReserved",
        f"Volume {name} stays reserved for claim {claim} of {objects.name(broker)}, which does not exist. Spindle did not reserve it, so it may be kept with "
        f"data. If that is not needed: spindle volume reuse {name}.",
        "KafkaCluster",
        state.name,
        objects.uid(state.cluster),
    )
