"""Metadata of objects that belong to a KafkaCluster."""

from collections.abc import Mapping
from typing import Any

from spindle.api import names


def labels(
    cluster: str, *, role: str | None = None, node_id: int | None = None, pool: str | None = None
) -> dict[str, str]:
    """Labels of an object that belongs to a KafkaCluster.

    Args:
        cluster: name of the KafkaCluster.
        role: ``controller`` or ``broker``, if the object belongs to one role.
        node_id: of the broker or controller to which the object belongs, if it belongs to one.
        pool: that broker's pool.
    """
    result = {
        "app.kubernetes.io/name": "kafka",
        "app.kubernetes.io/instance": cluster,
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_CLUSTER: cluster,
    }
    if role is not None:
        result[names.LABEL_ROLE] = role
    if node_id is not None:
        result[names.LABEL_NODE_ID] = str(node_id)
    if pool is not None:
        result[names.LABEL_POOL] = pool
    return result


def owned_metadata(
    cluster: Mapping[str, Any],
    name: str,
    *,
    role: str | None = None,
    node_id: int | None = None,
    pool: str | None = None,
) -> dict[str, Any]:
    """Metadata of an object in a KafkaCluster's namespace that is deleted with it; the other arguments are those of `labels`."""
    meta = cluster["metadata"]
    return {
        "name": name,
        "namespace": meta["namespace"],
        "labels": labels(meta["name"], role=role, node_id=node_id, pool=pool),
        "ownerReferences": [owner_reference(cluster)],
    }


def owner_reference(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Owner reference to a KafkaCluster as controller: Kubernetes deletes the object with the cluster."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": "KafkaCluster",
        "name": cluster["metadata"]["name"],
        "uid": cluster["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
