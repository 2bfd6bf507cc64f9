"""A volume that is reserved for a claim that never comes: Spindle releases what it reserved itself, and nothing that somebody else keeps."""

from typing import Any

import pytest

from spindle.api import names
from spindle.reconcile.plan import ReconcilePlan
from tests.model.checked import Checked
from tests.unit.test_all_disks import (
    add_volume,
    names_of,
    remove_from_record,
    settled,
    steps,
    volumes_of,
    well,
    world_of,
)
from tests.unit.test_change_disks import disks_of
from tests.unit.test_healing_plan import delete, until
from tests.unit.test_node_loss import lose, node_of

KEPT = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "kafka"}


def reserved(world: Checked) -> dict[str, str]:
    """Volume → the claim that it is reserved for, and that does not exist."""
    refs = {v["metadata"]["name"]: v["spec"].get("claimRef") or {} for v in world.all("PersistentVolume")}
    return {
        volume: ref["name"]
        for volume, ref in refs.items()
        if ref and not ref.get("uid") and ("PersistentVolumeClaim", ref["name"]) not in world.objects
    }


def keep(world: Checked, volume: str, claim: str, **reference: Any) -> None:
    """Reserve a volume for a claim, as `spindle volume rebind` leaves one."""
    found = world.get("PersistentVolume", volume)
    found["spec"]["claimRef"] = {**KEPT, "name": claim, **reference}
    world.put(found)


def placed() -> Checked:
    """Brokers are placed, their volumes are reserved, and no claim exists."""
    world = world_of(2, 1, 3)
    until(world, lambda: len(reserved(world)) == 6)
    return world


def deleted_in(world: Checked, passes: int) -> None:
    """The deletion ends within so many passes, in which nothing is bound, and leaves neither a claim nor a reservation."""
    for _ in range(passes):
        if world.reconcile().finished:
            break
    assert not world.all("PersistentVolumeClaim")
    assert reserved(world) == {}


def with_unbound_claims() -> Checked:
    """A KafkaCluster that is deleted with its claims, which exist and have not got their volumes yet."""
    world = placed()
    world.reconcile()
    world.cluster["spec"]["deleteClaims"] = True
    world.cluster["metadata"]["deletionTimestamp"] = "now"
    until(world, lambda: not world.all("KafkaBroker"))
    for claim in world.all("PersistentVolumeClaim"):
        if names.is_broker_claim("demo", claim["metadata"]["name"]):
            claim["status"] = {"phase": "Pending"}
            world.get("PersistentVolume", claim["spec"]["volumeName"])["status"]["phase"] = "Available"
            keep(world, claim["spec"]["volumeName"], claim["metadata"]["name"], fieldPath=names.RESERVED)
        else:
            del world.objects["PersistentVolumeClaim", claim["metadata"]["name"]]
    assert len(world.all("PersistentVolumeClaim")) == 6
    return world


def being_deleted(world: Checked, passes: int = 1) -> ReconcilePlan:
    world.cluster["metadata"]["deletionTimestamp"] = "now"
    made = ReconcilePlan()
    for _ in range(passes):
        made = world.reconcile()
        world.breathe()
    return made


def node_number(world: Checked, broker: int) -> int:
    return int(world.get("KafkaBroker", f"demo-broker-{broker}")["spec"]["node"][-1])


def wait_for(world: Checked, reason: str) -> dict[str, Any]:
    return next(wait for wait in world.cluster["status"]["waiting"] if wait["reason"] == reason)


class TestDeletion:
    @pytest.mark.parametrize("passes", range(1, 6))
    def test_seconds_after_the_placement(self, passes: int) -> None:
        world = world_of(2, 1, 3)
        steps(world, passes)
        delete(world)
        assert reserved(world) == {}

    @pytest.mark.parametrize("death", range(7))
    def test_by_an_operator_that_is_killed(self, death: int) -> None:
        """Between two claims, and then between two releases."""
        world = placed()
        world.reconcile(stop_after=death)
        world.cluster["metadata"]["deletionTimestamp"] = "now"
        for _ in range(12):
            world.reconcile(stop_after=1)
        delete(world)
        assert reserved(world) == {}
        assert len(world.all("PersistentVolumeClaim")) >= death
        well(world)
        assert sorted(len(disks_of(world, i)) for i in range(3)) == [1, 2, 3]

    def test_applied_again_at_once(self) -> None:
        world = placed()
        delete(world)
        well(world)
        assert sorted(len(disks_of(world, i)) for i in range(3)) == [1, 2, 3]

    def test_with_its_claims_before_they_are_bound(self) -> None:
        world = with_unbound_claims()
        deleted_in(world, 20)

    def test_the_volume_is_released_before_its_claim_is_deleted(self) -> None:
        """Afterwards volumes may be unreadable, and nothing would tell that one is reserved."""
        world = with_unbound_claims()
        world.reconcile()
        world.unknown = frozenset({"persistentvolumes"})
        until(world, lambda: world.reconcile().finished, 5)
        assert not world.all("PersistentVolumeClaim")
        assert reserved(world) == {}

    def test_of_a_disk_that_is_not_on_record(self) -> None:
        """Its claim was deleted by hand after its KafkaBroker, or the record was edited."""
        world = settled(2, 2, 2)
        keep(world, add_volume(world, 1, 3), "data-disk7-demo-1", fieldPath=names.RESERVED)
        world.cluster["spec"]["paused"] = True
        delete(world)
        assert reserved(world) == {}

    @pytest.mark.parametrize("unreadable", [False, True])
    def test_with_its_claims_while_a_volume_is_not_listed(self, *, unreadable: bool) -> None:
        world = with_unbound_claims()
        kept = world.objects.pop(("PersistentVolume", "node2-disk0"))
        world.unknown = frozenset({"persistentvolumes"} if unreadable else ())
        for _ in range(12):
            assert not world.reconcile().finished
        left = [c["spec"]["volumeName"] for c in world.all("PersistentVolumeClaim")]
        assert "node2-disk0" in left if unreadable else left == ["node2-disk0"]
        waits = [w for w in world.cluster["status"]["waiting"] if w["reason"] == "VolumeUnavailable"]
        assert len(waits) == len(left)
        world.put(kept)
        world.unknown = frozenset()
        deleted_in(world, 5)

    def test_one_that_is_not_listed_may_be_reserved(self) -> None:
        world = placed()
        kept = world.objects.pop(("PersistentVolume", "node3-disk1"))
        being_deleted(world, 10)
        assert [b["spec"]["node"] for b in world.all("KafkaBroker")] == ["node3"], "the others are gone"
        wait = wait_for(world, "VolumeUnavailable")
        assert "the KafkaBroker stays until the volume is released" in wait["message"]
        world.put(kept)
        delete(world)
        assert reserved(world) == {}

    def test_one_that_was_deleted(self) -> None:
        world = placed()
        del world.objects["PersistentVolume", "node3-disk1"]
        being_deleted(world, 10)
        remove_from_record(world, "node3-disk1")
        delete(world)
        assert reserved(world) == {}

    def test_while_volumes_cannot_be_read(self) -> None:
        world = placed()
        world.unknown = frozenset({"persistentvolumes"})
        being_deleted(world, 10)
        assert len(world.all("KafkaBroker")) == 3
        wait = wait_for(world, "VolumeUnavailable")
        assert "PersistentVolumes cannot be read" in wait["message"]
        assert "ClusterRole" in wait["unblockedBy"]
        world.unknown = frozenset()
        delete(world)
        assert reserved(world) == {}

    def test_while_volumes_cannot_be_read_and_none_is_reserved(self) -> None:
        world = settled(2, 2, 2)
        world.unknown = frozenset({"persistentvolumes"})
        delete(world)

    def test_a_claim_that_is_not_listed(self) -> None:
        """It gets its volume all the same, as it names it."""
        world = placed()
        world.reconcile()
        key = "PersistentVolumeClaim", "data-disk0-demo-1"
        claim = world.objects.pop(key)
        being_deleted(world)
        world.put(claim)
        delete(world)
        world.breathe()
        volume = world.get("PersistentVolume", claim["spec"]["volumeName"])
        assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
        well(world)

    def test_a_claim_that_appears_after_the_list_was_read(self) -> None:
        """The volume has changed since: the release fails, and the next pass sees the claim."""
        world = placed()
        world.cluster["metadata"]["deletionTimestamp"] = "now"
        volume = world.get("PersistentVolume", "node2-disk0")
        name = volume["spec"]["claimRef"]["name"]
        seen = world.snapshot()
        keep(world, "node2-disk0", name, uid="just-now")
        version = {v["metadata"]["name"]: v["metadata"]["resourceVersion"] for v in seen.volumes}
        assert (
            version["node2-disk0"]
            != world.get("PersistentVolume", "node2-disk0")["metadata"]["resourceVersion"]
        )
        being_deleted(world, 10)
        assert world.get("PersistentVolume", "node2-disk0")["spec"]["claimRef"]["uid"] == "just-now"

    @pytest.mark.parametrize(
        "reference",
        [
            pytest.param({}, id="kept with its data"),
            pytest.param({"fieldPath": names.RESERVED, "uid": "of-a-claim"}, id="bound"),
            pytest.param({"fieldPath": names.RESERVED, "namespace": "other"}, id="of another namespace"),
            pytest.param({"fieldPath": names.RESERVED, "name": "theirs"}, id="for another claim"),
            pytest.param(
                {"fieldPath": names.RESERVED, "name": "data-disk0-demo-2-1"}, id="of another KafkaCluster"
            ),
        ],
    )
    def test_what_spindle_did_not_reserve_stays(self, reference: dict[str, str]) -> None:
        world = placed()
        claim = world.get("PersistentVolume", "node2-disk0")["spec"]["claimRef"]["name"]
        keep(world, "node2-disk0", claim, **reference)
        before = world.get("PersistentVolume", "node2-disk0")["spec"]["claimRef"]
        delete(world)
        assert world.get("PersistentVolume", "node2-disk0")["spec"]["claimRef"] == before

    def test_what_stays_reserved_is_told(self) -> None:
        world = placed()
        claim = world.get("PersistentVolume", "node2-disk0")["spec"]["claimRef"]["name"]
        keep(world, "node2-disk0", claim)
        world.cluster["metadata"]["deletionTimestamp"] = "now"
        plans = until(world, lambda: not world.all("KafkaBroker"))
        told = [e for made in plans for e in made.events if e.reason == "VolumeStaysReserved"]
        assert len(told) == 1
        assert claim in told[0].message
        assert "spindle volume reuse node2-disk0" in told[0].message

    def test_data_of_a_broker_stays_reserved(self) -> None:
        """Its claim was deleted, and somebody restores it."""
        world = settled(2, 2, 2)
        volume = world.volume_of(1, "disk1")
        del world.objects["PersistentVolumeClaim", "data-disk1-demo-1"]
        keep(world, volume, "data-disk1-demo-1")
        world.get("PersistentVolume", volume)["status"]["phase"] = "Available"
        world.cluster["metadata"]["deletionTimestamp"] = "now"
        until(world, lambda: not world.all("KafkaBroker"))
        assert reserved(world) == {volume: "data-disk1-demo-1"}


class TestKept:
    """Somebody reserves a volume for the claim of a new disk."""

    def test_a_volume_that_cannot_become_the_disk_is_left_alone(self) -> None:
        world = settled(2, 2, 2)
        far = add_volume(world, node_number(world, 2), 3)
        keep(world, far, "data-disk2-demo-1")
        near = add_volume(world, node_number(world, 1), 3)
        for _ in range(20):
            steps(world, 1)
            assert world.get("PersistentVolume", far)["spec"]["claimRef"] == {
                **KEPT,
                "name": "data-disk2-demo-1",
            }
        well(world)
        assert near in volumes_of(world, 1)
        assert [len(disks_of(world, i)) for i in range(3)] == [2, 3, 2]

    def test_a_volume_that_can_become_the_disk_is_used(self) -> None:
        world = settled(2, 2, 2)
        name = add_volume(world, node_number(world, 1), 3)
        until(world, lambda: name in reserved(world))
        keep(world, name, "data-disk2-demo-1")
        well(world)
        assert name in volumes_of(world, 1)

    def test_of_a_new_broker(self) -> None:
        world = world_of(2, 2, 2)
        far = add_volume(world, 1, 3, "1Mi")  # too small
        for broker in range(3):
            keep(world, far, f"data-disk0-demo-{broker}")
            steps(world, 1)
        well(world)
        assert world.get("PersistentVolume", far)["spec"]["claimRef"]["name"] == "data-disk0-demo-2"
        assert [len(disks_of(world, i)) for i in range(3)] == [2, 2, 2]

    def test_of_a_disk_that_is_not_needed_any_more(self) -> None:
        world = settled(2, 2, 2)
        name = add_volume(world, node_number(world, 1), 3)
        until(world, lambda: name in reserved(world))
        keep(world, name, "data-disk2-demo-1")
        world.cluster["spec"]["brokerPools"][0]["disks"]["maxCount"] = 2
        world.settle(60)
        assert names_of(world, 1) == ["disk0", "disk1"]
        assert reserved(world) == {name: "data-disk2-demo-1"}

    def test_for_an_added_disk_of_a_pool_with_a_count(self) -> None:
        world = Checked.of("abc", 3)
        well(world)
        taken = {
            c["spec"]["volumeName"]
            for c in world.all("PersistentVolumeClaim")
            if "disk" in c["metadata"]["name"]
        }
        node = next(v for v in taken if v == world.volume_of(1, "disk0")).split("-")[0]
        other = next(f"node{i}" for i in (1, 2, 3) if f"node{i}" != node)
        far = next(
            v["metadata"]["name"]
            for v in world.all("PersistentVolume")
            if v["metadata"]["name"].startswith(other) and v["metadata"]["name"] not in taken
        )
        keep(world, far, "data-disk2-demo-1")
        spare = f"{other}-disk9"
        world.put(
            {
                **world.get("PersistentVolume", far),
                "metadata": {"name": spare},
                "spec": {
                    k: v for k, v in world.get("PersistentVolume", far)["spec"].items() if k != "claimRef"
                },
            }
        )
        world.cluster["spec"]["brokerPools"][0]["disks"]["count"] = 3
        well(world)
        assert world.get("PersistentVolume", far)["spec"]["claimRef"] == {**KEPT, "name": "data-disk2-demo-1"}
        assert world.volume_of(1, "disk2").startswith(node)


class TestUnneeded:
    """A volume that Spindle reserved for a disk that no KafkaBroker has."""

    def test_of_a_cluster_whose_finalizers_were_removed_by_hand(self) -> None:
        world = placed()
        world.collect_garbage(world.cluster["metadata"]["uid"])
        assert not world.all("KafkaBroker")
        world.cluster["metadata"]["uid"] = "another"
        world.cluster["status"] = {}
        well(world)
        assert reserved(world) == {}
        assert sorted(len(disks_of(world, i)) for i in range(3)) == [1, 2, 3]

    @pytest.mark.parametrize("kind", ["persistentvolumes", "persistentvolumeclaims", "kafkabrokers"])
    def test_nothing_while_it_is_unknown_what_exists(self, kind: str) -> None:
        world = settled(2, 2, 2)
        name = add_volume(world, 1, 3)
        keep(world, name, "data-disk7-demo-1", fieldPath=names.RESERVED)
        world.unknown = frozenset({kind})
        steps(world, 3)
        assert reserved(world) == {name: "data-disk7-demo-1"}
        world.unknown = frozenset()
        steps(world, 1)
        assert reserved(world) == {}

    def test_what_somebody_else_keeps_stays(self) -> None:
        world = settled(2, 2, 2)
        name = add_volume(world, 1, 3)
        keep(world, name, "data-disk7-demo-1")
        world.settle(60)
        assert reserved(world) == {name: "data-disk7-demo-1"}

    def test_a_release_that_fails_holds_up_nothing(self) -> None:
        world = settled(2, 2, 2)
        keep(world, add_volume(world, 1, 3), "data-disk7-demo-1", fieldPath=names.RESERVED)
        made = world.reconcile()
        assert [getattr(a, "alone", False) for a in made.actions] == [True]

    def test_of_a_disk_that_was_to_be_added_on_a_lost_node(self) -> None:
        world = settled(2, 2, 3)
        name = add_volume(world, node_number(world, 1), 3)
        until(world, lambda: name in reserved(world))
        lose(world, 1)
        world.add_node("node4", "zone-b", 0)
        add_volume(world, 4, 0)
        until(world, lambda: node_of(world, 1) == "node4" and 1 in world.kafkas.running, 200)
        well(world)
        assert reserved(world) == {}


class TestScaleIn:
    def test_a_volume_that_somebody_keeps_stays_reserved_and_is_told(self) -> None:
        world = settled(2, 2, 2)
        world.add_node("node4", "zone-d", 0)
        add_volume(world, 4, 0)
        world.cluster["spec"]["brokerPools"][0]["replicas"] = 4
        until(world, lambda: "node4-disk0" in reserved(world))
        world.cluster["spec"]["brokerPools"][0]["replicas"] = 3
        claim = "PersistentVolumeClaim", "data-disk0-demo-3"
        until(world, lambda: claim in world.objects)
        until(world, lambda: claim not in world.objects)
        keep(world, "node4-disk0", "data-disk0-demo-3")
        plans = until(world, lambda: len(world.all("KafkaBroker")) == 3, 100)
        assert "VolumeStaysReserved" in {e.reason for made in plans for e in made.events}
        assert reserved(world) == {"node4-disk0": "data-disk0-demo-3"}
