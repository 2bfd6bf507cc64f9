"""Spreading as an invariant: as even as the nodes allow, all with a zone or none, the same every time."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spindle.brokers.volume_room import DiskWant, room
from spindle.brokers.zone_spread import Placed, Topology, spread

KEY = "zone"
_ZONES = st.none() | st.sampled_from(["a", "b", "c", "d"])


@st.composite
def sites(draw: st.DrawFn) -> Topology:
    zones = draw(st.lists(_ZONES, max_size=9))
    nodes = []
    for i, zone in enumerate(zones):
        spec: dict[str, Any] = {}
        if draw(st.integers(0, 5)) == 0:
            spec["unschedulable"] = True
        if draw(st.integers(0, 5)) == 0:
            spec["taints"] = [{"key": "k", "effect": draw(st.sampled_from(["NoSchedule", "NoExecute"]))}]
        nodes.append({"metadata": {"name": f"n{i}", "labels": {KEY: zone} if zone else {}}, "spec": spec})
    limits = draw(
        st.none() | st.dictionaries(st.sampled_from([f"n{i}" for i in range(9)]), st.integers(0, 3))
    )
    return Topology(nodes=nodes, topology_key=KEY, room=limits, shared_nodes=draw(st.booleans()))


_EXISTING = st.dictionaries(
    st.integers(0, 4),
    st.builds(Placed, _ZONES, st.none() | st.sampled_from([f"n{i}" for i in range(9)] + ["gone"])),
    max_size=4,
)
_WANTED = st.lists(st.integers(5, 14), unique=True, max_size=8)


def open_nodes(site: Topology) -> dict[str, str | None]:
    """Name → zone of the nodes that take new brokers at all, by a reading of our own."""
    return {
        n["metadata"]["name"]: n["metadata"]["labels"].get(KEY)
        for n in site.nodes
        if not n["spec"].get("unschedulable") and not n["spec"].get("taints")
    }


def places(site: Topology, existing: dict[int, Placed], zone: str | None) -> int:
    """How many new brokers a zone takes (None: nodes of any kind, in a cluster without zones)."""
    total = 0
    for name, its in open_nodes(site).items():
        if zone is not None and its != zone:
            continue
        fits = 99 if site.room is None else site.room.get(name, 0)
        if not site.shared_nodes:
            fits = 0 if any(p.node == name for p in existing.values()) else min(1, fits)
        total += fits
    return total - sum(p.node is None and p.zone == zone for p in existing.values())


@given(sites(), _EXISTING, _WANTED)
def test_as_even_as_the_nodes_allow(site: Topology, existing: dict[int, Placed], wanted: list[int]) -> None:
    found = spread(site, existing, wanted)
    gained: dict[str | None, int] = {}
    for zone in found.assignments.values():
        gained[zone] = gained.get(zone, 0) + 1
    for zone, count in gained.items():
        assert count <= places(site, existing, zone)
        for other in found.counts:
            if zone is not None and places(site, existing, other) > gained.get(other, 0):
                assert found.counts[zone] <= found.counts[other] + 1


@given(sites(), _EXISTING, _WANTED)
def test_nobody_is_left_out_while_there_is_room(
    site: Topology, existing: dict[int, Placed], wanted: list[int]
) -> None:
    found = spread(site, existing, wanted)
    assert sorted([*found.assignments, *found.unplaced]) == sorted(wanted)
    if not found.unplaced:
        return
    assert "InsufficientNodes" in [p.reason for p in found.problems]
    gained = list(found.assignments.values())
    zones = {z for z in open_nodes(site).values() if z} if found.counts else {None}
    assert all(places(site, existing, zone) <= gained.count(zone) for zone in zones)


@given(sites(), _EXISTING, _WANTED)
def test_all_have_a_zone_or_none(site: Topology, existing: dict[int, Placed], wanted: list[int]) -> None:
    found = spread(site, existing, wanted)
    chosen = set(found.assignments.values())
    assert None not in chosen or len(chosen) == 1
    recorded = {p.zone for p in existing.values()}
    if recorded - {None}:
        assert None not in chosen
    elif recorded:
        assert chosen <= {None}


@given(sites(), _EXISTING, _WANTED)
def test_the_same_every_time_and_in_whatever_order_nodes_are_listed(
    site: Topology, existing: dict[int, Placed], wanted: list[int]
) -> None:
    backwards = Topology(
        nodes=list(reversed(site.nodes)), topology_key=KEY, room=site.room, shared_nodes=site.shared_nodes
    )
    assert spread(site, existing, wanted) == spread(backwards, dict(reversed(existing.items())), wanted)


@given(sites(), _EXISTING, _WANTED, st.integers(0, 8))
def test_an_interrupted_placement_ends_the_same(
    site: Topology, existing: dict[int, Placed], wanted: list[int], cut: int
) -> None:
    """Some of the new ones were recorded, then the operator died: the rest goes where it would have gone."""
    whole = spread(site, existing, wanted).assignments
    recorded = {i: Placed(zone) for i, zone in list(whole.items())[:cut]}
    rest = spread(site, {**existing, **recorded}, wanted).assignments
    assert {i: p.zone for i, p in recorded.items()} | dict(rest) == whole


_JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 7, "", "text", [], {}, [None], ["x"], [{}], {"x": None}, {"zone": 3}, [{"key": 1}]]
)
_ODD = st.one_of(
    _JUNK.map(lambda junk: {"metadata": junk, "spec": junk, "status": junk}),
    st.fixed_dictionaries(
        {
            "metadata": st.fixed_dictionaries({"name": _JUNK, "labels": _JUNK, "annotations": _JUNK}),
            "spec": st.fixed_dictionaries(
                {
                    "taints": _JUNK,
                    "capacity": _JUNK,
                    "accessModes": st.just(["ReadWriteOnce"]),
                    "nodeAffinity": st.fixed_dictionaries({"required": _JUNK}),
                }
            ),
            "status": st.fixed_dictionaries({"conditions": _JUNK, "phase": st.just("Available")}),
        }
    ),
)


@given(st.lists(_ODD, max_size=4), st.lists(_ODD, max_size=4), _EXISTING, _WANTED)
def test_odd_objects_crash_nothing(
    nodes: list[dict[str, Any]], others: list[dict[str, Any]], existing: dict[int, Placed], wanted: list[int]
) -> None:
    spread(Topology(nodes=nodes, topology_key=KEY), existing, wanted)
    room(nodes, others, others, [DiskWant("1Gi"), DiskWant("odd", "x")])
