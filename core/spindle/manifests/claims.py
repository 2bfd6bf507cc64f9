"""PersistentVolumeClaims: one per disk, without owner, with the identity of the disk ("no second bootstrap", `docs/safety.md`, rule 13)."""

from collections.abc import Sequence
from typing import Any

from spindle.api import names
from spindle.model.cluster_identity import ConfiguredVoter, voters_text
from spindle.model.metadata import labels


def claim(
    *,
    cluster: str,
    namespace: str,
    cluster_id: str,
    voters: Sequence[ConfiguredVoter],
    node_id: int,
    disk: str,
    directory_id: str,
    size: str,
    storage_class: str | None = None,
    pool: str | None = None,
    rack: str | None = None,
    fs_uuid: str | None = None,
    volume: str | None = None,
) -> dict[str, Any]:
    """The claim of one disk of a broker or controller.

    It has no owner, so it outlives the KafkaCluster ("no data deleted unless requested", `docs/safety.md`, rule 11). It has everything that
    is needed to readopt the cluster: cluster id, voters, node id, pool, disk, directory id and rack.

    Args:
        cluster: name of the KafkaCluster.
        namespace: its namespace.
        cluster_id: Kafka's cluster id, as recorded.
        voters: the controllers, as recorded.
        node_id: broker or controller.
        disk: ``disk0``, …; a controller's is ``metadata``.
        directory_id: present or future directory id in the disk's ``meta.properties``.
        size: a Kubernetes quantity.
        storage_class: None for the cluster's default class.
        pool: a broker's pool; None for controllers.
        rack: the zone of the node, if there are zones; for controllers, this is its only record.
        fs_uuid: of the file system with the directory id, if known.
        volume: the PersistentVolume that is reserved for it; None for any that fits.
    """
    role = names.ROLE_CONTROLLER if node_id >= names.FIRST_CONTROLLER_ID else names.ROLE_BROKER
    annotations = {
        names.ANN_CLUSTER_ID: cluster_id,
        names.ANN_VOTERS: voters_text(voters),
        names.ANN_NODE_ID: str(node_id),
        names.ANN_POOL: pool,
        names.ANN_DISK: disk,
        names.ANN_DIRECTORY_ID: directory_id,
        names.ANN_RACK: rack,
        names.ANN_FS_UUID: fs_uuid,
    }
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Filesystem",
        "resources": {"requests": {"storage": size}},
    }
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    if volume is not None:
        spec["volumeName"] = volume
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": names.claim_name(cluster, node_id, disk),
            "namespace": namespace,
            "labels": labels(cluster, role=role, node_id=node_id, pool=pool),
            "annotations": {key: value for key, value in annotations.items() if value is not None},
        },
        "spec": spec,
    }
