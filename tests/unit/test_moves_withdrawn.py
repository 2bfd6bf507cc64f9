"""Moves that nobody wants any more, and leaders that are chosen for good."""

import pytest

from spindle.moves.intents import ElectIntent, ReassignIntent
from spindle.moves.journal import Journal, Move
from spindle.moves.limits import Limits
from spindle.moves.outcome import StepResult
from tests.model.moving import Dir, Kafka, Node, Part, execute

D0, D1 = "/d0", "/d1"
KEY = ("t", 0)
ACROSS = Move("t", 0, 0, D0, 2, D1, 100, "rebalance")
WITHIN = Move("t", 1, 1, D0, 1, D1, 100, "rebalance")


def kafka() -> Kafka:
    nodes = {b: Node("abc"[b], {D0: Dir(1000), D1: Dir(1000)}) for b in range(3)}
    made = Kafka(nodes, {}, 1, 0.9)
    for index, replicas in enumerate(([0, 1], [1, 2])):
        made.parts["t", index] = Part(replicas, list(replicas), 100, leader=replicas[0])
        for broker in replicas:
            nodes[broker].dirs[D0].replicas["t", index] = 100
    made.settings["topic", "t"] = {}
    return made


def step(
    world: Kafka, journal: Journal, *wanted: Move, withdrawn: frozenset[tuple[str, int]] = frozenset()
) -> StepResult:
    outcome = execute(world.view(), journal, wanted, Limits(), withdrawn=withdrawn)
    for intent in outcome.actions:
        world.carry_out(intent)
    return outcome


def test_a_copy_that_is_withdrawn_is_given_up_and_everything_put_back() -> None:
    world = kafka()
    begun = step(world, Journal(), ACROSS)
    assert world.parts[KEY].adding == [2]
    journal = begun.journal
    for _ in range(4):
        journal = step(world, journal, withdrawn=frozenset({KEY})).journal

    assert journal.moves == ()
    assert world.parts[KEY].replicas == [0, 1]
    assert not any(world.settings.values())


def test_what_has_not_been_begun_is_not_begun_again() -> None:
    """The operator died after it had written the journal, and before it told Kafka."""
    world = kafka()
    journal = execute(world.view(), Journal(), (ACROSS,), Limits()).journal
    outcome = step(world, journal, withdrawn=frozenset({KEY}))

    assert outcome.journal.moves == ()
    assert not any(isinstance(intent, ReassignIntent) for intent in outcome.actions)


def test_a_move_between_disks_is_taken_from_its_agent() -> None:
    world = kafka()
    journal = step(world, Journal(), WITHIN).journal
    assert execute(world.view(), journal, (), Limits()).agent_moves == {1: (WITHIN,)}
    outcome = step(world, journal, withdrawn=frozenset({WITHIN.key}))

    assert outcome.agent_moves == {}
    assert outcome.journal.moves == ()
    assert [refused.refusal.reason for refused in outcome.refusals] == ["MoveCancelled"]


def test_what_only_has_to_leave_its_old_place_is_left_to_end() -> None:
    world = kafka()
    journal = step(world, Journal(), ACROSS).journal
    part = world.parts[KEY]
    part.replicas, part.before, part.target = [2, 1, 0], [2, 1, 0], [2, 1]
    part.isr = [2, 1, 0]
    outcome = step(world, journal, withdrawn=frozenset({KEY}))

    assert not any(
        replicas is None
        for intent in outcome.actions
        if isinstance(intent, ReassignIntent)
        for *_, replicas in intent.assignments
    )


@pytest.mark.parametrize(
    ("replicas", "leader", "isr", "wanted"),
    [
        pytest.param([0, 1], 1, [0, 1], (ReassignIntent(assignments=(("t", 0, (1, 0)),)),), id="the order"),
        pytest.param([1, 0], 1, [0, 1], (), id="so it is"),
        pytest.param([0, 1], 0, [0], (), id="not in sync"),
        pytest.param([0, 2], 0, [0, 2], (), id="holds no replica"),
    ],
)
def test_leaders_for_good(
    replicas: list[int], leader: int, isr: list[int], wanted: tuple[ReassignIntent, ...]
) -> None:
    world = kafka()
    part = world.parts[KEY]
    part.replicas, part.leader, part.isr = replicas, leader, isr
    outcome = execute(world.view(), Journal(), (), Limits(), leaders={KEY: 1})

    assert outcome.actions == wanted
    assert outcome.journal == Journal()


@pytest.mark.parametrize("ordered", [True, False])
def test_when_the_order_is_right_the_election_follows_in_the_same_step(ordered: bool) -> None:
    world = kafka()
    if ordered:
        world.parts[KEY].replicas = [1, 0]
    *before, last = execute(world.view(), Journal(), (), Limits(), leaders={KEY: 1}).actions

    assert isinstance(last, ElectIntent)
    assert last.partitions == (KEY,)
    assert before == ([] if ordered else [ReassignIntent(assignments=(("t", 0, (1, 0)),))])


def test_a_partition_in_motion_keeps_its_leader() -> None:
    world = kafka()
    journal = step(world, Journal(), ACROSS).journal
    outcome = execute(world.view(), journal, (), Limits(), leaders={KEY: 1})

    assert not any(isinstance(intent, ElectIntent | ReassignIntent) for intent in outcome.actions)
