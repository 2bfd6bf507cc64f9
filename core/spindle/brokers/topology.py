"""Nodes and volumes on which brokers and controllers can be placed."""

from collections.abc import Sequence

from spindle.brokers.volume_room import DiskWant, room
from spindle.brokers.zone_spread import Topology
from spindle.model.state import ClusterState


def topology_of(
    state: ClusterState, disks: Sequence[DiskWant], what: str, reserve: Sequence[DiskWant] = ()
) -> Topology:
    """The cluster's nodes, each with the number of brokers or controllers that its free volumes allow.

    Args:
        state: the pass's state.
        disks: of one broker or controller.
        what: ``broker`` or ``controller``, for messages.
        reserve: disks that must also fit into each node's free volumes.
    """
    snap, scheduling = state.snap, state.spec.scheduling
    return Topology(
        nodes=snap.nodes,
        topology_key=state.spec.racks.topology_key,
        tolerations=state.tolerations,
        node_selector=scheduling.node_selector,
        room=room(snap.nodes, snap.volumes, snap.storage_classes, disks, reserve),
        shared_nodes=scheduling.shared_nodes,
        what=what,
    )
