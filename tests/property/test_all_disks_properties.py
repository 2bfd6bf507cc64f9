"""``disks.all``: whatever part of the volumes is listed, and in whatever order, no disk is taken away and the same ones are added."""

from dataclasses import replace
from functools import cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spindle.api import names
from spindle.api.pools import BrokerPool
from spindle.brokers.all_disks import kept_names, unused_names
from spindle.model.actions import Apply, Create, Delete, Evict, Patch
from spindle.model.snapshot import ClusterSnapshot
from spindle.reconcile.plan import ReconcilePlan, plan
from tests.unit.test_all_disks import add_volume, settled, world_of

_NOW = 1_790_100_000.0


@cache
def _running() -> ClusterSnapshot:
    """Brokers with 2, 4 and 1 disks; three more volumes are free, two of them on one node."""
    world = settled(2, 4, 1)
    for node, disk in ((1, 7), (1, 8), (3, 7)):
        add_volume(world, node, disk)
    return world.snapshot()


@cache
def _coming() -> ClusterSnapshot:
    """The same in the pass after, in which volumes are reserved."""
    world = settled(2, 4, 1)
    for node, disk in ((1, 7), (1, 8), (3, 7)):
        add_volume(world, node, disk)
    world.reconcile()
    return world.snapshot()


@cache
def _fresh() -> ClusterSnapshot:
    world = world_of(3, 4, 1, 2, brokers=3)
    world.reconcile()
    return world.snapshot()


def disks(brokers: Any) -> dict[str, list[str]]:
    return {b["metadata"]["name"]: [d["name"] for d in b["spec"]["disks"]] for b in brokers}


def assert_none_goes(snap: ClusterSnapshot, made: ReconcilePlan) -> None:
    before = disks(snap.brokers)
    after = disks(
        a.object for a in made.actions if isinstance(a, Apply) and a.object["kind"] == "KafkaBroker"
    )
    for name, now in after.items():
        assert not set(before[name]) - set(now)
    assert not [a for a in made.actions if isinstance(a, Delete | Evict)]


@given(data=st.data())
def test_a_partial_list_of_volumes_takes_no_disk_away(data: st.DataObject) -> None:
    snap = _running()
    there = data.draw(st.lists(st.sampled_from(snap.volumes), unique_by=lambda v: v["metadata"]["name"]))
    hidden = data.draw(st.sampled_from([frozenset(), frozenset({"persistentvolumes"}), frozenset({"nodes"})]))
    made = plan(replace(snap, volumes=tuple(there), unknown=hidden), _NOW)
    assert_none_goes(snap, made)


@given(data=st.data())
def test_a_disk_whose_volume_is_on_record_is_not_forgotten(data: st.DataObject) -> None:
    snap = _coming()
    assert [d for b in snap.brokers for d in b["spec"]["disks"] if d.get("pv") and not d.get("pvUid")]
    there = data.draw(st.lists(st.sampled_from(snap.volumes), unique_by=lambda v: v["metadata"]["name"]))
    assert_none_goes(snap, plan(replace(snap, volumes=tuple(there)), _NOW))


@given(data=st.data())
def test_a_new_broker_stays_on_its_node(data: st.DataObject) -> None:
    snap = _fresh()
    there = data.draw(st.lists(st.sampled_from(snap.volumes), unique_by=lambda v: v["metadata"]["name"]))
    made = plan(replace(snap, volumes=tuple(there)), _NOW)
    assert_none_goes(snap, made)
    nodes = {b["metadata"]["name"]: b["spec"]["node"] for b in snap.brokers}
    for action in made.actions:
        if isinstance(action, Apply) and action.object["kind"] == "KafkaBroker":
            assert action.object["spec"]["node"] == nodes[action.object["metadata"]["name"]]


@given(data=st.data())
def test_the_order_of_the_lists_does_not_matter(data: st.DataObject) -> None:
    for snap in (_fresh(), _running(), _coming()):
        first = plan(snap, _NOW)
        mixed = replace(
            snap,
            volumes=tuple(data.draw(st.permutations(snap.volumes))),
            nodes=tuple(data.draw(st.permutations(snap.nodes))),
            storage_classes=tuple(data.draw(st.permutations(snap.storage_classes))),
        )
        assert _told(plan(mixed, _NOW)) == _told(first)


def _told(made: ReconcilePlan) -> list[str]:
    """The actions about brokers, claims and volumes."""
    told = [a for a in made.actions if isinstance(a, Patch) and a.kind == "PersistentVolume"]
    kinds = ("KafkaBroker", "PersistentVolumeClaim")
    objects = [a for a in made.actions if isinstance(a, Apply | Create) and a.object["kind"] in kinds]
    return [repr(each) for each in (*told, *objects)]


@given(taken=st.sets(st.integers(0, 70)), number=st.integers(-3, 64))
def test_new_names_are_the_lowest_unused_ones(taken: set[int], number: int) -> None:
    having = {names.disk_name(index) for index in taken}
    found = unused_names(having, number)
    assert len(found) == max(0, number)
    assert not having & set(found)
    lowest = [names.disk_name(i) for i in range(200) if i not in taken]
    assert found == lowest[: len(found)]


@given(taken=st.sets(st.integers(0, 70), min_size=1), most=st.integers(1, 64))
def test_a_limit_keeps_the_lowest_names(taken: set[int], most: int) -> None:
    pool = BrokerPool.model_validate(
        {"name": "main", "replicas": 1, "disks": {"all": True, "storageClass": "x", "maxCount": most}}
    )
    ordered = [{"name": names.disk_name(index)} for index in sorted(taken)]
    kept = kept_names(pool, ordered)
    assert kept == {names.disk_name(index) for index in sorted(taken)[:most]}
