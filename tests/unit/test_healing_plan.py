"""What becomes of bad disks, over whole passes on the model cluster."""

from collections.abc import Callable
from typing import Any

import pytest

from spindle.reconcile.actions import Evict, Reassign
from spindle.reconcile.plan import Plan
from tests.model.failing import Failing
from tests.model.kafka import path_of


def cluster(brokers: int = 3, partitions: int = 6, rf: int = 3, **spec: Any) -> Failing:
    """Brokers on three zones with two disks each, and partitions spread over both."""
    pool = {
        "name": "main",
        "replicas": brokers,
        "disks": {"count": 2, "size": "100Gi", "storageClass": "local-disks"},
    }
    world = Failing.of("abc" * ((brokers + 2) // 3), brokerPools=[pool], **spec)
    world.settle(80)
    for p in range(partitions):
        replicas = tuple((p + i) % brokers for i in range(rf))
        world.kafkas.create("orders", p, replicas, _always(path_of(f"disk{(p + 1) % 2}")))
    world.settle()
    return world


def _always(path: str) -> Callable[[int], str]:
    return lambda _: path


def state_of(world: Failing, broker: int, disk: str) -> str:
    status = world.get("KafkaBroker", f"demo-broker-{broker}")["status"]
    return str(next(d["state"] for d in status["disks"] if d["name"] == disk))


def mode_of(world: Failing, broker: int, disk: str) -> str:
    spec = world.get("KafkaBroker", f"demo-broker-{broker}")["spec"]
    return str(next(d["mode"] for d in spec["disks"] if d["name"] == disk))


def reasons(world: Failing) -> set[str]:
    return {wait["reason"] for wait in world.cluster["status"]["waiting"]}


def condition(world: Failing, kind: str) -> dict[str, Any]:
    return next(c for c in world.cluster["status"]["conditions"] if c["type"] == kind)


def until(world: Failing, done: Callable[[], bool], passes: int = 60) -> list[Plan]:
    """Reconcile and breathe until something is so."""
    made: list[Plan] = []
    for _ in range(passes):
        made.append(world.reconcile())
        if done():
            return made
        world.breathe()
    raise AssertionError(f"not so after {passes} passes; waiting: {world.cluster['status']['waiting']}")


def events(plans: list[Plan]) -> list[str]:
    return [event.reason for made in plans for event in made.events if event.kind == "KafkaBroker"]


def whole(world: Failing) -> None:
    """Everything is as it should be, and nothing was lost on the way."""
    world.settle(80)
    assert world.kafkas.losses == []
    for state in world.kafkas.partitions.values():
        assert sorted(state.isr) == sorted(state.replicas)
        assert len(state.replicas) == 3
        assert not state.adding
        assert state.leader is not None
    assert {d["state"] for b in world.all("KafkaBroker") for d in b["status"]["disks"]} == {"Active"}
    assert condition(world, "DisksHealthy")["status"] == "True"
    assert condition(world, "DataAtRisk")["status"] == "False"
    assert all(not settings for settings in world.kafkas.settings.values())


class TestDeadDisk:
    @pytest.mark.parametrize("brokers", [3, 6])
    def test_it_heals_without_a_hand(self, brokers: int) -> None:
        world = cluster(brokers)
        world.disk(0, "disk1").state = "dead"
        plans = until(world, lambda: state_of(world, 0, "disk1") == "Evacuated")
        assert events(plans) == ["DiskFailed", "EvacuationBegan", "DiskEvacuated"]
        assert condition(world, "DisksHealthy")["status"] == "False"
        assert reasons(world) == {"DiskToReplace"}
        old = world.get("KafkaBroker", "demo-broker-0")["spec"]["disks"][1]["directoryId"]
        assert world.get("KafkaBroker", "demo-broker-0")["spec"]["retired"] == [old]
        world.swap(0, "disk1")
        plans = until(world, lambda: state_of(world, 0, "disk1") == "Active")
        assert events(plans) == ["NewDisk", "DiskJoined", "DiskFilled"]
        whole(world)
        assert world.get("KafkaBroker", "demo-broker-0")["spec"]["disks"][1]["directoryId"] != old
        assert world.disk(0, "disk1").logs

    def test_with_three_brokers_its_replicas_leave_and_come_back_to_chosen_disks(self) -> None:
        world = cluster(3)
        before = {key: s.replicas for key, s in world.kafkas.partitions.items()}
        world.disk(0, "disk1").state = "dead"
        until(world, lambda: any(len(s.replicas) == 2 for s in world.kafkas.partitions.values()))
        until(world, lambda: state_of(world, 0, "disk1") == "Evacuated")
        until(world, lambda: all(len(s.isr) == 3 for s in world.kafkas.partitions.values()))
        assert {key: s.replicas for key, s in world.kafkas.partitions.items()} == before

    def test_with_six_nobody_is_without_a_third_replica_for_long(self) -> None:
        world = cluster(6)
        world.disk(0, "disk1").state = "dead"
        plans = until(world, lambda: state_of(world, 0, "disk1") == "Evacuated")
        moved = [a for made in plans for a in made.actions if isinstance(a, Reassign)]
        assert all(len(r or ()) == 3 for action in moved for _, _, r in action.assignments)

    def test_it_is_seen_though_kafka_has_not_touched_it(self) -> None:
        world = cluster(6)
        world.kafkas.traffic = False
        world.disk(0, "disk1").state = "dead"
        world.breathe()
        made = world.reconcile()
        assert "DiskFailed" in events([made])
        assert any(isinstance(action, Reassign) for action in made.actions)

    def test_only_one_broker_restarts_and_never_below_the_minimum(self) -> None:
        world = cluster(3)
        world.disk(0, "disk1").state = "dead"
        plans = until(world, lambda: state_of(world, 0, "disk1") == "Evacuated")
        assert [a.pod for made in plans for a in made.actions if isinstance(a, Evict)] == ["demo-broker-0"]

    def test_without_an_agent_kafkas_word_counts_after_a_minute(self) -> None:
        world = cluster(6)
        world.silent = {n["metadata"]["name"] for n in world.all("Node")}
        for broker in world.all("KafkaBroker"):
            broker["status"].pop("observed", None)
        world.disk(0, "disk1").state = "dead"
        began = world.now
        until(world, lambda: state_of(world, 0, "disk1") == "Failed")
        until(world, lambda: state_of(world, 0, "disk1") == "Evacuating")
        assert world.now - began >= 60

    def test_a_process_that_dies_with_its_disk_is_back_with_a_placeholder(self) -> None:
        world = cluster(3)
        world.disk(0, "disk1").state = "dead"
        world.kafkas.step()
        world.crash(0)
        until(world, lambda: 0 in world.running("broker"))
        assert mode_of(world, 0, "disk1") in ("Placeholder", "Absent")
        until(world, lambda: state_of(world, 0, "disk1") == "Evacuated")
        world.swap(0, "disk1")
        whole(world)
