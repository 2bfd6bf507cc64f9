"""Inputs of the builders of a broker's or controller's pod, as plain values."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spindle.model.allowed import KAFKA_REPOSITORY

ACTIVE: Final = "Active"
PLACEHOLDER: Final = "Placeholder"


def host_mark(host: str) -> str:
    """A host name in eight characters: a cluster may have thousands, and the annotations of a pod take 256 KiB together."""
    return hashlib.sha256(host.encode()).hexdigest()[:8]


@dataclass(frozen=True, kw_only=True)
class ClusterInputs:
    """Values that all pods of a KafkaCluster share.

    Attributes:
        name, namespace, uid: of the KafkaCluster; it becomes the pods' controller owner.
        cluster_id: Kafka's cluster id from the identity record.
        version: Kafka's version, for example ``4.3.1``.
        spindle_image: image of inspect and preflight.
        image: Kafka's image, if the user names one.
        kafka_repository: of Kafka's image otherwise; the tag is the version.
        tolerations: the user's, in addition to those that every Kafka pod has.
        shared_nodes: whether several brokers (or controllers) of this cluster may share a node.
        shared_filesystem: whether disks may be folders of one file system (``spec.disks.sharedFilesystem``).
        metrics: ``spec.metrics.enabled``: the pods offer the metrics port and carry the annotations for Prometheus.
        restart: ``spec.rolling.restart``; pods that were created with another text are restarted.
    """

    name: str
    namespace: str
    uid: str
    cluster_id: str
    version: str
    spindle_image: str
    image: str | None = None
    kafka_repository: str = KAFKA_REPOSITORY
    tolerations: tuple[Mapping[str, Any], ...] = ()
    priority_class: str | None = None
    pull_secrets: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    shared_nodes: bool = False
    shared_filesystem: bool = False
    metrics: bool = True
    restart: str | None = None


@dataclass(frozen=True, kw_only=True)
class DiskInputs:
    """One disk of a pod.

    Attributes:
        name: ``disk0``, …; ``metadata`` for the disk of a controller.
        claim: name of its PersistentVolumeClaim.
        directory_id: present or future directory id in its ``meta.properties``.
        fs_uuid: of the file system that has the clearance for this directory id; None without one.
        mode: ``Active``, or ``Placeholder`` for a disk without which the pod must start.
    """

    name: str
    claim: str
    directory_id: str
    fs_uuid: str | None = None
    mode: str = ACTIVE


@dataclass(frozen=True, kw_only=True)
class Zone:
    """The zone, or the node, on which a pod must be scheduled while none of the claims that it mounts is bound; by a label of nodes."""

    topology_key: str
    value: str


@dataclass(frozen=True, kw_only=True)
class NodeInputs:
    """One broker or controller.

    Attributes:
        server_properties: as rendered by `spindle.config.server_properties`, complete except ``log.dirs``.
        disks: a broker's disks in the order of their names; the single disk of a controller.
        resources: ``{"requests": {...}, "limits": {...}}``; the defaults if None or empty.
        heap: the JVM's heap in the JVM's notation (``1g``), None for the default.
        jvm_options: further JVM options.
        zone: None if a mounted claim is bound (the volume then pins the pod), or without zones.
        avoid: host names of the nodes with the disks of other brokers, or other controllers.
        pool: a broker's pool; None for controllers.
        budget: the pod's PodDisruptionBudget; None for the regular one of its role.
        grace_seconds: the termination grace period; None for the default, which suits a node with few replicas.
        fixed_properties: the server properties whose change needs a restart; None for all.
        certificate: fingerprint of the node's certificate; None if unknown. Recorded only, does not cause a restart.
        ports: a broker's further ports by listener name.
        listener_types: the types of these listeners. Recorded only.
        own_certificates: listener → mark of its own certificate, which the pod reads from a Secret. Recorded only.
        jvm_properties: JVM options that its configuration needs, before the user's. A change of them is one of the configuration, too.
        log_dirs: a broker's list of log dirs as text, for its disks; empty for none. Recorded only.
        providers: classes of config providers that its configuration used before Spindle disallowed them, separated by commas.
        template: what the user adds to the pod (`spindle.api.pod_template.PodTemplate.parts`); empty for nothing.
        only_if_used: disks that are used only if they have a replica; otherwise preflight waits until the pod is recreated without them.
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
    own_certificates: Mapping[str, str] = field(default_factory=dict)
    jvm_properties: tuple[str, ...] = ()
    log_dirs: str = ""
    providers: str = ""
    only_if_used: tuple[str, ...] = ()
    template: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class VoterInputs:
    """One voter of the initial quorum, from the identity record."""

    node_id: int
    directory_id: str
