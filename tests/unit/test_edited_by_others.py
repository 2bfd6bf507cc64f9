"""Records and settings that somebody else edited, or put back as they once were: what they say is not believed over what disks and claims know."""

import copy
from typing import Any

import pytest

from spindle.api import names
from spindle.disks.acceptance import ANN_ACCEPTED
from spindle.moves.journal import Journal
from tests.model.failing import Failing
from tests.model.kafka import path_of
from tests.unit.test_healing_plan import accept_text, cluster, reasons, until, whole
from tests.unit.test_moves_execute import D0, D1, MOVE, kafka, step, until_quiet

CORDON = "cordoned.log.dirs"


def record(world: Failing, broker: int = 0) -> dict[str, Any]:
    return world.get("KafkaBroker", f"demo-broker-{broker}")


def disks(world: Failing, broker: int = 0) -> list[tuple[str, str, str]]:
    return [(d["name"], d["directoryId"], d["mode"]) for d in record(world, broker)["spec"]["disks"]]


def nothing_lost(world: Failing, before: list[tuple[str, str, str]]) -> None:
    until(world, lambda: bool(world.kafkas.losses) or disks(world) == before, 20)
    world.settle(80)
    assert world.kafkas.losses == []
    assert all(state.leader is not None for state in world.kafkas.partitions.values())
    assert disks(world) == before
    assert not record(world)["spec"].get("returning")


class TestAnEntryOfADisk:
    """A KafkaBroker without one of its disks."""

    @pytest.mark.parametrize("down", [False, True])
    def test_one_that_was_taken_off_the_record_is_put_back(self, down: bool) -> None:
        world = cluster(3, rf=1)
        before = disks(world)
        record(world)["spec"]["disks"].pop()
        if down:
            world.crash(0)
            del world.objects["Pod", "demo-broker-0"]
        nothing_lost(world, before)

    def test_nor_is_it_made_a_new_one_where_its_claim_went_as_well(self) -> None:
        world = cluster(3)
        before = disks(world)
        record(world)["spec"]["disks"].pop()
        del world.objects["PersistentVolumeClaim", names.claim_name("demo", 0, "disk1")]
        until(world, lambda: bool(world.kafkas.losses) or len(disks(world)) == 2, 20)
        assert [each[:2] for each in disks(world)] == [each[:2] for each in before]

    def test_a_record_from_before_a_disk_was_added_counts_less_than_the_claims(self) -> None:
        world = cluster(3, rf=1)
        before = disks(world)
        old = copy.deepcopy(record(world)["spec"])
        old["disks"].pop()
        old["logDirs"] = {"generation": 1, "dirs": old["logDirs"]["dirs"][:1]}
        listed = record(world)["spec"]["logDirs"]
        assert listed["generation"] == 1  # at birth all dirs come at once
        for claim in world.all("PersistentVolumeClaim"):
            if claim["metadata"]["annotations"].get(names.ANN_NODE_ID) == "0":
                claim["metadata"]["annotations"][names.ANN_LOG_DIRS] = str(
                    {**listed, "generation": 2}
                ).replace("'", '"')
        record(world)["spec"] = old
        nothing_lost(world, before)


class TestAnEmptiedDisk:
    def test_a_claim_that_was_made_anew_for_an_emptied_disk_clears_nothing(self) -> None:
        """The same file system, emptied (as provisioners of local volumes do it), and a claim that knows nothing of before."""
        world = cluster(3, partitions=0)
        world.kafkas.min_isr = 1
        world.kafkas.create("pay", 0, (0, 1), lambda _: path_of("disk1"))
        world.settle()
        record(world, 1)["spec"].setdefault("maintenance", {})["stopped"] = True
        world.settle()
        for _ in range(3):
            world.breathe()  # acknowledged by the leader alone
        disk, claim = world.disk(0, "disk1"), names.claim_name("demo", 0, "disk1")
        del world.get("PersistentVolumeClaim", claim)["metadata"]["annotations"][names.ANN_FS_UUID]
        disk.id, disk.logs = None, {}
        formats = len(world.formats)
        world.crash(0)
        del world.objects["Pod", "demo-broker-0"]
        record(world, 1)["spec"].setdefault("maintenance", {})["stopped"] = False
        until(world, lambda: len(world.formats) > formats or "LastReplicaAtRisk" in reasons(world), 20)
        assert len(world.formats) == formats
        assert world.kafkas.losses == []


class TestAUsedUpAcceptance:
    """A loss was accepted, and the disk came back after all; the wish was left in the spec."""

    def used_up(self) -> Failing:
        world = cluster(3, partitions=0)
        world.kafkas.min_isr = 1
        world.kafkas.create("pay", 0, (0, 1), lambda _: path_of("disk1"))
        self.other(world, stopped=True)
        self.dies(world)
        record(world)["spec"].setdefault("acceptDataLoss", {})["disks"] = [
            {"name": "disk1", "token": accept_text(world, "disk1")}
        ]
        self.passes(world)
        world.disk(0, "disk1").state = "well"
        until(world, lambda: world.kafkas.partitions["pay", 0].leader is not None)
        self.other(world, stopped=False)
        self.other(world, stopped=True)
        return world

    def other(self, world: Failing, *, stopped: bool) -> None:
        record(world, 1)["spec"].setdefault("maintenance", {})["stopped"] = stopped
        world.settle(80)

    def dies(self, world: Failing) -> None:
        world.disk(0, "disk1").state = "dead"
        self.passes(world)

    def passes(self, world: Failing, count: int = 8) -> None:
        for _ in range(count):
            world.reconcile()
            world.breathe()

    def test_it_counts_no_more_where_the_record_of_it_is_gone(self) -> None:
        world = self.used_up()
        del record(world)["metadata"]["annotations"][ANN_ACCEPTED]
        self.passes(world, 3)
        self.dies(world)
        record(world, 1)["spec"].setdefault("maintenance", {})["stopped"] = False
        self.passes(world, 20)
        assert world.kafkas.partitions["pay", 0].leader is None
        assert "AcceptanceAlreadyUsed" in reasons(world)

    def test_the_way_out_leads_on(self) -> None:
        world = self.used_up()
        self.dies(world)
        record(world, 1)["spec"].setdefault("maintenance", {})["stopped"] = False
        until(world, lambda: "AcceptanceAlreadyUsed" in reasons(world))
        record(world)["spec"]["acceptDataLoss"]["disks"] = []
        until(world, lambda: ANN_ACCEPTED not in record(world)["metadata"]["annotations"])
        record(world)["spec"].setdefault("acceptDataLoss", {})["disks"] = [
            {"name": "disk1", "token": accept_text(world, "disk1")}
        ]
        until(world, lambda: world.kafkas.partitions["pay", 0].leader is not None)


def test_a_pod_that_names_no_release_stops_nothing() -> None:
    for text in ("", "garbage", "4.x"):
        world = cluster(3)
        world.get("Pod", "demo-broker-0")["metadata"]["annotations"][names.ANN_VERSION] = text
        whole(world)


class TestLists:
    """Dynamic configs that are lists: another tool adds its entries to ours, and takes them out again."""

    def test_our_entries_go_where_somebody_added_another_one_meanwhile(self) -> None:
        k = kafka()
        key = ("broker", "1", CORDON)
        journal = step(k, Journal(), settings={key: D1}).journal
        k.settings["broker", "1"][CORDON] = f"{D1},{D0}"
        journal = step(k, journal, settings={key: D1}).journal
        until_quiet(k, step(k, journal).journal)
        assert k.settings["broker", "1"] == {CORDON: D0}

    def test_nor_do_they_stay_where_it_came_and_went(self) -> None:
        k = kafka()
        journal = step(k, Journal(), MOVE).journal
        key = next(e.id for e in journal.settings if e.id[0] == "topic")
        ours = k.settings["topic", "t"][key[2]]
        k.settings["topic", "t"][key[2]] = f"{ours},7:7"
        journal = step(k, journal).journal
        assert k.settings["topic", "t"][key[2]] == f"{ours},7:7"
        k.settings["topic", "t"][key[2]] = ours
        until_quiet(k, step(k, journal).journal)
        assert not k.settings["topic", "t"]

    def test_what_somebody_put_in_the_place_of_ours_is_theirs(self) -> None:
        k = kafka()
        key = ("broker", "1", CORDON)
        journal = step(k, Journal(), settings={key: D1}).journal
        k.settings["broker", "1"][CORDON] = D0
        until_quiet(k, step(k, journal).journal)
        assert k.settings["broker", "1"] == {CORDON: D0}


@pytest.mark.parametrize("key", [names.ANN_CLUSTER_ID, names.ANN_DIRECTORY_ID])
def test_an_annotation_that_a_claim_lacks_is_named_and_the_command_restores_it(key: str) -> None:
    world = cluster(3)
    claim = world.get("PersistentVolumeClaim", names.claim_name("demo", 0, "disk0"))
    notes = claim["metadata"]["annotations"]
    before = dict(notes)
    del notes[key]
    world.reconcile()
    (told,) = [
        w
        for w in world.cluster["status"]["waiting"]
        if w["object"].endswith(names.claim_name("demo", 0, "disk0"))
    ]
    assert told["reason"] == "ClaimDirectoryIdMismatch"
    assert (
        f"kubectl annotate pvc {claim['metadata']['name']} --overwrite {key}={before[key]}`"
        in told["unblockedBy"]
    )
    notes[key] = before[key]
    world.settle()
    assert "ClaimDirectoryIdMismatch" not in reasons(world)
