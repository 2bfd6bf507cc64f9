"""What a roll that is stopped still does, and what it does not."""

from spindle.reconcile.actions import Action, Evict
from tests.model.tuned import crash
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
    assert "NotBackInTime" in reasons(world)
    return world


def test_a_stopped_roll_is_not_carried_on_by_a_broker_that_is_down_for_a_moment() -> None:
    world = stopped()
    crash(world, "demo-broker-1", times=1)
    assert evicted(passes(world, 3, breathing=False)) == []
    held = [w for w in world.cluster["status"]["waiting"] if w["reason"] == "RollStopped"]
    assert "Pod/demo-broker-1" in {wait["object"] for wait in held}


def test_a_stopped_roll_still_makes_anew_what_ends_again_and_again_or_never_ran() -> None:
    world = stopped()
    crash(world, "demo-broker-1")
    world.get("Pod", "demo-broker-2")["status"]["containerStatuses"] = []
    gone = passes(world, 1, breathing=False)
    gone += passes(world, 2, breathing=False)  # leaving the budget comes first
    assert sorted(evicted(gone)) == ["demo-broker-1", "demo-broker-2"]
