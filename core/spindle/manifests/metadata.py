"""Labels and owners of the objects of a broker or controller."""

from typing import Any

from spindle.api import names
from spindle.model.metadata import labels as labels_of
from spindle.model.metadata import owner_reference
from spindle.model.node_inputs import ClusterInputs, NodeInputs


def role_of(node: NodeInputs) -> str:
    """``broker`` or ``controller``, from the node id."""
    return names.ROLE_CONTROLLER if node.node_id >= names.FIRST_CONTROLLER_ID else names.ROLE_BROKER


def labels(cluster: ClusterInputs, node: NodeInputs) -> dict[str, str]:
    """Labels of all objects of one broker or controller."""
    return labels_of(cluster.name, role=role_of(node), node_id=node.node_id, pool=node.pool)


def owner(cluster: ClusterInputs) -> dict[str, Any]:
    """Owner reference to the KafkaCluster as controller."""
    return owner_reference({"metadata": {"name": cluster.name, "uid": cluster.uid}})
