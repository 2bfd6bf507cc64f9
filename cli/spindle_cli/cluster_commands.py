"""``spindle pause``, ``spindle resume`` and ``spindle delete-claims``."""

from typing import Annotated

import typer

from spindle_cli import field_requests
from spindle_cli.consent import consent
from spindle_cli.copied import command
from spindle_cli.field_requests import FieldRequest
from spindle_cli.kube import Kube, KubeError
from spindle_cli.screen import say
from spindle_cli.terminal import Cluster, Force, Namespace, sentences


def pause(cluster: Cluster = None, namespace: Namespace = None, force: Force = False) -> None:
    """Let Spindle only observe and report; it changes nothing until: spindle resume."""
    with sentences():
        name = _set_paused(namespace, cluster, paused=True, force=force)
        say(f"{name} is paused: Spindle changes nothing until: {command(f'spindle resume {name}')}")


def resume(cluster: Cluster = None, namespace: Namespace = None, force: Force = False) -> None:
    """Let Spindle act again after spindle pause."""
    with sentences():
        name = _set_paused(namespace, cluster, paused=False, force=force)
        say(f"{name} is no longer paused.\nFollow it with: {command(f'spindle status {name}')}")


def delete_claims(
    cluster: Cluster = None,
    namespace: Namespace = None,
    name: Annotated[str | None, typer.Option(help="The name again: do it without asking.")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Keep the claims after all.")] = False,
    force: Force = False,
) -> None:
    """Delete the claims of a KafkaCluster, and so its data, when the KafkaCluster itself is deleted."""
    with sentences():
        kube = Kube.connect(namespace)
        found = kube.cluster(kube.one_cluster(cluster))
        chosen = found.metadata.name
        request = FieldRequest("KafkaCluster", chosen, "delete-claims", {"deleteClaims": not undo})
        if undo:
            field_requests.write(kube, request, found.metadata.uid, force=force)
            say(f"{chosen} keeps its claims when it is deleted.")
            return
        if name not in (None, chosen):
            raise KubeError(f"--name names {name}, the command {chosen}; nothing was changed")
        say(
            f"When KafkaCluster {chosen} is deleted, its claims and the record of its disks are deleted with it. The reclaim policy of the volumes decides "
            "whether anything of its topics and records is left; Spindle does not find it again."
        )
        consent(f"Delete the claims of {chosen} with it?", given=name)
        field_requests.write(kube, request, found.metadata.uid, force=force)
        say(
            f"The claims of {chosen} are deleted with it. To delete it: {command(f'kubectl delete skc {chosen}')}\n"
            f"To keep them after all: {command(f'spindle delete-claims {chosen} --undo')}"
        )


def while_paused(kube: Kube, cluster: str) -> str:
    """What to add to the message of a request that is not carried out yet because the cluster is paused; else empty."""
    try:
        paused = kube.cluster(cluster).spec.paused
    except KubeError:  # the request is made; who may write it may perhaps not read the KafkaCluster
        return ""
    return (
        f"\n{cluster} is paused: nothing happens until: {command(f'spindle resume {cluster}')}"
        if paused
        else ""
    )


def _set_paused(namespace: str | None, cluster: str | None, *, paused: bool, force: bool) -> str:
    kube = Kube.connect(namespace)
    found = kube.cluster(kube.one_cluster(cluster))
    name = found.metadata.name
    request = FieldRequest("KafkaCluster", name, "paused", {"paused": paused})
    field_requests.write(kube, request, found.metadata.uid, force=force)
    return name
