"""``spindle backup`` and ``spindle restore``: a cluster's resources to a file, and back onto the retained disks."""

from collections.abc import Iterable
from typing import Any

import yaml

from spindle.api import names
from spindle.manifests import backup as parts
from spindle.manifests.backup import Backup
from spindle_cli import objects
from spindle_cli.copied import command
from spindle_cli.kube import Json, KubeError
from spindle_cli.kubectl_yaml import documents
from spindle_cli.objects import Objects


def collect(found: Objects, cluster: str, *, secrets: bool) -> tuple[str, list[str]]:
    """A cluster's resources.

    Args:
        secrets: include the CA and the users' credentials.

    Returns:
        YAML, and the names of volumes that would be deleted with their claims.
    """
    claims = found.every(objects.CLAIM, f"{names.LABEL_CLUSTER}={cluster}")
    users = [user for user in found.every(objects.USER) if user["spec"].get("cluster") == cluster]
    everything: list[Json | None] = [found.get(objects.CLUSTER, cluster), *claims, *users]
    everything.append(found.find(objects.CONFIG_MAP, names.identity_map(cluster)))
    if secrets:
        everything.append(found.find(objects.SECRET, names.ca_secret(cluster)))
        everything += found.every(objects.SECRET, f"{names.LABEL_CLUSTER}={cluster},{names.LABEL_USER}")
    volumes = _volumes(found)
    text = documents(parts.backup(each for each in everything if each is not None))
    return text, parts.not_retained(claims, volumes)


def read(text: str) -> Backup:
    """Parse a backup file.

    Raises:
        KubeError: the file is not a backup.
    """
    try:
        return parts.parse_backup(yaml.safe_load_all(text))
    except (yaml.YAMLError, ValueError) as error:
        raise KubeError(f"this is not a backup: {error}") from error


def restore(into: Objects, kept: Backup) -> list[str]:
    """Restore a backup, and report each step.

    Raises:
        KubeError: something prevents it; nothing was changed.
    """
    volumes = _volumes(into)
    there = {claim["metadata"]["name"]: claim for claim in into.every(objects.CLAIM)}
    lives = into.find(objects.CLUSTER, kept.cluster) is not None
    wanted = [str(obj["metadata"]["name"]) for obj in kept.objects if obj["kind"] == "Secret"]
    taken = {name: found for name in wanted if (found := into.find(objects.SECRET, name)) is not None}
    against = parts.obstacles(kept, into.namespace, volumes, there, lives=lives, secrets=taken)
    if against:
        raise KubeError("nothing was restored.\n" + "\n".join(against))
    told = []
    for claim, volume in parts.claim_volumes(kept):
        if claim not in there:
            into.patch(objects.VOLUME, volume, parts.reserve(into.namespace, claim))
            told.append(f"volume {volume} is reserved for claim {claim}")
    secrets = [obj for obj in kept.objects if obj["kind"] == "Secret"]
    authority = [obj for obj in secrets if obj["metadata"]["name"] == names.ca_secret(kept.cluster)]
    owners: dict[tuple[str, str], Json] = {}
    for obj in (each for each in kept.objects if each["kind"] != "Secret"):
        put = obj
        if (
            obj["kind"] == "KafkaCluster"
        ):  # before the KafkaCluster: otherwise Spindle would generate a CA of its own
            _apply(into, authority, owners)
            uids = [
                into.get(objects.SECRET, names.ca_secret(kept.cluster))["metadata"]["uid"] for _ in authority
            ]
            put = parts.with_secrets(obj, uids)
        _apply(into, [put], owners)
        kind, name = objects.KINDS[obj["kind"]], str(obj["metadata"]["name"])
        if kind in (objects.CLUSTER, objects.USER):
            owners[kind.name, name] = into.get(kind, name)
    _apply(into, secrets, owners)
    return [
        *told,
        f"KafkaCluster {kept.cluster} was applied; follow it with: {command(f'spindle wait {kept.cluster}')}",
    ]


def _apply(into: Objects, those: Iterable[Any], owners: dict[tuple[str, str], Json]) -> None:
    for obj in those:
        into.apply(parts.restored(obj, into.namespace, owners))


def _volumes(found: Objects) -> dict[str, Json]:
    return {volume["metadata"]["name"]: volume for volume in found.every(objects.VOLUME)}
