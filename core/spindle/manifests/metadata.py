"""Labels and owners of the objects that a broker or controller consists of."""

from typing import Any

from spindle.cluster import names
from spindle.manifests.inputs import ClusterInputs, NodeInputs


def role_of(node: NodeInputs) -> str:
    """Broker or controller, by the node id."""
    return names.ROLE_CONTROLLER if node.node_id >= names.FIRST_CONTROLLER_ID else names.ROLE_BROKER


def labels(cluster: ClusterInputs, node: NodeInputs) -> dict[str, str]:
    """Labels of everything that belongs to one broker or controller."""
    result = {
        "app.kubernetes.io/name": "kafka",
        "app.kubernetes.io/instance": cluster.name,
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_CLUSTER: cluster.name,
        names.LABEL_ROLE: role_of(node),
        names.LABEL_NODE_ID: str(node.node_id),
    }
    if node.pool is not None:
        result[names.LABEL_POOL] = node.pool
    return result


def owner(cluster: ClusterInputs) -> dict[str, Any]:
    """The KafkaCluster as controller owner."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": "KafkaCluster",
        "name": cluster.name,
        "uid": cluster.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
