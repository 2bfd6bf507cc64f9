"""The record of moves deleted by hand, without its label, or gone: it is found again, or what was in it is told."""

import contextlib

from spindle.api import names
from tests.model.failing import Failing
from tests.unit.test_healing_plan import cluster, reasons, state_of, until, whole

RECORD = ("ConfigMap", "demo-moves")


def shrunk() -> Failing:
    """Three brokers, a dead disk: its replicas have left their assignments."""
    world = cluster(3)
    world.disk(0, "disk1").state = "dead"
    until(world, lambda: any(len(s.replicas) == 2 for s in world.kafkas.partitions.values()))
    return world


def healed(world: Failing) -> None:
    until(world, lambda: state_of(world, 0, "disk1") == "Evacuated", 120)
    until(world, lambda: all(len(s.isr) == 3 for s in world.kafkas.partitions.values()), 120)
    world.swap(0, "disk1")
    whole(world)


def test_without_its_label_it_is_found_again() -> None:
    world = shrunk()
    world.objects[RECORD]["metadata"]["labels"] = {}
    healed(world)
    assert world.objects[RECORD]["metadata"]["labels"][names.LABEL_CLUSTER] == "demo"


def test_deleted_by_hand_it_is_kept_until_all_is_put_back() -> None:
    world = shrunk()
    world.objects[RECORD]["metadata"]["deletionTimestamp"] = "now"
    world._collect(*RECORD)
    until(world, lambda: "JournalDeleted" in reasons(world), 5)
    healed(world)
    until(
        world,
        lambda: RECORD not in world.objects or "deletionTimestamp" not in world.objects[RECORD]["metadata"],
    )
    whole(world)
    assert "JournalDeleted" not in reasons(world)


def test_one_that_is_gone_is_told_with_what_is_left() -> None:
    world = shrunk()
    world.reconcile()
    del world.objects[RECORD]
    until(world, lambda: "JournalLost" in reasons(world), 8)
    wait = next(w for w in world.cluster["status"]["waiting"] if w["reason"] == "JournalLost")
    assert "2 of 3 replicas of orders-" in wait["message"]
    del world.objects[RECORD]["metadata"]["annotations"][names.ANN_LOST]
    until(world, lambda: "JournalLost" not in reasons(world), 4)


def test_an_emptied_record_is_no_empty_journal() -> None:
    world = shrunk()
    world.objects[RECORD]["data"] = {}
    with contextlib.suppress(Exception):
        world.reconcile()
    assert "JournalUnreadable" in reasons(world)
