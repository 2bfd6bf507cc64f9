"""Nodes and volumes on which brokers and controllers can be placed."""

from collections.abc import Sequence
from typing import Final

from spindle.api.pod_template import PodTemplate
from spindle.brokers.volume_room import DiskWant, room
from spindle.brokers.zone_spread import Topology
from spindle.model.nodes import matches_selector, section
from spindle.model.state import ClusterState

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def topology_of(
    state: ClusterState,
    disks: Sequence[DiskWant],
    what: str,
    template: PodTemplate | None,
    reserve: Sequence[DiskWant] = (),
) -> Topology:
    """The cluster's nodes, each with the number of brokers or controllers that its free volumes allow.

    Args:
        state: the pass's state.
        disks: of one broker or controller.
        what: ``broker`` or ``controller``, for messages.
        template: what users add to these pods.
        reserve: disks that must also fit into each node's free volumes.
    """
    snap, scheduling = state.snap, state.spec.scheduling
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
        room=room(snap.nodes, snap.volumes, snap.storage_classes, disks, reserve),
        shared_nodes=scheduling.shared_nodes,
        what=what,
    )
