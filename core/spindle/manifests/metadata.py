"""Labels and owners of the objects that a broker or controller consists of."""

from typing import Any

from spindle.cluster import names
from spindle.manifests import common
from spindle.manifests.inputs import ClusterInputs, NodeInputs


def role_of(node: NodeInputs) -> str:
    """Broker or controller, by the node id."""
    return names.ROLE_CONTROLLER if node.node_id >= names.FIRST_CONTROLLER_ID else names.ROLE_BROKER


def labels(cluster: ClusterInputs, node: NodeInputs) -> dict[str, str]:
    """Labels of everything that belongs to one broker or controller."""
    return common.labels(cluster.name, role=role_of(node), node_id=node.node_id, pool=node.pool)


def owner(cluster: ClusterInputs) -> dict[str, Any]:
    """The KafkaCluster as controller owner."""
    return common.owner_reference({"metadata": {"name": cluster.name, "uid": cluster.uid}})
