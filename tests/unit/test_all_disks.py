"""``disks.all``: every volume of a class on a broker's node is one of its disks; more as they appear, fewer only by a removal."""

from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from spindle.api import names
from spindle.model.actions import Delete, Evict
from spindle.model.view import Broker, KafkaView, LogDir, Partition
from spindle.planner.planner import plan
from spindle.planner.problem import Goals
from spindle.planner.sources import from_view
from tests.model.checked import Checked
from tests.model.kafka import path_of
from tests.model.nodes import new_volume
from tests.unit.test_change_disks import at, disks_of
from tests.unit.test_healing_plan import delete, events, reasons, until
from tests.unit.test_node_loss import lose, node_of

ALL = {"all": True, "storageClass": "local-disks"}
SIZES = ("100Gi", "200Gi", "50Gi", "400Gi")


def world_of(*numbers: int, brokers: int | None = None, **disks: Any) -> Checked:
    """One node per number, each in a zone of its own, with so many volumes; on each of them a broker of a pool with all disks."""
    pool = {"name": "main", "replicas": brokers or len(numbers), "disks": {**ALL, **disks}}
    world = Checked.of("", brokerPools=[pool])
    for index, number in enumerate(numbers):
        world.add_node(f"node{index + 1}", f"zone-{'abcdef'[index]}", 0)
        for disk in range(number):
            add_volume(world, index + 1, disk)
    return world


def add_volume(world: Checked, node: int, disk: int, size: str | None = None) -> str:
    """Another volume on a node."""
    name = f"node{node}-disk{disk}"
    volume = new_volume(name, f"node{node}", "local-disks", f"/mnt/disk{disk}")
    volume["spec"]["capacity"]["storage"] = size or SIZES[disk % len(SIZES)]
    world.put(volume)
    return name


@cache
def _settled(*numbers: int) -> Checked:
    world = world_of(*numbers)
    world.settle(100)
    for p in range(6):
        replicas = tuple((p + i) % len(numbers) for i in range(3))
        world.kafkas.create("orders", p, replicas, partial(_on, path_of("disk0")))
        world.factors["orders", p] = 3
    world.settle(100)
    return world


def _on(path: str, _: int) -> str:
    return path


def settled(*numbers: int) -> Checked:
    """The same, running, with partitions of three replicas."""
    return _settled(*numbers).fork()


def volumes_of(world: Checked, broker: int) -> set[str]:
    """The volumes of a broker's disks."""
    return {world.volume_of(broker, disk["name"]) for disk in disks_of(world, broker)}


def names_of(world: Checked, broker: int) -> list[str]:
    return [disk["name"] for disk in disks_of(world, broker)]


def well(world: Checked) -> None:
    """Everything is in use, and nothing was lost on the way."""
    world.settle(150)
    assert world.broken == []
    assert world.kafkas.losses == []
    assert world.destroyed == []
    for broker in world.all("KafkaBroker"):
        assert {d["mode"] for d in broker["spec"]["disks"]} == {"Active"}
        assert {d["state"] for d in broker["status"]["disks"]} == {"Active"}
    for state in world.kafkas.partitions.values():
        assert sorted(state.isr) == sorted(state.replicas)


class TestStart:
    def test_each_broker_starts_with_all_volumes_of_its_node_and_restarts_for_none(self) -> None:
        world = world_of(2, 4, 1)
        gone = [
            a
            for made in until(world, lambda: len(world.running("broker")) == 3)
            for a in made.actions
            if isinstance(a, Evict)
        ]
        well(world)
        assert gone == []
        by_node = {b["spec"]["node"]: b for b in world.all("KafkaBroker")}
        assert {node: len(b["spec"]["disks"]) for node, b in by_node.items()} == {
            "node1": 2,
            "node2": 4,
            "node3": 1,
        }
        for node, broker in by_node.items():
            mine = volumes_of(world, broker["spec"]["id"])
            assert mine == {
                v["metadata"]["name"]
                for v in world.all("PersistentVolume")
                if v["metadata"]["name"].startswith(node)
            }
            assert broker["spec"]["rack"] == f"zone-{'abc'[int(node[-1]) - 1]}"

    def test_each_claim_requests_the_size_of_its_volume(self) -> None:
        world = settled(1, 4, 2)
        for claim in world.all("PersistentVolumeClaim"):
            if claim["spec"].get("volumeName", "").startswith("node"):
                volume = world.get("PersistentVolume", claim["spec"]["volumeName"])
                assert claim["spec"]["resources"]["requests"] == volume["spec"]["capacity"]

    def test_a_limit(self) -> None:
        world = world_of(2, 4, 3, maxCount=2)
        well(world)
        assert {len(disks_of(world, i)) for i in range(3)} == {2}
        # The largest ones.
        assert {"node2-disk3", "node2-disk1"} in [volumes_of(world, i) for i in range(3)]

    def test_a_node_without_volumes_gets_no_broker(self) -> None:
        world = world_of(2, 0, 1)
        world.settle(100)
        assert {b["spec"]["node"] for b in world.all("KafkaBroker")} == {"node1", "node3"}
        wait = next(w for w in world.cluster["status"]["waiting"] if w["reason"] == "InsufficientNodes")
        assert "without free volumes for all disks: node2" in wait["message"]
        add_volume(world, 2, 0)
        well(world)
        assert len(world.all("KafkaBroker")) == 3

    def test_brokers_on_shared_nodes_do_not_share_volumes(self) -> None:
        world = world_of(2, 3, 1, brokers=4)
        world.cluster["spec"]["scheduling"] = {"sharedNodes": True}
        world.settle(100)
        assert len(world.all("KafkaBroker")) == 3
        assert "InsufficientNodes" in reasons(world)

    def test_above_its_limit_a_node_has_room_for_another(self) -> None:
        world = world_of(4, 4, 4, brokers=6, maxCount=2)
        world.cluster["spec"]["scheduling"] = {"sharedNodes": True}
        well(world)
        assert [len(disks_of(world, i)) for i in range(6)] == [2] * 6
        used = [volumes_of(world, i) for i in range(6)]
        assert len(set().union(*used)) == 12

    def test_a_volume_stays_free_for_a_controller(self) -> None:
        world = world_of(3, 3, 3)
        world.cluster["spec"]["controllers"]["storage"]["storageClass"] = "local-disks"
        well(world)
        assert len(world.running("controller")) == 3
        assert [len(disks_of(world, i)) for i in range(3)] == [2] * 3

    def test_a_volume_that_others_bind_meanwhile(self) -> None:
        world = world_of(2, 2, 2)
        until(world, lambda: len(world.all("KafkaBroker")) == 3)
        node = world.get("KafkaBroker", "demo-broker-1")["spec"]["node"]
        take(world, f"{node}-disk0")
        well(world)
        assert sorted(len(disks_of(world, i)) for i in range(3)) == [1, 2, 2]

    def test_all_volumes_of_a_node_that_others_bind_meanwhile(self) -> None:
        world = world_of(2, 1, 2, 3, brokers=3)
        until(world, lambda: len(world.all("KafkaBroker")) == 3)
        left = {b["spec"]["node"] for b in world.all("KafkaBroker")}
        assert left == {"node1", "node2", "node3"}
        take(world, "node2-disk0")
        well(world)
        assert {b["spec"]["node"] for b in world.all("KafkaBroker")} == {"node1", "node3", "node4"}
        assert len(disks_of(world, 1)) == 3
        assert world.get("KafkaBroker", "demo-broker-1")["spec"]["rack"] == "zone-d"

    def test_no_node_is_left(self) -> None:
        world = world_of(2, 1, 2)
        until(world, lambda: len(world.all("KafkaBroker")) == 3)
        take(world, "node2-disk0")
        world.settle(100)
        wait = next(
            w for w in world.cluster["status"]["waiting"] if w["reason"] == "InsufficientVolumesOnNode"
        )
        assert "node2" in wait["message"]
        add_volume(world, 2, 5)
        well(world)

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"provisioner": "csi.example.com"}, "csi.example.com"),
            ({"volumeBindingMode": "Immediate"}, "Immediate"),
        ],
    )
    def test_a_class_whose_volumes_belong_to_no_node(self, change: dict[str, str], said: str) -> None:
        world = world_of(2, 2, 2)
        found = world.get("StorageClass", "local-disks")
        before = dict(found)
        found |= change
        world.put(found)
        for _ in range(5):
            world.reconcile()
            world.breathe()
        assert world.all("KafkaBroker") == ()
        wait = next(w for w in world.cluster["status"]["waiting"] if w["reason"] == "ClassNotLocal")
        assert said in wait["message"]
        assert "disks.count" in wait["unblockedBy"]
        world.put(before)
        well(world)


def take(world: Checked, name: str) -> None:
    """Somebody else binds a volume."""
    volume = world.get("PersistentVolume", name)
    volume["spec"]["claimRef"] = {"namespace": "other", "name": "theirs", "uid": "u"}
    volume["status"]["phase"] = "Bound"
    world.put(volume)


class TestMore:
    def test_a_volume_that_appears_is_used_and_filled(self) -> None:
        world = settled(2, 2, 2)
        node = int(world.get("KafkaBroker", "demo-broker-1")["spec"]["node"][-1])
        add_volume(world, node, 3)
        plans = until(world, lambda: at(world, 1, "disk2") == "Active", 150)
        gone = [a.pod for made in plans for a in made.actions if isinstance(a, Evict)]
        assert gone == ["demo-broker-1"]
        assert events(plans)[:1] == ["BackfillStarted"]
        well(world)
        assert world.disk(1, "disk2").logs
        assert [len(disks_of(world, i)) for i in range(3)] == [2, 3, 2]

    def test_a_network_volume_is_not_of_the_node(self) -> None:
        world = settled(2, 2, 2)
        name = add_volume(world, 1, 3)
        del world.get("PersistentVolume", name)["spec"]["nodeAffinity"]
        name = add_volume(world, 9, 3)  # of a node that does not exist
        assert events([world.reconcile()]) == []
        assert [len(disks_of(world, i)) for i in range(3)] == [2] * 3

    def test_a_used_volume_of_another_cluster_is_not_used(self) -> None:
        world = settled(2, 2, 2)
        name = add_volume(world, int(world.get("KafkaBroker", "demo-broker-1")["spec"]["node"][-1]), 3)
        world.disk_on(name).id = "somebody-elses"
        until(world, lambda: "DiskUnusable" in reasons(world), 100)
        for _ in range(20):
            world.reconcile()
            world.breathe()
        assert world.disk_on(name).id == "somebody-elses"
        assert at(world, 1, "disk2") == "Provisioning"
        # Its claim is deleted, and the volume with its data is left to its owner: the broker has the disk no more.
        world.get("PersistentVolume", name)["spec"]["persistentVolumeReclaimPolicy"] = "Retain"
        world.get("PersistentVolumeClaim", "data-disk2-demo-1")["metadata"]["deletionTimestamp"] = "x"
        well(world)
        assert names_of(world, 1) == ["disk0", "disk1"]

    def test_a_volume_that_others_bind_before_it_is_reserved(self) -> None:
        world = settled(2, 2, 2)
        name = add_volume(world, int(world.get("KafkaBroker", "demo-broker-1")["spec"]["node"][-1]), 3)
        until(world, lambda: len(disks_of(world, 1)) == 3)
        take(world, name)
        well(world)
        assert names_of(world, 1) == ["disk0", "disk1"]


class TestFewer:
    def test_volumes_that_are_not_listed_take_no_disk_away(self) -> None:
        world = settled(2, 3, 2)
        before = {i: disks_of(world, i) for i in range(3)}
        for name in [v["metadata"]["name"] for v in world.all("PersistentVolume")]:
            kept = world.objects.pop(("PersistentVolume", name))
            made = world.reconcile()
            assert not [a for a in made.actions if isinstance(a, Delete | Evict)]
            assert {i: disks_of(world, i) for i in range(3)} == before
            world.put(kept)
        well(world)

    def test_a_lower_limit_drains_the_highest(self) -> None:
        world = settled(3, 3, 3)
        volume = world.volume_of(0, "disk2")
        world.cluster["spec"]["brokerPools"][0]["disks"]["maxCount"] = 2
        plans = until(world, lambda: len(disks_of(world, 0)) == 2, 150)
        assert next(e for e in events(plans) if e.startswith("DiskRem")) == "DiskRemovalStarted"
        well(world)
        assert [names_of(world, i) for i in range(3)] == [["disk0", "disk1"]] * 3
        assert world.get("PersistentVolume", volume)["status"]["phase"] == "Released"

    def test_one_is_drained_and_its_claim_deleted(self) -> None:
        world = settled(3, 3, 3)
        volume = world.volume_of(0, "disk1")
        broker = world.get("KafkaBroker", "demo-broker-0")
        broker["spec"]["maintenance"] = {"disks": [{"name": "disk1", "desiredState": "Drained"}]}
        world.put(broker)
        until(world, lambda: at(world, 0, "disk1") == "Drained", 150)
        world.get("PersistentVolume", volume)["spec"]["persistentVolumeReclaimPolicy"] = "Retain"
        world.get("PersistentVolumeClaim", "data-disk1-demo-0")["metadata"]["deletionTimestamp"] = "x"
        until(world, lambda: names_of(world, 0) == ["disk0", "disk2"], 150)
        well(world)
        # It is wiped and given back, while the request to drain disk1 is still there.
        found = world.get("PersistentVolume", volume)
        found["spec"].pop("claimRef")
        found["status"]["phase"] = "Available"
        world.put(found)
        world.disk_on(volume).id = None
        world.disk_on(volume).logs.clear()
        until(world, lambda: at(world, 0, "disk3") == "Active", 150)
        well(world)

    def test_a_dead_disk_is_replaced_in_its_place(self) -> None:
        world = settled(2, 2, 3)
        broker = next(b["spec"]["id"] for b in world.all("KafkaBroker") if len(b["spec"]["disks"]) == 3)
        before = names_of(world, broker)
        world.disk(broker, "disk1").state = "dead"
        until(world, lambda: at(world, broker, "disk1") == "Evacuated", 150)
        assert names_of(world, broker) == before
        world.swap(broker, "disk1")
        well(world)
        assert names_of(world, broker) == before


class TestUnlisted:
    """A list of volumes lacks one between the moment when it is recorded for a disk and the one when its claim is bound."""

    @pytest.mark.parametrize("passes", [1, 3])
    @pytest.mark.parametrize("first", range(1, 8))
    def test_the_volume_of_a_new_broker(self, first: int, passes: int) -> None:
        world = world_of(2, 1, 2, 3, brokers=3)
        steps(world, first)
        hidden(world, "node2-disk0", passes)
        well(world)
        found = {b["spec"]["node"]: volumes_of(world, b["spec"]["id"]) for b in world.all("KafkaBroker")}
        # Before its broker is placed, a node without a listed volume gets none.
        assert found.keys() == ({"node1", "node2", "node3"} if first > 1 else found.keys())
        assert_each_has_its_own(world)

    @pytest.mark.parametrize("passes", [1, 3])
    @pytest.mark.parametrize("first", range(1, 6))
    def test_the_volume_of_an_added_disk(self, first: int, passes: int) -> None:
        world = settled(2, 2, 2)
        node = int(world.get("KafkaBroker", "demo-broker-1")["spec"]["node"][-1])
        name = add_volume(world, node, 3)
        steps(world, first)
        hidden(world, name, passes)
        assert names_of(world, 1) == ["disk0", "disk1", "disk2"]
        well(world)
        assert name in volumes_of(world, 1)
        assert_each_has_its_own(world)

    def test_it_is_on_record_before_it_is_reserved(self) -> None:
        world = world_of(2, 1, 2)
        for index in range(20):
            if index == 12:
                add_volume(world, 1, 3)
            recorded = {
                (d["claim"], d.get("pv"))
                for b in world.all("KafkaBroker")
                for d in disks_of(world, b["spec"]["id"])
            }
            world.reconcile()
            for volume in world.all("PersistentVolume"):
                ref = volume["spec"].get("claimRef") or {"uid": "another's"}
                assert ref.get("uid") or (ref["name"], volume["metadata"]["name"]) in recorded
            world.breathe()

    def test_that_of_a_new_broker_was_deleted(self) -> None:
        world = world_of(2, 1, 2, 3, brokers=3)
        until(world, lambda: bool(world.get("PersistentVolume", "node2-disk0")["spec"].get("claimRef")))
        del world.objects["PersistentVolume", "node2-disk0"]
        steps(world, 5)
        assert world.get("KafkaBroker", "demo-broker-1")["spec"]["node"] == "node2"
        remove_from_record(world, "node2-disk0")
        well(world)
        assert {b["spec"]["node"] for b in world.all("KafkaBroker")} == {"node1", "node3", "node4"}

    def test_that_of_an_added_disk_was_deleted(self) -> None:
        world = settled(2, 2, 2)
        name = add_volume(world, int(world.get("KafkaBroker", "demo-broker-1")["spec"]["node"][-1]), 3)
        until(world, lambda: bool(world.get("PersistentVolume", name)["spec"].get("claimRef")))
        del world.objects["PersistentVolume", name]
        steps(world, 5)
        remove_from_record(world, name)
        well(world)
        assert names_of(world, 1) == ["disk0", "disk1"]

    def test_one_with_the_same_name_takes_its_place(self) -> None:
        world = settled(2, 2, 2)
        node = int(world.get("KafkaBroker", "demo-broker-1")["spec"]["node"][-1])
        name = add_volume(world, node, 3)
        until(world, lambda: bool(world.get("PersistentVolume", name)["spec"].get("claimRef")))
        del world.objects["PersistentVolume", name]
        steps(world, 3)
        add_volume(world, node, 3)
        well(world)
        assert name in volumes_of(world, 1)

    def test_a_limit_that_is_lowered_meanwhile_leaves_no_volume_reserved(self) -> None:
        world = settled(2, 2, 2)
        node = int(world.get("KafkaBroker", "demo-broker-0")["spec"]["node"][-1])
        name = add_volume(world, node, 7)
        until(world, lambda: bool(world.get("PersistentVolume", name)["spec"].get("claimRef")))
        world.cluster["spec"]["brokerPools"][0]["disks"]["maxCount"] = 2
        hidden(world, name, 3)
        assert "VolumeUnavailable" in reasons(world)
        well(world)
        assert names_of(world, 0) == ["disk0", "disk1"]
        assert not world.get("PersistentVolume", name)["spec"].get("claimRef")

    def test_the_class_of_a_volume_is_changed_before_it_is_bound(self) -> None:
        world = settled(2, 2, 2)
        name = add_volume(world, int(world.get("KafkaBroker", "demo-broker-1")["spec"]["node"][-1]), 3)
        until(world, lambda: bool(world.get("PersistentVolume", name)["spec"].get("claimRef")))
        world.get("PersistentVolume", name)["spec"]["storageClassName"] = "theirs"
        well(world)
        assert names_of(world, 1) == ["disk0", "disk1"]
        assert not world.get("PersistentVolume", name)["spec"].get("claimRef")

    @pytest.mark.parametrize("edited", ["node9-disk0", "node1-disk0", "node2-disk9", None])
    def test_a_record_that_was_edited(self, edited: str | None) -> None:
        world = world_of(2, 2, 2)
        until(world, lambda: len(world.all("KafkaBroker")) == 3)
        broker = next(b for b in world.all("KafkaBroker") if b["spec"]["node"] == "node2")
        broker["spec"]["disks"][1]["pv"] = edited or broker["spec"]["disks"][0]["pv"]
        world.put(broker)
        steps(world, 6)
        if "VolumeUnavailable" in reasons(world):
            remove_from_record(world, str(edited))
        well(world)
        assert_each_has_its_own(world)
        assert {len(b["spec"]["disks"]) for b in world.all("KafkaBroker")} == {2}

    def test_a_volume_that_is_reserved_on_another_node_is_released(self) -> None:
        world = settled(2, 2, 2)
        mine, other = (int(world.get("KafkaBroker", f"demo-broker-{i}")["spec"]["node"][-1]) for i in (1, 2))
        world.cluster["spec"]["brokerPools"][0]["disks"]["maxCount"] = 2
        world.settle(20)
        far = add_volume(world, other, 3)
        world.get("PersistentVolume", far)["spec"]["claimRef"] = {
            "namespace": "kafka",
            "name": "data-disk2-demo-1",
            "fieldPath": names.RESERVED,
        }
        near = add_volume(world, mine, 3)
        del world.cluster["spec"]["brokerPools"][0]["disks"]["maxCount"]
        well(world)
        assert near in volumes_of(world, 1)
        assert far in volumes_of(world, 2)


class TestElsewhere:
    """The volume of a disk that is being added cannot be mounted on its node: what the wait says, is tried."""

    def unmountable(self) -> tuple[Checked, str]:
        world = settled(2, 2, 2)
        name = add_volume(world, int(world.get("KafkaBroker", "demo-broker-1")["spec"]["node"][-1]), 3)
        until(world, lambda: world.get("PersistentVolume", name)["status"]["phase"] == "Bound")
        return world, name

    def waits(self, world: Checked) -> str:
        until(world, lambda: "VolumeNotOnNode" in reasons(world), 20)
        wait = next(w for w in world.cluster["status"]["waiting"] if w["reason"] == "VolumeNotOnNode")
        assert "disks.count" not in wait["unblockedBy"]
        return str(wait["unblockedBy"])

    @pytest.mark.parametrize("lost", [False, True])
    @pytest.mark.parametrize("recorded", [False, True])
    def test_it_was_deleted(self, *, recorded: bool, lost: bool) -> None:
        world, name = self.unmountable()
        if recorded:  # with its UID
            world.reconcile()
        del world.objects["PersistentVolume", name]
        if lost:  # as Kubernetes reports it then
            world.get("PersistentVolumeClaim", "data-disk2-demo-1")["status"]["phase"] = "Lost"
        assert "kubectl delete pvc data-disk2-demo-1" in self.waits(world)
        world.get("PersistentVolumeClaim", "data-disk2-demo-1")["metadata"]["deletionTimestamp"] = "x"
        if not recorded:
            steps(world, 5)
            remove_from_record(world, name)
        well(world)
        assert names_of(world, 1) == ["disk0", "disk1"]

    @pytest.mark.parametrize("another", [False, True])
    def test_it_is_of_another_node(self, *, another: bool) -> None:
        world, name = self.unmountable()
        volume = world.get("PersistentVolume", name)
        volume["spec"]["nodeAffinity"] = new_volume("x", "node9", "local-disks", "/mnt/x")["spec"][
            "nodeAffinity"
        ]
        assert "persistentVolumeReclaimPolicy" in self.waits(world)
        node = int(world.get("KafkaBroker", "demo-broker-1")["spec"]["node"][-1])
        free = add_volume(world, node, 5) if another else None
        volume["spec"]["persistentVolumeReclaimPolicy"] = "Retain"
        world.get("PersistentVolumeClaim", "data-disk2-demo-1")["metadata"]["deletionTimestamp"] = "x"
        well(world)
        assert len(names_of(world, 1)) == (3 if another else 2)
        assert name not in volumes_of(world, 1)
        assert free is None or free in volumes_of(world, 1)


def steps(world: Checked, number: int) -> None:
    for _ in range(number):
        world.reconcile()
        world.breathe()


def hidden(world: Checked, name: str, passes: int) -> None:
    """Passes whose list of volumes lacks one."""
    for _ in range(passes):
        kept = world.objects.pop(("PersistentVolume", name))
        world.reconcile()
        world.put(kept)
        world.breathe()


def remove_from_record(world: Checked, volume: str) -> None:
    """What `spindle volume forget` does, as the wait for a volume that is gone for good says."""
    wait = next(w for w in world.cluster["status"]["waiting"] if w["reason"] == "VolumeUnavailable")
    assert f"spindle volume forget {volume}." in wait["unblockedBy"]
    assert ("PersistentVolume", volume) not in world.objects
    kind, name, disk = wait["object"].split("/")
    broker = world.get(kind, name)
    entry = next(each for each in broker["spec"]["disks"] if each["name"] == disk)
    assert entry.pop("pv") == volume
    world.put(broker)


def assert_each_has_its_own(world: Checked) -> None:
    """Each broker has volumes of its node, each volume is one disk, and none is reserved for nothing."""
    for broker in world.all("KafkaBroker"):
        mine = volumes_of(world, broker["spec"]["id"])
        assert len(mine) == len(broker["spec"]["disks"])
        assert {volume.split("-")[0] for volume in mine} == {broker["spec"]["node"]}
    for volume in world.all("PersistentVolume"):
        assert (volume["spec"].get("claimRef") or {"uid": ""}).get("uid") is not None


class TestOtherWay:
    def test_from_a_number_to_all_and_back(self) -> None:
        world = settled(2, 2, 2)
        spec = world.cluster["spec"]["brokerPools"][0]
        spec["disks"] = {"count": 2, "size": "50Gi", "storageClass": "local-disks"}
        well(world)
        for node in (1, 2, 3):
            add_volume(world, node, 3)
        well(world)
        assert [len(disks_of(world, i)) for i in range(3)] == [2] * 3
        spec["disks"] = dict(ALL)
        well(world)
        assert [len(disks_of(world, i)) for i in range(3)] == [3] * 3
        spec["disks"] = {"count": 2, "size": "50Gi", "storageClass": "local-disks"}
        well(world)
        assert [len(disks_of(world, i)) for i in range(3)] == [2] * 3


def test_planning_twice_does_nothing() -> None:
    world = settled(2, 3, 2)
    assert world.reconcile().actions == ()
    assert names.disk_name(0) in names_of(world, 0)


class TestTrouble:
    @pytest.mark.parametrize("deleted", [False, True])
    def test_a_lost_node(self, *, deleted: bool) -> None:
        world = settled(2, 3, 2)
        broker = next(b["spec"]["id"] for b in world.all("KafkaBroker") if b["spec"]["node"] == "node2")
        lose(world, broker, deleted=deleted)
        world.add_node("node4", "zone-b", 0)
        add_volume(world, 4, 0)
        until(world, lambda: node_of(world, broker) == "node4" and broker in world.kafkas.running, 200)
        until(world, lambda: at(world, broker, "disk0") == "Active", 150)
        well(world)
        assert names_of(world, broker) == ["disk0"]
        assert world.volume_of(broker, "disk0") == "node4-disk0"

    def test_a_lost_node_and_one_with_more_disks(self) -> None:
        world = settled(2, 3, 2)
        broker = next(b["spec"]["id"] for b in world.all("KafkaBroker") if b["spec"]["node"] == "node1")
        lose(world, broker)
        world.add_node("node4", "zone-a", 0)
        for disk in range(4):
            add_volume(world, 4, disk)
        until(world, lambda: node_of(world, broker) == "node4" and broker in world.kafkas.running, 200)
        until(world, lambda: at(world, broker, "disk3") == "Active", 150)
        well(world)
        assert len(names_of(world, broker)) == 4

    def test_a_record_that_was_edited(self) -> None:
        world = settled(3, 3, 3)
        broker = world.get("KafkaBroker", "demo-broker-0")
        node = int(broker["spec"]["node"][-1])
        broker["spec"]["disks"] = broker["spec"]["disks"][:-1]
        world.put(broker)
        add_volume(world, node, 7)
        until(world, lambda: len(disks_of(world, 0)) == 4, 150)
        well(world)
        assert len(volumes_of(world, 0)) == 4

    def test_a_limit_that_is_lowered_before_the_disk_is_used_frees_its_volume(self) -> None:
        for passes in range(1, 8):
            world = settled(2, 2, 2)
            node = int(world.get("KafkaBroker", "demo-broker-0")["spec"]["node"][-1])
            name = add_volume(world, node, 7)
            for _ in range(passes):
                world.reconcile()
            world.cluster["spec"]["brokerPools"][0]["disks"]["maxCount"] = 2
            well(world)
            assert names_of(world, 0) == ["disk0", "disk1"]
            assert world.get("PersistentVolume", name)["status"]["phase"] == "Available"
            assert not world.get("PersistentVolume", name)["spec"].get("claimRef")

    def test_two_pools_with_the_same_class(self) -> None:
        world = world_of(3, 3, 3)
        main = world.cluster["spec"]["brokerPools"][0]
        world.cluster["spec"]["brokerPools"] = [main, main | {"name": "other", "replicas": 2}]
        world.cluster["spec"]["scheduling"] = {"sharedNodes": True}
        world.settle(150)
        for broker in range(3):  # those of the first pool
            node = world.get("KafkaBroker", f"demo-broker-{broker}")["spec"]["node"]
            assert volumes_of(world, broker) == {f"{node}-disk{disk}" for disk in range(3)}
        assert len(world.running("broker")) == 3
        wait = next(
            w for w in world.cluster["status"]["waiting"] if w["reason"] == "InsufficientVolumesOnNode"
        )
        assert "no other node has free volumes" in wait["message"]

    def test_a_class_that_gets_a_provisioner_changes_nothing_that_runs(self) -> None:
        world = settled(2, 2, 2)
        found = dict(world.get("StorageClass", "local-disks")) | {"provisioner": "csi.example.com"}
        world.put(found)
        add_volume(world, 1, 7)
        assert events([world.reconcile()]) == []
        assert "ClassNotLocal" in reasons(world)
        assert [len(disks_of(world, i)) for i in range(3)] == [2] * 3

    def test_a_cluster_that_is_applied_again_has_its_disks(self) -> None:
        world = settled(2, 4, 1)
        before = {i: volumes_of(world, i) for i in range(3)}
        delete(world)
        well(world)
        assert {i: volumes_of(world, i) for i in range(3)} == before


GB = 10**9
PARTITIONS = 120


def test_unequal_disks_are_balanced_by_capacity() -> None:
    """A disk of twice the size ends with twice the bytes, on brokers with different numbers of disks."""
    sizes = {0: (100, 200), 1: (100, 100, 100), 2: (50, 250)}
    brokers = {
        i: Broker(id=i, rack=f"r{i}", fenced=False, log_dirs=tuple(_log_dirs(mine)))
        for i, mine in sizes.items()
    }
    partitions = tuple(
        Partition(topic="t", index=p, leader=0, replicas=(0, 1, 2), isr=(0, 1, 2)) for p in range(PARTITIONS)
    )
    shown = from_view(KafkaView(cluster_id="c", brokers=brokers, partitions=partitions))
    ends = plan(shown, Goals(leader_band=None)).after / shown.capacity
    assert ends == pytest.approx(np.full(len(ends), PARTITIONS / 300), rel=0.2)


def _log_dirs(sizes: tuple[int, ...]) -> Iterator[LogDir]:
    """The replicas of a broker are on its last disks."""
    for index, size in enumerate(sizes):
        each = 60 if len(sizes) == 3 else PARTITIONS  # of three, none is large enough for all of them
        last = len(sizes) - 1
        held = {("t", p): GB for p in range(PARTITIONS) if last - p // each == index}
        yield LogDir(
            path=path_of(f"disk{index}"),
            total_bytes=size * GB,
            usable_bytes=size * GB - sum(held.values()),
            replicas=held,
        )


class TestScaleIn:
    """A new broker is not needed any more before its claims are created."""

    def begun(self) -> Checked:
        world = settled(2, 2, 2)
        world.add_node("node4", "zone-d", 0)
        for disk in range(2):
            add_volume(world, 4, disk)
        self.wanted(world, 4)
        until(world, lambda: len(world.all("KafkaBroker")) == 4)
        world.breathe()
        return world

    def wanted(self, world: Checked, brokers: int) -> None:
        world.cluster["spec"]["brokerPools"][0]["replicas"] = brokers

    def reserved(self, world: Checked) -> list[str]:
        refs = [v["spec"].get("claimRef") or {} for v in world.all("PersistentVolume")]
        return [ref["name"] for ref in refs if ref and not ref.get("uid")]

    @pytest.mark.parametrize("passes", range(8))
    def test_none_of_its_volumes_stays_reserved(self, passes: int) -> None:
        world = self.begun()
        steps(world, passes)
        self.wanted(world, 3)
        until(world, lambda: len(world.all("KafkaBroker")) == 3, 100)
        well(world)
        assert self.reserved(world) == []

    def test_one_that_is_not_listed_may_be_reserved(self) -> None:
        world = self.begun()
        self.wanted(world, 3)
        world.reconcile()
        assert self.reserved(world)
        hidden(world, "node4-disk0", 20)
        assert len(world.all("KafkaBroker")) == 4
        assert "VolumeUnavailable" in reasons(world)
        until(world, lambda: len(world.all("KafkaBroker")) == 3, 100)
        assert self.reserved(world) == []

    def test_one_that_was_deleted_meanwhile(self) -> None:
        world = self.begun()
        self.wanted(world, 3)
        world.reconcile()
        del world.objects["PersistentVolume", "node4-disk0"]
        steps(world, 20)
        remove_from_record(world, "node4-disk0")
        until(world, lambda: len(world.all("KafkaBroker")) == 3, 100)
        assert self.reserved(world) == []

    def test_one_with_data_is_kept_for_its_claim(self) -> None:
        world = settled(2, 2, 2, 2)
        leaving = world.get("KafkaBroker", "demo-broker-3")
        volume = world.volume_of(3, "disk1")
        self.wanted(world, 3)
        until(
            world, lambda: bool(world.get("KafkaBroker", leaving["metadata"]["name"])["spec"].get("leaving"))
        )
        claim = world.objects.pop(("PersistentVolumeClaim", "data-disk1-demo-3"))
        found = world.get("PersistentVolume", volume)
        found["spec"]["claimRef"] = {"namespace": "kafka", "name": claim["metadata"]["name"]}
        found["status"]["phase"] = "Available"
        until(world, lambda: len(world.all("KafkaBroker")) == 3, 100)
        assert self.reserved(world) == ["data-disk1-demo-3"]
