"""PersistentVolumeClaims: one per disk, without owner, with the identity of the disk ("no second bootstrap", `docs/safety.md`, rule 13)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spindle.api import names
from spindle.model.cluster_identity import ConfiguredVoter, voters_text
from spindle.model.metadata import labels


@dataclass(frozen=True)
class ClaimingCluster:
    """What the claims of one cluster have in common.

    Attributes:
        name: of the KafkaCluster.
        namespace: of the KafkaCluster.
        cluster_id: Kafka's cluster id, as recorded.
        voters: the controllers, as recorded.
    """

    name: str
    namespace: str
    cluster_id: str
    voters: Sequence[ConfiguredVoter]


@dataclass(frozen=True, kw_only=True)
class ClaimedDisk:
    """The disk that a claim is for.

    Attributes:
        node_id: broker or controller.
        name: ``disk0``, …; a controller's is ``metadata``.
        directory_id: present or future directory id in the disk's ``meta.properties``.
        size: a Kubernetes quantity.
        storage_class: None for the default class of the Kubernetes cluster.
        pool: a broker's pool; None for controllers.
        rack: the zone of the node, if there are zones; for controllers, this is its only record.
        fs_uuid: of the file system with the directory id, if known.
        volume: the PersistentVolume that is reserved for it; None for any that fits.
    """

    node_id: int
    name: str
    directory_id: str
    size: str
    storage_class: str | None = None
    pool: str | None = None
    rack: str | None = None
    fs_uuid: str | None = None
    volume: str | None = None


def claim(cluster: ClaimingCluster, disk: ClaimedDisk) -> dict[str, Any]:
    """The claim of one disk of a broker or controller.

    It has no owner, so it outlives the KafkaCluster ("no data deleted unless requested", `docs/safety.md`, rule 11). It has everything that
    is needed to readopt the cluster: cluster id, voters, node id, pool, disk, directory id and rack.
    """
    role = names.ROLE_CONTROLLER if disk.node_id >= names.FIRST_CONTROLLER_ID else names.ROLE_BROKER
    annotations = {
        names.ANN_CLUSTER_ID: cluster.cluster_id,
        names.ANN_VOTERS: voters_text(cluster.voters),
        names.ANN_NODE_ID: str(disk.node_id),
        names.ANN_POOL: disk.pool,
        names.ANN_DISK: disk.name,
        names.ANN_DIRECTORY_ID: disk.directory_id,
        names.ANN_RACK: disk.rack,
        names.ANN_FS_UUID: disk.fs_uuid,
    }
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Filesystem",
        "resources": {"requests": {"storage": disk.size}},
    }
    if disk.storage_class is not None:
        spec["storageClassName"] = disk.storage_class
    if disk.volume is not None:
        spec["volumeName"] = disk.volume
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": names.claim_name(cluster.name, disk.node_id, disk.name),
            "namespace": cluster.namespace,
            "labels": labels(cluster.name, role=role, node_id=disk.node_id, pool=disk.pool),
            "annotations": {key: value for key, value in annotations.items() if value is not None},
        },
        "spec": spec,
    }
