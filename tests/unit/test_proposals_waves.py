"""Which moves of a proposal may begin, and what is left out because it holds no more."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from spindle.model.view import KafkaView
from spindle.moves.journal import DroppedReplica, Journal, MoveBackoff, PendingCleanup
from spindle.moves.kafka_index import KafkaIndex
from spindle.moves.limits import Limits
from spindle.proposals.proposal import read_proposal
from spindle.proposals.waves import PATIENCE, WaveState, look_over
from tests.model.moving import Dir, Kafka, Node, Part
from tests.unit.proposal_samples import D0, D1, executing, in_journal, move

LIMITS = Limits(bytes_per_second=None)
ACROSS = move(0, (0, D0), (2, D1))
WITHIN = move(1, (1, D0), (1, D1))
OTHER = move(2, (0, D0), (3, D0))


def kafka() -> Kafka:
    nodes = {b: Node("abca"[b], {D0: Dir(1000), D1: Dir(1000)}) for b in range(4)}
    parts = {
        ("t", 0): Part([0, 1], [], 100),
        ("t", 1): Part([1, 2], [], 100),
        ("t", 2): Part([0, 1], [], 100),
    }
    made = Kafka(nodes, {}, 1, 0.9)
    for key, part in parts.items():
        for broker in part.replicas:
            nodes[broker].dirs[D0].replicas[key] = part.size
        part.isr, part.leader = list(part.replicas), part.replicas[0]
        made.parts[key] = part
        made.settings["topic", key[0]] = {}
    return made


def look(
    *moves: dict[str, Any],
    world: Kafka | None = None,
    journal: Journal | None = None,
    outcomes: str = "",
    **more: Any,
) -> WaveState:
    proposal = read_proposal(executing(*moves, outcomes=outcomes))
    closed = more.pop("closed", frozenset())
    return look_over(
        proposal,
        KafkaIndex((world or kafka()).view(), closed),
        journal if journal is not None else Journal(),
        LIMITS,
        **more,
    )


def drops(wave: WaveState) -> list[str]:
    return [str(each["reason"]) for each in wave.drops]


def test_what_holds_begins() -> None:
    wave = look(ACROSS, WITHIN, OTHER)

    assert wave.go == [in_journal(each) for each in (ACROSS, WITHIN, OTHER)]
    assert "".join(wave.move_states) == "..."
    assert (wave.moved, wave.left) == (0, 300)


def deleted(world: Kafka) -> None:
    del world.parts["t", 0]
    for node in world.nodes.values():
        node.dirs[D0].replicas.pop(("t", 0), None)


def on_another_disk(world: Kafka) -> None:
    world.nodes[0].dirs[D1].replicas["t", 0] = world.nodes[0].dirs[D0].replicas.pop(("t", 0))


def on_another_broker(world: Kafka) -> None:
    world.parts["t", 0].replicas = [3, 1]


def grown(world: Kafka) -> None:
    for broker in (0, 1):
        world.nodes[broker].dirs[D0].replicas["t", 0] = 600 * 2**20


def cordoned(world: Kafka) -> None:
    world.nodes[2].dirs[D1].cordoned = True


def failed(world: Kafka) -> None:
    world.nodes[2].dirs[D1].error = 56


def no_broker(world: Kafka) -> None:
    del world.nodes[2], world.settings["broker", "2"]


def full(world: Kafka) -> None:
    world.nodes[2].dirs[D1].deleting.append(850)


def one_rack(world: Kafka) -> None:
    world.nodes[2].rack = "b"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(deleted, "TopicDeleted", id="topic deleted"),
        pytest.param(on_another_disk, "ReplicaRelocated", id="on another disk"),
        pytest.param(on_another_broker, "ReplicaRelocated", id="on another broker"),
        pytest.param(grown, "ReplicaSizeChanged", id="size has grown"),
        pytest.param(cordoned, "TargetUnusable", id="target is cordoned"),
        pytest.param(failed, "TargetUnusable", id="target is offline"),
        pytest.param(no_broker, "TargetGone", id="target broker is gone"),
        pytest.param(full, "TargetDiskFull", id="target is full"),
        pytest.param(one_rack, "WouldReduceRackSpread", id="a rack would be lost"),
    ],
)
def test_what_holds_no_more_is_left_out_with_its_reason(change: Callable[[Kafka], None], reason: str) -> None:
    world = kafka()
    change(world)
    wave = look(ACROSS, world=world)

    assert drops(wave) == [reason]
    assert wave.drops[0]["message"]
    assert "".join(wave.move_states) == "-"
    assert wave.go == []


def test_that_another_replica_is_larger_is_no_growth() -> None:
    """Replicas of a partition differ, for years where one was made from scratch of a compacted topic."""
    world = kafka()
    for node in (world.nodes[0], world.nodes[1], world.nodes[2]):
        node.dirs[D0].total = node.dirs[D1].total = 2**40
    world.nodes[1].dirs[D0].replicas["t", 0] = 600 * 2**20  # that of broker 0, which it leaves, has 100

    assert look(ACROSS, world=world).go == [in_journal(ACROSS)]


def others_move_it(world: Kafka) -> None:
    world.begin(("t", 0), [0, 3], foreign=True)


def target_is_down(world: Kafka) -> None:
    world.nodes[2].up = False


def source_is_down(world: Kafka) -> None:
    world.nodes[0].up = False


def no_leader(world: Kafka) -> None:
    world.parts["t", 0].leader = None


def at_its_minimum(world: Kafka) -> None:
    world.parts["t", 0].isr = [0]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(others_move_it, "ExternalReassignment", id="others move it"),
        pytest.param(target_is_down, "TargetUnavailable", id="target does not answer"),
        pytest.param(source_is_down, "SourceDown", id="source does not answer"),
        pytest.param(no_leader, "NoLeader", id="no leader"),
        pytest.param(at_its_minimum, "UnderReplicated", id="short of copies"),
    ],
)
def test_what_another_look_may_answer_otherwise_waits_but_not_for_ever(
    change: Callable[[Kafka], None], reason: str
) -> None:
    world = kafka()
    change(world)
    wave, late = look(ACROSS, world=world), look(ACROSS, world=world, idle=PATIENCE + 1)

    assert [each.reason for each in wave.waits] == [reason]
    assert (wave.go, wave.drops, "".join(wave.move_states)) == ([], [], ".")
    assert drops(late) == [reason]


def test_what_is_in_motion_is_kept_and_counted() -> None:
    world = kafka()
    world.nodes[2].dirs[D1].replicas["t", 0] = 40
    world.parts["t", 0].replicas, world.parts["t", 0].target = [2, 1, 0], [2, 1]
    world.parts["t", 0].before = [0, 1]
    wave = look(ACROSS, WITHIN, world=world, journal=Journal(moves=(in_journal(ACROSS),)))

    assert "".join(wave.move_states) == ">."
    assert wave.keep == {("t", 0)}
    assert (wave.moved, wave.left) == (40, 160)


def test_what_has_arrived_is_done_and_stays_so_wherever_it_goes_later() -> None:
    world = kafka()
    world.nodes[1].dirs[D1].replicas["t", 1] = world.nodes[1].dirs[D0].replicas.pop(("t", 1))
    arrived = look(WITHIN, world=world)
    back = look(WITHIN, outcomes="+")

    assert "".join(arrived.move_states) == "+"
    assert "".join(back.move_states) == "+"
    assert back.go == []


def test_a_later_wave_waits_for_the_earlier_one_and_by_the_record() -> None:
    first, second = {**WITHIN, "wave": 0}, {**ACROSS, "wave": 1}
    world = kafka()
    world.nodes[1].dirs[D1].replicas["t", 1] = world.nodes[1].dirs[D0].replicas.pop(("t", 1))

    assert look(first, second).go == [in_journal(WITHIN)]
    assert look(first, second, world=world).go == []  # it has arrived, and that is not written down yet
    assert look(first, second, world=world, outcomes="+.").go == [in_journal(ACROSS)]


def test_a_second_move_of_a_partition_waits_for_the_first() -> None:
    later = move(0, (1, D0), (3, D1))

    assert look(ACROSS, later).go == [in_journal(ACROSS)]


def test_healing_comes_first() -> None:
    assert look(ACROSS, WITHIN, busy={("t", 0)}).go == [in_journal(WITHIN)]


def test_what_nobody_takes_is_left_out_in_the_end() -> None:
    """The executor may refuse for reasons of its own, and what comes first may stay so: no proposal is carried out for ever."""
    late = PATIENCE + 1

    assert drops(look(ACROSS, WITHIN, busy={("t", 0)}, idle=late)) == ["MoveNotStarted", "MoveNotStarted"]
    assert look(ACROSS, idle=late).go == []
    assert look(ACROSS, idle=PATIENCE - 1).go == [in_journal(ACROSS)]


def test_what_others_have_in_motion_is_left_out_in_the_end() -> None:
    journal = Journal(moves=(replace(in_journal({**ACROSS, "toBroker": 3}), reason="drain"),))

    assert drops(look(ACROSS, journal=journal)) == []
    assert drops(look(ACROSS, journal=journal, idle=PATIENCE + 1)) == ["MoveNotStarted"]


def test_while_a_move_of_it_is_in_motion_nothing_is_left_out_for_waiting() -> None:
    world = kafka()
    world.begin(("t", 0), [2, 1], foreign=False)
    wave = look(ACROSS, WITHIN, world=world, journal=Journal(moves=(in_journal(ACROSS),)), idle=PATIENCE + 1)

    assert (wave.go, wave.drops) == ([in_journal(WITHIN)], [])


def test_a_full_target_may_have_room_when_what_is_in_motion_has_gone() -> None:
    world = kafka()
    full(world)
    leftover = PendingCleanup("t", 9, 2, D1, 850, 0.0)
    wave = look(ACROSS, world=world, journal=Journal(cleanups=(leftover,)))

    assert [each.reason for each in wave.waits] == ["TargetDiskFull"]
    assert wave.drops == []


def test_a_move_that_the_agent_gave_up_is_left_out() -> None:
    rest = MoveBackoff("t", 1, 1, D1, 1, 1e12)

    assert drops(look(WITHIN, journal=Journal(backoffs=(rest,)))) == ["MoveFailed"]


def test_what_left_a_broker_for_a_while_comes_back_there_first() -> None:
    shrunk = DroppedReplica("t", 0, 2, 100, (0, 1, 2))

    assert [each.reason for each in look(ACROSS, journal=Journal(dropped=(shrunk,))).waits] == [
        "ReplicaReturning"
    ]


def test_a_disk_that_is_closed_takes_nothing() -> None:
    assert drops(look(ACROSS, closed=frozenset({(2, D1)}))) == ["TargetUnusable"]


def test_nothing_changes_while_kafka_is_silent() -> None:
    proposal = read_proposal(executing(ACROSS, WITHIN, outcomes="+."))
    wave = look_over(proposal, KafkaIndex(KafkaView(error="away")), Journal(), LIMITS)

    assert ("".join(wave.move_states), wave.go, wave.drops) == ("+.", [], [])
