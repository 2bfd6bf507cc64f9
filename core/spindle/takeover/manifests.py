"""The objects of a take-over: claims with their new names, and the pods that change the layout of volumes."""

import base64
import gzip
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from spindle.api import names
from spindle.manifests.backup import backup
from spindle.manifests.claims import ClaimedDisk, ClaimingCluster, claim
from spindle.model.cluster_identity import STATIC, ConfiguredVoter
from spindle.model.dir_list import NO_LIST
from spindle.model.metadata import labels
from spindle.model.waiting import counted
from spindle.takeover import volumes
from spindle.takeover.plan import (
    DISKS_ROOT,
    DiskPlan,
    NodePlan,
    TakeoverPlan,
    TakeoverRecord,
    parse_record,
    record_name,
)

APP: Final = "spindle-takeover"
RECORD_KEY: Final = "memory"
TURN_KEY: Final = "turn"  # of the command that works on the take-over
_LARGEST: Final = (1 << 20) - 1024  # bytes; the API server takes 1 MiB in all, and the turn is added
_UID: Final = 1000  # of Kafka in its stock image


def takeover_record(
    plan: TakeoverPlan, claims: Mapping[str, Mapping[str, Any]], policies: Mapping[str, str]
) -> TakeoverRecord:
    """The record that continues or undoes the take-over.

    Args:
        claims: of the namespace, by name.
        policies: PersistentVolume → its reclaim policy.
    """
    disks = [disk for node in plan.nodes for disk in node.disks]
    classes = {disk.claim: disk.storage_class for disk in disks}
    kept = {obj["metadata"]["name"]: obj for obj in backup(claims[claim] for claim in classes)}
    return TakeoverRecord(
        plan,
        {
            name: {**obj, "spec": {"storageClassName": classes[name], **obj["spec"]}}
            for name, obj in kept.items()
        },
        {disk.volume: policies[disk.volume] for disk in disks},
    )


def record_map(kept: TakeoverRecord) -> dict[str, Any]:
    """The ConfigMap of the record, which is compressed: otherwise 1,400 volumes would be too much for one.

    Raises:
        ValueError: it is larger than a ConfigMap can be; with the way out.
    """
    packed = gzip.compress(kept.text().encode(), mtime=0)
    if len(packed) > _LARGEST:
        raise ValueError(
            f"the record of {counted(len(kept.claims), 'claim')}, which undo needs, has {len(packed)} bytes (compressed), and a ConfigMap holds at most "
            f"{_LARGEST}. To resolve: remove annotations and labels that you do not need from the claims (kubectl annotate pvc <name> <key>-), and run the command again"
        )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": record_name(kept.plan.name),
            "namespace": kept.plan.namespace,
            "labels": labels(kept.plan.name),
        },
        "binaryData": {RECORD_KEY: base64.b64encode(packed).decode()},
    }


def recorded(found: Mapping[str, Any]) -> TakeoverRecord:
    """The record in a ConfigMap; earlier versions did not compress it.

    Raises:
        ValueError: it is not valid.
    """
    packed = (found.get("binaryData") or {}).get(RECORD_KEY)
    if packed is None:
        return parse_record((found.get("data") or {}).get(RECORD_KEY, ""))
    try:
        return parse_record(gzip.decompress(base64.b64decode(packed)).decode())
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"cannot be parsed: {error}") from error


def new_claim(plan: TakeoverPlan, node: NodePlan, disk: DiskPlan) -> dict[str, Any]:
    """A claim before its disk was inspected: without annotations, so that it does not count as a disk of a cluster yet."""
    made = _claim(plan, node, disk, (), "")
    del made["metadata"]["annotations"]
    return made


def identified_claims(plan: TakeoverPlan, found: Mapping[int, Sequence[str]]) -> list[dict[str, Any]]:
    """The claims with the identity of their disks.

    Args:
        found: directory ids of the disks of each node, by its former id.
    """
    voters = tuple(ConfiguredVoter(node.as_node, found[node.node_id][0]) for node in plan.controllers)
    made = []
    for node in plan.nodes:
        ids = found[node.node_id]
        listed = NO_LIST.changed_to({d.disk: each for d, each in zip(node.disks, ids, strict=True)})
        for disk, directory_id in zip(node.disks, ids, strict=True):
            each = _claim(plan, node, disk, voters, directory_id)
            if node.controller:
                each["metadata"]["annotations"][names.ANN_QUORUM] = STATIC
            else:  # so that Spindle notices if a claim is deleted before the first start
                each["metadata"]["annotations"][names.ANN_LOG_DIRS] = listed.text()
            made.append(each)
    return made


def pod_name(plan: TakeoverPlan, node: NodePlan) -> str:
    """Name of the pod that changes the layout of a node's volumes."""
    return f"{plan.name}-takeover-{node.node_id}"


def pod(plan: TakeoverPlan, node: NodePlan, image: str, *, undo: bool = False) -> dict[str, Any]:
    """The pod that changes the layout of a node's volumes; it mounts nothing else and reports in its termination message."""
    order = node.order(plan.cluster_id, undo=undo).text()
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(plan, node),
            "namespace": plan.namespace,
            "labels": {"app.kubernetes.io/name": APP},
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 30,
            "tolerations": [{"operator": "Exists"}],  # it is scheduled to the node with the disks
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _UID,
                "runAsGroup": _UID,
                "fsGroup": _UID,
                # The files belong to another user; Kafka accesses them through their group from now on.
                "fsGroupChangePolicy": "Always",
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "takeover",
                    "image": image,
                    "command": ["spindle-preflight", "takeover"],
                    "env": [{"name": volumes.ENV_ORDER, "value": order}],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [
                        {"name": disk.disk, "mountPath": f"{DISKS_ROOT}/{disk.disk}"} for disk in node.disks
                    ],
                }
            ],
            "volumes": [
                {"name": disk.disk, "persistentVolumeClaim": {"claimName": disk.becomes}}
                for disk in node.disks
            ],
        },
    }


def _claim(
    plan: TakeoverPlan, node: NodePlan, disk: DiskPlan, voters: Sequence[ConfiguredVoter], directory_id: str
) -> dict[str, Any]:
    return claim(
        ClaimingCluster(plan.name, plan.namespace, plan.cluster_id, voters),
        ClaimedDisk(
            node_id=node.as_node,
            name=disk.disk,
            directory_id=directory_id,
            size=disk.size,
            storage_class=disk.storage_class,
            pool=node.pool,
            rack=node.rack,
            volume=disk.volume,
        ),
    )
