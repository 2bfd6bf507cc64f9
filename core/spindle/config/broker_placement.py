"""The nodes on which a broker without volumes must not be placed, because the local volumes of other brokers are there; pods whose scheduling is out of date.

A local volume keeps its broker on one node, and a node runs one broker by default. While that broker's pod is away, the scheduler may put any other
broker there; its volumes then keep it there too, and the first broker can never be scheduled again.
"""

from spindle.api import names
from spindle.model import objects
from spindle.model.claim_volumes import hosts_of_volumes
from spindle.model.node_inputs import host_mark
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState


def avoided_by_broker(state: ClusterState, node_id: int) -> tuple[str, ...]:
    """Host names of the nodes that the volumes of other brokers are pinned to; empty if the broker's own volumes already choose its node."""
    broker = state.brokers.get(node_id)
    if state.spec.scheduling.shared_nodes or (broker is not None and any(hosts_of_volumes(state, broker))):
        return ()
    return state.hosts_with_volumes


def is_misplaced(state: ClusterState, node_id: int, pod: SnapshotObject) -> bool:
    """Whether a pod that has no node yet must be recreated, because it shares no node and may do so now, or because the list of nodes that it avoids is not right any more.

    The list matters if the scheduler finds no node for a broker: as soon as the pod of another broker is deleted, it would take that broker's node.
    Otherwise it is scheduled soon, and until then the anti-affinity of the pods protects the nodes whose brokers have a pod there. A pod that has a
    node is never misplaced.
    """
    if (pod.get("spec") or {}).get("nodeName"):
        return False
    if state.spec.scheduling.shared_nodes and shares_no_node(pod) and objects.unschedulable(pod):
        return True
    if node_id not in state.brokers:
        return False
    recorded = frozenset((objects.annotation(pod, names.ANN_AVOIDED) or "").split(",")) - {""}
    own = state.hosts_of_brokers.get(node_id)
    if own:
        return any(host_mark(host) in recorded for host in own)
    avoided = {host_mark(host): host for host in avoided_by_broker(state, node_id)}
    missing = {host for mark, host in avoided.items() if mark not in recorded}
    return avoided.keys() != recorded and (objects.unschedulable(pod) or bool(missing - _guarded(state)))


def shares_no_node(pod: SnapshotObject) -> bool:
    """Whether a pod was created with the anti-affinity that keeps it apart from its peers: the scheduler asks those that run and those that wait."""
    return bool(((pod.get("spec") or {}).get("affinity") or {}).get("podAntiAffinity"))


def _guarded(state: ClusterState) -> frozenset[str]:
    """Host names of the nodes whose brokers have a pod there, or one that the scheduler has still to look at."""
    found: set[str] = set()
    for broker_id, hosts in state.hosts_of_brokers.items():
        pod = state.pods.get(broker_id)
        if pod is not None and not objects.unschedulable(pod):
            found |= hosts
    return frozenset(found)
