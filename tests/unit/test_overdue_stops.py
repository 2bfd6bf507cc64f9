"""Pods that are being deleted and do not end."""

from typing import Any

import pytest

from spindle.model.times import stamp
from tests.model.failing import Failing
from tests.unit.test_healing_plan import cluster, reasons, until
from tests.unit.test_overdue_starts import DEAD, hanging

REASON = "StopDeadlineExceeded"


def entries(world: Failing, later: float = 125.0, pod: str = "demo-broker-2") -> list[dict[str, Any]]:
    """The entries some time after the end of the pod's grace period, while it stands."""
    world.get("Pod", pod)["metadata"]["deletionTimestamp"] = stamp(world.now)
    world.now += later
    world.reconcile()
    return [w for w in world.cluster["status"]["waiting"] if w["reason"] == REASON]


def test_the_disk_that_preflight_could_not_read_is_named() -> None:
    (entry,) = entries(hanging({"name": "disk0", "state": "ours"}, DEAD))
    assert entry["object"] == "KafkaBroker/demo-broker-2/disk1"
    assert "disk1 does not answer: no answer in 20 s." in entry["message"]
    assert entry["unblockedBy"].startswith("Replace disk1 on ")


@pytest.mark.parametrize("pod", ["demo-broker-2", "demo-controller-1"])
def test_otherwise_the_kernel_log_of_the_node_is(pod: str) -> None:
    world = hanging()
    node = world.get("Pod", pod)["spec"]["nodeName"]
    (entry,) = entries(world, pod=pod)
    assert entry["object"] == f"Pod/{pod}"
    assert f"restart node {node}" in entry["unblockedBy"]


def test_a_pod_has_its_time_and_that_is_told_if_somebody_else_deleted_it() -> None:
    world = hanging(DEAD)
    assert entries(world, later=110.0) == []
    (wait,) = [w for w in world.cluster["status"]["waiting"] if w["reason"] == "PodsTerminating"]
    assert wait["object"] == "Pod/demo-broker-2"
    pod = world.get("Pod", "demo-broker-2")
    world.cluster["status"]["takingDown"] = [
        {
            "pod": "demo-broker-2",
            "uid": pod["metadata"]["uid"],
            "nodeId": 2,
            "since": stamp(world.now),
            "reason": "Stopped",
        }
    ]
    assert entries(world, later=1.0) == []
    assert "PodsTerminating" not in reasons(world)


def test_a_finalizer_is_named() -> None:
    world = hanging()
    world.get("Pod", "demo-broker-2")["metadata"]["finalizers"] = ["example.com/backup"]
    (entry,) = entries(world)
    assert "example.com/backup" in entry["message"]
    assert "example.com/backup" in entry["unblockedBy"]


def test_a_node_that_is_not_ready_is_the_cause() -> None:
    world = hanging(DEAD)
    world.get("Node", world.get("Pod", "demo-broker-2")["spec"]["nodeName"])["status"]["conditions"][0][
        "status"
    ] = "Unknown"
    assert entries(world) == []
    assert any(w["reason"] == "NodeUnreachable" for w in world.cluster["status"]["waiting"])


def test_it_is_reported_while_the_cluster_is_deleted() -> None:
    world = hanging(DEAD)
    world.cluster["metadata"]["deletionTimestamp"] = stamp(world.now)
    assert len(entries(world)) == 1


def test_a_hung_disk_that_an_agent_reports_has_an_entry_of_its_own() -> None:
    world = cluster(3)
    world.disk(2, "disk1").state = "hung"
    until(world, lambda: "ProcessHung" in reasons(world))
    world.get("Pod", "demo-broker-2")["metadata"]["deletionTimestamp"] = stamp(world.now - 300)
    world.cluster["status"]["takingDown"] = []
    world.reconcile()
    assert "ProcessHung" in reasons(world)
    assert REASON not in reasons(world)
