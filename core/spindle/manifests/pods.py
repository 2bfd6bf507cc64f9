"""The pods of brokers and controllers, which no workload controller manages.

Two init containers with Spindle's image inspect and prepare the disks. Kafka's container has the stock image. It starts
through a small shell check that preflight writes to the hand-over folder, because the restart of a container does not run
init containers again.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from spindle.api import names
from spindle.manifests import jvm
from spindle.manifests.metadata import labels, owner, role_of
from spindle.manifests.pod_template import merged
from spindle.model.layout import METADATA_DISK, Layout
from spindle.model.memo import by_content
from spindle.model.node_inputs import PLACEHOLDER, ClusterInputs, DiskInputs, NodeInputs, host_mark
from spindle.model.tolerations import STANDING_TOLERATIONS

# Increment it if a change of this module must reach running pods.
TEMPLATE: Final = 1
PART_TEMPLATE: Final = "podTemplate"  # in `spec_parts`, of pods with one

KAFKA_UID: Final = 1000  # `appuser` of the image apache/kafka
# A controlled shutdown takes at most five minutes; closing the logs follows. The pod ends as soon as both are done.
GRACE_SECONDS: Final = 330
HOSTNAME_KEY: Final = "kubernetes.io/hostname"

_LAYOUT: Final = Layout()
LOOPBACK: Final = "127.0.0.1"
_LISTENERS: Final = "listeners"
_LOGGERS: Final = "loggers"
_TOPICS: Final = "topics"
# Limit of a pod's folders on the node. Only a broker's metadata log grows, which Kafka limits to some hundred megabytes.
# The kubelet evicts a pod that writes more, before the node's disk is full.
_MOST: Final = {"disks": "64Mi", "handover": "128Mi", "tmp": "1Gi", "metadata": "16Gi"}
_NO_PRIVILEGES: Final[dict[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


def broker_pod(cluster: ClusterInputs, node: NodeInputs) -> dict[str, Any]:
    """The pod of one broker; its name is that of its KafkaBroker.

    A disk in mode ``Placeholder`` has no volume in the pod: preflight creates a regular file at its path.
    """
    return _pod(cluster, node)


def controller_pod(cluster: ClusterInputs, node: NodeInputs) -> dict[str, Any]:
    """The pod of one controller; its only disk is ``metadata``."""
    if [disk.name for disk in node.disks] != [METADATA_DISK]:
        raise ValueError(f"controller {node.node_id} must have exactly one disk, {METADATA_DISK}")
    return _pod(cluster, node)


def spec_hash(cluster: ClusterInputs, node: NodeInputs) -> str:
    """Hash of everything whose change requires a new pod.

    It excludes scheduling, Spindle's image and the certificates (the next restart applies them), the
    file systems' UUIDs (they become known while the pod waits for its clearance), and all properties of a placeholder
    except that it is one.
    """
    return _hash(_matters(cluster, node), 16)


def spec_parts(cluster: ClusterInputs, node: NodeInputs) -> dict[str, str]:
    """Hash of each part of a pod, so that a message can name the part that changed."""
    return {part: _hash(value, 8) for part, value in _matters(cluster, node).items()}


def recorded_parts(pod: Mapping[str, Any]) -> dict[str, Any]:
    """`spec_parts` as a pod was created with; empty if they are not recorded."""
    notes = (pod.get("metadata") or {}).get("annotations") or {}
    try:
        parts = json.loads(notes.get(names.ANN_SPEC_PARTS) or "{}")
    except ValueError:
        return {}
    return parts if isinstance(parts, dict) else {}


def config_hash(node: NodeInputs) -> str:
    """Hash of all ``server.properties`` of a node, including dynamic ones; only for a pod in which Kafka does not run."""
    return _hash(node.server_properties, 16)


@by_content(16384)
def _hash(value: Any, digits: int) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:digits]


def _matters(cluster: ClusterInputs, node: NodeInputs) -> dict[str, Any]:
    return {
        "template": TEMPLATE,
        "clusterId": cluster.cluster_id,
        "image": kafka_image(cluster),
        "tolerations": [dict(entry) for entry in cluster.tolerations],
        "priorityClass": cluster.priority_class,
        "pullSecrets": list(cluster.pull_secrets),
        "nodeSelector": dict(cluster.node_selector),
        "metrics": cluster.metrics,
        "sharedFilesystem": cluster.shared_filesystem,
        "config": node.server_properties if node.fixed_properties is None else node.fixed_properties,
        "resources": _resources(node),
        "jvm": [jvm.heap_options(role_of(node), node.heap), *node.jvm_options],
        "disks": [
            [disk.name, disk.mode]
            if disk.mode == PLACEHOLDER
            else [disk.name, disk.mode, disk.claim, disk.directory_id]
            for disk in node.disks
        ],
        # Absent: pods of before stay as they are.
        **({"restart": cluster.restart} if cluster.restart else {}),
        **({PART_TEMPLATE: dict(node.template)} if node.template else {}),
    }


def reads_topics(pod: Mapping[str, Any]) -> bool:
    """Whether a broker's pod has the list of ``spec.metrics.topics``: pods that an earlier version created do not."""
    return _has_volume(pod, _TOPICS)


def reads_loggers(pod: Mapping[str, Any]) -> bool:
    """Whether a pod has the levels of ``spec.logging``: pods that an earlier version created do not."""
    return _has_volume(pod, _LOGGERS)


def _has_volume(pod: Mapping[str, Any], name: str) -> bool:
    return any(volume.get("name") == name for volume in (pod.get("spec") or {}).get("volumes") or ())


def kafka_image(cluster: ClusterInputs) -> str:
    """Kafka's image: the user's, or the installation's of the version."""
    return cluster.image or f"{cluster.kafka_repository}:{cluster.version}"


def disks_annotation(disks: tuple[DiskInputs, ...]) -> str:
    """The disks that preflight must find, as text of the pod's annotation; fixed when the pod is created."""
    return json.dumps(
        [
            {"name": disk.name, "directoryId": disk.directory_id, "fsUuid": disk.fs_uuid, "mode": disk.mode}
            for disk in disks
        ]
    )


def own_certificates_text(marks: Mapping[str, str]) -> str:
    """Listeners and the marks of their own certificates, as text of an annotation."""
    return " ".join(f"{listener}={mark}" for listener, mark in sorted(marks.items()))


def pod_labels(cluster: ClusterInputs, node: NodeInputs) -> dict[str, str]:
    """The labels of a broker's or controller's pod."""
    return labels(cluster, node) | {names.LABEL_BUDGET: node.budget or _budget(cluster, node)}


def _pod(cluster: ClusterInputs, node: NodeInputs) -> dict[str, Any]:
    name = names.pod_name(cluster.name, node.node_id)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": cluster.namespace,
            "labels": pod_labels(cluster, node),
            "annotations": _annotations(cluster, node),
            "ownerReferences": [owner(cluster)],
        },
        "spec": _spec(cluster, node, name),
    }
    return merged(pod, node.template, names.CONTAINER_KAFKA)


def _spec(cluster: ClusterInputs, node: NodeInputs, name: str) -> dict[str, Any]:
    broker = role_of(node) == names.ROLE_BROKER
    service = names.brokers_service if broker else names.controllers_service
    spec: dict[str, Any] = {
        "hostname": name,
        "subdomain": service(cluster.name),
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": node.grace_seconds or GRACE_SECONDS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": KAFKA_UID,
            "runAsGroup": KAFKA_UID,
            "fsGroup": KAFKA_UID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "readinessGates": [{"conditionType": names.READINESS_GATE}],
        "tolerations": [*STANDING_TOLERATIONS, *(dict(entry) for entry in cluster.tolerations)],
        "initContainers": [
            _spindle(cluster, node, names.CONTAINER_INSPECT, "inspect"),
            _spindle(cluster, node, names.CONTAINER_PREFLIGHT, "run"),
        ],
        "containers": [_kafka(cluster, node)],
        "volumes": _volumes(cluster, node),
    }
    if affinity := _affinity(cluster, node):
        spec["affinity"] = affinity
    if cluster.node_selector:
        spec["nodeSelector"] = dict(cluster.node_selector)
    if cluster.priority_class:
        spec["priorityClassName"] = cluster.priority_class
    if cluster.pull_secrets:
        spec["imagePullSecrets"] = [{"name": secret} for secret in cluster.pull_secrets]
    return spec


def _annotations(cluster: ClusterInputs, node: NodeInputs) -> dict[str, str]:
    result = {
        names.ANN_CLUSTER_ID: cluster.cluster_id,
        names.ANN_DISKS: disks_annotation(node.disks),
        names.ANN_SPEC_HASH: spec_hash(cluster, node),
        names.ANN_CONFIG: config_hash(node),
        names.ANN_VERSION: cluster.version,
        names.ANN_SPEC_PARTS: json.dumps(spec_parts(cluster, node), sort_keys=True),
    }
    if node.certificate is not None:
        result[names.ANN_CERTIFICATE] = node.certificate
    if node.own_certificates:
        result[names.ANN_OWN_CERTIFICATES] = own_certificates_text(node.own_certificates)
    if node.avoid:
        result[names.ANN_AVOIDED] = ",".join(map(host_mark, node.avoid))
    if node.log_dirs:
        result[names.ANN_LOG_DIRS] = node.log_dirs
    if node.only_if_used:
        result[names.ANN_LEAVING] = ",".join(node.only_if_used)
    if node.listener_types:
        result[names.ANN_LISTENERS] = " ".join(f"{k}={v}" for k, v in sorted(node.listener_types.items()))
    if cluster.metrics:
        result |= {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": str(names.PORT_METRICS),
            "prometheus.io/path": "/metrics",
        }
    return result


def _budget(cluster: ClusterInputs, node: NodeInputs) -> str:
    budget = names.broker_budget if role_of(node) == names.ROLE_BROKER else names.controller_budget
    return budget(cluster.name)


def _resources(node: NodeInputs) -> dict[str, Any]:
    """The user's resources merged with the defaults; if only a limit is given, it is also the request, as in Kubernetes."""
    given = node.resources or {}
    requests, limits = dict(given.get("requests") or {}), dict(given.get("limits") or {})
    for key, value in jvm.REQUESTS[role_of(node)].items():
        if key not in limits:
            requests.setdefault(key, value)
    return {"requests": requests, "limits": limits} if limits else {"requests": requests}


def _spindle(cluster: ClusterInputs, node: NodeInputs, container: str, command: str) -> dict[str, Any]:
    return {
        "name": container,
        "image": cluster.spindle_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["spindle-preflight", command],
        "env": [
            {"name": names.ENV_POD_UID, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
            *([] if cluster.metrics else [{"name": names.ENV_METRICS_BIND, "value": LOOPBACK}]),
        ],
        "securityContext": _NO_PRIVILEGES,
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": _mounts(node, preflight=True),
    }


def _kafka(cluster: ClusterInputs, node: NodeInputs) -> dict[str, Any]:
    broker = role_of(node) == names.ROLE_BROKER
    # Both probes only check whether the JVM runs: a broker that recovers its logs for hours is healthy. The operator handles a
    # broker that runs but does not work, because it can wait for other brokers first.
    alive = _alive(cluster)
    ports = {"metrics": names.PORT_METRICS} if cluster.metrics else {}
    if broker:
        ports = {"replication": names.PORT_REPLICATION, "client": names.PORT_CLIENT, **ports, **node.ports}
    else:
        ports = {"controller": names.PORT_CONTROLLER, **ports}
    return {
        "name": names.CONTAINER_KAFKA,
        "image": kafka_image(cluster),
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", f"{_LAYOUT.handover_dir}/start.sh"],
        "env": [
            {"name": "KAFKA_HEAP_OPTS", "value": jvm.heap_options(role_of(node), node.heap)},
            {"name": "KAFKA_OPTS", "value": " ".join([*node.jvm_properties, *node.jvm_options])},
            # The start script disallows all other config providers.
            *([{"name": names.ENV_PROVIDERS, "value": node.providers}] if node.providers else []),
        ],
        "ports": [{"name": port, "containerPort": number} for port, number in ports.items()],
        "securityContext": _NO_PRIVILEGES,
        "resources": _resources(node),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "startupProbe": {**alive, "periodSeconds": 2, "failureThreshold": 90},
        "livenessProbe": {**alive, "periodSeconds": 10, "failureThreshold": 6},
        "readinessProbe": {
            "exec": {"command": ["/bin/bash", f"{_LAYOUT.handover_dir}/ready.sh"]},
            "periodSeconds": 5,
            "timeoutSeconds": 10,
            "failureThreshold": 6,
        },
        "volumeMounts": _mounts(node, preflight=False),
    }


def _alive(cluster: ClusterInputs) -> dict[str, Any]:
    """A probe of the metrics port. If metrics are disabled, Kafka serves them on the pod's loopback address only, for this probe."""
    if cluster.metrics:
        return {"tcpSocket": {"port": "metrics"}, "timeoutSeconds": 5}
    ask = f"exec 3<>/dev/tcp/{LOOPBACK}/{names.PORT_METRICS}"
    return {"exec": {"command": ["/bin/bash", "-c", ask]}, "timeoutSeconds": 5}


def _mounts(node: NodeInputs, *, preflight: bool) -> list[dict[str, Any]]:
    """Mounts of one container; parents of disks come before the disks."""
    mounts: list[dict[str, Any]] = [
        {"name": "disks", "mountPath": _LAYOUT.disks_root},
        {"name": "metadata", "mountPath": _LAYOUT.metadata_dir},
        {"name": "handover", "mountPath": _LAYOUT.handover_dir},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a folder of the container, which has no other users
    ]
    if preflight:
        mounts += [
            {"name": "config", "mountPath": _LAYOUT.config_dir, "readOnly": True},
            {"name": "podinfo", "mountPath": _LAYOUT.podinfo_dir, "readOnly": True},
        ]
    else:
        mounts[2]["readOnly"] = True
        mounts.append({"name": "tls", "mountPath": _LAYOUT.tls_dir, "readOnly": True})
        if node.own_certificates:
            mounts.append({"name": _LISTENERS, "mountPath": _LAYOUT.listeners_dir, "readOnly": True})
        mounts.append({"name": _LOGGERS, "mountPath": _LAYOUT.loggers_dir, "readOnly": True})
        if role_of(node) == names.ROLE_BROKER:
            mounts.append({"name": _TOPICS, "mountPath": _LAYOUT.topics_dir, "readOnly": True})
    return mounts + [
        {"name": f"disk-{disk.name}", "mountPath": _LAYOUT.mount(disk.name)} for disk in _mounted_disks(node)
    ]


def _mounted_disks(node: NodeInputs) -> list[DiskInputs]:
    """Disks with a volume, which is mounted below the disks' root."""
    return [disk for disk in node.disks if disk.mode != PLACEHOLDER and disk.name != METADATA_DISK]


def _volumes(cluster: ClusterInputs, node: NodeInputs) -> list[dict[str, Any]]:
    def empty(name: str) -> dict[str, Any]:
        return {"name": name, "emptyDir": {"sizeLimit": _MOST[name]}}

    def claim(name: str, disk: DiskInputs) -> dict[str, Any]:
        return {"name": name, "persistentVolumeClaim": {"claimName": disk.claim}}

    own = [disk for disk in node.disks if disk.name == METADATA_DISK]
    return [
        empty("disks"),
        claim("metadata", own[0]) if own else empty("metadata"),
        empty("handover"),
        empty("tmp"),
        {"name": "config", "configMap": {"name": names.config_map(cluster.name, node.node_id)}},
        # It exists only with spec.metrics.topics; the kubelet fills the folder when it appears.
        *(
            []
            if own
            else [{"name": _TOPICS, "configMap": {"name": names.topics_map(cluster.name), "optional": True}}]
        ),
        # Likewise, with spec.logging.
        {"name": _LOGGERS, "configMap": {"name": names.loggers_map(cluster.name), "optional": True}},
        # Readable by the group: the files belong to root and the pod's fsGroup.
        {
            "name": "tls",
            "secret": {"secretName": names.tls_secret(cluster.name, node.node_id), "defaultMode": 0o440},
        },
        *(
            [
                {
                    "name": _LISTENERS,
                    "secret": {"secretName": names.listeners_secret(cluster.name), "defaultMode": 0o440},
                }
            ]
            if node.own_certificates
            else []
        ),
        {
            "name": "podinfo",
            "downwardAPI": {
                "items": [{"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}}]
            },
        },
        *(claim(f"disk-{disk.name}", disk) for disk in _mounted_disks(node)),
    ]


def _affinity(cluster: ClusterInputs, node: NodeInputs) -> dict[str, Any]:
    result: dict[str, Any] = {}
    where: list[dict[str, Any]] = []
    if node.zone is not None:
        where.append({"key": node.zone.topology_key, "operator": "In", "values": [node.zone.value]})
    if node.avoid:
        where.append({"key": HOSTNAME_KEY, "operator": "NotIn", "values": list(node.avoid)})
    if where:
        result["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": where}]
            }
        }
    if not cluster.shared_nodes:
        peers = {names.LABEL_CLUSTER: cluster.name, names.LABEL_ROLE: role_of(node)}
        result["podAntiAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": peers}, "topologyKey": HOSTNAME_KEY}
            ]
        }
    return result
