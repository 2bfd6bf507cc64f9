"""What becomes of bad disks, over whole passes on the model cluster."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from spindle.api import names
from spindle.model.actions import Delete, Evict, MarkDown, Reassign
from spindle.model.given_consent import losses_named_in, restart_named_in
from spindle.model.times import stamp
from spindle.reconcile.plan import ReconcilePlan
from tests.model.failing import Failing
from tests.model.kafka import CAPACITY, path_of
from tests.model.nodes import new_volume
from tests.model.store import ConflictError


def empty(racks: str, brokers: int, disks: int = 2, **spec: Any) -> Failing:
    """Brokers with disks, on nodes of these racks, without topics."""
    pool = {
        "name": "main",
        "replicas": brokers,
        "disks": {"count": disks, "size": "100Gi", "storageClass": "local-disks"},
    }
    world = Failing.of(racks, brokerPools=[pool], **spec)
    world.settle(80)
    return world


def cluster(brokers: int = 3, partitions: int = 6, rf: int = 3, **spec: Any) -> Failing:
    """Brokers on three zones with two disks each, and partitions spread over both."""
    world = empty("abc" * ((brokers + 2) // 3), brokers, **spec)
    for p in range(partitions):
        replicas = tuple((p + i) % brokers for i in range(rf))
        world.kafkas.create("orders", p, replicas, _always(path_of(f"disk{(p + 1) % 2}")))
    world.settle()
    return world


def _always(path: str) -> Callable[[int], str]:
    return lambda _: path


def delete(world: Failing) -> None:
    """Delete the KafkaCluster and wait until it is gone."""
    world.cluster["metadata"]["deletionTimestamp"] = "now"
    for _ in range(80):
        if world.reconcile().finished:
            break
        world.breathe()
    assert not world.all("KafkaBroker")
    del world.cluster["metadata"]["deletionTimestamp"]
    world.collect_garbage(world.cluster["metadata"]["uid"])
    world.cluster["metadata"]["uid"] = "another"
    world.cluster["status"] = {}


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


def until(world: Failing, done: Callable[[], bool], passes: int = 60) -> list[ReconcilePlan]:
    """Reconcile and breathe until something is so."""
    made: list[ReconcilePlan] = []
    for _ in range(passes):
        with contextlib.suppress(ConflictError):  # the next pass looks again
            made.append(world.reconcile())
        if done():
            return made
        world.breathe()
    raise AssertionError(f"not so after {passes} passes; waiting: {world.cluster['status']['waiting']}")


def events(plans: list[ReconcilePlan]) -> list[str]:
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
        assert events(plans) == ["DiskFailed", "EvacuationStarted", "DiskEvacuated"]
        assert condition(world, "DisksHealthy")["status"] == "False"
        assert reasons(world) == {"ReplacementNeeded"}
        old = world.get("KafkaBroker", "demo-broker-0")["spec"]["disks"][1]["directoryId"]
        assert world.get("KafkaBroker", "demo-broker-0")["spec"]["retired"] == [old]
        world.swap(0, "disk1")
        plans = until(world, lambda: state_of(world, 0, "disk1") == "Active")
        assert events(plans) == ["DiskReplaced", "BackfillStarted", "BackfillCompleted"]
        whole(world)
        assert world.get("KafkaBroker", "demo-broker-0")["spec"]["disks"][1]["directoryId"] != old
        assert world.disk(0, "disk1").logs

    def test_a_volume_of_a_provisioner_is_replaced_by_a_new_claim(self) -> None:
        world = cluster(3)
        world.disk(0, "disk1").state = "dead"
        until(world, lambda: state_of(world, 0, "disk1") == "Evacuated")
        kind = world.get("StorageClass", "local-disks")
        world.put({**kind, "provisioner": "csi.example.com"})
        world.reconcile()
        (wait,) = world.cluster["status"]["waiting"]
        assert wait["reason"] == "ReplacementNeeded"
        assert "kubectl -n kafka delete pvc data-disk1-demo-0." in wait["unblockedBy"]

    def test_the_phase_says_which_disk_is_evacuated_while_all_brokers_run(self) -> None:
        world = cluster(6)
        world.disk(0, "disk1").state = "dead"
        phases: list[str] = []

        def evacuated() -> bool:
            phases.append(world.cluster["status"]["phase"])
            return state_of(world, 0, "disk1") == "Evacuated"

        until(world, evacuated)
        assert (
            "Running: 6/6 brokers, 3/3 controllers ready, 11/12 disks healthy. demo-broker-0/disk1 (Evacuating)."
            in phases
        )
        assert not [phase for phase in phases if phase.startswith("Starting: 6/6")]

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


class TestHungDisk:
    def test_its_broker_is_stopped_at_once_and_comes_back_without_it(self) -> None:
        world = cluster(3)
        world.disk(0, "disk1").state = "hung"
        world.breathe()
        assert not _fenced(world.reconcile()), "one look is not enough"
        world.breathe()
        assert _fenced(world.reconcile())
        assert mode_of(world, 0, "disk1") == "Placeholder"
        world.breathe()
        world.breathe()
        assert 0 not in world.kafkas.running
        assert [
            p for p in world.all("Pod") if p["metadata"]["name"] == "demo-broker-0"
        ]  # the old process lingers
        for _ in range(4):
            world.reconcile()
            world.breathe()
        assert "ProcessHung" in reasons(world)
        assert all(s.leader not in (None, 0) for s in world.kafkas.partitions.values())
        world.disk(0, "disk1").state = "well"
        whole(world)

    def test_its_broker_is_marked_before_it_is_stopped(self) -> None:
        """An operator that has lost its lease cannot write the mark, so it stops nobody."""
        world = cluster(3)
        world.disk(0, "disk1").state = "hung"
        made = until(world, lambda: world.get("Pod", "demo-broker-0")["metadata"].get("graceSeconds") == 1)
        actions = [action for plan in made for action in plan.actions]
        stop = next(a for a in actions if isinstance(a, Delete) and a.grace_seconds == 1)
        marks = [a for a in actions[: actions.index(stop)] if isinstance(a, MarkDown)]
        assert [mark["uid"] for action in marks for mark in action.entries] == [stop.uid]

    def test_past_the_grace_time_it_is_a_lost_broker(self) -> None:
        world = cluster(6)
        world.cluster["spec"]["disks"] = {"graceSeconds": 60}
        world.disk(0, "disk1").state = "hung"
        until(world, lambda: all(0 not in s.replicas for s in world.kafkas.partitions.values()), 60)
        assert world.kafkas.losses == []
        world.disk(0, "disk1").state = "well"
        whole(world)

    def test_what_stalls_together_is_a_starved_machine_for_a_minute(self) -> None:
        world = cluster(3)
        for disk in ("disk0", "disk1"):
            world.disk(0, disk).state = "hung"
        for _ in range(6):
            world.breathe()
            assert not _fenced(world.reconcile())
        assert "CorrelatedDiskStalls" in reasons(world)
        made = until(world, lambda: world.get("Pod", "demo-broker-0")["metadata"].get("graceSeconds") == 1)
        assert sum(map(_fenced, made)) == 1
        for disk in ("disk0", "disk1"):
            world.disk(0, disk).state = "well"
        whole(world)

    def test_a_verdict_that_outlasts_the_hang_stops_nobody(self) -> None:
        world = cluster(3)
        world.disk(0, "disk1").state = "hung"
        world.breathe()
        observed = world.get("KafkaBroker", "demo-broker-0")["status"]["observed"]["disks"]
        next(d for d in observed if d["name"] == "disk1").pop("stalled")
        assert not _fenced(world.reconcile())

    def test_two_hung_brokers_are_not_stopped_at_once(self) -> None:
        world = cluster(3)
        for broker in (0, 1):
            world.disk(broker, "disk1").state = "hung"
        for _ in range(18):  # for the first minute it is what the two machines share
            world.reconcile()
            world.breathe()
        assert sum(1 for p in world.all("Pod") if p["metadata"].get("graceSeconds") is not None) == 1
        assert "AnotherBrokerDown" in reasons(world)

    def test_a_broker_that_cannot_catch_up_from_the_hung_one_does_not_protect_it(self) -> None:
        """Broker 0 restarts while a disk of broker 1 hangs: it cannot get back in sync before broker 1 is stopped."""
        world = cluster(6)
        world.kafkas.create("orders", 6, (1, 0, 2), _always(path_of("disk0")))
        world.settle()
        world.disk(0, "disk1").state = "dead"
        until(world, lambda: 0 not in world.kafkas.running)
        world.disk(1, "disk0").state = "hung"
        until(world, lambda: 0 in world.kafkas.running)
        behind = world.kafkas.partitions["orders", 6]
        assert (behind.leader, sorted(behind.isr)) == (1, [1, 2])
        until(world, lambda: 1 not in world.kafkas.running)
        world.disk(1, "disk0").state = "well"
        world.swap(0, "disk1")
        whole(world)


class TestClaimDeleted:
    def test_another_volume_takes_the_slot_of_an_evacuated_disk(self) -> None:
        world = cluster(3)
        world.disk(0, "disk1").state = "dead"
        until(world, lambda: state_of(world, 0, "disk1") == "Evacuated")
        retired = world.get("KafkaBroker", "demo-broker-0")["spec"]["retired"]
        claim = "data-disk1-demo-0"
        old = world.volume_of(0, "disk1")
        for kind, name in (("PersistentVolumeClaim", claim), ("PersistentVolume", old)):
            del world.objects[kind, name]
        for volume in world.all("PersistentVolume"):
            if volume["status"]["phase"] == "Available":
                del world.objects["PersistentVolume", volume["metadata"]["name"]]
        until(world, lambda: "InsufficientVolumesOnNode" in reasons(world))
        assert ("PersistentVolumeClaim", claim) not in world.objects, (
            "nothing is there that it could be bound to"
        )
        node = world.get("KafkaBroker", "demo-broker-0")["spec"]["node"]
        for name, at in (("elsewhere", "node9"), ("fresh", node)):
            world.put(new_volume(name, at, "local-disks", f"/mnt/{name}"))
        until(world, lambda: ("PersistentVolumeClaim", claim) in world.objects)
        assert world.volume_of(0, "disk1") == "fresh"
        whole(world)
        assert set(retired) <= set(world.get("KafkaBroker", "demo-broker-0")["spec"]["retired"])
        assert mode_of(world, 0, "disk1") == "Active"


class TestAppliedAgain:
    """A KafkaCluster that is deleted and applied again knows of its disks what their claims know."""

    def test_a_disk_that_was_given_up_stays_out(self) -> None:
        world = cluster(3)
        world.disk(0, "disk1").state = "dead"
        until(world, lambda: state_of(world, 0, "disk1") == "Evacuated")
        spec = world.get("KafkaBroker", "demo-broker-0")["spec"]
        assert spec["retired"]
        delete(world)
        world.disk(0, "disk1").state = "well"  # and it answers again, with what stood on it then
        for _ in range(40):
            with contextlib.suppress(ConflictError):
                world.reconcile()
            world.breathe()
        assert mode_of(world, 0, "disk1") == "Absent"
        assert world.get("KafkaBroker", "demo-broker-0")["spec"]["retired"] == spec["retired"]
        assert state_of(world, 0, "disk1") == "Evacuated"
        assert "RetiredDiskReinserted" in reasons(world)
        world.swap(0, "disk1")
        whole(world)
        delete(world)
        whole(world)
        assert world.get("KafkaBroker", "demo-broker-0")["spec"]["retired"] == spec["retired"]

    def test_a_record_that_was_deleted_by_hand_comes_back_with_it(self) -> None:
        world = cluster(3)
        world.disk(0, "disk1").state = "dead"
        until(world, lambda: state_of(world, 0, "disk1") == "Evacuated")
        retired = world.get("KafkaBroker", "demo-broker-0")["spec"]["retired"]
        world.settle()
        world.get("KafkaBroker", "demo-broker-0")["metadata"]["deletionTimestamp"] = "now"
        until(world, lambda: ("KafkaBroker", "demo-broker-0") not in world.objects)
        until(world, lambda: ("KafkaBroker", "demo-broker-0") in world.objects)
        assert world.get("KafkaBroker", "demo-broker-0")["spec"]["retired"] == retired
        assert mode_of(world, 0, "disk1") == "Absent"


class TestManyWellAgain:
    def test_disks_that_are_well_again_come_back_one_broker_after_the_other(self) -> None:
        world = cluster(6)
        given_up = ((0, "disk1"), (1, "disk1"), (2, "disk1"))
        for at, name in given_up:
            # A moment in which nothing could be written: Kafka gives the dirs up, and the disks are well.
            world.kafkas.running[at].offline.add(path_of(name))
            world.kafkas.running[at].given_up |= set(world.disk(at, name).logs)
        began = world.now
        until(world, lambda: "CorrelatedDiskFailures" in reasons(world), 4)
        until(world, lambda: all(state_of(world, *disk) == "Active" for disk in given_up), 80)
        assert world.now - began < 600
        assert not any(b["spec"].get("retired") for b in world.all("KafkaBroker"))
        whole(world)


class TestDrain:
    def test_a_disk_that_gets_a_replica_before_its_broker_stops_stays_in_use_and_is_emptied_again(
        self,
    ) -> None:
        world = cluster(3)
        wishes = world.get("KafkaBroker", "demo-broker-0")["spec"]
        wishes.setdefault("maintenance", {})["disks"] = [{"name": "disk1", "desiredState": "Drained"}]
        until(world, lambda: mode_of(world, 0, "disk1") == "Absent")
        world.kafkas.create("late", 0, (0, 1, 2), _always(path_of("disk1")))
        world.reconcile()
        assert mode_of(world, 0, "disk1") == "Active"
        until(world, lambda: state_of(world, 0, "disk1") == "Drained")
        assert world.kafkas.losses == []

    def test_a_wish_that_is_taken_back_while_the_disk_is_out_already_brings_it_back(self) -> None:
        world = cluster(3)
        wishes = world.get("KafkaBroker", "demo-broker-0")["spec"]
        wishes.setdefault("maintenance", {})["disks"] = [{"name": "disk1", "desiredState": "Drained"}]
        until(world, lambda: state_of(world, 0, "disk1") == "Drained")
        # The state on record lags behind: a status is not written in a pass that changes the spec.
        status = world.get("KafkaBroker", "demo-broker-0")["status"]["disks"]
        next(d for d in status if d["name"] == "disk1")["state"] = "Draining"
        world.get("KafkaBroker", "demo-broker-0")["spec"].setdefault("maintenance", {})["disks"] = []
        whole(world)

    def test_a_drained_disk_that_failed_before_the_request_was_withdrawn_is_to_be_replaced(self) -> None:
        world = cluster(3)
        wishes = world.get("KafkaBroker", "demo-broker-0")["spec"]
        wishes.setdefault("maintenance", {})["disks"] = [{"name": "disk1", "desiredState": "Drained"}]
        until(world, lambda: state_of(world, 0, "disk1") == "Drained")
        world.disk(0, "disk1").state = "dead"
        for _ in range(5):
            world.reconcile()
            world.breathe()
        assert "ReplacementNeeded" not in reasons(world)
        world.get("KafkaBroker", "demo-broker-0")["spec"].setdefault("maintenance", {})["disks"] = []
        until(world, lambda: "ReplacementNeeded" in reasons(world))
        world.swap(0, "disk1")
        whole(world)

    @pytest.mark.parametrize("wiped", [True, False])
    def test_a_drained_disk_that_was_wiped_or_exchanged_for_a_used_one_is_reported(self, wiped: bool) -> None:
        """It is not used again as it is, and without an entry nobody would know why."""
        world = cluster(3)
        wishes = world.get("KafkaBroker", "demo-broker-0")["spec"]
        wishes.setdefault("maintenance", {})["disks"] = [{"name": "disk1", "desiredState": "Drained"}]
        until(world, lambda: state_of(world, 0, "disk1") == "Drained")
        if not wiped:
            world.swap(0, "disk1")
        disk = world.disk(0, "disk1")
        disk.id, disk.logs = (None, {}) if wiped else ("AAAAAAAAAAAAAAAAAAAAAA", {})
        for _ in range(5):
            world.reconcile()
            world.breathe()
        assert reasons(world) == set()
        world.get("KafkaBroker", "demo-broker-0")["spec"].setdefault("maintenance", {})["disks"] = []
        expected = "RetiredDiskReinserted" if wiped else "UnexpectedDisk"
        until(world, lambda: reasons(world) == {expected})
        world.swap(0, "disk1")
        whole(world)


def _fenced(made: ReconcilePlan) -> bool:
    return any(isinstance(a, Delete) and a.grace_seconds == 1 for a in made.actions)


class TestAgain:
    def test_a_disk_that_kafka_gave_up_but_that_answers_comes_back_by_a_restart(self) -> None:
        world = cluster(3)
        disk = world.disk(0, "disk1")
        disk.state = "dead"
        world.kafkas.step()
        disk.state = "well"
        plans = until(world, lambda: state_of(world, 0, "disk1") == "Failed")
        plans += until(world, lambda: state_of(world, 0, "disk1") == "Active")
        assert [a.reason for made in plans for a in made.actions if isinstance(a, Evict)] == ["DiskReturned"]
        assert "DiskRecovered" in events(plans)
        whole(world)

    def test_the_third_time_within_an_hour_it_is_emptied(self) -> None:
        world = cluster(6)
        disk = world.disk(0, "disk1")
        for _ in range(3):
            disk.state = "dead"
            world.kafkas.step()
            disk.state = "well"
            until(world, lambda: state_of(world, 0, "disk1") == "Failed")
            until(world, lambda: state_of(world, 0, "disk1") == "Active")
        disk.state = "dead"
        world.kafkas.step()
        disk.state = "well"
        until(world, lambda: state_of(world, 0, "disk1") == "Evacuated")

    def test_a_disk_that_kafka_refuses_at_each_start_is_emptied(self) -> None:
        world = cluster(6)

        def evacuated() -> bool:
            process = world.kafkas.running.get(0)
            if process is not None and path_of("disk1") in process.dirs:
                process.offline.add(path_of("disk1"))
            return state_of(world, 0, "disk1") == "Evacuated"

        plans = until(world, evacuated, 90)
        evicted = [a.reason for made in plans for a in made.actions if isinstance(a, Evict)]
        assert evicted == ["DiskReturned"] * 3 + ["RestartWithoutDisk"]

    def test_a_disk_that_is_not_mounted_for_a_moment_is_waited_for(self) -> None:
        world = cluster(6)
        before = {key: state.replicas for key, state in world.kafkas.partitions.items()}
        world.kafkas.traffic = False
        for disk in ("disk0", "disk1"):
            world.disk(0, disk).state = "missing"
        for _ in range(5):
            world.reconcile()
            world.breathe()
        for disk in ("disk0", "disk1"):
            world.disk(0, disk).state = "well"
        world.kafkas.traffic = True
        whole(world)
        assert {key: state.replicas for key, state in world.kafkas.partitions.items()} == before

    def test_a_read_only_disk_is_emptied(self) -> None:
        world = cluster(6)
        world.kafkas.traffic = False
        world.disk(0, "disk1").state = "readonly"
        until(world, lambda: state_of(world, 0, "disk1") == "Evacuated")
        assert world.kafkas.losses == []


class TestManyAtOnce:
    def test_nothing_is_done_by_itself(self) -> None:
        world = cluster(6)
        for broker in (0, 2, 4):
            world.disk(broker, "disk1").state = "dead"
        for _ in range(5):
            made = world.reconcile()
            assert not any(isinstance(a, Reassign) for a in made.actions)
            world.breathe()
        assert "CorrelatedDiskFailures" in reasons(world)
        assert condition(world, "DisksHealthy")["status"] == "False"

    def test_it_goes_on_when_it_is_fewer(self) -> None:
        world = cluster(6)
        for broker in (0, 2, 4):
            world.disk(broker, "disk1").state = "dead"
        world.breathe()
        world.reconcile()
        world.disk(4, "disk1").state = "well"
        until(world, lambda: state_of(world, 0, "disk1") == state_of(world, 2, "disk1") == "Evacuated", 300)
        assert world.kafkas.losses == []


class TestLastCopy:
    def lost(self) -> Failing:
        """A follower is down while its leader's disk dies: the case in which formatting on every start loses everything."""
        world = cluster(3, partitions=0)
        world.kafkas.min_isr = 1
        world.kafkas.create("pay", 0, (0, 1), _always(path_of("disk1")))
        world.settle()
        world.get("KafkaBroker", "demo-broker-1")["spec"].setdefault("maintenance", {})["stopped"] = True
        world.settle()
        world.disk(0, "disk1").state = "dead"
        world.get("KafkaBroker", "demo-broker-1")["spec"].setdefault("maintenance", {})["stopped"] = False
        for _ in range(20):
            world.reconcile()
            world.breathe()
        return world

    def test_it_is_named_and_nothing_makes_it_worse(self) -> None:
        world = self.lost()
        risk = condition(world, "DataAtRisk")
        assert (risk["status"], risk["reason"]) == ("True", "LastReplicaAtRisk")
        assert "pay-0" in risk["message"]
        (named,) = losses_named_in(risk["message"])
        assert (named.broker, named.disk, named.token) == (
            "demo-broker-0",
            "disk1",
            accept_text(world, "disk1"),
        )
        assert "pay-0" in named.text
        (own,) = world.get("KafkaBroker", "demo-broker-0")["status"]["conditions"]
        assert losses_named_in(own["message"]) == [named]
        assert "conditions" not in world.get("KafkaBroker", "demo-broker-1")["status"]
        assert state_of(world, 0, "disk1") == "Evacuating"
        assert world.kafkas.partitions["pay", 0].leader is None
        world.disk(0, "disk1").state = "well"
        world.settle(80)
        assert world.kafkas.losses == []
        assert world.kafkas.partitions["pay", 0].leader is not None
        assert "conditions" not in world.get("KafkaBroker", "demo-broker-0")["status"]

    def test_a_blank_disk_in_its_place_is_refused_by_name(self) -> None:
        world = self.lost()
        world.swap(0, "disk1")
        for _ in range(5):
            world.reconcile()
            world.breathe()
        (entry,) = [w for w in world.cluster["status"]["waiting"] if w["reason"] == "LastReplicaAtRisk"]
        assert "pay-0" in entry["message"]
        assert mode_of(world, 0, "disk1") == "Active"
        assert not world.get("KafkaBroker", "demo-broker-0")["spec"].get("retired")

    def test_accepting_it_elects_the_survivor_first_and_keeps_what_it_has(self) -> None:
        world = self.lost()
        kept = world.kafkas.log(("pay", 0), 1)
        assert kept is not None
        records = kept[1]
        text = condition(world, "DataAtRisk")["message"].split('"token": "')[1].split('"')[0]
        world.get("KafkaBroker", "demo-broker-0")["spec"].setdefault("acceptDataLoss", {})["disks"] = [
            {"name": "disk1", "token": text}
        ]
        until(world, lambda: state_of(world, 0, "disk1") == "Evacuated")
        state = world.kafkas.partitions["pay", 0]
        assert state.leader == 1 or state.leader in state.isr
        assert world.kafkas.losses == []
        end = world.kafkas.log(("pay", 0), state.leader or 0)
        assert end is not None
        assert end[1] >= records
        assert condition(world, "DataAtRisk")["status"] == "False"

    def test_an_acceptance_of_something_else_is_not_one(self) -> None:
        world = self.lost()
        other = f"{'A' * 22}:0123456789abcdef"
        world.get("KafkaBroker", "demo-broker-0")["spec"].setdefault("acceptDataLoss", {})["disks"] = [
            {"name": "disk1", "token": other}
        ]
        for _ in range(5):
            world.reconcile()
            world.breathe()
        assert "AcceptanceOutdated" in reasons(world)
        assert world.kafkas.partitions["pay", 0].leader is None


def accept_text(world: Failing, disk: str) -> str:
    """What the condition DataAtRisk says to write for a disk."""
    risk = condition(world, "DataAtRisk")["message"]
    return str(risk.split(f'"name": "{disk}", "token": "')[1].split('"')[0])


def give_word(world: Failing, way_out: str) -> str:
    """Do what the entry says; returns the broker."""
    named = restart_named_in(way_out)
    assert named is not None
    name, token = named
    world.get("KafkaBroker", name)["spec"]["acceptUnavailable"] = token
    return str(name)


class TestReportOfAnOldPod:
    """A disk was replaced on record, and its pod still has the report on the disk from before."""

    @pytest.mark.parametrize("fs_uuid", ["a-new-one", None])
    def test_it_is_not_taken_for_the_new_disk(self, fs_uuid: str | None) -> None:
        world = cluster(3)
        disk = world.get("KafkaBroker", "demo-broker-0")["spec"]["disks"][1]
        before = disk["fsUuid"]
        disk |= {"directoryId": "A" * 22, "fsUuid": fs_uuid}
        claim = world.get("PersistentVolumeClaim", disk["claim"])["metadata"]["annotations"]
        claim[names.ANN_DIRECTORY_ID] = "A" * 22
        del claim[names.ANN_FS_UUID]
        world.reconcile()
        noted = world.get("PersistentVolumeClaim", disk["claim"])["metadata"]["annotations"]
        assert noted.get(names.ANN_FS_UUID) != before
        assert world.get("KafkaBroker", "demo-broker-0")["spec"]["disks"][1].get("fsUuid") != before


class TestPutBack:
    @pytest.mark.parametrize(("age", "again"), [(30, False), (90, True)])
    def test_a_pod_that_was_created_with_another_disk_is_recreated(self, age: int, again: bool) -> None:
        world = cluster(3)
        pod = world.get("Pod", "demo-broker-0")
        (inspect,) = [e for e in pod["status"]["initContainerStatuses"] if e["name"] == "inspect"]
        report = json.loads(inspect["state"]["terminated"]["message"])
        report["disks"][1] |= {"fsUuid": "another", "state": "foreign", "problem": "it names another broker."}
        inspect["state"]["terminated"]["message"] = json.dumps(report)
        world.crash(0)
        world.get("Pod", "demo-broker-0")["metadata"]["creationTimestamp"] = stamp(world.now - age)
        for _ in range(3):
            with contextlib.suppress(ConflictError):
                world.reconcile()
        now = world.objects.get(("Pod", "demo-broker-0"))
        assert (now is None or now["metadata"]["uid"] != pod["metadata"]["uid"]) is again


class TestNeverFormatted:
    def test_a_disk_that_was_pulled_before_its_first_format_is_used_when_it_is_back(self) -> None:
        world = cluster(3, partitions=0)
        broker, disk = world.get("KafkaBroker", "demo-broker-0"), world.disk(0, "disk1")
        disk.id, disk.logs, disk.state = None, {}, "missing"
        broker["spec"]["disks"][1]["mode"] = "Placeholder"
        claim = world.get("PersistentVolumeClaim", broker["spec"]["disks"][1]["claim"])
        del claim["metadata"]["annotations"][names.ANN_FS_UUID]
        world.crash(0)
        del world.objects["Pod", "demo-broker-0"]
        until(world, lambda: state_of(world, 0, "disk1") == "Failed")
        disk.state = "well"
        until(world, lambda: mode_of(world, 0, "disk1") == "Active")
        whole(world)


class TestAcceptedByName:
    def two_bad(self) -> Failing:
        """A single copy on disk0, which is dead for good, and one on disk1, of which only the cable is out."""
        world = cluster(3, partitions=0)
        world.kafkas.min_isr = 1
        for index, disk in enumerate(("disk0", "disk1")):
            world.kafkas.create("pay", index, (0,), _always(path_of(disk)))
        world.settle()
        world.disk(0, "disk0").state = "dead"
        world.disk(0, "disk1").state = "missing"
        for _ in range(20):
            world.reconcile()
            world.breathe()
        return world

    def test_accepting_one_disk_does_not_give_up_what_may_be_on_another(self) -> None:
        world = self.two_bad()
        text = accept_text(world, "disk0")
        world.get("KafkaBroker", "demo-broker-0")["spec"].setdefault("acceptDataLoss", {})["disks"] = [
            {"name": "disk0", "token": text}
        ]
        for _ in range(20):
            world.reconcile()
            world.breathe()
        assert "OtherDiskMayHoldReplica" in reasons(world)
        assert mode_of(world, 0, "disk1") != "Absent"
        assert not world.get("KafkaBroker", "demo-broker-0")["spec"].get("retired")


class TestCeilings:
    @staticmethod
    def _cluster() -> Failing:
        """Six brokers whose pool allows its disks half of their size, with four partitions of a tenth each on disk1 of three of them."""
        pool = {
            "name": "main",
            "replicas": 6,
            "disks": {
                "count": 2,
                "size": "100Gi",
                "storageClass": "local-disks",
                "thresholds": {"warn": 30, "move": 40, "cordon": 45, "rejectMoves": 50, "blockProducers": 95},
            },
        }
        world = Failing.of("abcabc", brokerPools=[pool])
        world.settle(80)
        for p in range(4):
            world.kafkas.create("orders", p, (0, 1, 2), _always(path_of("disk1")))
        world.settle()
        world.kafkas.sizes["orders"] = CAPACITY // 10
        return world

    def test_a_pools_own_limit_holds_for_whoever_plans(self) -> None:
        """The disk with the most room by the cluster's limit is too full by that of its pool: others are chosen, and what is planned begins."""
        world = self._cluster()
        for broker in (3, 4):
            for disk in ("disk0", "disk1"):
                world.disk(broker, disk).others = int(0.42 * CAPACITY)
        world.disk(0, "disk1").state = "dead"
        seen: set[str] = set()
        for _ in range(40):
            with contextlib.suppress(ConflictError):
                world.reconcile()
            seen |= reasons(world)
            world.breathe()
        assert "TargetDiskFull" not in seen
        assert state_of(world, 0, "disk1") == "Evacuated"

    def test_no_replica_moves_to_a_disk_that_is_too_full_for_its_pool_alone(self) -> None:
        world = self._cluster()
        world.kafkas.sizes["orders"] = CAPACITY // 5
        for broker in range(6):
            for disk in ("disk0",) if broker < 3 else ("disk0", "disk1"):
                world.disk(broker, disk).others = int(0.35 * CAPACITY)
        world.disk(0, "disk1").state = "dead"
        made: list[ReconcilePlan] = []
        for _ in range(14):
            with contextlib.suppress(ConflictError):
                made.append(world.reconcile())
            world.breathe()
        assert "InsufficientSpace" in reasons(world)
        reassigned = [a for plan in made for a in plan.actions if isinstance(a, Reassign)]
        assert not [a for action in reassigned for a in action.assignments if set(a[2] or ()) & {3, 4, 5}]


class TestShrunk:
    def test_another_broker_does_not_restart_for_its_disk_before_the_replicas_are_back(self) -> None:
        """A partition with two of three replicas left of it can spare neither of them."""
        world = cluster(3)
        world.disk(0, "disk1").state = "dead"
        until(world, lambda: any(len(s.replicas) == 2 for s in world.kafkas.partitions.values()))
        shrunk = {key for key, s in world.kafkas.partitions.items() if len(s.replicas) == 2}
        process = world.kafkas.running[1]
        process.offline.add(path_of("disk0"))  # Kafka gave it up, and it answers again
        for _ in range(120):
            with contextlib.suppress(ConflictError):
                for action in world.reconcile().actions:
                    if isinstance(action, Evict) and action.pod == "demo-broker-1":
                        left = [k for k in shrunk if len(world.kafkas.partitions[k].replicas) == 2]
                        assert not left, f"broker 1 goes down while {left} have two replicas"
            world.breathe()
        # Broker 0 is needed by what broker 1 gave up, and the other way round: that is for a person to decide.
        (told,) = [w for w in world.cluster["status"]["waiting"] if w["reason"] == "RestartDeadlock"]
        give_word(world, told["unblockedBy"])
        until(world, lambda: all(len(s.isr) == 3 for s in world.kafkas.partitions.values()), 80)
        assert world.kafkas.losses == []

    def test_the_broker_itself_may_be_stopped_before_its_replicas_are_back(self) -> None:
        """They come back only after it has started without the dead disk, so the stop must not wait for them."""
        world = cluster(3)
        world.disk(0, "disk1").state = "dead"
        until(world, lambda: any(len(s.replicas) == 2 for s in world.kafkas.partitions.values()))
        spec = world.get("KafkaBroker", "demo-broker-0")["spec"]
        spec.setdefault("maintenance", {})["stopped"] = True
        until(world, lambda: 0 not in world.kafkas.running, 60)
        world.get("KafkaBroker", "demo-broker-0")["spec"]["maintenance"]["stopped"] = False
        until(world, lambda: all(len(s.isr) == 3 for s in world.kafkas.partitions.values()), 120)
        assert world.kafkas.losses == []

    @pytest.mark.parametrize("other", ["disk1", "disk0"], ids=["the same partitions", "other partitions"])
    def test_two_brokers_do_not_shrink_at_once(self, other: str) -> None:
        world = cluster(3)
        world.cluster["spec"]["disks"] = {"automaticShare": 100}
        world.disk(0, "disk1").state = world.disk(1, other).state = "dead"
        for _ in range(60):
            with contextlib.suppress(ConflictError):
                world.reconcile()
            gone = {
                broker
                for state in world.kafkas.partitions.values()
                for broker in {0, 1, 2} - set(state.replicas)
            }
            assert len(gone) <= 1, f"replicas of brokers {gone} left their assignments at once"
            world.breathe()

    def test_a_broker_that_restarts_next_counts_as_down_for_another_one(self) -> None:
        """Broker 0 can take its replica back, and nobody else has room for it; broker 1 lost one that broker 0 has as well."""
        world = empty("abcd", 4)
        world.cluster["spec"]["disks"] = {"automaticShare": 100}
        first, then = ("large", 0), ("small", 0)
        world.kafkas.create(*first, (0, 2, 3), _always(path_of("disk1")))
        world.kafkas.create(*then, (1, 0, 2, 3), lambda b: path_of("disk1" if b == 1 else "disk0"))
        world.kafkas.sizes |= {"large": 40 * CAPACITY // 100, "small": 25 * CAPACITY // 100}
        world.settle()
        world.disk(1, "disk0").others = 54 * CAPACITY // 100
        world.disk(0, "disk1").state = world.disk(1, "disk1").state = "dead"
        dropped: set[tuple[str, int]] = set()
        for _ in range(60):
            with contextlib.suppress(ConflictError):
                world.reconcile()
            gone = {
                key
                for key, before in ((first, 3), (then, 4))
                if len(world.kafkas.partitions[key].replicas) < before
            }
            assert len(gone) <= 1, f"{gone} are short of replicas at once"
            dropped |= gone
            world.breathe()
        assert dropped == {first, then}
        assert world.kafkas.losses == []


class TestOneDisk:
    """Brokers that have no other disk to run with."""

    def lost(self) -> Failing:
        world = empty("abc", 3, disks=1)
        world.kafkas.min_isr = 1
        world.kafkas.create("single", 0, (0,), _always(path_of("disk0")))
        world.kafkas.create("orders", 0, (0, 1, 2), _always(path_of("disk0")))
        world.settle()
        world.disk(0, "disk0").state = "dead"
        for _ in range(20):
            world.reconcile()
            world.breathe()
        world.swap(0, "disk0")
        for _ in range(10):
            world.reconcile()
            world.breathe()
        return world

    def test_a_new_disk_waits_for_the_word_of_a_person(self) -> None:
        world = self.lost()
        assert "LastReplicaAtRisk" in reasons(world)
        assert 0 not in world.running("broker")

    def test_an_accepted_loss_is_honoured(self) -> None:
        world = self.lost()
        text = accept_text(world, "disk0")
        world.get("KafkaBroker", "demo-broker-0")["spec"].setdefault("acceptDataLoss", {})["disks"] = [
            {"name": "disk0", "token": text}
        ]
        until(world, lambda: 0 in world.running("broker"), 80)
        until(world, lambda: world.kafkas.partitions["single", 0].leader == 0, 40)
        until(world, lambda: set(world.kafkas.partitions["orders", 0].isr) == {0, 1, 2}, 40)


class TestWishes:
    def test_drained_is_empty_and_safe_to_pull_and_comes_back_when_the_wish_is_gone(self) -> None:
        world = cluster(6)
        world.get("KafkaBroker", "demo-broker-0")["spec"].setdefault("maintenance", {})["disks"] = [
            {"name": "disk1", "desiredState": "Drained"}
        ]
        plans = until(world, lambda: state_of(world, 0, "disk1") == "Drained")
        assert events(plans)[-1] == "DiskDrained"
        assert not world.disk(0, "disk1").logs
        world.get("KafkaBroker", "demo-broker-0")["spec"].setdefault("maintenance", {})["disks"] = []
        plans = until(world, lambda: state_of(world, 0, "disk1") == "Active")
        assert events(plans) == ["DrainCancelled", "BackfillCompleted"]
        whole(world)

    def test_cordoned_takes_nothing_new(self) -> None:
        world = cluster(3)
        world.get("KafkaBroker", "demo-broker-0")["spec"].setdefault("maintenance", {})["disks"] = [
            {"name": "disk1", "desiredState": "Cordoned"}
        ]
        until(world, lambda: state_of(world, 0, "disk1") == "Cordoned")
        world.settle()
        assert world.kafkas.settings["broker", "0"] == {"cordoned.log.dirs": path_of("disk1")}
        assert condition(world, "DisksHealthy")["status"] == "True"
        world.get("KafkaBroker", "demo-broker-0")["spec"].setdefault("maintenance", {})["disks"] = []
        whole(world)


class TestMoreThanOne:
    def test_two_disks_on_two_brokers_that_share_partitions_shrink_nothing(self) -> None:
        world = cluster(3)
        for broker in (0, 1):
            world.disk(broker, "disk1").state = "dead"
        for _ in range(30):
            made = world.reconcile()
            assert not any(isinstance(a, Reassign) for a in made.actions)
            world.breathe()
        assert "InsufficientInSyncReplicas" in reasons(world)
        for broker in (0, 1):
            world.disk(broker, "disk1").state = "well"
        whole(world)

    def test_all_disks_of_one_broker(self) -> None:
        world = cluster(6)
        for disk in ("disk0", "disk1"):
            world.disk(0, disk).state = "dead"
        until(world, lambda: all(0 not in s.replicas for s in world.kafkas.partitions.values()), 80)
        assert world.kafkas.losses == []
        for disk in ("disk0", "disk1"):
            world.swap(0, disk)
        until(world, lambda: 0 in world.running("broker"), 80)
        whole(world)

    def test_the_only_replica_on_a_dead_disk_beside_others(self) -> None:
        world = cluster(6)
        world.kafkas.create("single", 0, (0,), _always(path_of("disk1")))
        world.disk(0, "disk1").state = "dead"
        until(
            world,
            lambda: all(
                0 not in s.replicas
                for k, s in world.kafkas.partitions.items()
                if k[0] == "orders" and (k[1] + 1) % 2
            ),
            60,
        )
        assert condition(world, "DataAtRisk")["status"] == "True"
        assert "single-0" in condition(world, "DataAtRisk")["message"]
        assert state_of(world, 0, "disk1") == "Evacuating"
        text = condition(world, "DataAtRisk")["message"].split('"token": "')[1].split('"')[0]
        world.get("KafkaBroker", "demo-broker-0")["spec"].setdefault("acceptDataLoss", {})["disks"] = [
            {"name": "disk1", "token": text}
        ]
        until(world, lambda: state_of(world, 0, "disk1") == "Evacuated")
        assert world.kafkas.partitions["single", 0].leader == 0


class TestWrongDisk:
    @pytest.mark.parametrize("which", ["old", "foreign"])
    def test_it_is_told_and_left_alone(self, which: str) -> None:
        world = cluster(3)
        world.disk(0, "disk1").state = "dead"
        until(world, lambda: state_of(world, 0, "disk1") == "Evacuated")
        old = world.swap(0, "disk1")
        old.state = "well"
        if which == "foreign":
            old.cluster, old.id = False, "another"
        world.swap(0, "disk1", old)
        until(world, lambda: bool(reasons(world) & {"RetiredDiskReinserted", "UnexpectedDisk"}))
        formats = len(world.formats)
        for _ in range(10):
            world.reconcile()
            world.breathe()
        assert len(world.formats) == formats
        assert state_of(world, 0, "disk1") == "Evacuated"


class TestAllDisksOfABroker:
    @pytest.mark.parametrize("traffic", [True, False], ids=["ended", "unnoticed"])
    def test_new_ones_are_filled_like_any_other(self, *, traffic: bool) -> None:
        world = cluster(6, partitions=12)
        world.kafkas.traffic = traffic  # a Kafka that nobody writes to runs on without a disk
        for disk in ("disk0", "disk1"):
            world.disk(0, disk).state = "dead"
        until(
            world,
            lambda: {state_of(world, 0, disk) for disk in ("disk0", "disk1")} <= {"Evacuating", "Evacuated"},
        )
        for _ in range(40):
            with contextlib.suppress(ConflictError):
                world.reconcile()
            world.breathe()
        for disk in ("disk0", "disk1"):
            world.swap(0, disk)
        made = until(world, lambda: {state_of(world, 0, disk) for disk in ("disk0", "disk1")} == {"Active"})
        whole(world)
        assert events(made).count("BackfillCompleted") == 2
        assert any(0 in state.replicas for state in world.kafkas.partitions.values())

    def test_where_nobody_is_left_to_ask_that_is_said_with_the_way_out(self) -> None:
        world = cluster(1, partitions=2, rf=1)
        for disk in ("disk0", "disk1"):
            world.disk(0, disk).state = "dead"
        until(world, lambda: state_of(world, 0, "disk1") == "Evacuating")
        world.kafka_up = False
        until(world, lambda: "AllDisksLost" in reasons(world))
        formats = len(world.formats)
        for disk in ("disk0", "disk1"):
            world.swap(0, disk)
        until(world, lambda: "DirectoryIdAlreadyUsed" in reasons(world))
        until(world, lambda: "AllDisksLost" in reasons(world))
        assert len(world.formats) == formats
        ways = {w["reason"]: w["unblockedBy"] for w in world.cluster["status"]["waiting"]}
        assert "deleteClaims" in ways["AllDisksLost"]
        assert "no other disk" in ways["DirectoryIdAlreadyUsed"]

    def test_what_left_comes_back_as_one_more_copy_and_not_in_the_place_of_another(self) -> None:
        world = cluster(3, partitions=12)
        for disk in ("disk0", "disk1"):
            world.disk(0, disk).state = "dead"
        until(
            world,
            lambda: {state_of(world, 0, disk) for disk in ("disk0", "disk1")} <= {"Evacuating", "Evacuated"},
        )
        world.swap(0, "disk0")
        until(world, lambda: any(len(state.replicas) < 3 for state in world.kafkas.partitions.values()))
        until(world, lambda: state_of(world, 0, "disk0") == "Backfilling")
        world.swap(0, "disk1")
        whole(world)


class TestKafkaUnknown:
    def test_a_disk_that_cannot_be_emptied_because_kafka_says_nothing_is_waited_for_with_a_word(self) -> None:
        world = cluster(3)
        world.kafka_up = False
        world.disk(0, "disk1").state = "dead"
        until(world, lambda: state_of(world, 0, "disk1") == "Evacuating")
        for _ in range(3):
            world.reconcile()
            world.breathe()
        assert "PlanPending" in reasons(world)
        world.kafka_up = True
        until(world, lambda: state_of(world, 0, "disk1") == "Evacuated")
        assert "PlanPending" not in reasons(world)


class TestLongNames:
    """Kafka moves no replica between the log dirs of a broker if its topic has more than 213 characters."""

    def test_a_new_disk_does_not_wait_for_what_cannot_be_moved_onto_it(self) -> None:
        world = cluster(3)
        for p in range(6):
            world.kafkas.create("n" * 249, p, (0, 1, 2), _always(path_of(f"disk{p % 2}")))
        world.settle()
        world.disk(0, "disk1").state = "dead"
        until(world, lambda: state_of(world, 0, "disk1") == "Evacuated")
        world.swap(0, "disk1")
        until(world, lambda: state_of(world, 0, "disk1") == "Backfilling")
        until(world, lambda: state_of(world, 0, "disk1") == "Active")
        whole(world)
        assert "TopicNameTooLong" not in reasons(world)


class TestLoneRack:
    """Five brokers in racks of 2, 2 and 1: each partition has a replica on the lone rack's broker."""

    def _cluster(self) -> Failing:
        pool = {
            "name": "main",
            "replicas": 5,
            "disks": {"count": 2, "size": "100Gi", "storageClass": "local-disks"},
        }
        world = Failing.of("abcab", brokerPools=[pool])
        world.settle(80)
        racks = {b["spec"]["id"]: b["spec"]["rack"] for b in world.all("KafkaBroker")}
        alone = next(b for b, rack in racks.items() if list(racks.values()).count(rack) == 1)
        a, b = (
            [i for i, r in racks.items() if r == rack]
            for rack in sorted({r for i, r in racks.items() if i != alone})
        )
        self.lone = alone
        for p in range(6):
            world.kafkas.create(
                "orders", p, (a[p % 2], b[p // 2 % 2], alone), _always(path_of(f"disk{(p + 1) % 2}"))
            )
        world.settle()
        return world

    def test_a_disk_that_is_swapped_under_its_running_broker_is_evacuated_and_joins(self) -> None:
        world = self._cluster()
        world.swap_under(self.lone, "disk1")
        until(
            world,
            lambda: (
                state_of(world, self.lone, "disk1") == "Active"
                and world.disk(self.lone, "disk1").id is not None
            ),
            80,
        )
        assert world.kafkas.losses == []
        for state in world.kafkas.partitions.values():
            assert len(state.isr) == len(state.replicas) == 3


class TestMovesRefused:
    """The planner has a target on another broker, and the executor lets no move there begin."""

    LONG = "t" * 240  # nobody can choose its log dir on another broker

    def _cluster(self) -> Failing:
        """Six brokers on three zones. On broker 3, in the zone of broker 0, Kafka may choose a dir that such a replica would fill."""
        world = cluster(6, partitions=0)
        world.kafkas.sizes[self.LONG] = CAPACITY * 8 // 100
        world.kafkas.create(self.LONG, 0, (0, 1, 2), _always(path_of("disk1")))
        for broker in (3, 4, 5):
            world.disk(broker, "disk0").others = CAPACITY * 84 // 100
        world.settle()
        return world

    def test_after_some_minutes_the_replica_leaves_and_grows_back(self) -> None:
        world = self._cluster()
        world.disk(0, "disk1").state = "dead"
        until(world, lambda: "MovesBlocked" in reasons(world))
        asked = world.now
        made = until(world, lambda: mode_of(world, 0, "disk1") == "Absent", 80)
        took_off = [
            a for p in made for a in p.actions if isinstance(a, Reassign) and a.reason == "ReplicasRemoved"
        ]

        assert took_off
        assert world.now - asked >= 180
        world.swap(0, "disk1")
        until(world, lambda: world.kafkas.holds((self.LONG, 0), 0), 80)
        whole(world)

    def test_the_wait_says_why_and_what_comes_next(self) -> None:
        world = self._cluster()
        world.disk(0, "disk1").state = "dead"
        until(world, lambda: "MovesBlocked" in reasons(world))
        wait = next(w for w in world.cluster["status"]["waiting"] if w["reason"] == "MovesBlocked")

        assert wait["object"] == "KafkaBroker/demo-broker-0/disk1"
        assert "too long for AlterReplicaLogDirs" in wait["message"]
        assert "After 3 minutes Spindle drops " in wait["unblockedBy"]
