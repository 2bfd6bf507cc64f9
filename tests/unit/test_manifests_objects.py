"""Claims, services, budgets, secrets and KafkaBrokers as they go to the API server."""

import json
from dataclasses import replace
from typing import Any

import pytest

from spindle.api import names
from spindle.api.broker import KafkaBrokerSpec
from spindle.manifests import budgets, services
from spindle.manifests.brokers import kafka_broker
from spindle.manifests.claims import ClaimedDisk, ClaimingCluster, claim
from spindle.manifests.secrets import secret_metadata
from spindle.model.cluster_identity import ConfiguredVoter

CLUSTER = {"metadata": {"name": "demo", "namespace": "kafka", "uid": "u-1"}}
ID = "4L6g3nShT-eMCtK--X86sw"
VOTERS = (ConfiguredVoter(9000, "JVxZHnT9SEmo7qMPv1p0Yw"),)


def made(**more: Any) -> dict[str, Any]:
    disk = ClaimedDisk(
        node_id=3, name="disk1", directory_id="MkU3OEVBNTcwNTJENDM2Qg", size="100Gi", pool="main", rack="a"
    )
    return claim(ClaimingCluster("demo", "kafka", ID, VOTERS), replace(disk, **more))


def test_a_claim_has_no_owner_and_says_from_the_first_moment_whose_it_is() -> None:
    meta = made()["metadata"]
    assert meta["name"] == "data-disk1-demo-3"
    assert "ownerReferences" not in meta
    notes = meta["annotations"]
    assert notes[names.ANN_CLUSTER_ID] == ID
    assert notes[names.ANN_DIRECTORY_ID] == "MkU3OEVBNTcwNTJENDM2Qg"
    assert (notes[names.ANN_NODE_ID], notes[names.ANN_POOL], notes[names.ANN_DISK]) == ("3", "main", "disk1")
    assert json.loads(notes[names.ANN_VOTERS]) == [{"id": 9000, "directoryId": "JVxZHnT9SEmo7qMPv1p0Yw"}]
    assert names.ANN_FS_UUID not in notes
    assert meta["labels"][names.LABEL_ROLE] == "broker"


def test_a_claim_leaves_the_class_to_the_cluster_unless_one_is_named() -> None:
    assert "storageClassName" not in made()["spec"]
    assert made(storage_class="local")["spec"]["storageClassName"] == "local"
    assert made()["spec"]["resources"] == {"requests": {"storage": "100Gi"}}


def test_a_controllers_claim() -> None:
    meta = made(node_id=9001, name="metadata", pool=None)["metadata"]
    assert meta["labels"][names.LABEL_ROLE] == "controller"
    assert names.ANN_POOL not in meta["annotations"]
    assert names.LABEL_POOL not in meta["labels"]


def test_services_publish_what_is_not_ready() -> None:
    for service in services.services(CLUSTER):
        assert service["spec"]["publishNotReadyAddresses"] is True
        assert service["metadata"]["ownerReferences"][0]["uid"] == "u-1"


@pytest.mark.parametrize(
    ("service", "name", "headless", "role", "ports"),
    [
        (services.controllers_service(CLUSTER), "demo-controllers", True, "controller", {9090, 9404}),
        (services.brokers_service(CLUSTER), "demo-brokers", True, "broker", {9091, 9092, 9404}),
        (services.bootstrap_service(CLUSTER), "demo-bootstrap", False, "broker", {9092}),
    ],
)
def test_each_service(service: dict[str, Any], name: str, headless: bool, role: str, ports: set[int]) -> None:
    assert service["metadata"]["name"] == name
    assert (service["spec"].get("clusterIP") == "None") is headless
    assert service["spec"]["selector"] == {names.LABEL_CLUSTER: "demo", names.LABEL_ROLE: role}
    assert {port["port"] for port in service["spec"]["ports"]} == ports


@pytest.mark.parametrize(
    ("made_budget", "name", "expected"),
    [
        (budgets.broker_budget(CLUSTER, 3), "demo-brokers", 2),
        (budgets.broker_budget(CLUSTER, 9, 2), "demo-brokers", 7),
        (budgets.broker_budget(CLUSTER, 1), "demo-brokers", 0),
        (budgets.broker_budget(CLUSTER, 1, 3), "demo-brokers", 0),
        (budgets.broker_budget(CLUSTER, 3, 0), "demo-brokers", 2),
        (budgets.controller_budget(CLUSTER, 3), "demo-controllers", 2),
        (budgets.controller_budget(CLUSTER, 1), "demo-controllers", 0),
        (budgets.controller_budget(CLUSTER, 5), "demo-controllers", 4),
    ],
)
def test_budgets_are_whole_numbers_over_one_label(
    made_budget: dict[str, Any], name: str, expected: int
) -> None:
    spec = made_budget["spec"]
    assert spec["minAvailable"] == expected
    assert type(spec["minAvailable"]) is int
    assert spec["selector"]["matchLabels"][names.LABEL_BUDGET] == name == made_budget["metadata"]["name"]
    # `IfHealthyBudget` lets a pod that is not ready go only while more than none have to be ready, and are.
    assert spec["unhealthyPodEvictionPolicy"] == ("IfHealthyBudget" if expected else "AlwaysAllow")


def test_the_budgets_of_one_cluster_never_overlap() -> None:
    values = {
        budget["spec"]["selector"]["matchLabels"][names.LABEL_BUDGET]
        for budget in (budgets.broker_budget(CLUSTER, 3), budgets.controller_budget(CLUSTER, 3))
    }
    assert len(values) == 2


def test_secrets_go_with_the_cluster() -> None:
    meta = secret_metadata(CLUSTER, names.tls_secret("demo", 9000), node_id=9000)
    assert meta["name"] == "demo-controller-0-tls"
    assert meta["labels"][names.LABEL_ROLE] == "controller"
    assert meta["ownerReferences"][0]["kind"] == "KafkaCluster"
    assert names.LABEL_ROLE not in secret_metadata(CLUSTER, "demo-ca")["labels"]


def test_a_kafka_broker_holds_only_what_is_the_operators() -> None:
    disk = {"name": "disk0", "claim": "data-disk0-demo-1", "directoryId": ID, "fsUuid": None}
    made_broker = kafka_broker(CLUSTER, 1, "main", [disk], rack="a")
    assert made_broker["metadata"]["finalizers"] == [names.FINALIZER]
    assert set(made_broker["spec"]) == {"cluster", "id", "pool", "rack", "disks"}
    assert "fsUuid" not in made_broker["spec"]["disks"][0]
    KafkaBrokerSpec.model_validate(made_broker["spec"])
