"""``disks.count`` up and down on the model cluster: provisioned first, emptied first, and back again in the middle."""

import copy
from functools import cache, partial
from typing import Any

import pytest

from spindle.api import names
from spindle.model.actions import Apply, Evict, Patch
from tests.model.checked import Checked
from tests.model.kafka import CAPACITY, SIZE, path_of
from tests.unit.test_healing_plan import events, reasons, until


def cluster(
    brokers: int = 3, disks: int = 2, slots: int = 3, partitions: int = 6, storage: str = "local-disks"
) -> Checked:
    """Brokers on nodes with so many slots, of which the first disks are used, and partitions of three replicas."""
    return _settled(brokers, disks, slots, partitions, storage).fork()


@cache
def _settled(brokers: int, disks: int, slots: int, partitions: int, storage: str) -> Checked:
    pool = {
        "name": "main",
        "replicas": brokers,
        "disks": {"count": disks, "size": "100Gi", "storageClass": storage},
    }
    world = Checked.of("abc" * ((brokers + 2) // 3), disks=slots, brokerPools=[pool])
    world.settle(80)
    for p in range(partitions):
        replicas = tuple((p + i) % brokers for i in range(3))
        world.kafkas.create("orders", p, replicas, partial(_on, path_of(f"disk{p % disks}")))
        world.factors["orders", p] = 3
    world.settle()
    return world


def _on(path: str, _: int) -> str:
    return path


def want(world: Checked, count: int) -> None:
    world.cluster["spec"]["brokerPools"][0]["disks"]["count"] = count


def disks_of(world: Checked, broker: int) -> list[dict[str, Any]]:
    return list(world.get("KafkaBroker", f"demo-broker-{broker}")["spec"]["disks"])


def at(world: Checked, broker: int, disk: str) -> str:
    """Where a disk is in its life; empty if its broker has no such disk."""
    status = world.get("KafkaBroker", f"demo-broker-{broker}")["status"]
    return next((str(d["state"]) for d in status["disks"] if d["name"] == disk), "")


def well(world: Checked, count: int) -> None:
    """Every broker has so many disks, all in use, and nothing was lost or left behind."""
    world.settle(120)
    assert world.broken == []
    assert world.kafkas.losses == []
    assert world.destroyed == []
    for broker in world.all("KafkaBroker"):
        assert [d["name"] for d in broker["spec"]["disks"]] == [names.disk_name(i) for i in range(count)]
        assert {d["mode"] for d in broker["spec"]["disks"]} == {"Active"}
        assert not any(d.get("added") for d in broker["spec"]["disks"])
        assert [d["state"] for d in broker["status"]["disks"]] == ["Active"] * count
        pod = world.get("Pod", broker["metadata"]["name"])
        mounted = [v["name"] for v in pod["spec"]["volumes"] if "persistentVolumeClaim" in v]
        assert mounted == [f"disk-disk{i}" for i in range(count)]
    for state in world.kafkas.partitions.values():
        assert sorted(state.isr) == sorted(state.replicas)
        assert len(state.replicas) == 3
    claims = [c for c in world.all("PersistentVolumeClaim") if "metadata" not in c["metadata"]["name"]]
    assert len(claims) == count * len(world.all("KafkaBroker"))
    roles = {names.LABEL_ROLE in pod["metadata"]["labels"] for pod in world.all("Pod")}
    assert roles == {True}
    assert not any(world.kafkas.settings.values())


def reserved(world: Checked, broker: int) -> list[str]:
    """Volumes that are reserved for new claims of a broker."""
    refs = {v["metadata"]["name"]: v["spec"].get("claimRef") or {} for v in world.all("PersistentVolume")}
    return [
        name
        for name, ref in refs.items()
        if str(ref.get("name")).endswith(f"-demo-{broker}") and not ref.get("uid")
    ]


class TestMore:
    def test_the_volume_is_there_before_the_broker_goes_down(self) -> None:
        world = cluster()
        want(world, 3)
        gone: list[str] = []
        for _ in range(40):
            made = world.reconcile()
            gone += [a.pod for a in made.actions if isinstance(a, Evict)]
            for pod in gone:
                claim = world.get("PersistentVolumeClaim", f"data-disk2-demo-{pod[-1]}")
                assert claim["status"]["phase"] == "Bound"
            world.breathe()
        assert gone
        well(world, 3)
        assert world.disk(0, "disk2").logs, "the new disk was filled"

    def test_it_joins_and_is_filled(self) -> None:
        world = cluster()
        want(world, 3)
        plans = until(world, lambda: at(world, 0, "disk2") == "Active")
        told = [e for made in plans for e in made.events if e.message.startswith("disk2 of demo-broker-0")]
        assert [e.reason for e in told] == ["BackfillStarted", "BackfillCompleted"]
        added = [e for made in plans for e in made.events if e.reason == "DisksAdded"]
        assert len(added) == 3
        well(world, 3)

    def test_one_restart_serves_two_disks(self) -> None:
        world = cluster(slots=4, partitions=0)
        want(world, 4)
        evicted = [
            action.pod
            for made in until(world, lambda: at(world, 2, "disk3") == "Active", 120)
            for action in made.actions
            if isinstance(action, Evict)
        ]
        assert sorted(evicted) == ["demo-broker-0", "demo-broker-1", "demo-broker-2"]
        well(world, 4)

    def test_a_provisioner_makes_the_volume_where_the_broker_is(self) -> None:
        world = cluster(storage="standard", partitions=0)
        want(world, 3)
        asked: set[str] = set()
        for _ in range(80):
            world.reconcile()
            for pod in world.all("Pod"):
                if names.LABEL_ROLE not in pod["metadata"]["labels"]:
                    asked.add(pod["metadata"]["name"])
                    assert not pod["spec"].get("nodeName", "").startswith("?")
            world.breathe()
        assert asked == {f"data-disk2-demo-{i}" for i in range(3)}
        well(world, 3)
        for i in range(3):
            nodes = {
                world.get("PersistentVolume", world.volume_of(i, f"disk{d}"))["spec"]["nodeAffinity"][
                    "required"
                ]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"][0]
                for d in range(3)
            }
            assert len(nodes) == 1

    def test_without_a_free_volume_it_is_said_and_the_others_go_on(self) -> None:
        world = cluster(partitions=0)
        spare = next(
            v["metadata"]["name"]
            for v in world.all("PersistentVolume")
            if v["status"]["phase"] == "Available" and v["metadata"]["name"].startswith("node1")
        )
        kept = world.objects.pop(("PersistentVolume", spare))
        want(world, 3)
        until(world, lambda: "InsufficientVolumesOnNode" in reasons(world))
        until(world, lambda: at(world, 1, "disk2") == at(world, 2, "disk2") == "Active")
        wait = next(
            w for w in world.cluster["status"]["waiting"] if w["reason"] == "InsufficientVolumesOnNode"
        )
        assert wait["object"] == "KafkaBroker/demo-broker-0/disk2"
        assert "set disks.count of pool main back to 2" in wait["unblockedBy"]
        world.put(kept)
        well(world, 3)

    @pytest.mark.parametrize("passes", [1, 3])
    def test_a_reserved_volume_that_is_not_listed_for_a_moment(self, passes: int) -> None:
        world = cluster(slots=4, partitions=0)
        want(world, 3)
        until(world, lambda: bool(reserved(world, 0)))
        for _ in range(passes):
            (name,) = reserved(world, 0)
            kept = world.objects.pop(("PersistentVolume", name))
            world.reconcile()
            assert reserved(world, 0) == []
            world.put(kept)
        well(world, 3)
        assert reserved(world, 0) == []

    def test_the_count_is_lowered_while_a_reserved_volume_is_not_listed(self) -> None:
        world = cluster(slots=4, partitions=0)
        want(world, 3)
        until(world, lambda: bool(reserved(world, 0)))
        (name,) = reserved(world, 0)
        kept = world.objects.pop(("PersistentVolume", name))
        want(world, 2)
        until(world, lambda: "VolumeUnavailable" in reasons(world))
        assert [disk["name"] for disk in disks_of(world, 0)] == ["disk0", "disk1", "disk2"]
        world.put(kept)
        well(world, 2)
        assert reserved(world, 0) == []

    def test_the_size_is_raised_before_a_reserved_volume_is_bound(self) -> None:
        world = cluster(slots=4, partitions=0)
        large = next(v for v in world.all("PersistentVolume") if v["status"]["phase"] == "Available")
        large["spec"]["capacity"] = {"storage": "300Gi"}
        world.put(large)
        want(world, 3)
        until(world, lambda: bool(reserved(world, 0)))
        (small,) = reserved(world, 0)
        world.cluster["spec"]["brokerPools"][0]["disks"]["size"] = "200Gi"
        until(world, lambda: ("PersistentVolumeClaim", "data-disk2-demo-0") in world.objects)
        world.breathe()
        assert world.volume_of(0, "disk2") == large["metadata"]["name"]
        assert small != large["metadata"]["name"]
        assert reserved(world, 0) == []

    def test_a_claim_that_is_lost_is_deleted(self) -> None:
        world = cluster(partitions=0)
        want(world, 3)
        until(world, lambda: ("PersistentVolumeClaim", "data-disk2-demo-0") in world.objects)
        kept = world.objects.pop(("PersistentVolume", world.volume_of(0, "disk2")))
        world.get("PersistentVolumeClaim", "data-disk2-demo-0")["status"]["phase"] = "Lost"
        until(world, lambda: "VolumeNotOnNode" in reasons(world), 5)
        wait = next(w for w in world.cluster["status"]["waiting"] if w["reason"] == "VolumeNotOnNode")
        assert "kubectl delete pvc data-disk2-demo-0" in wait["unblockedBy"]
        world.get("PersistentVolumeClaim", "data-disk2-demo-0")["metadata"]["deletionTimestamp"] = "x"
        del kept["spec"]["claimRef"]
        world.put(kept | {"status": {"phase": "Available"}})  # created again
        well(world, 3)

    def test_partitions_of_one_replica_do_not_hold_its_format_up(self) -> None:
        world = cluster()
        world.kafkas.create("lonely", 0, (0,), partial(_on, path_of("disk0")))
        want(world, 3)
        until(world, lambda: at(world, 0, "disk2") in ("Backfilling", "Active"), 120)
        assert world.kafkas.losses == []

    def test_a_disk_that_is_not_blank_is_not_taken_and_nobody_restarts_for_it(self) -> None:
        world = cluster(partitions=0)
        volume = world.disk_on("node1-disk2")
        volume.id = "somebody-elses"
        want(world, 3)
        plans = until(world, lambda: at(world, 2, "disk2") == "Active", 120)
        assert "DiskUnusable" in reasons(world)
        gone = {a.pod for made in plans for a in made.actions if isinstance(a, Evict)}
        assert gone == {"demo-broker-1", "demo-broker-2"}
        volume.id = None
        well(world, 3)

    @pytest.mark.parametrize("agents", [True, False])
    def test_a_disk_that_turns_out_bad_in_the_pod_is_left_out_again(self, agents: bool) -> None:
        world = cluster(partitions=0)
        volume = world.disk_on("node1-disk2")
        if not agents:
            world.silent |= {f"node{i}" for i in range(1, 4)}
            world.renewed.clear()
            volume.id = "somebody-elses"
        want(world, 3)
        if agents:
            until(world, lambda: not world.kafkas.running.get(0), 120)
            volume.state = "missing"
        for _ in range(60):
            world.reconcile()
            world.breathe()
        assert 0 in world.kafkas.running
        assert "disk2" not in {path.split("/")[-2] for path in world.kafkas.running[0].dirs}
        assert "DiskUnusable" in reasons(world)
        volume.state, volume.id = "well", None
        world.silent.clear()
        well(world, 3)


class TestFewer:
    def test_it_is_emptied_taken_out_and_kept(self) -> None:
        world = cluster(disks=3)
        volume = world.volume_of(0, "disk2")
        directory = disks_of(world, 0)[2]["directoryId"]
        want(world, 2)
        plans = until(world, lambda: len(disks_of(world, 0)) == 2, 120)
        told = [e for made in plans for e in made.events if e.message.startswith("disk2 of demo-broker-0")]
        assert [e.reason for e in told] == ["DiskRemovalStarted", "DiskDrained", "DiskRemoved"]
        well(world, 2)
        kept = world.get("PersistentVolume", volume)
        assert kept["status"]["phase"] == "Released"
        assert kept["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        assert directory in world.get("KafkaBroker", "demo-broker-0")["spec"]["retired"]

    def test_it_is_refused_with_the_numbers_when_the_rest_has_no_room(self) -> None:
        full = CAPACITY // SIZE
        world = cluster(disks=2, partitions=full)
        want(world, 1)
        for _ in range(20):
            world.reconcile()
            world.breathe()
        assert "InsufficientSpaceForDiskRemoval" in reasons(world)
        wait = next(
            w for w in world.cluster["status"]["waiting"] if w["reason"] == "InsufficientSpaceForDiskRemoval"
        )
        assert wait["object"] == "KafkaBroker/demo-broker-0/disk1"
        assert "GB) fit nowhere else" in wait["message"]
        assert {at(world, b, "disk1") for b in range(3)} == {"Active"}
        assert all(not any(s.values()) for s in [world.kafkas.settings])
        want(world, 2)
        well(world, 2)

    def test_a_volume_that_would_go_with_its_claim_is_retained_first(self) -> None:
        world = cluster(disks=3)
        want(world, 2)
        plans = until(world, lambda: len(disks_of(world, 1)) == 2, 120)
        retained = [
            a for made in plans for a in made.actions if isinstance(a, Patch) and a.reason == "VolumeRetained"
        ]
        assert len(retained) >= 1
        well(world, 2)

    def test_the_volume_of_another_tenant_is_not_retained(self) -> None:
        """A claim that is not bound can name any volume."""
        world = cluster(disks=3)
        name = "theirs"
        theirs = copy.deepcopy(world.all("PersistentVolume")[0])
        theirs["metadata"] = {"name": name, "uid": "uid-theirs"}
        theirs["spec"] |= {
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {"namespace": "other", "name": "data", "uid": "uid-data"},
        }
        want(world, 2)
        until(world, lambda: at(world, 0, "disk2") == "Drained", 120)
        claim = world.get("PersistentVolumeClaim", names.claim_name("demo", 0, "disk2"))
        world.put(theirs)
        claim["spec"]["volumeName"], claim["status"] = name, {"phase": "Lost"}
        world.put(claim)
        plans = until(world, lambda: len(disks_of(world, 0)) == 2, 120)
        patched = {a.name for made in plans for a in made.actions if isinstance(a, Patch)}
        assert name not in patched

    def test_a_disk_that_failed_is_removed_once_it_is_empty(self) -> None:
        world = cluster(disks=3)
        world.disk(0, "disk2").state = "dead"
        until(world, lambda: at(world, 0, "disk2") == "Evacuated", 120)
        want(world, 2)
        until(world, lambda: len(disks_of(world, 0)) == 2, 120)
        well(world, 2)

    def test_the_last_disk_that_works_stays(self) -> None:
        world = cluster(disks=2)
        world.disk(0, "disk0").state = "dead"
        want(world, 1)
        for _ in range(60):
            world.reconcile()
            world.breathe()
        assert world.broken == []
        assert 0 in world.kafkas.running


class TestChangedMind:
    def test_down_then_up_while_it_is_emptied(self) -> None:
        world = cluster(disks=3)
        want(world, 2)
        until(world, lambda: at(world, 0, "disk2") == "Draining")
        before = disks_of(world, 0)[2]["directoryId"]
        want(world, 3)
        well(world, 3)
        assert disks_of(world, 0)[2]["directoryId"] == before

    def test_down_then_up_when_it_is_out(self) -> None:
        world = cluster(disks=3)
        want(world, 2)
        until(world, lambda: at(world, 0, "disk2") == "Drained", 120)
        before = disks_of(world, 0)[2]["directoryId"]
        want(world, 3)
        for _ in range(10):
            world.reconcile()
            world.breathe()
        # Either its claim was still there, and it is used again; or it went, and another disk takes its place.
        last = disks_of(world, 0)
        assert len(last) == 2 or last[-1]["directoryId"] == before or last[-1].get("added")
        assert world.broken == []

    def test_up_then_down_before_it_is_bound_leaves_things_as_they_were(self) -> None:
        world = cluster(partitions=0)
        volumes = {
            v["metadata"]["name"]: (v["status"]["phase"], v["spec"].get("claimRef"))
            for v in world.all("PersistentVolume")
        }
        for passes in range(1, 8):
            want(world, 3)
            for _ in range(passes):
                world.reconcile()
            want(world, 2)
            well(world, 2)
            assert volumes == {
                v["metadata"]["name"]: (v["status"]["phase"], v["spec"].get("claimRef"))
                for v in world.all("PersistentVolume")
            }

    @pytest.mark.parametrize("passes", range(1, 6))
    def test_up_down_and_up_again_is_still_provisioned_first(self, passes: int) -> None:
        world = cluster(partitions=0)
        for count in (3, 2, 3):
            want(world, count)
            for _ in range(passes):
                world.reconcile()
        bare = [
            a.pod
            for made in until(world, lambda: at(world, 2, "disk2") == "Active", 120)
            for a in made.actions
            if isinstance(a, Evict)
        ]
        assert sorted(bare) == [f"demo-broker-{i}" for i in range(3)]
        well(world, 3)

    def test_up_then_down_while_a_provisioner_is_asked(self) -> None:
        world = cluster(storage="standard", partitions=0)
        for passes in range(1, 6):
            want(world, 3)
            for _ in range(passes):
                world.reconcile()
                world.breathe()
            want(world, 2)
            well(world, 2)

    def claimed_again(self) -> Checked:
        """Somebody creates the claim of an evacuated disk again, whose volume is gone."""
        world = cluster(slots=4, partitions=0)
        world.disk(0, "disk1").state = "dead"
        until(world, lambda: at(world, 0, "disk1") == "Evacuated", 120)
        claim = world.objects.pop(("PersistentVolumeClaim", "data-disk1-demo-0"))
        del world.objects["PersistentVolume", claim["spec"].pop("volumeName")]
        notes = {
            key: value
            for key, value in claim["metadata"]["annotations"].items()
            if key.startswith("spindle.dev/")
        }
        metadata = {key: claim["metadata"][key] for key in ("name", "namespace", "labels")} | {
            "annotations": notes
        }
        world.put({**claim, "metadata": metadata, "status": {"phase": "Pending"}})
        for _ in range(5):
            world.reconcile()
            if reserved(world, 0):
                return world
        raise AssertionError("no volume is reserved")

    def test_a_volume_for_the_claim_of_an_evacuated_disk_is_not_listed_for_a_moment(self) -> None:
        world = self.claimed_again()
        (name,) = reserved(world, 0)
        kept = world.objects.pop(("PersistentVolume", name))
        for _ in range(3):
            world.reconcile()
            assert reserved(world, 0) == []
        assert "VolumeUnavailable" in reasons(world)
        world.put(kept)
        well(world, 2)
        assert reserved(world, 0) == []
        assert world.volume_of(0, "disk1") == name

    def test_the_volume_for_the_claim_of_an_evacuated_disk_was_deleted(self) -> None:
        world = self.claimed_again()
        (name,) = reserved(world, 0)
        del world.objects["PersistentVolume", name]
        world.reconcile()
        wait = next(w for w in world.cluster["status"]["waiting"] if w["reason"] == "VolumeUnavailable")
        assert "kubectl delete pvc data-disk1-demo-0" in wait["unblockedBy"]
        world.get("PersistentVolumeClaim", "data-disk1-demo-0")["metadata"]["deletionTimestamp"] = "x"
        well(world, 2)

    def test_the_volume_for_the_claim_of_an_evacuated_disk_is_taken_by_another(self) -> None:
        world = self.claimed_again()
        (name,) = reserved(world, 0)
        volume = world.get("PersistentVolume", name)
        volume["spec"]["claimRef"] = {"namespace": "other", "name": "theirs", "uid": "u"}
        volume["status"]["phase"] = "Bound"
        well(world, 2)
        assert world.volume_of(0, "disk1") != name

    def test_a_claim_deleted_by_hand_makes_room_for_another_volume(self) -> None:
        world = cluster(partitions=0)
        world.disk(0, "disk1").state = "dead"
        until(world, lambda: at(world, 0, "disk1") == "Evacuated", 120)
        claim = world.get("PersistentVolumeClaim", "data-disk1-demo-0")
        world.get("PersistentVolume", claim["spec"]["volumeName"])["spec"][
            "persistentVolumeReclaimPolicy"
        ] = "Retain"
        claim["metadata"]["deletionTimestamp"] = "x"
        well(world, 2)
        assert world.volume_of(0, "disk1") == "node1-disk2"


class TestSize:
    def test_claims_ask_for_more_where_their_class_can_grow(self) -> None:
        world = cluster(storage="standard", partitions=0)
        world.get("StorageClass", "standard")["allowVolumeExpansion"] = True
        world.cluster["spec"]["brokerPools"][0]["disks"]["size"] = "200Gi"
        world.reconcile()
        claims = [c for c in world.all("PersistentVolumeClaim") if "metadata" not in c["metadata"]["name"]]
        assert {c["spec"]["resources"]["requests"]["storage"] for c in claims} == {"200Gi"}
        assert "VolumeExpansionInProgress" in reasons(world)
        for claim in claims:
            claim["status"]["capacity"] = {"storage": "200Gi"}
        well(world, 2)
        assert not reasons(world)

    def test_where_it_cannot_it_is_said_once_for_all(self) -> None:
        world = cluster(partitions=0)
        world.cluster["spec"]["brokerPools"][0]["disks"]["size"] = "200Gi"
        made = world.reconcile()
        assert [a.object["metadata"]["name"] for a in made.actions if isinstance(a, Apply)] == ["demo-pools"]
        assert len(made.actions) == 1
        waits = [w for w in world.cluster["status"]["waiting"] if w["reason"] == "ExpansionNotSupported"]
        assert [w["object"] for w in waits] == ["Pool/main"]
        assert "6 claims of 100Gi should have 200Gi" in waits[0]["message"]
        assert "StorageClass local-disks does not allow volume expansion" in waits[0]["message"]

    def test_larger_local_volumes_are_taken_at_their_word(self) -> None:
        world = cluster(partitions=0)
        for volume in world.all("PersistentVolume"):
            volume["spec"]["capacity"] = {"storage": "300Gi"}
        world.cluster["spec"]["brokerPools"][0]["disks"]["size"] = "200Gi"
        world.reconcile()
        assert not reasons(world)


def test_planning_twice_does_nothing() -> None:
    world = cluster()
    want(world, 3)
    well(world, 3)
    want(world, 2)
    well(world, 2)
    assert events([world.reconcile()]) == []
