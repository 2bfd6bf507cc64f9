"""What the builders of a broker's or controller's pod need to know, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

ACTIVE: Final = "Active"
PLACEHOLDER: Final = "Placeholder"


@dataclass(frozen=True, kw_only=True)
class ClusterInputs:
    """What all pods of one KafkaCluster share.

    Attributes:
        name, namespace, uid: of the KafkaCluster; it becomes the pods' controller owner.
        cluster_id: Kafka's cluster id from the birth record.
        version: Kafka's version, for example ``4.3.1``.
        spindle_image: what inspect and preflight run from.
        image: Kafka's image; None for ``apache/kafka:<version>``.
        tolerations: the user's, beside those that every Kafka pod has.
        shared_nodes: whether several brokers (or controllers) of this cluster may share a node.
        shared_filesystem: whether disks may be folders of one file system (``spec.disks.sharedFilesystem``).
        metrics: ``spec.metrics.enabled``: the pods offer the metrics port and carry the annotations for Prometheus.
    """

    name: str
    namespace: str
    uid: str
    cluster_id: str
    version: str
    spindle_image: str
    image: str | None = None
    tolerations: tuple[Mapping[str, Any], ...] = ()
    priority_class: str | None = None
    pull_secrets: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    shared_nodes: bool = False
    shared_filesystem: bool = False
    metrics: bool = True


@dataclass(frozen=True, kw_only=True)
class DiskInputs:
    """One disk of a pod.

    Attributes:
        name: ``disk0``, …; a controller's only one is ``metadata``.
        claim: name of its PersistentVolumeClaim.
        directory_id: what its ``meta.properties`` says or is to say.
        fs_uuid: of the file system that was cleared for this directory id, None until one was.
        mode: ``Active``, or ``Placeholder`` for a disk that the pod must start without.
    """

    name: str
    claim: str
    directory_id: str
    fs_uuid: str | None = None
    mode: str = ACTIVE


@dataclass(frozen=True, kw_only=True)
class Zone:
    """A zone that a pod must be scheduled to while none of its claims is bound."""

    topology_key: str
    value: str


@dataclass(frozen=True, kw_only=True)
class NodeInputs:
    """One broker or controller.

    Attributes:
        server_properties: as rendered by `spindle.cluster.config`, complete but for ``log.dirs``.
        disks: a broker's disks in the order of their names; a controller's single one.
        resources: ``{"requests": {...}, "limits": {...}}``; None or an empty one takes the defaults.
        heap: the JVM's heap in its own notation (``1g``), None for the default.
        jvm_options: further options of the JVM.
        zone: None once a claim is bound (the volume pins the pod then), or where there are no zones.
        avoid: host names of nodes where the disks of other controllers are.
        pool: a broker's pool; None for controllers.
        budget: the PodDisruptionBudget that counts the pod; None for the usual one of its role.
        grace_seconds: how long it may take to stop; None for what suits a node with little on it.
        fixed_properties: those of them for which a running pod has to restart; None for all.
        certificate: fingerprint of the node's certificate; None if it is not known. For the record only.
        ports: a broker's further ports by the names of its listeners.
        listener_types: the types of these. For the record only.
        log_dirs: a broker's list of log dirs as text, for its disks; empty for none. For the record only.
        providers: classes of config providers that its configuration has from before they were closed, with commas between them.
        look_at: disks that are used only if a replica stands on them; else preflight waits for the pod to be made anew without them.
    """

    node_id: int
    server_properties: str
    disks: tuple[DiskInputs, ...]
    resources: Mapping[str, Any] | None = None
    heap: str | None = None
    jvm_options: tuple[str, ...] = ()
    zone: Zone | None = None
    avoid: tuple[str, ...] = ()
    pool: str | None = None
    budget: str | None = None
    grace_seconds: int | None = None
    fixed_properties: str | None = None
    ports: Mapping[str, int] = field(default_factory=dict)
    listener_types: Mapping[str, str] = field(default_factory=dict)
    certificate: str | None = None
    log_dirs: str = ""
    providers: str = ""
    look_at: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class VoterInputs:
    """One member of the quorum at birth, from the birth record (rule 13)."""

    node_id: int
    directory_id: str
