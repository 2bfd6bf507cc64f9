"""Backup, restore and take-over against a real API server. It has no controllers and no kubelet: what they do is done beside it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml
from kubernetes import client

from e2e.cluster.apiserver import ApiServer
from e2e.scenarios.strimzi_cluster import definitions
from spindle.api import names
from spindle.manifests.claims import ClaimedDisk, ClaimingCluster, claim
from spindle.model.cluster_identity import ConfiguredVoter, NodeIdentity, identity_map
from spindle.takeover import manifests, strimzi, volumes
from spindle.takeover.plan import record_name
from spindle_cli import backup, objects, takeover, takeover_commands
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


# -- taking over -----------------------------------------------------------------------------------------------------

NODES = {0: "broker", 1: "broker", 2: "controller"}
ID = "3Db5QLSqSZieL3rJBUUegA"


def directory(node: int, place: int) -> str:
    return f"{DIRECTORY[:-2]}{node}{place}"


def claims_of(node: int) -> list[str]:
    return [f"data-{n}-demo-{NODES[node]}-{node}" for n in ((0, 1) if NODES[node] == "broker" else (0,))]


@pytest.fixture
def theirs(api_server: ApiServer, api_client: client.ApiClient, namespace: str) -> Objects:
    """A cluster of Strimzi's: two brokers with two volumes each, one controller."""
    text = yaml.safe_dump_all(definitions())
    api_server.kubectl("apply", "-f", "-", stdin=text)
    for definition in definitions():
        name = definition["metadata"]["name"]
        api_server.kubectl("wait", "--for=condition=Established", "--timeout=30s", f"crd/{name}")
    custom: Any = client.CustomObjectsApi(api_client)

    def put(group: str, plural: str, name: str, kind: str, **parts: Any) -> dict[str, Any]:
        meta = {"name": name, "labels": {strimzi.LABEL_CLUSTER: "demo"}}
        body = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": meta, "spec": parts.get("spec", {})}
        where = (group, "v1", namespace, plural)
        made: dict[str, Any] = custom.create_namespaced_custom_object(*where, body)
        if "status" in parts:
            body = {"status": parts["status"]}
            custom.patch_namespaced_custom_object_status(
                *where, name, body, _content_type="application/merge-patch+json"
            )
        return made

    well = [{"type": kind, "status": "True"} for kind in ("Ready", "ReconciliationPaused")]
    status = {"clusterId": ID, "kafkaVersion": "4.3.1", "conditions": well}
    put(strimzi.GROUP, "kafkas", "demo", "Kafka", spec={"kafka": {"version": "4.3.1"}}, status=status)
    core: Any = client.CoreV1Api(api_client)
    for pool in ("broker", "controller"):
        ids = [node for node, its in NODES.items() if its == pool]
        storage = [
            {"id": n, "type": "persistent-claim", "size": "1Gi"} for n in range(len(claims_of(ids[0])))
        ]
        spec = {"roles": [pool], "storage": {"type": "jbod", "volumes": storage}}
        put(strimzi.GROUP, "kafkanodepools", pool, "KafkaNodePool", spec=spec, status={"nodeIds": ids})
        owner = put(strimzi.CORE_GROUP, "strimzipodsets", f"demo-{pool}", "StrimziPodSet")
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": "StrimziPodSet",
            "name": f"demo-{pool}",
            "uid": owner["metadata"]["uid"],
        }
        for node in ids:
            for name in claims_of(node):
                made = volume(f"{namespace}-{name}", hostPath={"path": "/nowhere"})
                made["spec"]["claimRef"] = {"namespace": namespace, "name": name}
                core.create_persistent_volume(made)
                asked = {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "",
                    "volumeName": f"{namespace}-{name}",
                    "resources": {"requests": {"storage": "1Gi"}},
                }
                meta = {"name": name, "namespace": namespace}
                core.create_namespaced_persistent_volume_claim(namespace, {"metadata": meta, "spec": asked})
                core.patch_namespaced_persistent_volume_claim_status(
                    name, namespace, {"status": {"phase": "Bound"}}
                )
            labels = {strimzi.LABEL_CLUSTER: "demo"}
            pod = {"name": f"demo-{pool}-{node}", "labels": labels, "ownerReferences": [reference]}
            containers = [{"name": "kafka", "image": "kafka"}]
            core.create_namespaced_pod(namespace, {"metadata": pod, "spec": {"containers": containers}})
    return Objects(Kube(api_client, namespace))


@contextmanager
def kubernetes(found: Objects, core: client.CoreV1Api, refused: set[int]) -> Iterator[None]:
    """What collects the pods of a set that is gone, lets go of claims, and runs the pods that lay volumes out."""
    over = threading.Event()

    def end(pod: dict[str, Any]) -> None:
        order = volumes.parse_order(pod["spec"]["containers"][0]["env"][0]["value"])
        node = order.places[0].node_id
        told: dict[str, Any] = {"directories": [directory(node, n) for n in range(len(order.places))]}
        if node in refused:
            told = {"refused": "it is not the volume that it should be"}
        ended = {"exitCode": int(node in refused), "message": json.dumps(told)}
        container = {
            "name": "takeover",
            "image": "spindle",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": ended},
        }
        status = {"phase": "Failed" if node in refused else "Succeeded", "containerStatuses": [container]}
        core.patch_namespaced_pod_status(pod["metadata"]["name"], found.namespace, {"status": status})

    def once() -> None:
        sets = {each["metadata"]["name"] for each in found.every(takeover.POD_SET)}
        for pod in found.every(objects.POD):
            owners = {owner["name"] for owner in pod["metadata"].get("ownerReferences", ())}
            name = pod["metadata"]["name"]
            if owners and not owners & sets:
                core.delete_namespaced_pod(name, found.namespace, grace_period_seconds=0)
            elif "takeover" in name and (pod.get("status") or {}).get("phase") == "Pending":
                end(pod)
        for each in found.every(objects.CLAIM):
            if each["metadata"].get("deletionTimestamp"):
                found.patch(objects.CLAIM, each["metadata"]["name"], {"metadata": {"finalizers": None}})

    def run() -> None:
        while not over.wait(0.2):
            try:
                once()
            except (KubeError, client.ApiException):
                continue  # it went between two looks

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_cluster_is_taken_over_refused_given_back_and_taken_again(
    theirs: Objects, api_client: client.ApiClient
) -> None:
    core: Any = client.CoreV1Api(api_client)
    refused: set[int] = {1}
    said: list[str] = []
    before = {each["metadata"]["name"]: each["spec"]["volumeName"] for each in theirs.every(objects.CLAIM)}
    assert len(before) == 5
    with kubernetes(theirs, core, refused):
        with pytest.raises(KubeError, match="node 1: it is not the volume"):
            takeover.take(theirs, "demo", "spindle", said.append)
        assert theirs.find(objects.CLUSTER, "demo") is None
        assert theirs.get(takeover.KAFKA, "demo")["metadata"]["annotations"][strimzi.PAUSE] == "true"
        assert not [
            each for each in theirs.every(objects.POD) if not each["metadata"].get("deletionTimestamp")
        ]
        for name in before.values():
            assert theirs.get(objects.VOLUME, name)["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        refused.clear()

        takeover.undo(theirs, "demo", "spindle", said.append)
        assert {
            each["metadata"]["name"]: each["spec"]["volumeName"] for each in theirs.every(objects.CLAIM)
        } == before
        for claim_name, name in before.items():
            spec = theirs.get(objects.VOLUME, name)["spec"]
            assert spec["claimRef"]["name"] == claim_name
            assert spec["persistentVolumeReclaimPolicy"] == "Delete"
        assert not theirs.get(takeover.KAFKA, "demo")["metadata"].get("annotations")
        assert theirs.find(objects.CONFIG_MAP, record_name("demo")) is None

        for each in theirs.every(objects.CLAIM):  # as the volume controller says of them
            core.patch_namespaced_persistent_volume_claim_status(
                each["metadata"]["name"], theirs.namespace, {"status": {"phase": "Bound"}}
            )
        takeover.take(theirs, "demo", "spindle", said.append)
    found = {each["metadata"]["name"]: each for each in theirs.every(objects.CLAIM)}
    assert {name: each["spec"]["volumeName"] for name, each in found.items()} == {
        f"data-disk{n}-demo-{node}": before[f"data-{n}-demo-broker-{node}"] for node in (0, 1) for n in (0, 1)
    } | {"data-metadata-demo-9000": before["data-0-demo-controller-2"]}
    told = found["data-disk1-demo-1"]["metadata"]["annotations"]
    assert told[names.ANN_DIRECTORY_ID] == directory(1, 1)
    assert told[names.ANN_CLUSTER_ID] == ID
    assert directory(2, 0) in told[names.ANN_VOTERS]
    assert theirs.get(objects.CLUSTER, "demo")["spec"]["controllers"]["replicas"] == 1
    assert manifests.RECORD_KEY in theirs.get(objects.CONFIG_MAP, record_name("demo"))["data"]
    for work in (takeover.take, takeover.undo):
        with pytest.raises(KubeError, match="KafkaCluster demo exists"):
            work(theirs, "demo", "spindle", said.append)


def test_topics_and_users_of_strimzi_become_objects_that_the_api_server_takes(
    theirs: Objects, api_server: ApiServer, api_client: client.ApiClient, namespace: str
) -> None:
    custom: Any = client.CustomObjectsApi(api_client)
    acls = [
        {"resource": {"type": "topic", "name": "orders", "patternType": "prefix"}, "operations": ["Read"]}
    ]
    for plural, kind, name, spec in (
        (
            "kafkatopics",
            "KafkaTopic",
            "orders",
            {"partitions": 3, "replicas": 1, "config": {"retention.ms": 1}},
        ),
        (
            "kafkausers",
            "KafkaUser",
            "reader",
            {"authentication": {"type": "tls"}, "authorization": {"acls": acls}},
        ),
        ("kafkausers", "KafkaUser", "old", {"authentication": {"type": "scram-sha-512"}}),
    ):
        meta = {"name": name, "labels": {strimzi.LABEL_CLUSTER: "demo"}}
        body = {"apiVersion": f"{strimzi.GROUP}/v1", "kind": kind, "metadata": meta, "spec": spec}
        custom.create_namespaced_custom_object(strimzi.GROUP, "v1", namespace, plural, body)
    text = takeover_commands.manifests_text(takeover.convert(theirs, "demo"))
    made = [each for each in yaml.safe_load_all(text) if each]
    assert [(each["kind"], each["metadata"]["name"]) for each in made] == [
        ("KafkaTopic", "orders"),
        ("KafkaUser", "reader"),
    ]
    assert "# KafkaUser old: its password and its ACLs stay in Kafka" in text
    api_server.kubectl("apply", "-n", namespace, "-f", "-", stdin=text)
    spec = theirs.get(objects.TOPIC, "orders")["spec"]
    assert (spec["adopt"], spec["config"]) == (True, {"retention.ms": "1"})
