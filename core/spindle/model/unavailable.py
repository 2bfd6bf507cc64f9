"""Brokers and controllers that are down or going down, for any reason.

Every check of the safety rule "no restart below min.insync.replicas" (``docs/safety.md``) counts them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from spindle.api import names
from spindle.model import objects
from spindle.model.nodes import closed
from spindle.model.state import ClusterState

ANN_WITHDRAWN: Final = f"{names.GROUP}/withdrawn"


def current_records(state: ClusterState) -> list[Mapping[str, Any]]:
    """The marks of ``status.takingDown`` that were not withdrawn."""
    return [mark for mark in state.unavailable_records if not _withdrawn(state, mark)]


def unavailable(state: ClusterState) -> frozenset[int]:
    """Node ids that are down or going down, including those marked in ``status.takingDown``."""
    return unavailable_with(state, current_records(state))


def unavailable_with(state: ClusterState, marks: Iterable[Mapping[str, Any]]) -> frozenset[int]:
    """Node ids that are marked, have no pod or a terminating one, do not run Kafka, or may be evicted by a drain at any moment."""
    everyone = {*state.brokers, *state.controller_ids}
    away = {
        node_id
        for node_id in everyone
        if (pod := state.pods.get(node_id)) is None
        or objects.deleting(pod)
        or not objects.kafka_runs(pod)
        or evicted_for_drain(state, node_id)
    }
    return frozenset(away | {int(mark["nodeId"]) for mark in marks})


def evicted_for_drain(state: ClusterState, node_id: int) -> bool:
    """Whether the label of a broker's pod lets a node drain evict it in addition to others."""
    pod = state.pods.get(node_id)
    return pod is not None and objects.labels(pod).get(names.LABEL_BUDGET) == names.drain_budget(state.name)


def on_closed_node(state: ClusterState, node_id: int) -> bool:
    """Whether a broker's node is cordoned: a drain starts with that, so the broker may be evicted at any moment."""
    broker = state.brokers.get(node_id)
    recorded = (broker["spec"].get("node") or "") if broker is not None else ""
    node = state.nodes.get(state.node_of(node_id) or recorded)
    if node is None:
        return False
    pool = state.pool_of(broker) if broker is not None else None
    return closed(node, state.tolerations_with(pool.pod_template if pool is not None else None))


def token(mark: Mapping[str, Any]) -> str:
    """The value of a pod's annotation when its mark is withdrawn."""
    return f"{mark['uid']} {mark['since']}"


def _withdrawn(state: ClusterState, mark: Mapping[str, Any]) -> bool:
    pod = state.pods.get(int(mark["nodeId"]))
    return (
        pod is not None
        and objects.uid(pod) == mark["uid"]
        and not objects.deleting(pod)
        and objects.annotation(pod, ANN_WITHDRAWN) == token(mark)
    )


def counted_brokers(state: ClusterState) -> int:
    """How many brokers the PodDisruptionBudget protects: those of the cluster that Kafka knows.

    A broker that never ran (no node for it, or an unschedulable pod) is neither registered nor in any assignment. If it counted as
    unavailable, no broker could be evicted until it runs. While Kafka's state is unknown, all brokers count.
    """
    replicas, registered = state.replica_counts, state.kafka.brokers
    if replicas is None or registered is None:
        return state.broker_count
    known = {*registered, *replicas} - (state.brokers.keys() - state.staying.keys())
    return min(state.broker_count, len(known))


def nodes_with_brokers(state: ClusterState) -> set[str]:
    """Names of the nodes that a broker of this cluster is on."""
    return {str(node) for broker in state.brokers.values() if (node := broker["spec"].get("node"))}
