"""A pod that has a volume made on a certain node: most provisioners wait for one, and choose the volume's place by it.

It mounts the claim of a disk that is to be added, ends at once, and is taken away when the claim is bound.
"""

from typing import Any, Final

from spindle.cluster import names
from spindle.manifests.inputs import ClusterInputs
from spindle.manifests.metadata import owner
from spindle.manifests.pods import STANDING_TOLERATIONS

_NOBODY: Final = 1000


def claim_pod(cluster: ClusterInputs, claim: str, node: str) -> dict[str, Any]:
    """The pod that asks for one claim's volume; it bears the claim's name, and is counted by no budget or service.

    Args:
        cluster: what all pods of the cluster share.
        claim: name of the claim.
        node: Kubernetes node that the volume must be usable on.
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
