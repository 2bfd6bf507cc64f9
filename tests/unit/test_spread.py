"""Spreading over zones: what is chosen, and what is said about what cannot be had."""

from collections.abc import Mapping
from typing import Any

import pytest

from spindle.brokers.zone_spread import Placed, Topology, rack_status, spread

ZONE = "topology.kubernetes.io/zone"


def node(name: str, zone: str | None = None, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {ZONE: zone} if zone else {}}, **more}


def site(*nodes: dict[str, Any], **more: Any) -> Topology:
    return Topology(nodes=nodes, topology_key=ZONE, **more)


def nodes(**zones: int) -> list[dict[str, Any]]:
    return [node(f"{zone}{i}", zone) for zone, count in zones.items() for i in range(count)]


def reasons(found: Any) -> list[str]:
    return [problem.reason for problem in found.problems]


TAINTED = {"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}}
NOT_READY = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}


@pytest.mark.parametrize(
    ("given", "existing", "wanted", "chosen", "said"),
    [
        pytest.param(nodes(a=1, b=1, c=1), {}, [0, 1, 2], {0: "a", 1: "b", 2: "c"}, [], id="one-each"),
        pytest.param(
            nodes(a=2, b=2, c=1), {}, range(5), {0: "a", 1: "b", 2: "c", 3: "a", 4: "b"}, [], id="two-rounds"
        ),
        pytest.param(nodes(a=1, b=1), {0: Placed("a", "a0")}, [1], {1: "b"}, [], id="where-fewest-are"),
        pytest.param(
            nodes(a=2, b=1),
            {0: Placed("b", "b0"), 1: Placed("b")},
            [2],
            {2: "a"},
            [],
            id="one-waits-in-a-full-zone",
        ),
        pytest.param(
            nodes(a=1, b=1),
            {},
            range(3),
            {0: "a", 1: "b"},
            ["InsufficientNodes"],
            id="more-brokers-than-nodes",
        ),
        pytest.param(
            nodes(a=4, b=1),
            {},
            range(4),
            {0: "a", 1: "b", 2: "a", 3: "a"},
            ["UnevenSpread"],
            id="a-zone-is-full",
        ),
        pytest.param(nodes(a=3), {}, range(3), {0: "a", 1: "a", 2: "a"}, ["SingleZone"], id="one-zone"),
        pytest.param(nodes(a=1), {}, [0], {0: "a"}, [], id="one-broker-one-zone"),
        pytest.param(
            [node("x"), node("y")], {}, [0, 1], {0: None, 1: None}, ["NoZoneLabels"], id="no-labels"
        ),
        pytest.param(
            [*nodes(a=1, b=1), node("x")],
            {},
            [0, 1],
            {0: "a", 1: "b"},
            ["NodesWithoutZone"],
            id="one-unlabelled",
        ),
        pytest.param(
            [*nodes(a=1, b=1), node("x")],
            {},
            range(3),
            {0: "a", 1: "b"},
            ["InsufficientNodes", "NodesWithoutZone"],
            id="never-mixed",
        ),
        pytest.param(
            [node("x"), node("y"), *nodes(a=1)],
            {0: Placed(None, "x")},
            [1],
            {1: None},
            ["BrokersWithoutRack"],
            id="labels-came-later",
        ),
        pytest.param(
            [node("x"), node("y")],
            {0: Placed("a", "gone")},
            [1],
            {},
            ["InsufficientNodes", "NodesWithoutZone"],
            id="labels-went",
        ),
        pytest.param(
            nodes(a=2, b=2, c=1),
            {0: Placed("a", "a0"), 1: Placed("a", "a1"), 2: Placed("b", "b0"), 3: Placed("b", "b1")},
            [],
            {},
            ["ZoneWithoutBrokers"],
            id="a-zone-appeared",
        ),
        pytest.param(
            nodes(a=1, b=1, c=1),
            {0: Placed("a", "a0"), 1: Placed("b", "b0")},
            [],
            {},
            [],
            id="a-zone-appeared-and-nothing-is-lost",
        ),
        pytest.param(
            nodes(a=1, b=1),
            {0: Placed("c", "a0"), 1: Placed("b", "b0")},
            [],
            {},
            ["ZoneChanged"],
            id="relabelled-under-a-broker",
        ),
        pytest.param(
            nodes(a=1, b=1),
            {0: Placed("a", "a0"), 1: Placed(None, "b0")},
            [],
            {},
            ["MixedRacks"],
            id="one-without",
        ),
        pytest.param([], {}, [0], {}, ["InsufficientNodes"], id="no-nodes"),
        pytest.param(
            [*nodes(a=1), node("b0", "b", **TAINTED)],
            {},
            [0, 1],
            {0: "a"},
            ["InsufficientNodes"],
            id="tainted",
        ),
        pytest.param(
            [*nodes(a=1), node("b0", "b", spec={"unschedulable": True})],
            {},
            [0, 1],
            {0: "a"},
            ["InsufficientNodes"],
            id="cordoned",
        ),
        pytest.param(
            [node("x"), node("b0", "b", **NOT_READY)],
            {},
            [0],
            {},
            ["InsufficientNodes", "NodesWithoutZone"],
            id="zones-stay-zones-while-their-nodes-are-away",
        ),
    ],
)
def test_choices_and_problems(
    given: list[dict[str, Any]],
    existing: Mapping[int, Placed],
    wanted: list[int],
    chosen: dict[int, str | None],
    said: list[str],
) -> None:
    found = spread(site(*given), existing, wanted)
    assert found.assignments == chosen
    assert reasons(found) == said
    assert found.unplaced == tuple(i for i in wanted if i not in chosen)


def test_tolerated_taints_and_selectors() -> None:
    given = site(
        node("a0", "a", **TAINTED),
        {"metadata": {"name": "b0", "labels": {ZONE: "b", "disk": "nvme"}}, **TAINTED},
        tolerations=[{"key": "gpu", "operator": "Exists"}],
        node_selector={"disk": "nvme"},
    )
    assert spread(given, {}, [0]).assignments == {0: "b"}


def test_room_limits_and_shared_nodes_take_several() -> None:
    limited = site(*nodes(a=1, b=1, c=1), room={"a0": 1, "c0": 3})
    assert spread(limited, {}, range(3)).assignments == {0: "a", 1: "c"}
    shared = site(*nodes(a=1, b=1, c=1), room={"a0": 1, "c0": 3}, shared_nodes=True)
    assert spread(shared, {}, range(3)).assignments == {0: "a", 1: "c", 2: "c"}
    unlimited = site(*nodes(a=1, b=1), shared_nodes=True)
    assert spread(unlimited, {}, range(5)).counts == {"a": 3, "b": 2}


def test_too_few_nodes_says_how_many_and_why() -> None:
    given = site(*nodes(a=2), node("b0", "b", spec={"unschedulable": True}), room={"a0": 1})
    problem = spread(given, {7: Placed("a", "a1")}, [8, 9]).problems[0]
    assert problem.message == (
        "2 brokers wanted, 1 node with room: no node for broker 9; 1 node with a broker already: a1; "
        "1 node cordoned or not ready: b0."
    )
    assert "sharedNodes" in problem.unblocked_by


def test_an_empty_zone_with_room_is_shown_even_where_the_spread_is_even() -> None:
    found = spread(site(*nodes(a=1, b=1)), {0: Placed("a", "a0")})
    assert found.empty_zones == ("b",)
    assert found.counts == {"a": 1, "b": 0}


def test_rack_status() -> None:
    assert rack_status({2: "b", 0: "a", 1: "b", 3: None}) == [
        {"rack": "a", "brokers": [0]},
        {"rack": "b", "brokers": [1, 2]},
    ]
