"""The take-over against a real API server. It has no controllers and no kubelet: what they do is done beside it."""

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
from spindle.takeover import manifests, strimzi, volumes
from spindle.takeover.plan import record_name
from spindle_cli import objects, takeover, takeover_commands
from spindle_cli.kube import Kube, KubeError
from spindle_cli.objects import Objects
from spindle_cli.strimzi_kinds import KAFKA, POD_SET
from spindle_cli.takeover_check import with_refusals
from tests.kube.samples import volume

pytestmark = pytest.mark.kube

DIRECTORY = "wBVR3XvTT5OFw4iBGZ2g1A"
NODES = {0: "broker", 1: "broker", 2: "controller"}
ID = "3Db5QLSqSZieL3rJBUUegA"
READY = {"type": "Ready", "status": "True"}
PAUSED = {"type": "ReconciliationPaused", "status": "True"}


def directory(node: int, place: int) -> str:
    return f"{DIRECTORY[:-2]}{node}{place}"


def claims_of(node: int) -> list[str]:
    return [f"data-{n}-demo-{NODES[node]}-{node}" for n in ((0, 1) if NODES[node] == "broker" else (0,))]


@pytest.fixture(scope="module")
def kinds(api_server: ApiServer) -> None:
    """Strimzi's kinds."""
    api_server.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(definitions()))
    crds = [f"crd/{definition['metadata']['name']}" for definition in definitions()]
    api_server.wait_established(*crds)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits look more often than a command has to."""
    monkeypatch.setattr(takeover, "_POLL_S", 0.1)


@pytest.fixture
def theirs(kinds: None, api_client: client.ApiClient, namespace: str) -> Objects:
    """A cluster of Strimzi's: two brokers with two volumes each, one controller."""
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

    status = {"clusterId": ID, "kafkaVersion": "4.3.1", "conditions": [READY]}
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


def strimzi_reports(found: Objects) -> None:
    """What Strimzi's operator does at the end of a reconciliation, except that it starts no Kafka."""
    kafka = found.get(KAFKA, "demo")
    asked = (kafka["metadata"].get("annotations") or {}).get(strimzi.PAUSE) == "true"
    conditions = [PAUSED if asked else READY]
    if kafka["status"]["conditions"] != conditions:
        custom: Any = client.CustomObjectsApi(found._kube.api)
        custom.patch_namespaced_custom_object_status(
            strimzi.GROUP,
            "v1",
            found.namespace,
            "kafkas",
            "demo",
            {"status": {"conditions": conditions}},
            _content_type="application/merge-patch+json",
        )


@contextmanager
def kubernetes(
    found: Objects,
    core: client.CoreV1Api,
    refused: set[int],
    held: set[str] | None = None,
    busy: threading.Event | None = None,
) -> Iterator[None]:
    """What collects the pods of a set that is gone, lets go of claims, and runs the pods that lay volumes out; and Strimzi's reports.

    Args:
        refused: nodes whose volumes are not as expected.
        held: claims that a pod still uses, so that they stay while they are being deleted.
        busy: while it is set, Strimzi is in the middle of a reconciliation and reports nothing.
    """
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
        if busy is None or not busy.is_set():
            strimzi_reports(found)
        sets = {each["metadata"]["name"] for each in found.every(POD_SET)}
        for pod in found.every(objects.POD):
            owners = {owner["name"] for owner in pod["metadata"].get("ownerReferences", ())}
            name = pod["metadata"]["name"]
            if owners and not owners & sets:
                core.delete_namespaced_pod(name, found.namespace, grace_period_seconds=0)
            elif "takeover" in name and (pod.get("status") or {}).get("phase") == "Pending":
                end(pod)
        for each in found.every(objects.CLAIM):
            if each["metadata"].get("deletionTimestamp") and each["metadata"]["name"] not in (held or ()):
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
        assert theirs.get(KAFKA, "demo")["metadata"]["annotations"][strimzi.PAUSE] == "true"
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
        assert not theirs.get(KAFKA, "demo")["metadata"].get("annotations")
        assert theirs.find(objects.CONFIG_MAP, record_name("demo")) is None

        strimzi_reports(theirs)
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
    assert len(manifests.recorded(theirs.get(objects.CONFIG_MAP, record_name("demo"))).claims) == 5
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
    long = [{"resource": {"type": "topic", "name": "n" * 250}, "operations": ["Read"]}]
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
        ("kafkatopics", "KafkaTopic", "odd", {"partitions": 3, "config": {"my_setting": "1"}}),
        (
            "kafkausers",
            "KafkaUser",
            "long",
            {"authentication": {"type": "tls"}, "authorization": {"acls": long}},
        ),
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
    assert "# KafkaTopic odd: the API server refuses it: " in text
    assert "keys are names of Kafka's topic configuration" in text
    assert "# KafkaUser long: the API server refuses it: " in text
    assert "# KafkaUser old: its password and its ACLs stay in Kafka" in text
    api_server.kubectl("apply", "-n", namespace, "-f", "-", stdin=text)
    spec = theirs.get(objects.TOPIC, "orders")["spec"]
    assert (spec["adopt"], spec["config"]) == (True, {"retention.ms": "1"})


# -- others change it, too -------------------------------------------------------------------------------------------


def bind(found: Objects, core: Any) -> None:
    """What the volume controller does: claims and volumes name each other."""
    for each in found.every(objects.CLAIM):
        meta, volume_name = each["metadata"], each["spec"]["volumeName"]
        reference = {"namespace": found.namespace, "name": meta["name"], "uid": meta["uid"]}
        found.patch(objects.VOLUME, volume_name, {"spec": {"claimRef": reference}})
        core.patch_namespaced_persistent_volume_claim_status(
            meta["name"], found.namespace, {"status": {"phase": "Bound"}}
        )


class Interrupted(Objects):
    """Ends before a write, like a command that is killed there, or does something else first."""

    def __init__(self, kube: Kube, before: Any) -> None:
        super().__init__(kube)
        self._before = before

    def patch(self, kind: objects.Kind, name: str, body: Any, *, dry_run: bool = False) -> None:
        if not dry_run:
            self._before("patch", kind, name)
        super().patch(kind, name, body, dry_run=dry_run)

    def apply(self, obj: Any, *, dry_run: bool = False) -> None:
        if not dry_run:
            self._before("apply", objects.KINDS[obj["kind"]], obj["metadata"]["name"])
        super().apply(obj, dry_run=dry_run)

    def create(self, kind: objects.Kind, obj: Any, *, dry_run: bool = False) -> None:
        if not dry_run:
            self._before("create", kind, obj["metadata"]["name"])
        super().create(kind, obj, dry_run=dry_run)

    def delete(self, kind: objects.Kind, name: str, uid: str | None = None, *, dry_run: bool = False) -> None:
        if not dry_run:
            self._before("delete", kind, name)
        super().delete(kind, name, uid, dry_run=dry_run)


def policies(found: Objects) -> set[str]:
    """Reclaim policies of the namespace's volumes."""
    return {
        each["spec"]["persistentVolumeReclaimPolicy"]
        for each in found.every(objects.VOLUME)
        if each["metadata"]["name"].startswith(f"{found.namespace}-")
    }


def test_no_claim_is_deleted_while_its_volume_would_go_with_it(
    theirs: Objects, api_client: client.ApiClient
) -> None:
    core: Any = client.CoreV1Api(api_client)
    bind(theirs, core)
    seen: list[set[str]] = []

    def before(verb: str, kind: objects.Kind, name: str) -> None:
        if (verb, kind) == ("delete", POD_SET):  # somebody sets them back while Kafka stops
            for each in theirs.every(objects.CLAIM):
                policy = {"persistentVolumeReclaimPolicy": "Delete"}
                theirs.patch(objects.VOLUME, each["spec"]["volumeName"], {"spec": policy})
        if (verb, kind) == ("delete", objects.CLAIM):
            seen.append(policies(theirs))

    with kubernetes(theirs, core, set()):
        takeover.take(Interrupted(theirs._kube, before), "demo", "spindle", lambda _: None)
    assert seen == [{"Retain"}] * 5


def test_a_take_over_that_somebody_undoes_meanwhile_deletes_no_claim(
    theirs: Objects, api_client: client.ApiClient
) -> None:
    core: Any = client.CoreV1Api(api_client)
    bind(theirs, core)

    def before(verb: str, kind: objects.Kind, name: str) -> None:
        if (verb, kind, name) == ("delete", POD_SET, "demo-controller"):
            takeover.undo(theirs, "demo", "spindle", lambda _: None)

    with kubernetes(theirs, core, set()), pytest.raises(KubeError, match="another spindle takeover"):
        takeover.take(Interrupted(theirs._kube, before), "demo", "spindle", lambda _: None)
    assert len(theirs.every(objects.CLAIM)) == 5
    assert all("broker" in name or "controller" in name for name in takeover._by_name(theirs, objects.CLAIM))


def test_a_claim_that_is_still_being_deleted_does_not_count_as_restored(
    theirs: Objects, api_client: client.ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its volume would be deleted with it as soon as nothing uses it any more: undo sets the policies back."""
    core: Any = client.CoreV1Api(api_client)
    bind(theirs, core)
    monkeypatch.setattr(takeover, "_GONE_S", 3)
    name = "data-0-demo-broker-0"
    held = {name}
    theirs.patch(objects.CLAIM, name, {"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}})
    with kubernetes(theirs, core, set(), held):
        for work in (takeover.take, takeover.undo):
            with pytest.raises(KubeError, match=name):
                work(theirs, "demo", "spindle", lambda _: None)
            assert policies(theirs) == {"Retain"}
        held.clear()
        takeover.undo(theirs, "demo", "spindle", lambda _: None)
    found = takeover._by_name(theirs, objects.CLAIM)
    assert len(found) == 5
    assert not any(each["metadata"].get("deletionTimestamp") for each in found.values())
    assert policies(theirs) == {"Delete"}


def test_a_claim_with_another_volume_than_planned_is_not_deleted(
    theirs: Objects, api_client: client.ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that found no pause; then a disk was replaced, with a new volume for the same claim."""
    core: Any = client.CoreV1Api(api_client)
    bind(theirs, core)
    asked = takeover._pause

    def interrupted(*_: Any) -> None:
        raise KubeError("no pause")

    monkeypatch.setattr(takeover, "_pause", interrupted)
    with pytest.raises(KubeError, match="no pause"):
        takeover.take(theirs, "demo", "spindle", lambda _: None)
    monkeypatch.setattr(takeover, "_pause", asked)
    name, other = "data-0-demo-broker-0", f"{theirs.namespace}-other"
    core.create_persistent_volume(volume(other, hostPath={"path": "/nowhere"}))
    kept = theirs.get(objects.CLAIM, name)
    with kubernetes(theirs, core, set()):
        theirs.delete(objects.CLAIM, name)
        takeover._until_gone(theirs, objects.CLAIM, name)
        spec = {**kept["spec"], "volumeName": other}
        core.create_namespaced_persistent_volume_claim(
            theirs.namespace, {"metadata": {"name": name}, "spec": spec}
        )
        with pytest.raises(KubeError, match=f"claim {name} has volume {other}"):
            takeover.take(theirs, "demo", "spindle", lambda _: None)
        assert len(theirs.every(objects.POD)) == 3, "Kafka was not stopped"
        takeover.undo(theirs, "demo", "spindle", lambda _: None)
    assert theirs.get(objects.CLAIM, name)["spec"]["volumeName"] == other
    assert theirs.find(objects.CONFIG_MAP, record_name("demo")) is None


def test_the_way_back_renames_log_dirs_of_a_node_whose_claim_somebody_deleted(
    theirs: Objects, api_client: client.ApiClient
) -> None:
    """Strimzi would start it on a blank log dir otherwise."""
    core: Any = client.CoreV1Api(api_client)
    bind(theirs, core)

    def before(verb: str, kind: objects.Kind, name: str) -> None:
        if (verb, kind) == ("apply", objects.CLUSTER):
            raise KubeError("killed")

    laid_out: list[str] = []

    def note(verb: str, kind: objects.Kind, name: str) -> None:
        if (verb, kind) == ("create", objects.POD):
            laid_out.append(name)

    with kubernetes(theirs, core, set()):
        with pytest.raises(KubeError, match="killed"):
            takeover.take(Interrupted(theirs._kube, before), "demo", "spindle", lambda _: None)
        bind(theirs, core)
        theirs.delete(objects.CLAIM, "data-disk1-demo-0")
        takeover._until_gone(theirs, objects.CLAIM, "data-disk1-demo-0")
        takeover.undo(Interrupted(theirs._kube, note), "demo", "spindle", lambda _: None)
    assert sorted(laid_out) == ["demo-takeover-0", "demo-takeover-1", "demo-takeover-2"]
    assert set(takeover._by_name(theirs, objects.CLAIM)) == {
        name for node in NODES for name in claims_of(node)
    }


def test_sets_are_deleted_even_if_none_of_their_pods_is_there_at_the_moment(
    theirs: Objects, api_client: client.ApiClient
) -> None:
    """The set would create them again, on the claims that are being renamed; and nodes that were added are not left behind."""
    core: Any = client.CoreV1Api(api_client)
    bind(theirs, core)
    pools = {"status": {"nodeIds": [0, 1, 7]}}
    custom: Any = client.CustomObjectsApi(api_client)
    where = (strimzi.GROUP, "v1", theirs.namespace, "kafkanodepools", "broker")
    core.delete_namespaced_pod("demo-controller-2", theirs.namespace, grace_period_seconds=0)

    def before(verb: str, kind: objects.Kind, name: str) -> None:
        if (verb, kind) == ("apply", objects.CLAIM):
            raise KubeError("killed")

    with kubernetes(theirs, core, set()):
        with pytest.raises(KubeError, match="killed"):
            takeover.take(Interrupted(theirs._kube, before), "demo", "spindle", lambda _: None)
        assert theirs.every(POD_SET) == []
        custom.patch_namespaced_custom_object_status(
            *where, pools, _content_type="application/merge-patch+json"
        )
        with pytest.raises(KubeError, match="added or removed since the take-over was planned: 7"):
            takeover.take(theirs, "demo", "spindle", lambda _: None)


def asked(found: Objects) -> str:
    """What the plan says that the API server would refuse."""
    made = with_refusals(found, strimzi.plan(takeover.read(found, "demo")), lambda: "spindle")
    return "\n".join(made.problems)


def test_the_plan_asks_the_api_server_about_claims_volumes_and_pods_and_changes_nothing(
    theirs: Objects, api_client: client.ApiClient
) -> None:
    core: Any = client.CoreV1Api(api_client)
    bind(theirs, core)
    before = [theirs.every(kind) for kind in (objects.CLAIM, objects.VOLUME, objects.POD, KAFKA, POD_SET)]
    assert asked(theirs) == ""
    limits = [
        {"type": "PersistentVolumeClaim", "max": {"storage": "500Mi"}},
        {"type": "Pod", "min": {"cpu": "100m"}},
    ]
    core.create_namespaced_limit_range(
        theirs.namespace, {"metadata": {"name": "all"}, "spec": {"limits": limits}}
    )
    takeover._until("limits apply", lambda: bool(asked(theirs)), 10)
    told = asked(theirs)
    assert "PersistentVolumeClaim data-disk1-demo-0: " in told
    assert "PersistentVolumeClaim data-metadata-demo-9000: " in told
    assert "Pod demo-takeover-0: " in told
    assert "maximum storage usage per PersistentVolumeClaim is 500Mi" in told
    assert [
        theirs.every(kind) for kind in (objects.CLAIM, objects.VOLUME, objects.POD, KAFKA, POD_SET)
    ] == before


def test_a_quota_that_the_present_objects_use_up_does_not_stand_against_the_take_over(
    theirs: Objects, api_client: client.ApiClient
) -> None:
    core: Any = client.CoreV1Api(api_client)
    bind(theirs, core)
    hard = {"persistentvolumeclaims": "5", "pods": "3"}
    core.create_namespaced_resource_quota(
        theirs.namespace, {"metadata": {"name": "all"}, "spec": {"hard": hard}}
    )
    core.patch_namespaced_resource_quota_status(
        "all", theirs.namespace, {"status": {"hard": hard, "used": hard}}
    )
    more = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "more"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }

    def enforced() -> bool:
        try:
            theirs.apply(more, dry_run=True)
        except KubeError as error:
            return "exceeded quota" in str(error)
        return False

    takeover._until("the quota is enforced", enforced, 20)
    assert asked(theirs) == ""


def test_kafka_is_not_stopped_for_a_kafkacluster_that_the_api_server_would_refuse_in_the_end(
    theirs: Objects, api_client: client.ApiClient
) -> None:
    """Names of Strimzi's listeners may begin with a digit, and become the same name."""
    core: Any = client.CoreV1Api(api_client)
    bind(theirs, core)
    listeners = [
        {"name": name, "port": port, "type": "internal", "tls": True}
        for name, port in (("9x", 9095), ("l9x", 9096))
    ]
    theirs.patch(KAFKA, "demo", {"spec": {"kafka": {"listeners": listeners}}})
    told = asked(theirs)
    assert "listeners: duplicate entries" in told
    with kubernetes(theirs, core, set()), pytest.raises(KubeError) as error:
        takeover.take(theirs, "demo", "spindle", lambda _: None)
    assert told in str(error.value)
    assert len(theirs.every(objects.POD)) == 3
    assert theirs.find(objects.CONFIG_MAP, record_name("demo")) is None


def test_the_report_of_a_pause_that_has_ended_is_not_taken_for_a_new_pause(
    theirs: Objects, api_client: client.ApiClient
) -> None:
    """Strimzi may need minutes for its first reconciliation after an undo, which creates pods, and reports the old pause until its end."""
    core: Any = client.CoreV1Api(api_client)
    bind(theirs, core)
    busy, refused = threading.Event(), {0}
    with kubernetes(theirs, core, refused, busy=busy):
        with pytest.raises(KubeError, match="node 0: it is not the volume"):
            takeover.take(theirs, "demo", "spindle", lambda _: None)
        busy.set()
        refused.clear()
        takeover.undo(theirs, "demo", "spindle", lambda _: None)
        bind(theirs, core)
        with pytest.raises(KubeError, match="still reports a pause that has ended"):
            takeover.take(theirs, "demo", "spindle", lambda _: None)
        assert not theirs.get(KAFKA, "demo")["metadata"].get("annotations")
        assert theirs.find(objects.CONFIG_MAP, record_name("demo")) is None
        busy.clear()
        takeover._until("Ready", lambda: not strimzi.pause_that_ended(theirs.get(KAFKA, "demo")), 10)
        takeover.take(theirs, "demo", "spindle", lambda _: None)
    assert theirs.find(objects.CLUSTER, "demo") is not None
