"""Names what differs between a pod and the pod that Spindle would create now, for the event that announces its restart."""

from typing import Any, Final

from spindle.api import names
from spindle.manifests.pods import PART_TEMPLATE, kafka_image, recorded_parts, spec_parts
from spindle.model import objects
from spindle.model.node_inputs import ClusterInputs, NodeInputs
from spindle.model.waiting import some

_WORDS: Final = {
    "config": "its configuration",
    "disks": "its disks",
    "jvm": "its JVM options",
    "metrics": "metrics.enabled",
    "nodeSelector": "its node selector",
    PART_TEMPLATE: "podTemplate",
    "priorityClass": "its priority class",
    "pullSecrets": "its image pull secrets",
    "resources": "its CPU and memory",
    "restart": "spec.rolling.restart",
    "sharedFilesystem": "whether disks may share a file system",
    "template": "the pod template of this Spindle version",
    "tolerations": "its tolerations",
}

_OPTIONAL: Final = (PART_TEMPLATE, "restart")  # only pods with a value have these parts


def what_changed(pod: objects.RawObject, cluster: ClusterInputs, node: NodeInputs) -> str:
    """A clause such as "its configuration and its disks changed"; a general one if the pod has no annotation that records its parts."""
    before, after = objects.image(pod, names.CONTAINER_KAFKA), kafka_image(cluster)
    parts = recorded_parts(pod)
    before_it: dict[str, Any] = dict.fromkeys(_OPTIONAL) if parts else {}
    gone: dict[str, Any] = dict.fromkeys(each for each in _OPTIONAL if each in parts)
    fresh = {**gone, **spec_parts(cluster, node)}
    changed = [
        _WORDS[part]
        for part in sorted(fresh)
        if part in _WORDS and parts.get(part, before_it.get(part, fresh[part])) != fresh[part]
    ]
    if before is not None and before != after:
        changed.insert(0, f"Kafka's image (from {before} to {after})")
    return f"{some(changed)} changed" if changed else "its pod template changed"
