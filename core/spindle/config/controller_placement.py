"""The node to which a controller is bound by its disk, and which of two controllers gets a node that only one can use.

A local volume keeps its claim when a controller is removed, and a node runs one controller by default. So the disks of two controllers may
be on one node: of a controller that was added while the other one was removed, and of that one when it is added again.
"""

from spindle.model import objects
from spindle.model.layout import METADATA_DISK
from spindle.model.state import ClusterState


def avoided_nodes(state: ClusterState, node_id: int) -> tuple[str, ...]:
    """Host names of nodes where a controller may not be placed because disks of other controllers are there, even if those are absent for the moment."""
    own = _held_to(state, node_id)
    hosts = {host for other in state.controller_ids if other != node_id and (host := _held_to(state, other))}
    return tuple(sorted(host for host in hosts if host != own or _keeper(state, host) != node_id))


def displaced_by(state: ClusterState, node_id: int) -> str:
    """Why a controller that is no voter can never run on the node of its disk, as a clause; empty if it can, or has a node.

    It is an observer, so others hold everything that is on its disk.
    """
    quorum, host, pod = state.kafka.quorum, _held_to(state, node_id), state.pods.get(node_id)
    if host is None or quorum is None or quorum.leader < 0 or node_id in {v.id for v in quorum.voters}:
        return ""
    if pod is not None and (objects.deleting(pod) or (pod.get("spec") or {}).get("nodeName")):
        return ""
    session = _keeper(state, host)
    return "" if session == node_id else f"controller {session} now runs on node {host}, where its disk is"


def _held_to(state: ClusterState, node_id: int) -> str | None:
    """The host name of the one node that can have a controller; None if any can."""
    volume = state.volume(state.claim(node_id, METADATA_DISK))
    return None if volume is None or state.spec.scheduling.shared_nodes else objects.pinned_to(volume)


def _keeper(state: ClusterState, host: str) -> int:
    """Which of the controllers bound to a node gets it: a voter first, then one that runs there, then the lowest id."""
    quorum = state.kafka.quorum
    voting = {voter.id for voter in quorum.voters} if quorum is not None else set()
    held = [node_id for node_id in state.controller_ids if _held_to(state, node_id) == host]
    return min(held, key=lambda node_id: (node_id not in voting, state.node_of(node_id) is None, node_id))
