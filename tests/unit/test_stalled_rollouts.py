"""What a roll that is stopped still does, and what it does not."""

from dataclasses import replace

import pytest

from spindle.api import names
from spindle.model.actions import Action, Evict
from spindle.model.start_progress import Start
from spindle.model.times import stamp
from spindle.model.view import KafkaView, Partition
from spindle.reconcile.plan import plan
from tests.model.dynamic_config import crash, starting
from tests.model.world import World

IMAGE = "mine/kafka:1"


def running() -> World:
    world = World.of()
    world.settle()
    return world


def passes(world: World, count: int, *, breathing: bool = True) -> list[Action]:
    made: list[Action] = []
    for _ in range(count):
        made += world.reconcile().actions
        if breathing:
            world.breathe()
    return made


def evicted(actions: list[Action]) -> list[str]:
    return [a.pod for a in actions if isinstance(a, Evict)]


def reasons(world: World) -> set[str]:
    return {wait["reason"] for wait in world.cluster["status"]["waiting"]}


def stopped() -> World:
    """A cluster whose first broker went down for a change and did not come back."""
    world = running()
    world.cluster["spec"]["brokerPools"][0]["config"] = {"num.partitions": "3"}
    passes(world, 6, breathing=False)
    world.now += 700
    world.reconcile()
    assert "ProgressDeadlineExceeded" in reasons(world)
    return world


@pytest.mark.parametrize("leaving", [False, True])
def test_one_whose_eviction_is_refused_was_not_restarted_and_its_budget_is_named(leaving: bool) -> None:
    world = running()
    world.cluster["spec"]["brokerPools"][0]["config"] = {"num.partitions": "3"}
    world.reconcile()
    (mark,) = world.cluster["status"]["takingDown"]
    pod = world.get("Pod", mark["pod"])
    uid = pod["metadata"]["uid"]
    world.now += 700
    if leaving:
        pod["metadata"]["deletionTimestamp"] = stamp(world.now)
    made = plan(world.snapshot(), world.now)
    (told,) = [w for w in made.status["waiting"] if w["reason"] == "ProgressDeadlineExceeded"]
    assert mark["uid"] == uid
    assert "was restarted" not in told["message"]
    if leaving:
        assert "is being stopped" in told["message"]
        assert "describe pod demo-broker-0" in told["unblockedBy"]
    else:
        assert "its eviction is refused" in told["message"]
        assert "describe pdb demo-brokers" in told["unblockedBy"]


def test_a_stopped_roll_is_not_carried_on_by_a_broker_that_is_down_for_a_moment() -> None:
    world = stopped()
    crash(world, "demo-broker-1", times=1)
    assert evicted(passes(world, 3, breathing=False)) == []
    held = [w for w in world.cluster["status"]["waiting"] if w["reason"] == "RolloutStalled"]
    assert "Pod/demo-broker-1" in {wait["object"] for wait in held}


def test_a_stopped_roll_still_makes_anew_what_ends_again_and_again_or_never_ran() -> None:
    world = stopped()
    crash(world, "demo-broker-1")
    world.get("Pod", "demo-broker-2")["status"]["containerStatuses"] = []
    gone = passes(world, 1, breathing=False)
    gone += passes(world, 2, breathing=False)  # leaving the budget comes first
    assert sorted(evicted(gone)) == ["demo-broker-1", "demo-broker-2"]


BEHIND = Partition("orders", 0, 1, (0, 1, 2), (1, 2), elr=())  # broker 0 is not back in sync


def late_successor() -> World:
    """A broker that is back from its restart with the change, not in sync, and late; the change is corrected."""
    world = running()
    world.cluster["spec"]["brokerPools"][0]["config"] = {"num.partitions": "3"}
    assert evicted(passes(world, 2)) == ["demo-broker-0"]
    world.partitions = (BEHIND,)
    passes(world, 6)
    world.now += 700
    world.reconcile()
    assert {"ProgressDeadlineExceeded", "RolloutStalled"} <= reasons(world)
    world.cluster["spec"]["brokerPools"][0]["config"] = {"num.partitions": "4"}
    return world


def test_a_late_successor_that_loads_its_logs_is_left_to_it_and_the_roll_stays_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = late_successor()
    before = world.cluster["status"]["takingDown"]
    told = starting(world, monkeypatch)
    told[0] = Start("Dirty", 40, 9)
    assert evicted(passes(world, 4)) == []
    assert "LoadingLogs" in reasons(world)
    assert world.cluster["status"]["takingDown"] == before
    told.clear()
    assert evicted(passes(world, 4))[:1] == ["demo-broker-0"]


def test_a_late_successor_that_may_not_go_down_keeps_the_roll_stopped() -> None:
    world = late_successor()
    world.partitions = (BEHIND, replace(BEHIND, index=1, isr=(0, 1)))
    for _ in range(4):
        assert evicted(passes(world, 1)) == []
        assert {"WouldBeUnderMinIsr", "ProgressDeadlineExceeded", "RolloutStalled"} <= reasons(world)
    world.partitions = (BEHIND,)
    assert evicted(passes(world, 4))[:1] == ["demo-broker-0"]


def test_copies_between_disks_hold_a_restart_for_half_an_hour_and_not_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = running()
    seen = World.kafka

    def copying(self: World) -> KafkaView:
        view = seen(self)
        brokers = dict(view.brokers or {})
        if 0 in brokers and brokers[0].log_dirs:
            first, *others = brokers[0].log_dirs
            moving = replace(first, futures={("orders", 0): 10})
            brokers[0] = replace(brokers[0], log_dirs=(moving, *others))
        return replace(view, brokers=brokers)

    monkeypatch.setattr(World, "kafka", copying)
    world.partitions = (replace(BEHIND, isr=(0, 1)),)  # rule 2 holds broker 0 when half an hour is over
    world.get("Pod", "demo-broker-0")["metadata"]["annotations"][names.ANN_SPEC_HASH] = "outdated"
    for _ in range(3):
        assert evicted(passes(world, 3)) == []
        world.now += 1000
    passes(world, 1)
    assert {"WouldBeUnderMinIsr", "IntraBrokerMovesInProgress"} <= reasons(world)
    world.partitions = ()
    assert evicted(passes(world, 4)) == ["demo-broker-0"]
