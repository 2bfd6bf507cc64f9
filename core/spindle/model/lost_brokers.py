"""Brokers whose node is lost, as far as one pass can tell."""

from typing import Final

from spindle.model import objects
from spindle.model.broker_disks import disks_of
from spindle.model.maintenance import lost_node
from spindle.model.node_loss import NodeLossClaim, find_evidence, is_left_behind, is_ready
from spindle.model.state import ClusterState

ACTION: Final = "ReleaseNode"
REASON: Final = "NodeLost"
_NEEDED: Final = frozenset({"nodes", "pods", "persistentvolumes", "persistentvolumeclaims"})


def claimed_lost(state: ClusterState, node_id: int) -> NodeLossClaim | None:
    """Evidence that a broker's node is lost; None if there is none, or if not all of the broker's disks would be lost with it.

    Once its claims are released the node stays lost for the broker, even if it returns: the broker has no disk there any more.
    """
    broker = state.brokers[node_id]
    node = str(broker["spec"].get("node") or "")
    if state.snap.unknown & _NEEDED or state.node_of(node_id) not in (None, node):
        return None
    evidence = find_evidence(node, state.nodes)
    if evidence is None or not all(_left_behind(state, disk["claim"], node) for disk in disks_of(broker)):
        return None
    known = (state.kafka.brokers or {}).get(node_id)
    thing = f"KafkaBroker/{objects.name(broker)}"
    return NodeLossClaim(
        node=node,
        evidence=evidence,
        answers=is_ready(state.nodes.get(node)) or (known is not None and known.fenced is False),
        statement=lost_node(broker),
        waited=state.waited((ACTION, thing, REASON)),
        grace=state.spec.disks.node_gone_after_seconds,
    )


def node_is_lost(state: ClusterState, node_id: int) -> bool:
    """Whether a broker's node is lost with its disks, by evidence and with the user's consent."""
    said = claimed_lost(state, node_id)
    return said is not None and said.agreed


def _left_behind(state: ClusterState, claim_name: str, node: str) -> bool:
    """Whether the disk behind a claim is out of reach; a claim that was never bound, or was released, does not count."""
    claim = state.claims.get(claim_name)
    bound = (claim.get("spec") or {}).get("volumeName") if claim is not None else None
    volume = state.volumes.get(bound) if bound else None
    return volume is None or is_left_behind(volume, node, state.nodes)
