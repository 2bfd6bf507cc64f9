"""Changes by hand that bypass the operator: each is reported with its reason and what unblocks it, and reverted where possible."""

import pytest

from e2e.scenarios.lab import CLUSTER, Lab

pytestmark = pytest.mark.e2e


@pytest.mark.capability
def test_deleted_and_edited_things_come_back(running: Lab) -> None:
    lab = running
    lab.kubectl("delete", "service", f"{CLUSTER}-bootstrap")
    lab.kubectl("delete", "configmap", f"{CLUSTER}-broker-1-config")
    lab.kubectl("label", "pod", f"{CLUSTER}-broker-0", "spindle.dev/budget=mine", "--overwrite")
    lab.kubectl("label", "pod", f"{CLUSTER}-broker-2", "spindle.dev/cluster-")
    lab.until("the Service is back", lambda: lab.get("service", f"{CLUSTER}-bootstrap"))
    lab.until("the ConfigMap is back", lambda: lab.get("configmap", f"{CLUSTER}-broker-1-config"))

    def labels(name: str) -> dict[str, str]:
        pod = lab.get("pod", name)
        return dict(pod["metadata"]["labels"]) if pod else {}

    lab.until(
        "the label is back",
        lambda: labels(f"{CLUSTER}-broker-0")["spindle.dev/budget"] == f"{CLUSTER}-brokers",
    )
    lab.until(
        "the removed label is back",
        lambda: labels(f"{CLUSTER}-broker-2").get("spindle.dev/cluster") == CLUSTER,
    )
    lab.until_ready()


def test_a_deleted_pod_comes_back_with_its_disks(running: Lab) -> None:
    lab = running
    before = {d["name"]: d["directoryId"] for d in lab.list("kafkabrokers")[1]["spec"]["disks"]}
    old = lab.the("pod", f"{CLUSTER}-broker-1")
    lab.kubectl("delete", "pod", f"{CLUSTER}-broker-1", "--wait=false")
    lab.until(
        "another pod runs",
        lambda: (lab.get("pod", f"{CLUSTER}-broker-1") or old)["metadata"]["uid"] != old["metadata"]["uid"],
    )
    lab.until_ready()
    assert {d["name"]: d["directoryId"] for d in lab.list("kafkabrokers")[1]["spec"]["disks"]} == before


def test_a_zone_label_that_changes_under_a_broker_is_told(running: Lab) -> None:
    lab = running
    node = lab.list("kafkabrokers")[0]["spec"]["node"]
    zone = lab.list("kafkabrokers")[0]["spec"]["rack"]
    key = "topology.kubernetes.io/zone"
    lab.kubectl("label", "node", node, f"{key}=zone-elsewhere", "--overwrite")
    try:
        entry = lab.until_waiting("ZoneChanged")
        assert node in entry["message"]
        assert "label" in entry["unblockedBy"]
        assert lab.condition("RacksSatisfied")["status"] == "False"
    finally:
        lab.kubectl("label", "node", node, f"{key}={zone}", "--overwrite")
    lab.until("the condition is well again", lambda: lab.condition("RacksSatisfied")["status"] == "True")


def test_an_image_that_cannot_be_pulled_is_told_and_healed(running: Lab) -> None:
    lab = running
    lab.patch("kafkacluster", CLUSTER, {"spec": {"image": "localhost/no/such-kafka:1"}})
    entry = lab.until_waiting("ImagePullFailed", 180)
    assert "localhost/no/such-kafka:1" in entry["message"]
    assert "spec.image" in entry["unblockedBy"]
    down = [p for p in lab.list("pods", "spindle.dev/role") if not _ready(p)]
    assert len(down) == 1  # the rolling restart stops at the first broker that does not come back
    lab.patch("kafkacluster", CLUSTER, {"spec": {"image": None}})
    lab.until_ready(300)


def test_stopping_one_broker_for_maintenance_and_starting_it_again(running: Lab) -> None:
    lab = running
    lab.spindle("stop", f"{CLUSTER}-broker-2", "-n", lab.namespace)
    lab.until(
        "it is stopped", lambda: lab.the("kafkabroker", f"{CLUSTER}-broker-2")["status"]["state"] == "Stopped"
    )
    assert lab.get("pod", f"{CLUSTER}-broker-2") is None
    lab.spindle("start", f"{CLUSTER}-broker-2", "-n", lab.namespace)
    lab.until_ready()


def test_a_paused_cluster_is_left_alone(running: Lab) -> None:
    lab = running
    lab.patch("kafkacluster", CLUSTER, {"spec": {"paused": True}})
    lab.until("it is reported", lambda: lab.status()["phase"].startswith("Paused"))
    lab.kubectl("delete", "service", f"{CLUSTER}-bootstrap")
    lab.kubectl("annotate", "kafkacluster", CLUSTER, "e2e/turn=paused", "--overwrite")
    lab.until("a pass has completed", lambda: lab.condition("Reconciling")["reason"] == "Paused")
    assert lab.get("service", f"{CLUSTER}-bootstrap") is None
    lab.patch("kafkacluster", CLUSTER, {"spec": {"paused": False}})
    lab.until_ready()
    assert lab.get("service", f"{CLUSTER}-bootstrap") is not None


def _ready(pod: dict[str, object]) -> bool:
    status = pod.get("status")
    conditions = status.get("conditions", ()) if isinstance(status, dict) else ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
