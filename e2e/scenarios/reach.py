"""Which pods can connect to which ports: tried from inside the pods by opening a connection."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from e2e.scenarios.lab import Lab

# Bash only: the images of Kafka, of Spindle and of the rebalance job all contain it.
_TRY: Final = 'for door in "$@"; do timeout 4 bash -c "exec 3<>/dev/tcp/${door/:/\\/}" 2>/dev/null && echo "$door"; done; true'


def doors(pods: Iterable[Mapping[str, Any]], *ports: int) -> set[str]:
    """Address and port of each of these pods' ports."""
    return {f"{pod['status']['podIP']}:{port}" for pod in pods for port in ports}


def through(lab: Lab, pod: str, wanted: Iterable[str]) -> set[str]:
    """Those of these addresses to which a pod in the lab's namespace can connect."""
    asked = sorted(wanted)
    said = lab.kubectl("exec", pod, "--", "bash", "-c", _TRY, "bash", *asked, timeout=30 + 5 * len(asked))
    return set(said.split())


def waiting_pod(name: str, image: str, node: str) -> dict[str, Any]:
    """A pod on a node that only waits for commands."""
    container = {"name": "main", "image": image, "command": ["sleep", "infinity"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [container]},
    }
