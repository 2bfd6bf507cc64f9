"""Objects that the API server takes as they are, and a way to bend one field of them."""

import copy
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from spindle.api.names import API_VERSION

ROOT = Path(__file__).resolve().parents[2]
GONE: Any = object()
DIRECTORY_ID = "Jm5Xk0aMTq2sVYbE7pWc1A"
INPUT_HASH = "9f86d081884c7d65"


def cluster() -> dict[str, Any]:
    """The twelve-line sample."""
    return dict(yaml.safe_load((ROOT / "examples" / "quickstart.yaml").read_text()))


def broker() -> dict[str, Any]:
    """A broker as the operator makes it."""
    return {
        "apiVersion": API_VERSION,
        "kind": "KafkaBroker",
        "metadata": {"name": "demo-broker-0"},
        "spec": {
            "cluster": "demo",
            "id": 0,
            "pool": "main",
            "disks": [
                {
                    "name": f"disk{i}",
                    "claim": f"data-disk{i}-demo-0",
                    "directoryId": f"{DIRECTORY_ID[:-1]}{i}",
                }
                for i in range(2)
            ],
        },
    }


def volume(name: str, **spec: Any) -> dict[str, Any]:
    """A volume that nobody claimed yet; ``spec`` says where it is."""
    kept = {"accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Delete"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {"capacity": {"storage": "1Gi"}, **kept, **spec},
    }


def local_class(name: str = "local-disks") -> dict[str, Any]:
    """A StorageClass of local volumes."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def rebalance() -> dict[str, Any]:
    """A proposal with one move."""
    return {
        "apiVersion": API_VERSION,
        "kind": "KafkaRebalance",
        "metadata": {"name": "demo-1"},
        "spec": {
            "cluster": "demo",
            "inputHash": INPUT_HASH,
            "expires": "2030-01-01T00:00:00Z",
            "moves": [move(0)],
            "cost": {"bytesInter": 1000, "bytesIntra": 0, "moves": 1},
        },
    }


def move(partition: int) -> dict[str, Any]:
    """One move of a proposal."""
    return {
        "topic": "orders",
        "partition": partition,
        "fromBroker": 0,
        "fromDir": "/var/lib/kafka/disks/disk0/log",
        "toBroker": 1,
        "toDir": "/var/lib/kafka/disks/disk1/log",
        "bytes": 1000,
        "reason": "over its band",
    }


def bent(thing: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A copy with some fields changed.

    Args:
        thing: the object.
        changes: path → value, ``GONE`` to remove the field. Paths are dotted with list indexes in brackets
            (``spec.brokerPools[0].name``); one index past the end appends; missing objects are made.
    """
    made = copy.deepcopy(thing)
    for path, value in changes.items():
        steps = _steps(path)
        last = steps[-1]
        node: Any = made
        for step, following in pairwise(steps):
            if isinstance(step, str):
                node = node.setdefault(step, [] if isinstance(following, int) else {})
            else:
                node = node[step]
        if value is GONE:
            del node[last]
        elif isinstance(last, int) and last == len(node):
            node.append(value)
        else:
            node[last] = value
    return made


def _steps(path: str) -> list[str | int]:
    steps: list[str | int] = []
    for part in path.split("."):
        name, *indexes = part.replace("]", "").split("[")
        steps += [name, *(int(index) for index in indexes)]
    return steps
