"""KafkaTopics on the testbed: created on all racks and chosen disks, grown, repaired, refused with a way out, deleted only where that is asked for."""

import json
from functools import partial
from typing import Any, Final

import pytest

from e2e.scenarios.lab import CLUSTER, Lab, LabError, run_client
from e2e.scenarios.records import CONNECT

pytestmark = pytest.mark.e2e

# In a pod: the value of a setting that a topic has, as the brokers tell it.
_SETTING: Final = (
    CONNECT
    + """
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
admin = KafkaAdminClient(**S)
found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "{topic}")], config_filter="all")
print("RESULT", next(iter(found.values()))["{topic}"]["{key}"]["value"])
admin.close()
"""
)


def topic(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "spindle.dev/v1alpha1",
        "kind": "KafkaTopic",
        "metadata": {"name": name},
        "spec": {"cluster": CLUSTER, **spec},
    }


def ready(lab: Lab, name: str) -> dict[str, Any]:
    """The condition Ready of a KafkaTopic; empty if it has none yet."""
    conditions = (lab.the("kafkatopic", name).get("status") or {}).get("conditions", ())
    return next((dict(c) for c in conditions if c["type"] == "Ready"), {})


def has(lab: Lab, name: str, reason: str) -> bool:
    found = lab.the("kafkatopic", name)
    condition = ready(lab, name)
    seen = condition.get("observedGeneration") == found["metadata"]["generation"]
    return seen and condition.get("reason") == reason


def until(lab: Lab, name: str, reason: str, seconds: float = 180) -> None:
    lab.until(f"KafkaTopic {name} says {reason}", partial(has, lab, name, reason), seconds)


def setting(lab: Lab, image: str, name: str, key: str) -> str:
    """The value of a topic's setting in Kafka."""
    program = _SETTING.format(topic=name, key=key)
    return run_client(lab, f"setting-{name}", image, program).split("RESULT ", 1)[1].split()[0]


def listed(lab: Lab) -> str:
    return lab.spindle("topic", "list", "-n", lab.namespace, "-c", CLUSTER)


def test_a_topic_is_created_on_all_racks_grows_and_keeps_its_settings(
    running: Lab, spindle_image: str
) -> None:
    lab = running
    lab.apply(topic("orders", partitions=6, replicas=3, config={"retention.ms": "3600000"}))
    until(lab, "orders", "SpecApplied")
    status = lab.the("kafkatopic", "orders")["status"]
    assert (status["partitions"], status["replicas"], status["outOfPlace"]) == (6, 3, 0)
    assert len(status["racks"]) == 3
    assert {(rack["replicas"], rack["leaders"]) for rack in status["racks"]} == {(6, 2)}
    assert setting(lab, spindle_image, "orders", "retention.ms") == "3600000"

    lab.patch("kafkatopic", "orders", {"spec": {"partitions": 9, "config": {"retention.ms": "7200000"}}})
    until(lab, "orders", "SpecApplied")
    assert lab.the("kafkatopic", "orders")["status"]["partitions"] == 9
    assert setting(lab, spindle_image, "orders", "retention.ms") == "7200000"

    # The API server knows how many partitions there are.
    with pytest.raises(LabError, match=r"write status\.partitions or more"):
        lab.patch("kafkatopic", "orders", {"spec": {"partitions": 3}})


def test_refusals_have_a_way_out_that_leads_on(running: Lab, spindle_image: str) -> None:
    """It depends on the scenario before it."""
    lab = running
    lab.spindle("topic", "create", "elsewhere", "-n", lab.namespace, "-c", CLUSTER, "--partitions", "2")
    lab.apply(topic("elsewhere", config={"retention.ms": "60000"}))
    until(lab, "elsewhere", "NameTaken")
    assert setting(lab, spindle_image, "elsewhere", "retention.ms") != "60000"
    lab.patch("kafkatopic", "elsewhere", {"spec": {"adopt": True}})
    until(lab, "elsewhere", "SpecApplied")
    assert setting(lab, spindle_image, "elsewhere", "retention.ms") == "60000"

    lab.patch("kafkatopic", "orders", {"spec": {"config": {"retention.msx": "1"}}})
    until(lab, "orders", "InvalidSpec")
    assert "use retention.ms" in ready(lab, "orders")["message"]
    lab.patch("kafkatopic", "orders", {"spec": {"config": {"retention.msx": None}}})
    until(lab, "orders", "SpecApplied")

    lab.patch("kafkatopic", "orders", {"spec": {"replicas": 1}})
    until(lab, "orders", "ReplicasBelowMinIsr")
    lab.patch("kafkatopic", "orders", {"spec": {"replicas": 3}})
    until(lab, "orders", "SpecApplied")


def test_the_replication_factor_goes_down_and_up_again(running: Lab) -> None:
    """It depends on the scenarios before it."""
    lab = running
    lab.patch("kafkatopic", "orders", {"spec": {"replicas": 2}})
    until(lab, "orders", "SpecApplied")
    status = lab.the("kafkatopic", "orders")["status"]
    assert (status["replicas"], status["outOfPlace"]) == (2, 0)
    assert sum(rack["replicas"] for rack in status["racks"]) == 2 * status["partitions"]
    assert {rack["leaders"] for rack in status["racks"]} == {status["partitions"] // 3}, "leaders stay"

    lab.patch("kafkatopic", "orders", {"spec": {"replicas": 3}})
    until(lab, "orders", "SpecApplied", 600)
    status = lab.the("kafkatopic", "orders")["status"]
    assert (status["replicas"], status["outOfPlace"]) == (3, 0)
    assert {(rack["replicas"], rack["leaders"]) for rack in status["racks"]} == {
        (status["partitions"], status["partitions"] // 3)
    }
    assert [
        w["reason"]
        for w in lab.the("kafkacluster", CLUSTER)["status"].get("waiting", ())
        if w["action"] == "ChangeReplicas"
    ] == []

    lab.patch("kafkatopic", "orders", {"spec": {"replicas": 9}})
    until(lab, "orders", "ReplicasNotPlaceable")
    lab.patch("kafkatopic", "orders", {"spec": {"replicas": 3}})
    until(lab, "orders", "SpecApplied")


def test_a_topic_goes_only_where_that_is_asked_for(running: Lab) -> None:
    """It depends on the scenarios before it."""
    lab = running
    lab.apply(topic("passing", deletionPolicy="Delete", replicas=3))
    until(lab, "passing", "SpecApplied")
    lab.kubectl("delete", "kafkatopic", "passing", "elsewhere", timeout=180)
    assert "passing" not in listed(lab).split()
    assert "elsewhere" in listed(lab).split(), "Retain is the default"
    assert json.loads(lab.kubectl("get", "kafkatopics", "-o", "json"))["items"]
