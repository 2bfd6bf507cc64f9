"""Wherever the operator dies and whatever is deleted by hand, the same cluster comes out, once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.api import names
from spindle.model.view import Partition
from tests.examples import examples
from tests.model.world import World

pytestmark = pytest.mark.slow  # whole passes, which the simulation judges more widely

DEATHS = st.lists(st.integers(0, 12), max_size=25)
ZONES = st.sampled_from(["abcab", "aab", "abc", "a", "ab", "----", "abcd-"])
VICTIMS = st.lists(
    st.sampled_from(
        [
            ("Pod", "demo-broker-0"),
            ("Pod", "demo-controller-1"),
            ("Service", "demo-brokers"),
            ("ConfigMap", "demo-broker-1-config"),
            ("PodDisruptionBudget", "demo-brokers"),
            ("Secret", "demo-broker-2-tls"),
        ]
    ),
    max_size=4,
)


def shape(world: World) -> set[tuple[str, str]]:
    """What exists; volumes that were provisioned dynamically carry the names of their claims."""
    return {key for key in world.objects if key[0] not in ("Node", "StorageClass")}


@settings(max_examples=examples(10), deadline=None)
@given(deaths=DEATHS, zones=ZONES)
def test_dying_anywhere_leads_to_the_same_cluster(deaths: list[int], zones: str) -> None:
    straight = World.of(zones)
    for _ in range(25):
        straight.reconcile()
        straight.breathe()
    world = World.of(zones)
    for death in deaths:
        world.reconcile(stop_after=death)
        world.breathe()
    for _ in range(25):
        world.reconcile()
        world.breathe()
    assert shape(world) == shape(straight)
    assert world.running("broker") == straight.running("broker")
    assert world.running("controller") == straight.running("controller")
    directories = [directory_id for _, directory_id in world.formats]
    assert len(directories) == len(set(directories)) == len(straight.formats)


@settings(max_examples=examples(10), deadline=None)
@given(zones=ZONES, victims=VICTIMS)
def test_planning_on_what_a_plan_reached_does_nothing(zones: str, victims: list[tuple[str, str]]) -> None:
    world = World.of(zones)
    for _ in range(25):
        world.reconcile()
        world.breathe()
    for victim in victims:
        world.objects.pop(victim, None)
    for _ in range(20):
        world.reconcile()
        world.breathe()
    before, status = world.writes, dict(world.cluster["status"])
    world.reconcile()
    world.reconcile()
    assert world.writes == before
    assert world.cluster["status"] == status


@settings(max_examples=examples(10), deadline=None)
@given(
    asked=st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6),
    deaths=DEATHS,
    config=st.booleans(),
)
def test_nothing_that_is_asked_for_takes_two_brokers_down_at_once(
    asked: list[tuple[int, bool]], deaths: list[int], config: bool
) -> None:
    world = World.of()
    world.settle()
    world.partitions = tuple(
        Partition("t", i, i, r, r, elr=()) for i, r in enumerate([(0, 1, 2), (1, 2, 0), (2, 0, 1)])
    )
    if config:
        world.cluster["spec"]["config"] = {"log.retention.hours": "24"}
    steps = [*deaths, *[None] * 25]
    for turn, death in enumerate(steps):
        if turn < len(asked):
            broker, stopped = asked[turn]
            world.get("KafkaBroker", names.broker_name("demo", broker))["spec"].setdefault("maintenance", {})[
                "stopped"
            ] = stopped
        world.reconcile(stop_after=death)
        up = world.running("broker")
        world.partitions = tuple(
            Partition(
                p.topic,
                p.index,
                next((b for b in p.replicas if b in up), None),
                p.replicas,
                tuple(b for b in p.replicas if b in up),
                elr=(),
            )
            for p in world.partitions
        )
        assert all(len(p.isr) >= 2 for p in world.partitions)
        world.breathe()
