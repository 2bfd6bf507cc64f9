"""A disk that was replaced under a broker without another one: until that has restarted, its Kafka writes to the disk from before."""

import contextlib
import copy
import json
from typing import Any

import pytest

from spindle.api import names
from spindle.disks.acceptance import ANN_ACCEPTED, Accepted, render
from spindle.disks.broker_disks import broker_disks
from spindle.disks.preflight_findings import _was_on
from spindle.evacuation.requests import closed_dirs
from spindle.model.plan_builder import PlanBuilder
from spindle.model.state import ClusterState, read_state
from spindle.model.view import Partition
from spindle.reconcile.healing import observe_only
from tests.model.store import ConflictError
from tests.model.world import World
from tests.unit.test_healing_plan import cluster, until, whole
from tests.unit.test_healing_plan import state_of as state

PATH = names.log_dir("disk0")
NEW = "A" * 22


@pytest.fixture(scope="module")
def running() -> World:
    world = World.of()
    world.settle()
    return world


@pytest.fixture
def broker(running: World) -> dict[str, Any]:
    """Broker 0 with one disk, as its record has it and as its pod was made."""
    found = running.get("KafkaBroker", "demo-broker-0")
    found["spec"]["disks"] = [d for d in found["spec"]["disks"] if d["name"] == "disk0"]
    return found


def state_of(world: World) -> ClusterState:
    return read_state(world.snapshot(), world.now)


def replace_it(broker: dict[str, Any]) -> None:
    broker["spec"]["disks"][0]["directoryId"] = NEW
    broker["status"]["disks"] = [{"name": "disk0", "state": "Replacing", "directoryId": NEW}]


def test_it_is_not_in_use_and_takes_nothing_before_the_broker_has_restarted(
    running: World, broker: dict[str, Any]
) -> None:
    (before,) = [slot for slot in broker_disks(state_of(running)) if slot.key == (0, "disk0")]
    assert before.online is True
    assert (0, PATH) not in closed_dirs(observe_only(state_of(running), PlanBuilder()))
    replace_it(broker)
    (after,) = [slot for slot in broker_disks(state_of(running)) if slot.key == (0, "disk0")]
    assert after.log_dir is not None
    assert after.online is False
    assert (0, PATH) in closed_dirs(observe_only(state_of(running), PlanBuilder()))
    pod = running.get("Pod", "demo-broker-0")
    named = json.loads(pod["metadata"]["annotations"][names.ANN_DISKS])
    restarted = [{**d, "directoryId": NEW} if d["name"] == "disk0" else d for d in named]
    pod["metadata"]["annotations"][names.ANN_DISKS] = json.dumps(restarted)
    (restarted_slot,) = [slot for slot in broker_disks(state_of(running)) if slot.key == (0, "disk0")]
    assert restarted_slot.online is True


def test_what_came_to_stand_on_the_old_one_is_asked_about_before_the_new_one_is_formatted(
    running: World, broker: dict[str, Any]
) -> None:
    replace_it(broker)
    (disk,) = broker["spec"]["disks"]
    assert _was_on(state_of(running), 0, disk) is None, "all that the broker has"
    key = ("gone", 0)
    broker["metadata"].setdefault("annotations", {})[ANN_ACCEPTED] = render(
        {"disk0": Accepted("D:0", frozenset({key}))}
    )
    asked = _was_on(state_of(running), 0, disk)
    assert asked is not None
    assert key not in asked
    other = {**disk, "name": "disk1", "claim": "data-disk1-demo-0"}
    broker["spec"]["disks"].append(other)
    assert _was_on(state_of(running), 0, disk) == (), "the broker ran without it, on another disk"


@pytest.mark.parametrize(
    ("mounted", "bad"),
    [
        pytest.param("of-the-new", False, id="on-record-since"),
        pytest.param("of-a-third", True, id="not-on-record"),
    ],
)
def test_what_the_agent_said_of_the_record_before_does_not_count(
    running: World, broker: dict[str, Any], *, mounted: str, bad: bool
) -> None:
    replace_it(broker)
    broker["spec"]["disks"][0]["fsUuid"] = "of-the-new"
    said = {
        "name": "disk0",
        "verdict": "Swapped",
        "reason": "OtherFileSystem",
        "content": "blank",
        "fsUuid": mounted,
    }
    broker["status"]["observed"] = {"disks": [said]}

    (slot,) = [slot for slot in broker_disks(state_of(running)) if slot.key == (0, "disk0")]

    assert slot.health.bad is bad
    assert slot.health.content == "blank"


@pytest.mark.parametrize(
    ("first", "later", "second"),
    [
        pytest.param("dead", 0, "blank", id="beside-a-dead-one"),
        pytest.param("readonly", 3, "blank", id="beside-a-read-only-one"),
        pytest.param("blank", 6, "dead", id="before-the-other-dies"),
    ],
)
def test_it_is_used_although_the_other_disk_fails_too(first: str, later: int, second: str) -> None:
    """The failed one cannot be inspected while Kafka is stopped: it leaves its broker only after Kafka has started with a placeholder for it."""
    world = cluster(6)
    for disk, happens, passes in (("disk0", first, later), ("disk1", second, 0)):
        if happens == "blank":
            world.swap(0, disk)
        else:
            world.disk(0, disk).state = happens
        for _ in range(passes):
            with contextlib.suppress(ConflictError):
                world.reconcile()
            world.breathe()
    blank, failed = ("disk0", "disk1") if first == "blank" else ("disk1", "disk0")
    until(world, lambda: (state(world, 0, failed), state(world, 0, blank)) == ("Evacuated", "Active"), 100)
    assert 0 in world.kafkas.running
    world.swap(0, failed)
    whole(world)


def test_the_loss_of_a_partition_with_another_replica_is_not_enough_for_a_format(
    running: World,
) -> None:
    """Spindle elects that replica first, also if it has to wait for its broker."""
    world = copy.deepcopy(running)
    key, shared = ("single", 0), ("pair", 0)
    world.partitions = tuple(
        Partition(topic, index, None, replicas, ())
        for (topic, index), replicas in ((key, (0,)), (shared, (0, 1)))
    )
    there = world.get("KafkaBroker", "demo-broker-0")
    there["spec"]["disks"] = [d for d in there["spec"]["disks"] if d["name"] == "disk0"]
    given = Accepted("D:0", frozenset({key, shared}))
    there["metadata"].setdefault("annotations", {})[ANN_ACCEPTED] = render({"disk0": given})
    (disk,) = there["spec"]["disks"]
    assert _was_on(state_of(world), 0, disk) == {shared}
    other = world.get("KafkaBroker", "demo-broker-1")
    other["metadata"].setdefault("annotations", {})[ANN_ACCEPTED] = render({"disk0": given})
    assert _was_on(state_of(world), 0, disk) == set()


@pytest.mark.parametrize("other", ["none", "missing"])
def test_it_is_not_put_into_use_while_kafka_runs_with_the_former_one(other: str) -> None:
    """Else a partition that is created meanwhile is on the former disk, and nothing asks about it before the new one is formatted."""
    world = cluster(4, partitions=4)
    before = world.disk(0, "disk1")
    if other == "missing":
        world.disk(0, "disk0").state = "missing"
    else:
        world.get("KafkaBroker", "demo-broker-0")["spec"].setdefault("maintenance", {})["disks"] = [
            {"name": "disk0", "desiredState": "Drained"}
        ]
        until(world, lambda: state(world, 0, "disk0") == "Drained")
    world.swap_under(0, "disk1")

    def in_use() -> bool:
        record = world.get("KafkaBroker", "demo-broker-0")["spec"]["disks"][1]
        running = world.kafkas.running.get(0)
        if running is not None and before in running.dirs.values():
            assert record["directoryId"] == before.id
        return state(world, 0, "disk1") == "Active" and world.disk(0, "disk1").id is not None

    until(world, in_use, 100)
    until(world, lambda: 0 in world.kafkas.running)
    assert world.kafkas.losses == []
