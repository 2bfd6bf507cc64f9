"""Which node the disk of a controller holds it to, and who of two gets a node that only one of them can have.

A local volume stays with its claim when a controller leaves, and a node carries one controller (unless told otherwise). So two disks may
come to lie on one node: of a controller that came while the other one was away, and of that one, which is wanted again.
"""

from spindle.cluster.layout import METADATA_DISK
from spindle.reconcile import objects
from spindle.reconcile.state import ClusterState


def avoided_nodes(state: ClusterState, node_id: int) -> tuple[str, ...]:
    """Host names of nodes where a controller may not be put, because the disks of others are there: they may only be away for a moment."""
    own = _held_to(state, node_id)
    hosts = {host for other in state.controller_ids if other != node_id and (host := _held_to(state, other))}
    return tuple(sorted(host for host in hosts if host != own or _keeper(state, host) != node_id))


def displaced_by(state: ClusterState, node_id: int) -> str:
    """Why a controller that is no voter can never run on the node where its disk is, as a clause; empty if it can, or has a node.

    What it has on the disk others have as well: it only reads along.
    """
    quorum, host, pod = state.kafka.quorum, _held_to(state, node_id), state.pods.get(node_id)
    if host is None or quorum is None or quorum.leader < 0 or node_id in {v.id for v in quorum.voters}:
        return ""
    if pod is not None and (objects.deleting(pod) or (pod.get("spec") or {}).get("nodeName")):
        return ""
    session = _keeper(state, host)
    return "" if session == node_id else f"controller {session} has node {host} by now, where its disk is"


def _held_to(state: ClusterState, node_id: int) -> str | None:
    """The host name of the one node that can have a controller; None if any can."""
    volume = state.volume(state.claim(node_id, METADATA_DISK))
    return None if volume is None or state.spec.scheduling.shared_nodes else objects.pinned_to(volume)


def _keeper(state: ClusterState, host: str) -> int:
    """Who of those that are held to a node has it: a voter before others, one that is there, the one with the lowest id."""
    quorum = state.kafka.quorum
    voting = {voter.id for voter in quorum.voters} if quorum is not None else set()
    held = [node_id for node_id in state.controller_ids if _held_to(state, node_id) == host]
    return min(held, key=lambda node_id: (node_id not in voting, state.node_of(node_id) is None, node_id))
