"""What healing left on fewer racks than it found it on is spread again by itself; what a person put together is left alone."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from spindle.api import names
from spindle.model.actions import Reassign
from spindle.moves.journal import EVACUATE, DroppedReplica, Journal, Move, parse, render
from spindle.moves.kafka_index import KafkaIndex
from spindle.moves.spread_tracking import MOST, SpreadTracker
from spindle.moves.spread_violations import SpreadViolation
from spindle.moves.under_spread import under_spread_partitions
from spindle.reconcile.plan import ReconcilePlan
from tests.model.checked import Checked
from tests.model.driven import all_in
from tests.model.kafka import path_of
from tests.model.moving import Dir, Kafka, Node, Part
from tests.model.store import ConflictError

KEY = ("t", 0)
D0 = path_of("disk0")


# -- over whole passes ---------------------------------------------------------------------------------------------------


@pytest.fixture
def world() -> Checked:
    """Five brokers in racks of 2, 2 and 1: each partition has a replica on disk1 of the lone rack's broker."""
    pool = {
        "name": "main",
        "replicas": 5,
        "disks": {"count": 2, "size": "100Gi", "storageClass": "local-disks"},
    }
    made = Checked.of("abcab", brokerPools=[pool])
    made.settle(80)
    alone = lone(made)
    pairs = [pair for pair in by_rack(made).values() if alone not in pair]
    for index in range(6):
        replicas = (pairs[0][index % 2], pairs[1][index // 2 % 2], alone)
        made.kafkas.create("orders", index, replicas, all_in(path_of("disk1")))
        made.factors["orders", index] = 3
    made.settle()
    return made


def by_rack(world: Checked) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for broker in world.all("KafkaBroker"):
        found.setdefault(broker["spec"]["rack"], []).append(broker["spec"]["id"])
    return found


def lone(world: Checked) -> int:
    return next(brokers[0] for brokers in by_rack(world).values() if len(brokers) == 1)


def racks(world: Checked) -> list[int]:
    """On how many racks each partition stands."""
    at = {broker: rack for rack, brokers in by_rack(world).items() for broker in brokers}
    return [len({at[b] for b in state.replicas}) for _, state in sorted(world.kafkas.partitions.items())]


def journal(world: Checked) -> Journal:
    return parse(world.get("ConfigMap", names.moves_map("demo"))["data"]["journal"])


def passes(world: Checked, count: int) -> Iterator[ReconcilePlan]:
    for _ in range(count):
        yield world.reconcile()
        world.breathe()


def crowd(world: Checked) -> None:
    """Let the lone broker's disk die and be evacuated; ends before anything is spread."""
    world.disk(lone(world), "disk1").state = "dead"
    for _ in passes(world, 30):
        if min(racks(world)) == 2 and not journal(world).moves:
            return
    raise AssertionError(world.cluster["status"]["waiting"])


def test_what_healing_crowded_is_spread_again_without_a_person(world: Checked) -> None:
    crowd(world)
    waits = [w for w in world.cluster["status"]["waiting"] if w["reason"] == "RackSpreadViolated"]
    assert all("healing moved them there" in wait["unblockedBy"] for wait in waits)
    made = list(passes(world, 30))

    assert racks(world) == [3] * 6
    told = [
        a.message for p in made for a in p.actions if isinstance(a, Reassign) and a.reason == "MovesStarted"
    ]
    assert any("(spread)" in message for message in told)
    assert journal(world).spread_violations == ()
    assert "RackSpreadViolated" not in {wait["reason"] for wait in world.cluster["status"]["waiting"]}
    assert world.broken == []
    assert world.kafkas.losses == []


def test_only_what_has_lost_a_rack_is_moved_and_one_replica_of_it(world: Checked) -> None:
    crowd(world)
    before = {key: set(state.replicas) for key, state in world.kafkas.partitions.items()}
    for _ in passes(world, 30):
        pass

    for key, state in world.kafkas.partitions.items():
        changed = set(state.replicas) - before[key]
        assert changed == (set() if lone(world) in before[key] else {lone(world)}), key


def test_what_a_person_put_together_is_left_alone(world: Checked) -> None:
    crowd(world)
    ours = {entry.key for entry in journal(world).spread_violations}
    key = min(ours)
    state = world.kafkas.partitions[key]
    pair = next(brokers for brokers in by_rack(world).values() if set(brokers) <= set(state.replicas))
    others = next(brokers for brokers in by_rack(world).values() if len(brokers) == 2 and brokers != pair)
    world.kafkas.reassign(*key, (*others, pair[0]))
    for _ in passes(world, 30):
        pass

    assert set(state.replicas) == {*others, pair[0]}
    assert sum(count == 2 for count in racks(world)) == 1
    wait = next(w for w in world.cluster["status"]["waiting"] if w["reason"] == "RackSpreadViolated")
    assert "spindle rebalance run" in wait["unblockedBy"]


def test_a_rack_that_is_away_is_waited_for(world: Checked) -> None:
    """The lone broker has no other disk left to run with; its replicas come back when it does."""
    alone = lone(world)
    world.disk(alone, "disk1").state = "dead"
    world.disk(alone, "disk0").state = "dead"
    for _ in passes(world, 40):
        pass
    assert racks(world) == [2] * 6
    assert len(journal(world).spread_violations) == 6

    world.swap(alone, "disk0")
    world.swap(alone, "disk1")
    for _ in range(180):
        with contextlib.suppress(
            ConflictError
        ):  # its pod changed in the pass that stops it: the next one looks again
            world.reconcile()
        world.breathe()

    assert racks(world) == [3] * 6
    assert journal(world).spread_violations == ()
    assert world.broken == []


# -- the record ----------------------------------------------------------------------------------------------------------


def kafka(replicas: list[int], **more: Any) -> Kafka:
    """Brokers 0 to 4 in racks a, a, b, b, c."""
    nodes = {b: Node("aabbc"[b], {D0: Dir(1000)}) for b in range(5)}
    made = Kafka(nodes, {}, 1, 0.9)
    made.parts[KEY] = Part(replicas, list(replicas), 100, leader=replicas[0], **more)
    for broker in replicas:
        nodes[broker].dirs[D0].replicas[KEY] = 100
    made.settings["topic", "t"] = {}
    return made


ENTRY = SpreadViolation("t", 0, racks=3, brokers=(0, 1, 2))
MOVE = Move("t", 0, 4, None, 1, D0, 100, EVACUATE)


def standing(replicas: list[int], before: Journal, *ours: tuple[str, int]) -> tuple[SpreadViolation, ...]:
    return SpreadTracker(KafkaIndex(kafka(replicas).view()), before).standing(ours)


@pytest.mark.parametrize(
    ("move", "noted"),
    [
        pytest.param(MOVE, (ENTRY,), id="a rack less"),
        pytest.param(replace(MOVE, reason="rebalance"), (), id="a person wanted it"),
        pytest.param(replace(MOVE, reason="drain"), (), id="a person's drain"),
        pytest.param(replace(MOVE, source=2, target=3), (), id="as many racks"),
        pytest.param(replace(MOVE, topic="gone"), (), id="no such partition"),
    ],
)
def test_healing_that_costs_a_rack_is_noted(move: Move, noted: tuple[SpreadViolation, ...]) -> None:
    found = SpreadTracker(KafkaIndex(kafka([0, 2, 4]).view()), Journal())
    found.begun(move)

    assert found.standing({KEY}) == noted


@pytest.mark.parametrize(
    ("replicas", "before", "ours", "kept"),
    [
        pytest.param([2, 1, 0], Journal(spread_violations=(ENTRY,)), (), (ENTRY,), id="in another order"),
        pytest.param([0, 2, 4], Journal(spread_violations=(ENTRY,)), (), (), id="it is spread"),
        pytest.param([0, 2, 3], Journal(spread_violations=(ENTRY,)), (), (), id="somebody else moved it"),
        pytest.param(
            [0, 2, 3],
            Journal(spread_violations=(ENTRY,), moves=(replace(MOVE, reason="backfill"),)),
            (),
            (replace(ENTRY, brokers=(0, 2, 3)),),
            id="we moved it",
        ),
        pytest.param(
            [0, 1],
            Journal(spread_violations=(ENTRY,), dropped=(DroppedReplica("t", 0, 2, 100, (0, 1, 2)),)),
            (KEY,),
            (ENTRY,),
            id="one replica left it for a while",
        ),
        pytest.param(
            [0, 2, 4], Journal(spread_violations=(ENTRY,)), (KEY,), (ENTRY,), id="its move has just begun"
        ),
        pytest.param(
            [0, 1, 2], Journal(spread_violations=(replace(ENTRY, topic="u"),)), (), (), id="it was deleted"
        ),
    ],
)
def test_what_stays_on_record(
    replicas: list[int], before: Journal, ours: tuple[tuple[str, int], ...], kept: tuple[SpreadViolation, ...]
) -> None:
    assert standing(replicas, before, *ours) == kept


def test_the_record_is_bounded() -> None:
    full = Journal(
        spread_violations=tuple(replace(ENTRY, topic="u", partition=index) for index in range(MOST))
    )
    found = SpreadTracker(KafkaIndex(kafka([0, 2, 4]).view()), full)
    found.begun(MOVE)

    assert found.standing({KEY}) == ()
    assert len(render(full)) < 500_000


def test_the_journal_carries_it() -> None:
    made = Journal(
        spread_violations=(
            ENTRY,
            replace(ENTRY, partition=7, racks=2, brokers=(3, 4)),
            SpreadViolation("u", 1, 2, (9,)),
        )
    )

    assert parse(render(made)) == made
    assert not made  # nothing waits for it when the cluster goes


@pytest.mark.parametrize(
    ("ours", "said"),
    [
        ((), "Run the rebalance job"),
        ((KEY,), "Nothing to do"),
    ],
)
def test_the_way_out_says_whose_it_is(ours: tuple[tuple[str, int], ...], said: str) -> None:
    refusal = under_spread_partitions(kafka([0, 1, 2]).view(), ours)

    assert refusal is not None
    assert refusal.unblocked_by.startswith(said)
