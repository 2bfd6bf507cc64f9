"""A hung broker is stopped only behind its mark in ``status.takingDown``, which a leader that lost its lease cannot write."""

from spindle.model.actions import Delete, MarkDown
from tests.unit.test_healing_plan import cluster, until


def test_a_broker_is_marked_before_it_is_stopped_at_once() -> None:
    world = cluster(3, partitions=3)
    world.disk(0, "disk1").state = "hung"
    plans = until(
        world, lambda: bool(world.objects["Pod", "demo-broker-0"]["metadata"].get("deletionTimestamp")), 30
    )
    kinds = [type(action) for action in plans[-1].actions]
    fence = next(n for n, a in enumerate(plans[-1].actions) if isinstance(a, Delete) and a.kind == "Pod")
    assert MarkDown in kinds[:fence]
    marks = world.cluster["status"]["takingDown"]
    assert [mark["nodeId"] for mark in marks] == [0]
    world.disk(0, "disk1").state = "well"
    until(world, lambda: not world.cluster["status"]["takingDown"], 60)
