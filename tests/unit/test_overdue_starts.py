"""Brokers in which Kafka runs, but which do not join the cluster."""

import json
from typing import Any

import pytest

from spindle.model.start_progress import Start
from spindle.model.times import stamp
from tests.model.dynamic_config import starting
from tests.model.failing import Failing
from tests.model.nodes import ended

REASON = "StartDeadlineExceeded"
DEAD = {"name": "disk1", "state": "dead", "problem": "disk1 does not answer: no answer in 20 s."}


def hanging(*found: dict[str, Any]) -> Failing:
    """Three brokers; Kafka of broker 2 has just been started, after preflight found this, and waits for something."""
    pool = {
        "name": "main",
        "replicas": 3,
        "disks": {"count": 2, "size": "100Gi", "storageClass": "local-disks"},
    }
    world = Failing.of("abc", brokerPools=[pool])
    world.settle(80)
    world.registered.discard(2)
    started(world)
    pod = world.get("Pod", "demo-broker-2")
    kept = [e for e in pod["status"]["initContainerStatuses"] if e["name"] != "preflight"]
    pod["status"]["initContainerStatuses"] = [*kept, ended("preflight", {"disks": list(found)})]
    world.put(pod)
    return world


def started(world: Failing) -> None:
    """Kafka of broker 2 is started again in its pod."""
    pod = world.get("Pod", "demo-broker-2")
    pod["status"]["containerStatuses"][0] |= {
        "ready": False,
        "restartCount": 1,
        "state": {"running": {"startedAt": stamp(world.now)}},
    }
    for condition in pod["status"]["conditions"]:
        if condition["type"] == "Ready":
            condition["status"] = "False"
    world.put(pod)


def entries(world: Failing, later: float = 601.0) -> list[dict[str, Any]]:
    """The entries about it after some time."""
    world.reconcile()
    world.now += later
    world.reconcile()
    return [w for w in world.cluster["status"]["waiting"] if w["reason"] == REASON]


def test_the_disk_that_preflight_could_not_read_is_named() -> None:
    (entry,) = entries(hanging({"name": "disk0", "state": "ours"}, DEAD))
    assert entry["object"] == "KafkaBroker/demo-broker-2/disk1"
    assert "disk1 does not answer: no answer in 20 s." in entry["message"]
    assert entry["unblockedBy"].startswith("Replace disk1 on ")
    assert "then delete the pod" in entry["unblockedBy"]


@pytest.mark.parametrize("text", ["", "{", json.dumps({"disks": [{"name": "disk1", "state": 7}]})])
def test_without_a_report_the_pods_log_is_named(text: str) -> None:
    world = hanging()
    status = world.get("Pod", "demo-broker-2")["status"]["initContainerStatuses"][-1]
    status["state"]["terminated"]["message"] = text
    (entry,) = entries(world)
    assert entry["object"] == "Pod/demo-broker-2"
    assert "kubectl logs demo-broker-2" in entry["unblockedBy"]


def test_a_start_has_its_time() -> None:
    assert entries(hanging(), later=590.0) == []
    assert entries(hanging(DEAD), later=110.0) == []


def test_a_disk_that_did_not_answer_is_named_after_two_minutes() -> None:
    (entry,) = entries(hanging(DEAD), later=121.0)
    assert "more than 120 seconds ago" in entry["message"]


def test_a_shorter_deadline_of_the_spec_counts_for_a_dead_disk_too() -> None:
    world = hanging(DEAD)
    cluster = world.cluster
    cluster["spec"]["rolling"] = {"backWithinSeconds": 60}
    world.put(cluster)
    (entry,) = entries(world, later=61.0)
    assert "more than 60 seconds ago" in entry["message"]


def test_time_spent_loading_logs_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    world = hanging(DEAD)
    told = starting(world, monkeypatch)
    told[2] = Start("Dirty", 40, 9)
    assert entries(world) == []
    told.clear()
    assert len(entries(world)) == 1


def test_a_clock_that_is_behind_does_not_count() -> None:
    world = hanging(DEAD)
    world.ahead[world.get("KafkaBroker", "demo-broker-2")["spec"]["node"]] = -660.0
    pod = world.get("Pod", "demo-broker-2")
    pod["status"]["containerStatuses"][0]["state"] = {"running": {"startedAt": stamp(world.now - 660.0)}}
    world.put(pod)
    assert entries(world, later=30.0) == []
    assert len(entries(world)) == 1


def test_a_broker_that_has_joined_is_not_reported() -> None:
    world = hanging(DEAD)
    world.registered.add(2)
    assert entries(world) == []


def test_nothing_is_concluded_without_an_answer_of_kafka() -> None:
    world = hanging(DEAD)
    world.kafka_up = False
    assert entries(world) == []


def test_a_broker_that_was_in_sync_is_not_starting() -> None:
    """One that is fenced days after its start, for example by a cut network, has other entries."""
    world = hanging(DEAD)
    world.settle()
    broker = world.get("KafkaBroker", "demo-broker-2")
    at = world.get("Pod", "demo-broker-2")["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
    broker["status"]["start"] = {"at": at, "kind": "Clean", "seconds": 9}
    assert entries(world) == []
