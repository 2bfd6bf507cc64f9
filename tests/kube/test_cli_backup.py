"""Backup and restore against a real API server. It has no controllers: what they do is done beside it."""

from typing import Any

import pytest
import yaml
from kubernetes import client

from spindle.api import names
from spindle.manifests.claims import ClaimedDisk, ClaimingCluster, claim
from spindle.model.cluster_identity import ConfiguredVoter, NodeIdentity, identity_map
from spindle_cli import backup, objects
from spindle_cli.kube import Kube, KubeError
from spindle_cli.objects import Objects
from tests.kube.samples import cluster as sample_cluster
from tests.kube.samples import volume

pytestmark = pytest.mark.kube

DIRECTORY = "wBVR3XvTT5OFw4iBGZ2g1A"
VOTERS = (ConfiguredVoter(9000, DIRECTORY),)


@pytest.fixture
def there(api_client: client.ApiClient, namespace: str) -> Objects:
    """A KafkaCluster with a disk, an identity, an authority and a user, as the operator leaves them."""
    found = Objects(Kube(api_client, namespace))
    pv = f"pv-{namespace}"
    made = claim(
        ClaimingCluster("demo", namespace, "3Db5QLSqSZieL3rJBUUegA", VOTERS),
        ClaimedDisk(
            node_id=0,
            name="disk0",
            directory_id=DIRECTORY,
            size="1Gi",
            storage_class="",
            pool="main",
            volume=pv,
        ),
    )
    core: Any = client.CoreV1Api(api_client)
    core.create_persistent_volume(volume(pv, hostPath={"path": "/nowhere"}))
    found.apply(made)
    found.apply({**identity_map("demo", namespace, NodeIdentity("3Db5QLSqSZieL3rJBUUegA", VOTERS))})
    labels = {names.LABEL_CLUSTER: "demo"}
    for name, more in (("demo-ca", {}), ("demo.user.alice", {names.LABEL_USER: "alice"}), ("demo-admin", {})):
        meta = {"name": name, "namespace": namespace, "labels": labels | more}
        found.apply({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {"key": "c2VjcmV0"}})
    meta = {"name": "alice", "namespace": namespace}
    spec = {"cluster": "demo", "authentication": "scram"}
    cluster = sample_cluster()
    cluster["metadata"] |= {"namespace": namespace}
    found.apply(cluster)
    found.apply({"apiVersion": names.API_VERSION, "kind": "KafkaUser", "metadata": meta, "spec": spec})
    return found


def test_what_is_backed_up_is_put_back_into_another_namespace_onto_the_same_volume(
    there: Objects, api_client: client.ApiClient
) -> None:
    text, not_retained = backup.collect(there, "demo", secrets=True)
    (pv,) = not_retained
    documents = list(yaml.safe_load_all(text))
    assert [document["kind"] for document in documents] == [
        "PersistentVolumeClaim",
        "ConfigMap",
        "Secret",
        "Secret",
        "KafkaCluster",
        "KafkaUser",
    ]
    assert "demo-admin" not in text
    plain, _ = backup.collect(there, "demo", secrets=False)
    assert "Secret" not in plain

    core: Any = client.CoreV1Api(api_client)
    other = f"{there.namespace}-again"
    core.create_namespace({"metadata": {"name": other}})
    into = Objects(Kube(api_client, other))
    claim_there = there.get(objects.CLAIM, "data-disk0-demo-0")
    reference = {
        "namespace": there.namespace,
        "name": "data-disk0-demo-0",
        "uid": claim_there["metadata"]["uid"],
    }
    there.patch(objects.VOLUME, pv, {"spec": {"claimRef": reference}})
    core.patch_persistent_volume_status(pv, {"status": {"phase": "Bound"}})
    with pytest.raises(KubeError, match="is bound to claim"):
        backup.restore(into, backup.read(text))
    assert into.every(objects.CLAIM) == []

    core.patch_persistent_volume_status(pv, {"status": {"phase": "Released"}})
    told = backup.restore(into, backup.read(text))
    assert any(pv in line for line in told)
    kept = into.get(objects.VOLUME, pv)["spec"]
    assert (kept["claimRef"]["namespace"], kept["claimRef"].get("uid")) == (other, None)
    assert kept["persistentVolumeReclaimPolicy"] == "Retain"
    annotations = into.get(objects.CLAIM, "data-disk0-demo-0")["metadata"]["annotations"]
    assert annotations[names.ANN_DIRECTORY_ID] == DIRECTORY
    user = into.get(objects.USER, "alice")
    mine = into.get(objects.CLUSTER, "demo")["metadata"]["annotations"][names.ANN_RESTORED]
    assert mine == into.get(objects.SECRET, "demo-ca")["metadata"]["uid"]
    for name, owner in (("demo.user.alice", user), ("demo-ca", into.get(objects.CLUSTER, "demo"))):
        (reference,) = into.get(objects.SECRET, name)["metadata"]["ownerReferences"]
        assert reference["uid"] == owner["metadata"]["uid"]
    with pytest.raises(KubeError, match="delete it first"):
        backup.restore(into, backup.read(text))


def test_what_is_not_there_is_said(there: Objects) -> None:
    assert there.find(objects.CLAIM, "nothing") is None
    with pytest.raises(KubeError, match="there is no KafkaCluster nothing"):
        backup.collect(there, "nothing", secrets=False)
    with pytest.raises(KubeError, match="this is not a backup"):
        backup.read("kind: Deployment")
