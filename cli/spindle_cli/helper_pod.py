"""Runs this same command line in a pod of the Kubernetes cluster, where Kafka's host names resolve and its listeners are reachable.

Kafka's listeners are reachable from pods, not from outside the cluster. A command that talks to Kafka therefore starts a pod from
Spindle's image with the cluster's admin Secret, prints its output, and removes it.
"""

import secrets
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from spindle.api import names
from spindle.api.printable import printable
from spindle_cli.copied import command
from spindle_cli.kafka_client import ENV_BOOTSTRAP, ENV_CREDENTIALS
from spindle_cli.kube import Json, Kube, KubeError

APP: Final = "spindle-client"
CREDENTIALS: Final = "/etc/spindle/credentials"
_UID: Final = 1000
_START_S: Final = 120.0
_LIFETIME_S: Final = 3600

Write = Callable[[str], None]


def manifest(
    name: str, cluster: str, bootstrap: str, image: str, arguments: Sequence[str], columns: int
) -> Json:
    """The pod.

    Args:
        arguments: the command line, without the program's name.
        columns: width of the terminal that shows its output.
    """
    environment = {
        ENV_CREDENTIALS: CREDENTIALS,
        ENV_BOOTSTRAP: bootstrap,
        "COLUMNS": str(columns),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": APP}},
        "spec": {
            "restartPolicy": "Never",
            # If this program is killed before it removes the pod, Kubernetes ends the pod.
            "activeDeadlineSeconds": _LIFETIME_S,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _UID,
                "runAsGroup": _UID,
                "fsGroup": _UID,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "client",
                    "image": image,
                    "command": ["spindle"],
                    "args": list(arguments),
                    "env": [{"name": key, "value": value} for key, value in environment.items()],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [{"name": "credentials", "mountPath": CREDENTIALS, "readOnly": True}],
                }
            ],
            "volumes": [
                {
                    "name": "credentials",
                    "secret": {"secretName": names.admin_secret(cluster), "defaultMode": 0o440},
                }
            ],
        },
    }


def image_of(kube: Kube, cluster: str) -> str:
    """Spindle's image, as the cluster's pods use it.

    Raises:
        KubeError: no pod exists yet to read it from.
    """
    for pod in kube.pods(f"{names.LABEL_CLUSTER}={cluster}"):
        for container in pod["spec"].get("initContainers") or ():
            if container["name"] in (names.CONTAINER_INSPECT, names.CONTAINER_PREFLIGHT):
                return str(container["image"])
    raise KubeError(
        f"cluster {cluster} has no pods yet; wait for it ({command(f'spindle wait {cluster}')}) or set --image"
    )


def run(
    kube: Kube, cluster: str, arguments: Sequence[str], *, image: str | None, columns: int, write: Write
) -> int:
    """Run a command line in a pod and return its exit code.

    Raises:
        KubeError: the pod could not be created or did not start; the message says why.
    """
    status = kube.cluster(cluster).status
    if status is None or not status.bootstrap:
        raise KubeError(
            f"cluster {cluster} has no address yet; wait for it: {command(f'spindle wait {cluster}')}"
        )
    _sweep(kube)
    name = f"{cluster}-client-{secrets.token_hex(3)}"
    kube.create_pod(
        manifest(name, cluster, status.bootstrap, image or image_of(kube, cluster), arguments, columns)
    )
    try:
        _started(kube, name)
        return _followed(kube, name, write)
    finally:
        kube.delete_pod(name)


def _sweep(kube: Kube) -> None:
    """Remove finished pods of earlier calls that were killed before they removed them."""
    for pod in kube.pods(f"app.kubernetes.io/name={APP}"):
        if pod["status"].get("phase") in ("Succeeded", "Failed"):
            kube.delete_pod(pod["metadata"]["name"])


def _started(kube: Kube, name: str) -> None:
    deadline = time.monotonic() + _START_S
    while (pod := kube.pod(name))["status"].get("phase") == "Pending":
        reason, message = _held_up_by(pod)
        if reason in ("ErrImageNeverPull", "InvalidImageName", "ErrImagePull", "ImagePullBackOff"):
            raise KubeError(f"pod {name} cannot start: {reason}: {message}")
        if time.monotonic() > deadline:
            raise KubeError(
                f"pod {name} did not start within {_START_S:.0f} s: {reason or 'Pending'} {message}".rstrip()
            )
        _pause(0.3)


def _held_up_by(pod: Json) -> tuple[str, str]:
    status = pod["status"]
    for container in status.get("containerStatuses") or ():
        if waiting := container.get("state", {}).get("waiting"):
            return str(waiting.get("reason") or ""), str(waiting.get("message") or "")
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("reason") or ""), str(condition.get("message") or "")
    return "", ""


def _followed(kube: Kube, name: str, write: Write) -> int:
    """Print the pod's output until it ends; after a broken connection, resume where it broke."""
    shown = 0
    while True:
        for number, line in enumerate(kube.log(name)):
            if number >= shown:
                write(line)
                shown = number + 1
        code = _exit_code(kube.pod(name))
        if code is not None:
            return code
        _pause(0.3)


def _exit_code(pod: Json) -> int | None:
    """The exit code, None while the pod runs."""
    for container in pod["status"].get("containerStatuses") or ():
        ended: dict[str, Any] | None = container.get("state", {}).get("terminated")
        if ended:
            return int(ended["exitCode"])
    return 1 if pod["status"].get("phase") == "Failed" else None


def _pause(seconds: float) -> None:
    time.sleep(seconds)  # noqa: TID251 - a command line has nothing else to do meanwhile


def write_line(line: str) -> None:
    """Pass one line on to this program's own output."""
    sys.stdout.write(printable(line, lines=True) + "\n")
    sys.stdout.flush()
