"""Nodes and volumes on which brokers and controllers can be placed."""

from collections.abc import Collection, Sequence
from typing import Final

from spindle.api.pod_template import PodTemplate
from spindle.brokers.volume_room import DiskWant, room
from spindle.brokers.zone_spread import Topology
from spindle.model import objects
from spindle.model.layout import METADATA_DISK
from spindle.model.nodes import matches_selector, section
from spindle.model.state import ClusterState

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def topology_of(
    state: ClusterState,
    disks: Sequence[DiskWant],
    what: str,
    template: PodTemplate | None,
    reserve: Sequence[DiskWant] = (),
    taken: Collection[str] = (),
) -> Topology:
    """The cluster's nodes, each with the number of brokers or controllers that its free volumes allow.

    Args:
        state: the pass's state.
        disks: of one broker or controller.
        what: ``broker`` or ``controller``, for messages.
        template: what users add to these pods.
        reserve: disks that must also fit into each node's free volumes.
        taken: names of volumes that are not counted, because others use them next.
    """
    snap, scheduling = state.snap, state.spec.scheduling
    volumes = [v for v in snap.volumes if objects.name(v) not in taken] if taken else snap.volumes
    selector, suitable = dict(scheduling.node_selector), snap.nodes
    if template is not None:
        selector |= template.spec.node_selector
        required = section(template.spec.affinity, "nodeAffinity", _REQUIRED)
        suitable = tuple(node for node in snap.nodes if not required or matches_selector(node, required))
    return Topology(
        nodes=suitable,
        topology_key=state.spec.racks.topology_key,
        tolerations=state.tolerations_with(template),
        node_selector=selector,
        room=room(snap.nodes, volumes, snap.storage_classes, disks, reserve),
        shared_nodes=scheduling.shared_nodes,
        what=what,
    )


def reserved_for_controllers(state: ClusterState) -> list[DiskWant]:
    """Volumes to leave free for controllers that have none yet: the zone of a broker is final, so it must not take the last volume there."""
    storage = state.spec.controllers.storage
    waiting = [
        node_id
        for node_id in state.controller_ids
        if (claim := state.claim(node_id, METADATA_DISK)) is None or not objects.bound_volume(claim)
    ]
    return [DiskWant(storage.size, storage.storage_class)] if waiting else []
