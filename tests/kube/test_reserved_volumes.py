"""What Kubernetes' volume controller makes of a volume that Spindle has reserved, and of its mark."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster.apiserver import ApiServer
from e2e.cluster.waiting import wait_for
from spindle.api import names
from spindle.model.claim_volumes import is_reserved
from tests.kube.samples import local_class, volume

pytestmark = pytest.mark.kube

CLAIM = "data-disk1-demo-0"


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with ApiServer(controllers=True) as started:
        put(started, local_class())
        yield started


def put(server: ApiServer, obj: dict[str, Any]) -> None:
    server.kubectl("create", "-f", "-", stdin=json.dumps(obj))


def reserved(server: ApiServer, name: str) -> dict[str, Any]:
    """A volume as Spindle reserves one."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node1"]}
    put(
        server,
        volume(
            name,
            storageClassName="local-disks",
            persistentVolumeReclaimPolicy="Retain",
            local={"path": "/mnt/disks/disk0"},
            nodeAffinity={"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        ),
    )
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": CLAIM}
    refer(server, name, {**reference, "fieldPath": names.RESERVED})
    wait_for("it is available", lambda: of(server, name)["status"].get("phase") == "Available", seconds=30)
    return of(server, name)


def of(server: ApiServer, name: str) -> dict[str, Any]:
    return dict(json.loads(server.kubectl("get", "pv", name, "-o", "json")))


def refer(server: ApiServer, name: str, reference: dict[str, Any] | None) -> None:
    body = json.dumps({"spec": {"claimRef": reference}})
    server.kubectl("patch", "pv", name, "--type=merge", "-p", body)


def claim(server: ApiServer, volume_name: str) -> None:
    put(
        server,
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": CLAIM, "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "local-disks",
                "resources": {"requests": {"storage": "1Gi"}},
                "volumeName": volume_name,
            },
        },
    )


def bound(server: ApiServer, name: str) -> bool:
    return bool(of(server, name)["status"].get("phase") == "Bound")


def test_the_mark_is_there_until_a_claim_gets_the_volume(server: ApiServer) -> None:
    """Also after that claim is gone, and its volume is kept for another one of its name."""
    assert is_reserved(reserved(server, "first"))
    claim(server, "first")
    wait_for("it is bound", lambda: bound(server, "first"), seconds=30)
    taken = of(server, "first")
    assert taken["spec"]["claimRef"]["uid"]
    assert "fieldPath" not in taken["spec"]["claimRef"]
    server.kubectl("delete", "pvc", CLAIM)
    wait_for("it is released", lambda: of(server, "first")["status"]["phase"] == "Released", seconds=30)
    refer(server, "first", {"uid": None, "resourceVersion": None})
    wait_for("it is kept", lambda: of(server, "first")["status"]["phase"] == "Available", seconds=30)
    assert not is_reserved(of(server, "first"))


def test_a_claim_that_comes_after_the_release_gets_its_volume_all_the_same(server: ApiServer) -> None:
    assert is_reserved(reserved(server, "second"))
    refer(server, "second", None)
    claim(server, "second")
    wait_for("it is bound", lambda: bound(server, "second"), seconds=30)
    server.kubectl("delete", "pvc", CLAIM)


def test_a_volume_whose_claim_is_deleted_at_once_is_reserved_or_released(server: ApiServer) -> None:
    """The volume controller may have been faster: then the volume was bound, and has no mark."""
    reserved(server, "third")
    claim(server, "third")
    server.kubectl("delete", "pvc", CLAIM)
    found = of(server, "third")
    assert is_reserved(found) or (
        found["spec"]["claimRef"].get("uid") and "fieldPath" not in found["spec"]["claimRef"]
    )
