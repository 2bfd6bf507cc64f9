"""``spindle pause`` and ``spindle resume``."""

from spindle_cli import field_requests
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
