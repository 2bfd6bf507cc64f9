"""The resources of a cluster that a backup contains, and what prevents their restore.

A backup does not contain the disks, which are retained, but it contains the claims, since their annotations identify the disks
("no second bootstrap", `docs/safety.md`, rule 13).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from spindle.api import names

BackupObject = Mapping[str, Any]

_ORDER: Final = ("PersistentVolumeClaim", "ConfigMap", "Secret", "KafkaCluster", "KafkaUser")
# Prefixes of annotations that Kubernetes writes.
_NOT_KEPT: Final = (
    "kubectl.kubernetes.io/",
    "pv.kubernetes.io/",
    "volume.kubernetes.io/",
    "volume.beta.kubernetes.io/",
)
_RETAIN: Final = "Retain"


@dataclass(frozen=True)
class Backup:
    """A cluster's resources, in the order of their restore."""

    cluster: str
    objects: tuple[BackupObject, ...]

    @property
    def claims(self) -> tuple[BackupObject, ...]:
        """The claims of its disks."""
        return tuple(obj for obj in self.objects if obj["kind"] == "PersistentVolumeClaim")


def backup(objects: Iterable[BackupObject]) -> list[dict[str, Any]]:
    """Objects as a backup contains them: without fields that are specific to the source Kubernetes cluster."""
    made = [_stripped(obj) for obj in objects]
    return sorted(made, key=lambda obj: (_ORDER.index(obj["kind"]), obj["metadata"]["name"]))


def parse_backup(documents: Iterable[Any]) -> Backup:
    """Parse a backup.

    Args:
        documents: the YAML documents.

    Raises:
        ValueError: with the reason why it is not a valid backup.
    """
    objects = [document for document in documents if document]
    for obj in objects:
        if (
            not isinstance(obj, dict)
            or obj.get("kind") not in _ORDER
            or not (obj.get("metadata") or {}).get("name")
        ):
            raise ValueError(
                f"it contains objects other than {', '.join(_ORDER)}: create it with spindle backup"
            )
    clusters = [str(obj["metadata"]["name"]) for obj in objects if obj["kind"] == "KafkaCluster"]
    if len(clusters) != 1:
        raise ValueError(f"it contains {len(clusters)} KafkaClusters, but must contain exactly one")
    strangers = [
        str(obj["metadata"]["name"])
        for obj in objects
        if obj["kind"] == "PersistentVolumeClaim" and _cluster(obj) != clusters[0]
    ]
    if strangers:
        raise ValueError(
            f"claim {strangers[0]} does not belong to cluster {clusters[0]}: its label {names.LABEL_CLUSTER} has another value"
        )
    return Backup(
        clusters[0], tuple(sorted(objects, key=lambda obj: (_ORDER.index(obj["kind"]), _name(obj))))
    )


def not_retained(claims: Iterable[BackupObject], volumes: Mapping[str, BackupObject]) -> list[str]:
    """Volumes whose reclaim policy deletes them with their claims, so that a backup of the claims would be useless."""
    found = (volumes.get(_volume(claim)) for claim in claims)
    return sorted(
        _name(volume)
        for volume in found
        if volume is not None and volume["spec"].get("persistentVolumeReclaimPolicy") != _RETAIN
    )


def obstacles(
    kept: Backup,
    namespace: str,
    volumes: Mapping[str, BackupObject],
    there: Mapping[str, BackupObject],
    *,
    lives: bool,
    secrets: Mapping[str, BackupObject] = MappingProxyType({}),
) -> list[str]:
    """What prevents a restore, one sentence each; if there is any, the restore changes nothing.

    Args:
        namespace: the target namespace.
        volumes: every PersistentVolume by name.
        there: the namespace's claims by name.
        lives: whether the namespace has a KafkaCluster of that name.
        secrets: Secrets of the backup that exist in the namespace, by name.
    """
    found = [
        f"Secret {name} in namespace {namespace} exists and belongs to no KafkaCluster: delete it first if it is not needed."
        for name, secret in sorted(secrets.items())
        if not _spindles(secret)
        and not any(_same_data(secret, obj) for obj in kept.objects if _name(obj) == name)
    ]
    if lives:
        found.append(f"KafkaCluster {kept.cluster} exists in namespace {namespace}: delete it first.")
    for claim in kept.claims:
        name, wanted = _name(claim), _volume(claim)
        existing, volume = there.get(name), volumes.get(wanted)
        if existing is not None and _volume(existing) not in ("", wanted):
            found.append(
                f"Claim {name} exists and has volume {_volume(existing)}, not {wanted}: delete it first."
            )
        elif not wanted:
            continue  # it was not bound: any volume that fits will do
        elif volume is None:
            found.append(
                f"Volume {wanted} of claim {name} does not exist. If its disk still exists, create a PersistentVolume {wanted} for it; "
                "if not, remove the claim from the file: its broker then starts without the disk, and its replicas are re-replicated."
            )
        elif (volume.get("status") or {}).get("phase") == "Bound" and not _holds(volume, namespace, name):
            ref = volume["spec"].get("claimRef") or {}
            found.append(
                f"Volume {wanted} of claim {name} is bound to claim {ref.get('namespace')}/{ref.get('name')}: delete that one first."
            )
    return found


def reserve(namespace: str, claim: str) -> dict[str, Any]:
    """A merge patch that reserves a volume for one claim, whatever claim it had before."""
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim}
    return {
        "spec": {
            "claimRef": {**reference, "uid": None, "resourceVersion": None, "fieldPath": None},
            "persistentVolumeReclaimPolicy": _RETAIN,
        }
    }


def restored(
    obj: BackupObject, namespace: str, owners: Mapping[tuple[str, str], BackupObject]
) -> dict[str, Any]:
    """An object as the restore creates it.

    Args:
        owners: the restored KafkaClusters and KafkaUsers by kind and name, as owners of their Secrets.
    """
    metadata = {**obj["metadata"], "namespace": namespace}
    labels = metadata.get("labels") or {}
    user = str(labels.get(names.LABEL_USER, ""))
    kind, name = ("KafkaUser", user) if user else ("KafkaCluster", _cluster(obj))
    owner = owners.get((kind, name))
    if obj["kind"] == "Secret" and owner is not None:
        metadata["ownerReferences"] = [
            {
                "apiVersion": names.API_VERSION,
                "kind": kind,
                "name": name,
                "uid": owner["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    return {**obj, "metadata": metadata}


def with_secrets(cluster: BackupObject, uids: Sequence[str]) -> dict[str, Any]:
    """A KafkaCluster that accepts the restored Secrets, by their new UIDs; former UIDs are removed."""
    metadata = dict(cluster["metadata"])
    notes = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != names.ANN_RESTORED}
    if uids:
        notes[names.ANN_RESTORED] = ",".join(uids)
    metadata.pop("annotations", None)
    return {**cluster, "metadata": {**metadata, **({"annotations": notes} if notes else {})}}


def claim_volumes(kept: Backup) -> Sequence[tuple[str, str]]:
    """Claim and volume name of each bound claim."""
    return [(_name(claim), _volume(claim)) for claim in kept.claims if _volume(claim)]


def _stripped(obj: BackupObject) -> dict[str, Any]:
    metadata = obj["metadata"]
    annotations = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if not key.startswith(_NOT_KEPT)
    }
    kept = {
        "name": metadata["name"],
        "labels": dict(metadata.get("labels") or {}),
        "annotations": annotations,
    }
    made = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    made["metadata"] = {key: value for key, value in kept.items() if value}
    return made | {part: obj[part] for part in ("spec", "data", "type") if obj.get(part)}


def _spindles(secret: BackupObject) -> bool:
    """Whether a KafkaCluster or a KafkaUser owns a Secret."""
    owners = secret["metadata"].get("ownerReferences") or ()
    return any(owner.get("kind") in ("KafkaCluster", "KafkaUser") for owner in owners)


def _same_data(secret: BackupObject, obj: BackupObject) -> bool:
    """Whether a Secret equals that of the backup already, because an interrupted restore is run again."""
    return obj["kind"] == "Secret" and obj.get("data") == secret.get("data")


def _holds(volume: BackupObject, namespace: str, claim: str) -> bool:
    reference = volume["spec"].get("claimRef") or {}
    return (reference.get("namespace"), reference.get("name")) == (namespace, claim)


def _cluster(obj: BackupObject) -> str:
    return str((obj["metadata"].get("labels") or {}).get(names.LABEL_CLUSTER, ""))


def _volume(claim: BackupObject) -> str:
    return str((claim.get("spec") or {}).get("volumeName") or "")


def _name(obj: BackupObject) -> str:
    return str(obj["metadata"]["name"])
