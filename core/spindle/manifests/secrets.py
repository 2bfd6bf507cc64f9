"""Metadata of the Secrets. What is in them is made at the edge and never enters the core."""

from collections.abc import Mapping
from typing import Any

from spindle.cluster import names
from spindle.manifests.common import labels, owner_reference


def secret_metadata(cluster: Mapping[str, Any], name: str, *, node_id: int | None = None) -> dict[str, Any]:
    """Metadata of one of a KafkaCluster's Secrets; it goes with the cluster.

    Args:
        cluster: the KafkaCluster object.
        name: of the Secret.
        node_id: the broker or controller whose certificate it holds; None for the CA and for clients.
    """
    owner, role = cluster["metadata"]["name"], None
    if node_id is not None:
        role = names.ROLE_CONTROLLER if node_id >= names.FIRST_CONTROLLER_ID else names.ROLE_BROKER
    return {
        "name": name,
        "namespace": cluster["metadata"]["namespace"],
        "labels": labels(owner, role=role, node_id=node_id),
        "ownerReferences": [owner_reference(cluster)],
    }
