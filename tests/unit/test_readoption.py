"""Brokers that are found again by their claims never start without a disk that may hold replicas (rule 15)."""

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import pytest

from spindle.api import names
from spindle.manifests.backup import backup, restored
from spindle.model.given_consent import losses_named_in
from tests.model.checked import Checked
from tests.model.failing import Failing
from tests.model.kafka import path_of
from tests.model.nodes import new_volume
from tests.model.store import ConflictError
from tests.unit import test_change_disks as change_disks
from tests.unit.test_healing_plan import (
    accept_text,
    cluster,
    condition,
    delete,
    mode_of,
    reasons,
    state_of,
    until,
    whole,
)

Objects = list[dict[str, Any]]


def saved(world: Failing) -> Objects:
    """A backup of the claims."""
    return backup([{**claim, "apiVersion": "v1"} for claim in world.all("PersistentVolumeClaim")])


def drop_claims(world: Failing, *chosen: str) -> None:
    """Claims go, their volumes are kept."""
    for claim in world.all("PersistentVolumeClaim"):
        if not chosen or claim["metadata"]["name"] in chosen:
            world.get("PersistentVolume", claim["spec"]["volumeName"])["status"]["phase"] = "Released"
            del world.objects["PersistentVolumeClaim", claim["metadata"]["name"]]


def restore(world: Failing, kept: Objects) -> None:
    """What ``spindle restore`` does: volumes are kept for the claims, and the claims are applied."""
    for obj in kept:
        volume = world.get("PersistentVolume", obj["spec"]["volumeName"])
        volume["status"]["phase"] = "Available"
        volume["spec"]["claimRef"] = {"namespace": "kafka", "name": obj["metadata"]["name"]}
        world.put({**copy.deepcopy(restored(obj, "kafka", {})), "status": {"phase": "Pending"}})


def lost_namespace(world: Failing, kept: Objects) -> None:
    """All objects of the cluster go; an older backup is put back."""
    delete(world)
    drop_claims(world)
    for name in ("demo-identity", "demo-moves", "demo-pools"):
        world.objects.pop(("ConfigMap", name), None)
    restore(world, kept)


def run(world: Failing, passes: int = 40) -> None:
    for _ in range(passes):
        with contextlib.suppress(Exception):
            world.reconcile()
        world.breathe()
        assert world.kafkas.losses == []


def nothing_lost(world: Failing, done: Callable[[], bool], passes: int = 120) -> None:
    until(world, lambda: done() or bool(world.kafkas.losses), passes)
    assert world.kafkas.losses == []


def claim_of(broker: int, disk: str) -> str:
    return names.claim_name("demo", broker, disk)


class TestAnOldBackup:
    """1a: the backup was taken while a disk was out; the disk was replaced and filled since."""

    def test_the_disk_that_was_filled_since_is_used_again(self) -> None:
        world = cluster(3)
        for broker in range(3):
            world.disk(broker, "disk1").state = "dead"
            until(world, lambda broker=broker: state_of(world, broker, "disk1") == "Evacuated", 80)  # type: ignore[misc]
            if broker < 2:
                world.swap(broker, "disk1")
                whole(world)
        kept = saved(world)
        world.swap(2, "disk1")
        whole(world)
        ids = {
            b["spec"]["id"]: [d["directoryId"] for d in b["spec"]["disks"]] for b in world.all("KafkaBroker")
        }
        assert world.disk(2, "disk1").logs
        lost_namespace(world, kept)
        nothing_lost(world, lambda: _at_rest(world))
        whole(world)
        assert ids == {
            b["spec"]["id"]: [d["directoryId"] for d in b["spec"]["disks"]] for b in world.all("KafkaBroker")
        }

    def test_a_disk_that_was_replaced_since_is_used_again(self) -> None:
        world = cluster(3)
        kept = saved(world)
        world.disk(2, "disk1").state = "dead"
        until(world, lambda: state_of(world, 2, "disk1") == "Evacuated", 80)
        world.swap(2, "disk1")
        whole(world)
        found = world.disk(2, "disk1").id
        lost_namespace(world, kept)
        nothing_lost(world, lambda: _at_rest(world))
        whole(world)
        assert world.disk(2, "disk1").id == found


class TestABackupFromBeforeABroker:
    """All objects of a cluster are lost, and the backup that is restored is older than one of its brokers."""

    def test_the_broker_is_named_with_its_volumes_and_comes_back_with_its_claims(self) -> None:
        world = cluster(3)
        kept = saved(world)
        of_broker = [obj for obj in kept if obj["metadata"]["name"].endswith("-2")]
        world.cluster["spec"]["brokerPools"][0]["replicas"] = 2
        lost_namespace(world, [obj for obj in kept if obj not in of_broker])
        nothing_lost(world, lambda: "BrokerNotFound" in reasons(world))
        (wait,) = (w for w in world.cluster["status"]["waiting"] if w["reason"] == "BrokerNotFound")
        assert wait["object"] == "KafkaBroker/demo-broker-2"
        for disk in ("disk0", "disk1"):
            volume = next(
                obj["spec"]["volumeName"] for obj in of_broker if obj["metadata"]["name"] == claim_of(2, disk)
            )
            assert f"{claim_of(2, disk)} with spec.volumeName: {volume}" in wait["unblockedBy"]
        restore(world, of_broker)
        nothing_lost(world, lambda: 2 in world.kafkas.running)
        nothing_lost(world, lambda: "BrokerNotFound" not in reasons(world))

    def test_without_volumes_the_entry_says_what_becomes_of_its_replicas(self) -> None:
        world = cluster(3, partitions=3, rf=1)
        world.cluster["spec"]["brokerPools"][0]["replicas"] = 2
        delete(world)
        gone = [claim_of(2, disk) for disk in ("disk0", "disk1")]
        drop_claims(world, *gone)
        for volume in world.all("PersistentVolume"):
            if (volume["spec"].get("claimRef") or {}).get("name") in gone:
                del world.objects["PersistentVolume", volume["metadata"]["name"]]
        nothing_lost(world, lambda: "BrokerNotFound" in reasons(world))
        (wait,) = (w for w in world.cluster["status"]["waiting"] if w["reason"] == "BrokerNotFound")
        assert "have no leader" in wait["message"] or "has no leader" in wait["message"]
        assert "delete the topics without a leader" in wait["unblockedBy"]
        assert "spec.volumeName" not in wait["unblockedBy"]


def found_without_a_claim() -> tuple[Failing, Objects]:
    """A cluster that was applied again without one claim, which is named; and that claim as a backup has it."""
    world = cluster(3)
    kept = [obj for obj in saved(world) if obj["metadata"]["name"] == claim_of(0, "disk1")]
    delete(world)
    drop_claims(world, claim_of(0, "disk1"))
    nothing_lost(world, lambda: "ClaimMissing" in reasons(world))
    return world, kept


class TestAMissingClaim:
    """1b: one claim is not there when the KafkaCluster is applied again."""

    def test_nothing_is_lost_and_the_wait_names_the_claim(self) -> None:
        world = cluster(3)
        found = world.disk(0, "disk1").id
        delete(world)
        drop_claims(world, claim_of(0, "disk1"))
        nothing_lost(world, lambda: "ClaimMissing" in reasons(world))
        wait = next(w for w in world.cluster["status"]["waiting"] if w["reason"] == "ClaimMissing")
        assert claim_of(0, "disk1") in wait["message"] + wait["unblockedBy"]
        assert str(found) in wait["message"]
        run(world)

    def test_the_claim_put_back_in_time_brings_the_disk_back(self) -> None:
        world, kept = found_without_a_claim()
        restore(world, kept)
        nothing_lost(world, lambda: _at_rest(world))
        whole(world)

    def test_a_claim_put_back_with_its_old_binding_is_named(self) -> None:
        """The annotations of the former binding make Kubernetes call it Lost; its volume is whole."""
        world, kept = found_without_a_claim()
        restore(world, kept)
        world.get("PersistentVolumeClaim", claim_of(0, "disk1"))["status"]["phase"] = "Lost"
        nothing_lost(world, lambda: "ClaimLost" in reasons(world))
        drop_claims(world, claim_of(0, "disk1"))
        restore(world, kept)
        nothing_lost(world, lambda: _at_rest(world))
        whole(world)

    def test_without_lists_the_missing_disk_is_noticed_by_what_kafka_lacks(self) -> None:
        world = cluster(3)
        delete(world)
        for claim in world.all("PersistentVolumeClaim"):
            claim["metadata"]["annotations"].pop(names.ANN_LOG_DIRS, None)
        for volume in world.kafkas.volumes.values():
            volume.log_dirs = ""
        drop_claims(world, claim_of(0, "disk1"))
        nothing_lost(world, lambda: "ClaimMissing" in reasons(world))
        run(world)


class TestAClaimMadeAnew:
    """A claim was deleted and made anew before the KafkaCluster was applied again: its volume is blank, and nothing on it says what was there."""

    def test_the_broker_starts_without_it_and_the_loss_can_be_accepted(self) -> None:
        world = cluster(3)
        world.kafkas.create("lost", 0, (0,), lambda _: path_of("disk1"))
        world.kafkas.create("kept", 0, (0,), lambda _: path_of("disk0"))
        world.settle()
        delete(world)
        _blank_instead(world, claim_of(0, "disk1"))
        until(world, lambda: world.kafkas.partitions["kept", 0].leader == 0 and 0 in world.kafkas.running)
        assert world.kafkas.partitions["lost", 0].leader is None
        assert {key for key, _, _ in world.kafkas.losses} <= {("lost", 0)}
        until(world, lambda: condition(world, "DataAtRisk")["reason"] == "LastReplicaAtRisk")
        accepted = {"name": "disk1", "token": accept_text(world, "disk1")}
        world.get("KafkaBroker", "demo-broker-0")["spec"]["acceptDataLoss"] = {"disks": [accepted]}
        until(
            world,
            lambda: (
                mode_of(world, 0, "disk1") == "Active"
                and world.kafkas.partitions["lost", 0].leader is not None
            ),
            200,
        )
        until(world, lambda: not reasons(world) and state_of(world, 0, "disk1") == "Active", 60)
        assert {key for key, _, _ in world.kafkas.losses} <= {("lost", 0)}


class TestOnlyClaimsMadeAnew:
    """The same of every disk of a broker, so that it cannot start without the blank ones."""

    def readopted(self, disks: int, *blank: str) -> Checked:
        """Broker 0 was the last one in sync of a partition that broker 1, whose node is off, has an older copy of."""
        pool = {
            "name": "main",
            "replicas": 3,
            "disks": {"count": disks, "size": "100Gi", "storageClass": "local-disks"},
        }
        world = Checked.of("abc", brokerPools=[pool])
        world.settle(80)
        world.kafkas.min_isr = 1
        world.kafkas.create("pair", 0, (0, 1), lambda _: path_of(blank[-1]))
        world.settle()
        self._power(world, on=False)
        world._end(world.objects.pop(("Pod", "demo-broker-1"))["metadata"]["uid"], clean=False)
        run(world, 3)
        delete(world)
        world.broken.clear()  # a cluster that is deleted stops without regard to min.insync.replicas
        for disk in blank:
            _blank_instead(world, claim_of(0, disk))
        return world

    def _power(self, world: Checked, *, on: bool) -> None:
        node = world.get("KafkaBroker", "demo-broker-1")["spec"]["node"]
        world.get("Node", node)["status"]["conditions"][0]["status"] = str(on)
        world.silent = set() if on else {node}

    def _accept(self, world: Checked) -> set[str]:
        """Accept what DataAtRisk names; the disks."""
        until(world, lambda: condition(world, "DataAtRisk")["reason"] == "LastReplicaAtRisk")
        named = losses_named_in(condition(world, "DataAtRisk")["message"])
        accepted = [{"name": loss.disk, "token": loss.token} for loss in named]
        world.get("KafkaBroker", "demo-broker-0")["spec"]["acceptDataLoss"] = {"disks": accepted}
        return {loss.disk for loss in named}

    @pytest.mark.parametrize("disks", [1, 2])
    def test_the_loss_can_be_accepted_and_the_older_copy_is_elected_before_a_format(self, disks: int) -> None:
        world = self.readopted(disks, *(f"disk{n}" for n in range(disks)))
        assert self._accept(world) == {f"disk{n}" for n in range(disks)}
        formats = len(world.formats)
        until(world, lambda: "SurvivorsUnavailable" in reasons(world))
        run(world, 30)
        assert len(world.formats) == formats
        self._power(world, on=True)
        nothing_lost(world, lambda: set(world.kafkas.running) == {0, 1, 2} and not reasons(world), 200)
        assert sorted(world.kafkas.partitions["pair", 0].isr) == sorted(
            world.kafkas.partitions["pair", 0].replicas
        )
        assert world.broken == []

    def test_a_blank_disk_beside_a_dead_one_waits_for_the_older_copy_too(self) -> None:
        world = self.readopted(2, "disk1")
        world.disk(0, "disk0").state = "dead"
        assert self._accept(world) == {"disk0", "disk1"}
        formats = len(world.formats)
        until(world, lambda: "SurvivorsUnavailable" in reasons(world))
        run(world, 30)
        assert len(world.formats) == formats
        self._power(world, on=True)
        nothing_lost(world, lambda: set(world.kafkas.running) == {0, 1, 2}, 200)
        nothing_lost(world, lambda: world.kafkas.partitions["pair", 0].leader is not None, 60)


class TestOnlyBlankDisks:
    """All disks of a broker were swapped while its KafkaCluster was deleted."""

    def test_they_are_used_when_the_loss_is_accepted(self) -> None:
        world = cluster(3, partitions=6)
        delete(world)
        for disk in ("disk0", "disk1"):
            world.swap(0, disk)
        until(world, lambda: condition(world, "DataAtRisk")["reason"] == "LastReplicaAtRisk")
        accepted = [{"name": disk, "token": accept_text(world, disk)} for disk in ("disk0", "disk1")]
        world.get("KafkaBroker", "demo-broker-0")["spec"]["acceptDataLoss"] = {"disks": accepted}
        until(world, lambda: 0 in world.kafkas.running and not reasons(world), 200)
        whole(world)
        assert not world.kafkas.losses

    @pytest.mark.parametrize("brokers", [1, 3])
    def test_retained_volumes_with_the_data_are_named_when_no_broker_is_left(self, brokers: int) -> None:
        world = cluster(brokers, partitions=2, rf=1)
        for node in world.all("Node"):
            name = node["metadata"]["name"]
            for disk in ("spare0", "spare1"):
                world.put(new_volume(f"{name}-{disk}", name, "local-disks", f"/mnt/{disk}"))
        delete(world)
        lost = [claim_of(broker, disk) for broker in range(brokers) for disk in ("disk0", "disk1")]
        drop_claims(world, *lost)
        formats = len(world.formats)
        until(world, lambda: "AllDisksLost" in reasons(world), 60)
        way_out = next(
            w["unblockedBy"] for w in world.cluster["status"]["waiting"] if w["reason"] == "AllDisksLost"
        )
        assert all(f"{claim} with spec.volumeName: " in way_out for claim in lost)
        assert len(world.formats) == formats


def test_a_broker_gets_its_new_volume_where_that_of_its_excluded_disk_is() -> None:
    world = cluster(3, partitions=6)
    world.disk(0, "disk1").state = "dead"
    until(world, lambda: state_of(world, 0, "disk1") == "Evacuated")
    node = world.get("KafkaBroker", "demo-broker-0")["spec"]["node"]
    drop_claims(world, claim_of(0, "disk0"))
    del world.objects["Pod", "demo-broker-0"]
    until(world, lambda: ("Pod", "demo-broker-0") in world.objects)
    affinity = world.get("Pod", "demo-broker-0")["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]} in term["matchExpressions"]


def _blank_instead(world: Failing, name: str) -> None:
    claim = world.get("PersistentVolumeClaim", name)
    before = world.get("PersistentVolume", claim["spec"]["volumeName"])
    node = before["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"]
    before["status"]["phase"] = "Released"
    spare = world.put(new_volume(f"spare-{name}", node[0], "local-disks", f"/mnt/spare-{name}"))
    spare["status"]["phase"] = "Bound"
    spare["spec"]["claimRef"] = {
        "namespace": "kafka",
        "name": name,
        "uid": claim["metadata"]["uid"],
    }
    claim["spec"]["volumeName"] = spare["metadata"]["name"]
    del claim["metadata"]["annotations"][names.ANN_FS_UUID]


class TestADiskThatWasBeingAdded:
    """The claims of a disk that was never formatted: it is added again, once its broker has shown its replicas on the others."""

    def _adding(self) -> Checked:
        world = change_disks.cluster()
        change_disks.want(world, 3)
        until(world, lambda: ("PersistentVolumeClaim", claim_of(2, "disk2")) in world.objects, 10)
        return world

    def test_no_broker_waits_for_the_format_of_its_blank_disk(self) -> None:
        """Each disk could be formatted only while the other broker ran, which shares a partition with it."""
        world = change_disks.cluster()
        world.kafkas.create("pair", 0, (1, 2), lambda _: path_of("disk0"))
        world.factors["pair", 0] = 2
        change_disks.want(world, 3)
        until(world, lambda: change_disks.at(world, 0, "disk2") in ("Backfilling", "Active"), 40)
        claims = [world.get("PersistentVolumeClaim", claim_of(broker, "disk2")) for broker in (1, 2)]
        assert not any(names.ANN_FS_UUID in claim["metadata"]["annotations"] for claim in claims)
        delete(world)
        nothing_lost(world, lambda: len(world.kafkas.running) == 3, 80)
        world.settle(160)
        assert {change_disks.at(world, broker, "disk2") for broker in range(3)} == {"Active"}

    def test_in_an_old_backup_it_may_have_been_filled_since(self) -> None:
        world = self._adding()
        kept = saved(world)
        assert not any(
            names.ANN_FS_UUID in claim["metadata"]["annotations"]
            for claim in kept
            if "disk2" in claim["metadata"]["name"]
        )
        change_disks.well(world, 3)
        found = {broker: world.disk(broker, "disk2").id for broker in range(3)}
        assert all(world.disk(broker, "disk2").logs for broker in range(3))
        lost_namespace(world, kept)
        nothing_lost(world, lambda: _at_rest(world))
        world.settle(120)
        for broker in world.all("KafkaBroker"):
            assert [(disk["mode"], disk.get("added")) for disk in broker["spec"]["disks"]] == [
                ("Active", None)
            ] * 3
        assert all(sorted(each.isr) == sorted(each.replicas) for each in world.kafkas.partitions.values())
        assert {broker: world.disk(broker, "disk2").id for broker in range(3)} == found


class TestThePlaceholder:
    def test_a_broker_that_is_found_again_loses_it_when_all_is_seen(self) -> None:
        world = cluster(3)
        delete(world)
        until(world, lambda: bool(world.kafkas.running), 40)
        assert all(None in process.dirs.values() for process in world.kafkas.running.values())
        nothing_lost(world, lambda: _at_rest(world))
        assert not any(None in process.dirs.values() for process in world.kafkas.running.values())
        whole(world)
        assert mode_of(world, 0, "disk1") == "Active"

    def test_what_a_process_without_it_shows_is_not_believed(self) -> None:
        """One that was started before its broker was found again may have made empty replicas in the place of missing ones."""
        world = cluster(3)
        record = world.get("KafkaBroker", "demo-broker-0")
        record["spec"]["returning"] = True
        without = world.kafkas.running[0]
        world.reconcile()
        assert world.get("KafkaBroker", "demo-broker-0")["spec"]["returning"] is True
        until(world, lambda: world.kafkas.running.get(0, without) is not without, 40)
        assert None in world.kafkas.running[0].dirs.values()
        nothing_lost(world, lambda: _at_rest(world))
        whole(world)

    def test_it_goes_when_what_is_missing_was_given_up(self) -> None:
        """With a dir offline Kafka makes no replica anew, so a partition of which nothing is left would stay away for ever."""
        world = cluster(3)
        world.kafkas.create("single", 0, (0,), lambda _: path_of("disk1"))
        world.settle()
        delete(world)
        drop_claims(world, claim_of(0, "disk1"))
        nothing_lost(world, lambda: "ClaimMissing" in reasons(world))
        run(world)
        record = world.get("KafkaBroker", "demo-broker-0")
        assert record["spec"]["returning"] is True
        for _ in range(6):
            if condition(world, "DataAtRisk")["reason"] == "LastReplicaAtRisk":
                text = accept_text(world, "disk1")
                world.get("KafkaBroker", "demo-broker-0")["spec"].setdefault("acceptDataLoss", {})[
                    "disks"
                ] = [{"name": "disk1", "token": text}]
            for _ in range(25):
                with contextlib.suppress(ConflictError):
                    world.reconcile()
                world.breathe()
        assert not world.get("KafkaBroker", "demo-broker-0")["spec"].get("returning")
        assert None not in world.kafkas.running[0].dirs.values()
        assert world.kafkas.partitions["single", 0].leader == 0
        assert {key for key, _, _ in world.kafkas.losses} <= {("single", 0)}


def _at_rest(world: Failing) -> bool:
    brokers = world.all("KafkaBroker")
    return (
        len(world.kafkas.running) == 3
        and all(not b["spec"].get("returning") for b in brokers)
        and not any(None in process.dirs.values() for process in world.kafkas.running.values())
        and all(len(s.isr) == 3 for s in world.kafkas.partitions.values())
    )


def pool(name: str, replicas: int) -> dict[str, Any]:
    disks = {"count": 2, "size": "100Gi", "storageClass": "local-disks"}
    return {"name": name, "replicas": replicas, "disks": disks}


class TestAnotherSpec:
    """9: applied again with fewer replicas, or with a renamed pool."""

    def test_brokers_that_are_too_many_run_until_they_are_empty(self) -> None:
        world = cluster(5)
        delete(world)
        world.cluster["spec"]["brokerPools"] = [pool("main", 3)]
        nothing_lost(world, lambda: len(world.kafkas.running) == 5, 60)
        nothing_lost(world, lambda: len(world.all("KafkaBroker")) == 3, 200)
        whole(world)

    def test_brokers_of_a_renamed_pool_run(self) -> None:
        world = cluster(3)
        delete(world)
        world.cluster["spec"]["brokerPools"] = [pool("other", 3)]
        nothing_lost(world, lambda: set(world.kafkas.running) >= {0, 1, 2}, 60)
        nothing_lost(world, lambda: all(len(s.isr) == 3 for s in world.kafkas.partitions.values()))

    def test_without_a_record_of_the_pool_it_is_told_and_nothing_is_made_beside_them(self) -> None:
        world = cluster(3)
        delete(world)
        del world.objects["ConfigMap", "demo-pools"]
        world.cluster["spec"]["brokerPools"] = [pool("other", 3)]
        until(world, lambda: "UnknownPoolClaims" in reasons(world))
        run(world, 10)
        assert not world.all("KafkaBroker")
        world.cluster["spec"]["brokerPools"] = [pool("other", 3), pool("main", 3)]
        nothing_lost(world, lambda: set(world.kafkas.running) >= {0, 1, 2}, 60)
