"""A pod that triggers the provisioning of a volume on a given node (``WaitForFirstConsumer``).

It mounts the claim of a disk to add, ends at once, and is deleted when the claim is bound.
"""

from typing import Any, Final

from spindle.api import names
from spindle.manifests.metadata import owner
from spindle.model.node_inputs import ClusterInputs
from spindle.model.tolerations import STANDING_TOLERATIONS

_NOBODY: Final = 1000


def claim_pod(cluster: ClusterInputs, claim: str, node: str) -> dict[str, Any]:
    """The pod that mounts one claim; it has the claim's name and belongs to no budget or Service.

    Args:
        cluster: the values that all pods of the cluster share.
        claim: name of the claim.
        node: Kubernetes node on which the volume must be usable.
    """
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [here]}]}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
        "tolerations": [*STANDING_TOLERATIONS, *(dict(entry) for entry in cluster.tolerations)],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "runAsGroup": _NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "ask",
                "image": cluster.spindle_image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["true"],
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                    "readOnlyRootFilesystem": True,
                },
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
            }
        ],
        "volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": claim}}],
    }
    if cluster.priority_class:
        spec["priorityClassName"] = cluster.priority_class
    if cluster.pull_secrets:
        spec["imagePullSecrets"] = [{"name": secret} for secret in cluster.pull_secrets]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": claim,
            "namespace": cluster.namespace,
            "labels": {
                names.LABEL_CLUSTER: cluster.name,
                names.LABEL_MANAGED_BY: names.MANAGED_BY,
            },
            "ownerReferences": [owner(cluster)],
        },
        "spec": spec,
    }
