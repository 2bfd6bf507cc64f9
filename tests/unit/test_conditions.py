"""Available, Ready, Reconciling and Stalled in each state that a cluster can be in."""

from dataclasses import replace
from typing import Any

import pytest

from spindle.model.times import stamp
from spindle.model.view import Partition
from spindle.model.waiting import Waiting
from spindle.reconcile import wait_kinds
from spindle.reconcile.plan import plan
from spindle.reconcile.wait_kinds import WaitKind, kind_of
from tests.model.dynamic_config import crash
from tests.model.quorate import QuorateWorld
from tests.model.world import World
from tests.reasons import reasons
from tests.unit.test_healing_plan import cluster

THREE = ("Ready", "Reconciling", "Stalled")


def conditions(world: World) -> dict[str, dict[str, Any]]:
    return {c["type"]: c for c in world.cluster["status"]["conditions"]}


def of(world: World, *kinds: str) -> list[tuple[str, str]]:
    """Status and reason of some conditions."""
    found = conditions(world)
    return [(found[kind]["status"], found[kind]["reason"]) for kind in kinds]


def running(**spec: Any) -> World:
    world = World.of(**spec)
    world.settle()
    assert of(world, "Available", *THREE) == [
        ("True", "MinIsrMet"),
        ("True", "AllInSync"),
        ("False", "Settled"),
        ("False", "NotStalled"),
    ]
    return world


def with_topic(world: World, *replicas: tuple[int, ...]) -> World:
    world.partitions = tuple(Partition("orders", i, r[0], r, r, elr=()) for i, r in enumerate(replicas))
    return world


def isr(world: World, *in_sync: int, leader: int | None) -> None:
    world.partitions = tuple(replace(p, isr=in_sync, leader=leader) for p in world.partitions)


def follow(world: World) -> None:
    """Every partition is in sync on the brokers that run."""
    up = world.running("broker")
    world.partitions = tuple(
        replace(
            p,
            isr=tuple(b for b in p.replicas if b in up),
            leader=next((b for b in p.replicas if b in up), None),
        )
        for p in world.partitions
    )


# --- Available


def test_before_the_first_start_nothing_is_available() -> None:
    world = World.of()
    world.reconcile()
    assert of(world, "Available") == [("False", "Starting")]


def test_every_partition_with_a_leader_and_enough_in_sync_is_available() -> None:
    world = with_topic(running(), (0, 1, 2), (2, 1, 0))
    isr(world, 1, 2, leader=1)
    world.reconcile()
    assert of(world, "Available") == [("True", "MinIsrMet")]


def test_a_partition_without_a_leader_is_not_available_and_is_named() -> None:
    world = with_topic(running(), (0, 1, 2))
    isr(world, leader=None)
    world.reconcile()
    assert of(world, "Available", "Ready") == [("False", "OfflinePartitions")] * 2
    assert "orders-0" in conditions(world)["Available"]["message"]


def test_a_partition_under_min_isr_is_not_available_and_is_named() -> None:
    world = with_topic(running(), (0, 1, 2))
    isr(world, 0, leader=0)
    world.reconcile()
    assert of(world, "Available", "Ready") == [("False", "PartitionsUnderMinIsr")] * 2
    assert "orders-0" in conditions(world)["Available"]["message"]


def test_a_topic_with_fewer_replicas_than_min_isr_needs_all_of_them() -> None:
    world = with_topic(running(), (0,))
    world.reconcile()
    assert of(world, "Available") == [("True", "MinIsrMet")]


def test_what_kafka_does_not_say_is_unknown() -> None:
    world = running()
    world.kafka_up = False
    world.reconcile()
    assert of(world, "Available", "Ready") == [("Unknown", "KafkaUnknown"), ("True", "AllInSync")]
    assert "no broker runs yet" in conditions(world)["Available"]["message"]


# --- Ready, Reconciling, Stalled


def test_until_the_first_start_is_over_the_cluster_is_starting() -> None:
    world = World.of()
    for _ in range(60):
        world.reconcile()
        ready, reconciling, stalled = of(world, *THREE)
        assert stalled == ("False", "NotStalled")
        if ready == ("True", "AllInSync"):
            break
        assert ready == ("False", "Starting")
        assert reconciling == ("True", "Starting")
        world.breathe()
    assert of(world, "Ready") == [("True", "AllInSync")]


def test_a_first_start_that_needs_a_user_is_stalled_and_still_starting() -> None:
    world = World.of(config={"num.network.threads": "many"})
    world.reconcile()
    assert of(world, *THREE) == [("False", "InvalidConfig"), ("False", "Stalled"), ("True", "InvalidConfig")]


@pytest.mark.parametrize("change", ["image", "config", "version"])
def test_ready_stays_true_through_a_healthy_roll(change: str) -> None:
    world = with_topic(running(), (0, 1, 2), (1, 2, 0), (2, 0, 1))
    if change == "version":
        world = with_topic(running(version="4.2.0"), (0, 1, 2), (1, 2, 0), (2, 0, 1))
        world.cluster["spec"]["version"] = "4.3.1"
    elif change == "image":
        world.cluster["spec"]["image"] = "mine/kafka:1"
    else:
        world.cluster["spec"]["brokerPools"][0]["config"] = {"num.partitions": "3"}
    before = {pod["metadata"]["uid"] for pod in world.all("Pod")}
    seen = set()
    for _ in range(60):
        world.reconcile()
        ready, reconciling, stalled = of(world, *THREE)
        assert ready[0] == "True", conditions(world)["Ready"]
        assert stalled[0] == "False"
        seen.add((ready[1], reconciling[1]))
        world.breathe()
        follow(world)
    assert ("RolloutInProgress", "Working") in seen
    assert of(world, "Reconciling") == [("False", "Settled")]
    assert len(before & {pod["metadata"]["uid"] for pod in world.all("Pod")}) == (
        3 if change == "config" else 0
    )


def test_one_that_is_not_back_in_time_is_a_fault_that_needs_a_user() -> None:
    world = running()
    world.cluster["spec"]["image"] = "mine/kafka:1"
    for _ in range(6):
        world.reconcile()
    assert of(world, *THREE)[0] == ("True", "RolloutInProgress")
    world.now += 700
    world.reconcile()
    late = "ProgressDeadlineExceeded"
    assert of(world, *THREE) == [("False", late), ("False", "Stalled"), ("True", late)]


def test_a_crash_within_the_deadline_of_a_restart_is_a_fault() -> None:
    world = running()
    world.cluster["spec"]["image"] = "mine/kafka:1"
    marks: list[dict[str, Any]] = []
    for _ in range(30):
        world.reconcile()
        world.breathe()
        marks = world.cluster["status"].get("takingDown")
        if marks and ("Pod", marks[0]["pod"]) in world.objects:
            pod = world.get("Pod", marks[0]["pod"])
            if pod["metadata"]["uid"] != marks[0]["uid"] and pod["status"].get("containerStatuses"):
                break
    crash(world, marks[0]["pod"], times=1)
    world.reconcile()
    assert of(world, *THREE) == [("False", "KafkaCrashed"), ("True", "Working"), ("False", "NotStalled")]


def test_a_broker_that_crashes_is_a_fault_and_stalls_after_the_deadline() -> None:
    world = with_topic(running(), (0, 1, 2))
    crash(world, "demo-broker-1", times=1)
    isr(world, 0, 2, leader=0)
    world.reconcile()
    assert of(world, "Available") == [("True", "MinIsrMet")]
    assert of(world, *THREE) == [("False", "KafkaCrashed"), ("True", "Waiting"), ("False", "NotStalled")]
    world.now += 601
    world.reconcile()
    assert of(world, *THREE) == [("False", "KafkaCrashed"), ("False", "Stalled"), ("True", "KafkaCrashed")]


def test_a_pod_that_somebody_deletes_is_a_fault() -> None:
    world = running()
    del world.objects["Pod", "demo-broker-1"]
    world.reconcile()
    assert of(world, "Ready", "Stalled") == [("False", "NotAllInSync"), ("False", "NotStalled")]
    assert "demo-broker-1" in conditions(world)["Ready"]["message"]
    assert conditions(world)["Reconciling"]["status"] == "True"


def test_a_node_that_is_away_is_a_fault() -> None:
    world = running()
    node = world.get("Pod", "demo-broker-1")["spec"]["nodeName"]
    world.get("Node", node)["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    world.reconcile()
    assert of(world, *THREE) == [("False", "NodeNotReady"), ("True", "Waiting"), ("False", "NotStalled")]


def test_new_brokers_leave_a_cluster_ready() -> None:
    world = running()
    world.cluster["spec"]["brokerPools"][0]["replicas"] = 5
    seen = set()
    for _ in range(40):
        world.reconcile()
        ready, reconciling, stalled = of(world, *THREE)
        assert ready[0] == "True", conditions(world)["Ready"]
        assert stalled[0] == "False"
        if ready[1] == "NodesJoining":
            assert reconciling[0] == "True"
        seen.add(ready[1])
        world.breathe()
    assert seen == {"NodesJoining", "AllInSync"}
    assert of(world, "Reconciling") == [("False", "Settled")]
    assert world.running("broker") == [0, 1, 2, 3, 4]


def test_a_new_broker_that_does_not_start_is_a_fault_after_its_deadline() -> None:
    world = running()
    world.cluster["spec"]["brokerPools"][0]["replicas"] = 4
    for _ in range(6):  # nothing breathes: it never starts
        world.reconcile()
    assert of(world, "Ready") == [("True", "NodesJoining")]
    world.now += 601
    world.reconcile()
    assert of(world, "Ready") == [("False", "NotAllInSync")]
    assert "demo-broker-3" in conditions(world)["Ready"]["message"]


def test_a_broker_that_no_node_takes_stalls_after_the_deadline() -> None:
    world = running()
    world.cluster["spec"]["brokerPools"][0]["replicas"] = 9
    for _ in range(30):
        world.reconcile()
        world.breathe()
    assert of(world, *THREE) == [("True", "NodesJoining"), ("True", "Waiting"), ("False", "NotStalled")]
    assert "InsufficientNodes" not in of(world, "Ready")[0]
    world.now += 601
    world.reconcile()
    few = "InsufficientNodes"
    assert of(world, *THREE) == [("False", few), ("False", "Stalled"), ("True", few)]


@pytest.mark.parametrize("replicas", [1, 5])
def test_controllers_that_come_and_go_leave_a_cluster_ready(replicas: int) -> None:
    world = QuorateWorld.of("abcab")
    world.settle(80)
    world.cluster["spec"]["controllers"]["replicas"] = replicas
    for _ in range(60):
        world.reconcile()
        assert of(world, "Ready")[0][0] == "True", conditions(world)["Ready"]
        world.breathe()
        for pod in world.all("Pod"):
            pod["metadata"].setdefault("creationTimestamp", stamp(world.now))
    assert len(world.running("controller")) == replicas
    assert of(world, *THREE) == [("True", "AllInSync"), ("False", "Settled"), ("False", "NotStalled")]


def test_a_broker_that_a_user_stops_is_not_ready_and_nothing_is_stalled() -> None:
    world = with_topic(running(), (0, 1, 2))
    world.get("KafkaBroker", "demo-broker-1")["spec"]["maintenance"] = {"stopped": True}
    for _ in range(12):
        world.reconcile()
        assert of(world, "Ready")[0] in (("True", "AllInSync"), ("False", "BrokersStopped"))
        world.breathe()
    assert of(world, *THREE) == [("False", "BrokersStopped"), ("False", "Settled"), ("False", "NotStalled")]


@pytest.mark.parametrize(("name", "stalled"), [("demo-bootstrap", "True"), ("demo.user.orders", "False")])
def test_a_name_conflict_needs_a_user_and_that_of_a_kafkausers_secret_is_the_kafkausers_own(
    name: str, stalled: str
) -> None:
    world = running()
    kind = "Secret" if "user" in name else "Service"
    world.objects.pop((kind, name), None)
    world.put(
        {
            "kind": kind,
            "metadata": {"name": name, "namespace": "kafka"},
            "spec": {},
            "data": {},
            "view": {"fingerprint": None, "trust": ()},
        }
    )
    meta = {"name": "orders", "namespace": "kafka", "generation": 1}
    world.put({"kind": "KafkaUser", "metadata": meta, "spec": {"cluster": "demo"}})
    for _ in range(4):
        world.reconcile()
        world.breathe()
    assert "NameConflict" in {wait["reason"] for wait in world.cluster["status"]["waiting"]}
    assert conditions(world)["Stalled"]["status"] == stalled
    assert conditions(world)["Ready"]["status"] == ("False" if stalled == "True" else "True")
    user = {
        c["type"]: (c["status"], c["reason"])
        for c in world.get("KafkaUser", "orders")["status"]["conditions"]
    }
    if stalled == "False":
        assert user == {"Ready": ("False", "NameConflict"), "Stalled": ("True", "NameConflict")}


def test_a_refused_release_is_stalled() -> None:
    world = running()
    world.cluster["spec"]["version"] = "9.9.9"
    world.reconcile()
    why = "VersionNotSupported"
    assert of(world, *THREE) == [("False", why), ("False", "Stalled"), ("True", why)]


def test_a_paused_cluster_is_not_reconciled_and_not_stalled() -> None:
    world = running()
    world.cluster["spec"] |= {"paused": True, "image": "mine/kafka:1"}
    world.reconcile()
    assert of(world, *THREE) == [("True", "AllInSync"), ("False", "Paused"), ("False", "Paused")]


def test_a_paused_cluster_with_a_refused_spec_is_stalled() -> None:
    world = running()
    world.cluster["spec"] |= {"paused": True, "config": {"num.network.threads": "many"}}
    world.reconcile()
    assert of(world, *THREE) == [("False", "InvalidConfig"), ("False", "Paused"), ("True", "InvalidConfig")]


def test_a_cluster_that_is_deleted_says_so() -> None:
    world = running()
    world.cluster["metadata"]["deletionTimestamp"] = stamp(world.now)
    world.reconcile()
    assert of(world, *THREE) == [("False", "Deleting"), ("True", "Deleting"), ("False", "NotStalled")]


def test_pods_that_cannot_be_listed_are_not_taken_for_none() -> None:
    world = running()
    made = plan(replace(world.snapshot(), pods=(), unknown=frozenset({"pods"})), world.now)
    found = {c["type"]: c for c in made.status["conditions"]}
    assert (found["Ready"]["status"], found["Ready"]["reason"]) == ("Unknown", "CannotRead")
    assert found["Reconciling"]["status"] == "True"


def test_a_spec_that_is_not_understood_is_stalled_and_the_cluster_stays_one_that_was_ready() -> None:
    world = running()
    snapshot = world.snapshot()
    snapshot.cluster["spec"]["brokerPools"] = "none"
    status = plan(snapshot, world.now).status
    found = {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}
    assert found == {
        "Ready": ("Unknown", "InvalidSpec"),
        "Reconciling": ("False", "InvalidSpec"),
        "Stalled": ("True", "InvalidSpec"),
    }
    world.cluster["status"] = status
    again = plan(replace(snapshot, cluster={**snapshot.cluster, "status": status}), world.now + 300).status
    assert again["conditions"] == status["conditions"]  # with the time when they began
    del world.objects["Pod", "demo-broker-1"]
    world.reconcile()
    assert of(world, "Ready") == [("False", "NotAllInSync")]


def test_conditions_are_of_the_generation_that_was_looked_at() -> None:
    world = running()
    world.cluster["metadata"]["generation"] = 7
    assert world.cluster["status"]["observedGeneration"] != 7
    world.reconcile()
    assert {c["observedGeneration"] for c in world.cluster["status"]["conditions"]} == {7}
    assert world.cluster["status"]["observedGeneration"] == 7


def test_a_failed_disk_is_a_fault_until_its_replicas_are_elsewhere() -> None:
    world = cluster()
    assert of(world, "Ready") == [("True", "AllInSync")]
    world.disk(0, "disk0").state = "dead"
    seen = []
    for _ in range(200):
        world.reconcile()
        seen.append(of(world, *THREE))
        world.breathe()
    assert [("False", "DisksFailed"), ("True", "Working"), ("False", "NotStalled")] in seen
    assert {stalled[0] for _, _, stalled in seen} == {"False"}
    assert seen[-1] == [("True", "AllInSync"), ("False", "Settled"), ("False", "NotStalled")]
    assert of(world, "DisksHealthy")[0][0] == "False"


# --- the kinds of waits


def test_every_reason_has_one_kind() -> None:
    every = [reason for found in wait_kinds.REASONS.values() for reason in found]
    assert len(every) == len(set(every))
    assert reasons() <= set(every), (
        "say in wait_kinds.py what a new reason means for Ready, Reconciling, Stalled"
    )


@pytest.mark.parametrize(
    ("action", "reason", "quiet", "kind"),
    [
        ("MakeService", "NameConflict", False, WaitKind.USER),
        ("ApplySpec", "WhateverIsRefused", False, WaitKind.USER),
        ("ReleaseNode", "NodeLost", False, WaitKind.USER),
        ("ReleaseNode", "NodeLost", True, WaitKind.WORK),  # agreed to, and under way
        ("StartPod", "CreateContainerConfigError", False, WaitKind.FAULT),  # the kubelet's own
        ("RestartPod", "KafkaUnknown", False, WaitKind.WORK),
        ("Rebalance", "KafkaUnknown", False, WaitKind.NOTE),
        ("MoveReplicas", "JournalLost", False, WaitKind.USER),
        ("MoveReplicas", "UnderReplicated", False, WaitKind.NOTE),
        ("PlaceBroker", "SingleZone", False, WaitKind.NOTE),
        ("PlaceBroker", "SomethingNew", False, WaitKind.WORK),
    ],
)
def test_what_a_wait_means(action: str, reason: str, quiet: bool, kind: WaitKind) -> None:
    assert kind_of(Waiting(action, "Kind/name", reason, "", "", quiet=quiet)) is kind
