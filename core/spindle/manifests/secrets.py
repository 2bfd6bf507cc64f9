"""Metadata of the Secrets. Their content is created at the edge and never enters the core."""

from collections.abc import Mapping
from typing import Any

from spindle.api import names
from spindle.model.metadata import labels, owned_metadata


def secret_metadata(cluster: Mapping[str, Any], name: str, *, node_id: int | None = None) -> dict[str, Any]:
    """Metadata of one of a KafkaCluster's Secrets, which is deleted with the cluster.

    Args:
        cluster: the KafkaCluster object.
        name: of the Secret.
        node_id: the broker or controller whose certificate it contains; None for the CA and for clients.
    """
    role = None
    if node_id is not None:
        role = names.ROLE_CONTROLLER if node_id >= names.FIRST_CONTROLLER_ID else names.ROLE_BROKER
    return owned_metadata(cluster, name, role=role, node_id=node_id)


def agent_metadata(cluster: Mapping[str, Any], agent_namespace: str, name: str) -> dict[str, Any]:
    """Metadata of a ConfigMap with certificates that agents use to connect to a KafkaCluster.

    It has no owner, because Kubernetes treats an owner in another namespace as deleted. The operator deletes it before it
    removes the KafkaCluster's finalizer. The labels identify the KafkaCluster.
    """
    meta = cluster["metadata"]
    return {
        "name": name,
        "namespace": agent_namespace,
        "labels": {**labels(meta["name"]), names.LABEL_NAMESPACE: meta["namespace"]},
    }


def user_secret_metadata(cluster: Mapping[str, Any], user: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Metadata of the Secret of a KafkaUser, which is deleted with the user.

    Args:
        cluster: the KafkaCluster object.
        user: the KafkaUser object.
        name: of the Secret.
    """
    meta = user["metadata"]
    return {
        "name": name,
        "namespace": meta["namespace"],
        "labels": {**labels(cluster["metadata"]["name"]), names.LABEL_USER: meta["name"]},
        "ownerReferences": [
            {
                "apiVersion": names.API_VERSION,
                "kind": "KafkaUser",
                "name": meta["name"],
                "uid": meta["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
