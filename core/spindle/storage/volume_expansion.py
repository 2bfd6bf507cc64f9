"""Volume expansion: claims request the size of the spec where their StorageClass can expand volumes; elsewhere a wait says what to do.

Thresholds are shares of the file system's size as Kafka reports it, so they follow by themselves.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from spindle.api import names
from spindle.api.quantity import whole
from spindle.brokers.volume_room import class_of
from spindle.model import objects
from spindle.model.actions import Patch
from spindle.model.broker_disks import disks_of
from spindle.model.cluster_identity import NodeIdentity
from spindle.model.layout import METADATA_DISK
from spindle.model.nodes import items, section
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting, counted, some

_GROW: Final = "ExpandVolume"


@dataclass(frozen=True)
class _Expansion:
    """The claims that should have one size: a pool's, or the controllers'."""

    thing: str
    size: str
    claims: tuple[SnapshotObject, ...]


def reconcile_volume_sizes(state: ClusterState, builder: PlanBuilder, identity: NodeIdentity) -> None:
    """Make claims request the size of the spec."""
    if state.snap.unknown & {"persistentvolumes", "storageclasses"}:
        return
    for asked in _asked(state, identity):
        size = whole(asked.size)
        small = [claim for claim in asked.claims if _has(state, claim) < size]
        stuck = [claim for claim in small if not _expand(state, builder, claim, asked.size)]
        if stuck:
            builder.wait(_not_expandable(asked, stuck))
        growing = [claim for claim in small if claim not in stuck]
        if growing:
            builder.wait(_expanding(asked, growing))


def _asked(state: ClusterState, identity: NodeIdentity) -> Iterator[_Expansion]:
    for pool in state.spec.broker_pools:
        if pool.disks.size is None:  # each disk has the size of its volume
            continue
        slots = [
            disk["claim"]
            for broker in state.brokers.values()
            if broker["spec"].get("pool") == pool.name
            for disk in disks_of(broker)
        ]
        yield _Expansion(f"Pool/{pool.name}", pool.disks.size, _bound(state, identity, slots))
    controllers = [names.claim_name(state.name, i, METADATA_DISK) for i in state.controller_ids]
    size = state.spec.controllers.storage.size
    yield _Expansion(f"KafkaCluster/{state.name}", size, _bound(state, identity, controllers))


def _bound(state: ClusterState, identity: NodeIdentity, claims: list[str]) -> tuple[SnapshotObject, ...]:
    """Claims of this cluster with a bound volume; unbound ones get a volume of the right size when they bind."""
    found = (state.claims.get(name) for name in claims)
    return tuple(
        claim
        for claim in found
        if claim is not None
        and objects.bound_volume(claim)
        and not objects.deleting(claim)
        and objects.annotation(claim, names.ANN_CLUSTER_ID) == identity.cluster_id
    )


def _has(state: ClusterState, claim: SnapshotObject) -> int:
    """Size of a claim's volume in bytes.

    ``status.capacity`` of the claim changes last, after the file system was expanded. A local volume may be larger than its claim's request.
    """
    capacity = section(claim, "status", "capacity").get("storage")
    volume = section(state.volume(claim), "spec")
    if capacity is not None and not volume.get("local"):
        return _bytes(capacity)
    return max(_bytes(capacity), _bytes(section(volume, "capacity").get("storage")))


def _expand(state: ClusterState, builder: PlanBuilder, claim: SnapshotObject, size: str) -> bool:
    """Request more; False if the StorageClass cannot expand volumes."""
    if _bytes(_request(claim)) >= whole(size):
        return True
    wanted = section(claim, "spec").get("storageClassName")
    found = class_of(wanted, state.snap.storage_classes)
    if found is None or found.get("allowVolumeExpansion") is not True:
        return False
    builder.do(
        Patch(
            kind="PersistentVolumeClaim",
            name=objects.name(claim),
            uid=objects.uid(claim),
            body={"spec": {"resources": {"requests": {"storage": size}}}},
            reason="VolumeExpansionStarted",
            message=f"Claim {objects.name(claim)} now requests {size} instead of {_request(claim)}.",
        )
    )
    return True


def _request(claim: SnapshotObject) -> Any:
    return section(claim, "spec", "resources", "requests").get("storage")


def _bytes(text: Any) -> int:
    try:
        return whole(str(text))
    except ValueError:
        return 0


def _not_expandable(asked: _Expansion, stuck: list[SnapshotObject]) -> Waiting:
    classes = sorted({str(section(c, "spec").get("storageClassName") or "(default)") for c in stuck})
    having = sorted({str(_request(c)) for c in stuck})
    return Waiting(
        _GROW,
        asked.thing,
        "ExpansionNotSupported",
        f"{counted(len(stuck), 'claim')} of {some(having)} should have {asked.size}, and StorageClass {some(classes)} does not allow volume expansion: "
        f"{some(sorted(objects.name(c) for c in stuck))}.",
        "Replace the disks by larger ones, one after the other, and set the new capacity in their PersistentVolumes; or set "
        "allowVolumeExpansion in the StorageClass if its driver supports it; or add disks instead (disks.count).",
    )


def _expanding(asked: _Expansion, growing: list[SnapshotObject]) -> Waiting:
    """The wait while volumes expand, with what Kubernetes reports about them. Kafka keeps running meanwhile."""
    reported = sorted(
        {
            str(c.get("message") or c.get("type"))
            for claim in growing
            for c in items(section(claim, "status").get("conditions"))
            if c.get("status") == "True"
        }
    )
    return Waiting(
        _GROW,
        asked.thing,
        "VolumeExpansionInProgress",
        f"{counted(len(growing), 'claim')} {'is' if len(growing) == 1 else 'are'} being expanded to {asked.size}: "
        f"{some(sorted(objects.name(c) for c in growing))}. {'Kubernetes reports: ' + some(reported) if reported else ''}".rstrip(),
        "Nothing to do: Spindle continues when the volume's driver has expanded the volumes and their file systems.",
        quiet=True,
    )
