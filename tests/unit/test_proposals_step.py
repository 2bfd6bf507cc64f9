"""Proposals inside a pass: what is told, what the executor is asked for, what is written and how often."""

import json
from dataclasses import replace
from typing import Any

import pytest

from spindle.api.cluster import KafkaClusterSpec
from spindle.model.actions import Delete
from spindle.model.plan_builder import PlanBuilder
from spindle.model.state import ClusterState, read_state
from spindle.model.times import stamp
from spindle.model.view import KafkaView
from spindle.moves.journal import Journal
from spindle.moves.requests import MoveRequests
from spindle.proposals.reconciler import ProposalResult, reconcile_proposals
from spindle.reconcile.healing import observe_only
from tests.model.moving import Dir, Kafka, Node, Part
from tests.model.world import World
from tests.unit.proposal_samples import D0, D1, HASH, executing, in_journal, move, rebalance

WITHIN = move(1, (1, D0), (1, D1))
ACROSS = move(0, (0, D0), (2, D1))


@pytest.fixture(scope="module")
def running() -> World:
    world = World.of()
    world.settle()
    return world


def kafka() -> Kafka:
    nodes = {b: Node("abc"[b], {D0: Dir(1000), D1: Dir(1000)}) for b in range(3)}
    made = Kafka(nodes, {}, 1, 0.9)
    for index, replicas in enumerate(([0, 1], [1, 2])):
        part = Part(replicas, list(replicas), 100, leader=replicas[0])
        made.parts["t", index] = part
        for broker in replicas:
            nodes[broker].dirs[D0].replicas["t", index] = 100
    made.settings["topic", "t"] = {}
    return made


def state_of(
    world: World, *rebalances: dict[str, Any], view: KafkaView | None = None, **spec: Any
) -> ClusterState:
    snapshot = replace(
        world.snapshot(), kafka=kafka().view() if view is None else view, rebalances=rebalances
    )
    state = read_state(snapshot, world.now)
    wanted = {**world.cluster["spec"], "rebalance": spec}
    return replace(state, spec=KafkaClusterSpec.model_validate(wanted))


def settle(
    world: World, *rebalances: dict[str, Any], journal: Journal | None = None, **more: Any
) -> tuple[ProposalResult, PlanBuilder]:
    state, builder = state_of(world, *rebalances, **more), PlanBuilder()
    inventory = observe_only(state, PlanBuilder(), journal if journal is not None else Journal())
    return reconcile_proposals(inventory, builder, MoveRequests()), builder


def phases(proposed: ProposalResult) -> dict[str, str]:
    return {name: str(status["phase"]) for name, status in proposed.statuses.items()}


def reasons(builder: PlanBuilder) -> list[str]:
    return [event.reason for event in builder.events]


def test_a_new_proposal_waits_for_its_approval_and_says_how(running: World) -> None:
    proposed, builder = settle(running, rebalance(WITHIN))
    status = proposed.statuses["demo-1"]

    assert status["phase"] == "Proposed"
    assert status["conditions"][0]["reason"] == "ApprovalRequired"
    assert HASH in status["conditions"][0]["message"]
    assert reasons(builder) == ["RebalanceProposed"]
    assert builder.waits == []  # it may wait for days: a cluster at rest is at rest


def test_it_goes_one_step_at_a_time_and_moves_nothing_before_that_is_written(running: World) -> None:
    begun, builder = settle(running, rebalance(WITHIN, status={"phase": "Proposed"}, approved=HASH))
    later, _ = settle(running, rebalance(WITHIN, status={"phase": "Approved"}, approved=HASH))
    going, _ = settle(running, executing(WITHIN))

    assert phases(begun) == phases(later) == {"demo-1": "Executing"}
    assert [wait.reason for wait in builder.waits] == ["Executing"]  # so that the next pass comes soon
    assert begun.statuses["demo-1"]["approvedBy"] == "person"
    assert begun.requests.moves == later.requests.moves == ()
    assert going.requests.moves == (in_journal(WITHIN),)


def test_a_newer_one_supersedes_what_was_not_begun_and_waits_for_what_was(running: World) -> None:
    old = rebalance(WITHIN, name="old", made="2026-08-01T00:00:00Z")
    new = rebalance(WITHIN, name="new", status={"phase": "Approved"}, approved=HASH)
    begun = executing(ACROSS, name="begun", made="2026-08-02T00:00:00Z")
    proposed, builder = settle(running, new, old, begun)

    assert phases(proposed) == {"old": "Superseded", "begun": "Executing", "new": "Approved"}
    assert proposed.statuses["new"]["reason"] == "AnotherProposalExecuting"
    assert proposed.requests.moves == (in_journal(ACROSS),)
    assert {wait.reason for wait in builder.waits} == {"Executing", "AnotherProposalExecuting"}


@pytest.mark.parametrize(
    ("newer", "phase"),
    [
        pytest.param({}, "Approved", id="that nobody approved"),
        pytest.param({"approved": HASH}, "Superseded", id="that is approved"),
        pytest.param({"approved": HASH, "status": {"phase": "Stopped"}}, "Approved", id="that is over"),
    ],
)
def test_what_is_approved_gives_way_only_to_a_newer_one(
    running: World, newer: dict[str, Any], phase: str
) -> None:
    old = rebalance(
        WITHIN, name="old", made="2026-08-01T00:00:00Z", status={"phase": "Approved"}, approved=HASH
    )
    windows = [{"start": "0 22 * * *", "durationMinutes": 60}]
    proposed, _ = settle(running, old, rebalance(WITHIN, name="new", **newer), windows=windows)

    assert phases(proposed)["old"] == phase


def test_outside_of_its_window_nothing_more_begins_and_it_says_when_it_goes_on(running: World) -> None:
    windows = [{"start": "0 22 * * *", "durationMinutes": 60}]  # it is a quarter past two in the afternoon
    journal = Journal(moves=(in_journal(ACROSS),))
    proposed, builder = settle(running, executing(ACROSS, WITHIN), journal=journal, windows=windows)

    assert proposed.requests.moves == ()
    assert proposed.requests.withdrawn == frozenset()
    assert proposed.statuses["demo-1"]["message"].endswith("It continues at 2026-09-21T22:00:00Z.")
    assert [wait.reason for wait in builder.waits] == ["MaintenanceWindowClosed"]


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(executing(ACROSS, WITHIN, stop=True), id="stopped"),
        pytest.param(executing(ACROSS, WITHIN, approved=None), id="approval taken away"),
        pytest.param(None, id="deleted"),
    ],
)
def test_one_that_ends_gives_up_what_is_in_motion(running: World, raw: dict[str, Any] | None) -> None:
    journal = Journal(moves=(in_journal(ACROSS), replace(in_journal(WITHIN), reason="drain")))
    proposed, _ = settle(running, *([raw] if raw else []), journal=journal)

    assert proposed.requests.moves == ()
    assert proposed.requests.withdrawn == {("t", 0)}  # and of others' moves none
    assert set(phases(proposed).values()) <= {"Stopped"}
    assert {status["outcomes"] for status in proposed.statuses.values()} <= {".."}, (
        "nothing of it is in motion"
    )


def test_under_min_isr_it_pauses_and_goes_on(running: World) -> None:
    world = kafka()
    world.min_isr = 2
    world.parts["t", 1].replicas, world.parts["t", 1].isr = [1, 2, 0], [1]
    proposed, builder = settle(running, executing(ACROSS, WITHIN), view=world.view())

    assert phases(proposed) == {"demo-1": "Executing"}
    assert proposed.statuses["demo-1"]["reason"] == "PartitionsUnderMinIsr"
    assert proposed.requests.moves == ()
    assert reasons(builder) == []

    proposed, _ = settle(running, executing(ACROSS, WITHIN))
    assert proposed.statuses["demo-1"]["reason"] == "Executing"
    assert proposed.requests.moves


def test_what_is_dropped_is_told_and_counted(running: World) -> None:
    gone = move(9, (0, D0), (2, D1))
    proposed, builder = settle(running, executing(gone, WITHIN))
    status = proposed.statuses["demo-1"]

    assert [each["reason"] for each in status["dropped"]] == ["TopicDeleted"]
    assert status["outcomes"] == "-."
    assert reasons(builder) == ["MovesDropped"]
    assert proposed.requests.moves == (in_journal(WITHIN),)


def test_what_was_left_out_stays_small_however_much_it_is(running: World) -> None:
    """Else a status that says it of two thousand moves is refused by etcd, pass after pass."""
    before = [
        {"topic": "t" * 249, "partition": n, "reason": "TopicDeleted", "message": "m" * 900}
        for n in range(1999)
    ]
    raw = executing(*(move(n, (0, D0), (2, D1)) for n in range(2000)), outcomes=1999 * "-" + ".")
    raw["status"]["dropped"] = before[:100] + [{**each, "message": ""} for each in before[100:]]
    proposed, builder = settle(running, raw)
    dropped = proposed.statuses["demo-1"]["dropped"]

    assert [len(dropped), dropped[99], dropped[1999]] == [
        2000,
        before[99],
        {"topic": "t", "partition": 1999, "reason": "TopicDeleted"},
    ]
    assert len(json.dumps(dropped)) < 900_000
    assert [event.message for event in builder.events if event.reason == "MovesDropped"] == [
        "t-1999: TopicDeleted."
    ]


def test_progress_alone_is_written_every_quarter_of_a_minute(running: World) -> None:
    raw = executing(ACROSS, WITHIN)
    first = settle(running, raw)[0].statuses["demo-1"]
    journal = Journal(moves=(in_journal(ACROSS),))
    soon = {**raw, "status": {**first, "updatedAt": stamp(running.now - 5)}}
    later = {**raw, "status": {**first, "updatedAt": stamp(running.now - 20)}}

    assert settle(running, soon, journal=journal)[0].statuses["demo-1"] == soon["status"]
    assert settle(running, later, journal=journal)[0].statuses["demo-1"]["outcomes"] == ">."


def test_while_kafka_is_silent_nothing_is_withdrawn(running: World) -> None:
    journal = Journal(moves=(in_journal(ACROSS),))
    proposed, _ = settle(running, executing(ACROSS), journal=journal, view=KafkaView(error="away"))

    assert proposed.requests == MoveRequests()
    assert phases(proposed) == {"demo-1": "Executing"}


def test_proposals_that_cannot_be_read_leave_all_as_it_is(running: World) -> None:
    state = state_of(running)
    state = replace(state, snap=replace(state.snap, unknown=frozenset({"kafkarebalances"})))
    inventory = observe_only(state, PlanBuilder(), Journal(moves=(in_journal(ACROSS),)))
    builder = PlanBuilder()

    assert reconcile_proposals(inventory, builder, MoveRequests()) == ProposalResult()
    assert [wait.reason for wait in builder.waits] == ["ProposalsUnknown"]


def test_of_those_that_are_over_the_latest_are_kept(running: World) -> None:
    over = [
        rebalance(name=f"p{day:02}", made=f"2026-08-{day:02}T00:00:00Z", status={"phase": "Done"})
        for day in range(1, 13)
    ]
    theirs = rebalance(name="p00", made="2026-07-01T00:00:00Z", status={"phase": "Done"})
    del theirs["metadata"]["ownerReferences"]
    _, builder = settle(running, theirs, *over)

    assert [action.name for action in builder.actions if isinstance(action, Delete)] == ["p01", "p02"]


def test_leaders_change_once_their_moves_have_ended(running: World) -> None:
    leaders = [{"topic": "t", "partition": index, "broker": broker} for index, broker in ((0, 2), (1, 2))]
    going, _ = settle(running, executing(ACROSS, WITHIN, outcomes=".+", leaders=leaders))
    left, _ = settle(running, executing(WITHIN, outcomes="+", leaders=leaders[1:]))

    assert going.requests.leaders == {("t", 1): 2}
    assert phases(left) == {"demo-1": "Executing"}


def test_nonsense_fails(running: World) -> None:
    proposed, _ = settle(running, rebalance(move(1, (1, D0), (1, D0))))

    assert phases(proposed) == {"demo-1": "Failed"}
    assert "same log dir as source and target" in proposed.statuses["demo-1"]["message"]


def test_it_is_done_once_new_leaders_are_elected(running: World) -> None:
    """Kafka comes to the new order by itself only where that is left on, and only every few minutes."""
    raw = executing(WITHIN, outcomes="+", leaders=[{"topic": "t", "partition": 1, "broker": 2}])
    world = kafka()
    world.parts["t", 1].replicas = [2, 1]
    ordered, _ = settle(running, raw, view=world.view())
    world.parts["t", 1].leader = 2
    elected, _ = settle(running, raw, view=world.view())

    assert phases(ordered) == {"demo-1": "Executing"}
    assert ordered.requests.leaders == {("t", 1): 2}
    assert phases(elected) == {"demo-1": "Done"}


def test_while_kafka_is_silent_leaders_are_not_given_up(running: World) -> None:
    raw = executing(WITHIN, outcomes="+", leaders=[{"topic": "t", "partition": 1, "broker": 2}])
    raw["status"] |= {"progressedAt": stamp(running.now - 3600)}

    assert phases(settle(running, raw, view=KafkaView(error="away"))[0]) == {"demo-1": "Executing"}


def test_leaders_are_not_given_up_for_a_window_that_was_closed(running: World) -> None:
    raw = executing(WITHIN, outcomes="+", leaders=[{"topic": "t", "partition": 1, "broker": 2}])
    raw["status"] |= {"progressedAt": stamp(running.now - 3600), "reason": "MaintenanceWindowClosed"}
    found, _ = settle(running, raw)

    assert phases(found) == {"demo-1": "Executing"}
    assert found.requests.leaders == {("t", 1): 2}


def waiting(running: World, **status: Any) -> dict[str, Any]:
    """One that has waited for an hour for a partition that others move; it was last written a moment ago."""
    raw = executing(ACROSS)
    raw["status"] |= {
        "progressedAt": stamp(running.now - 3600),
        "updatedAt": stamp(running.now - 20),
        "reason": "Executing",
        **status,
    }
    return raw


def moved_by_others() -> KafkaView:
    world = kafka()
    world.begin(("t", 0), [0, 2], foreign=True)
    return world.view()


def test_after_half_an_hour_what_waits_is_left_out(running: World) -> None:
    proposed, _ = settle(running, waiting(running), view=moved_by_others())

    assert [each["reason"] for each in proposed.statuses["demo-1"]["dropped"]] == ["ExternalReassignment"]


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"reason": "MaintenanceWindowClosed"}, id="the window was closed until now"),
        pytest.param({"updatedAt": "2026-09-21T13:00:00Z"}, id="nobody looked"),
    ],
)
def test_time_in_which_nothing_could_happen_does_not_count(running: World, status: dict[str, Any]) -> None:
    proposed, _ = settle(running, waiting(running, **status), view=moved_by_others())
    found = proposed.statuses["demo-1"]

    assert "dropped" not in found
    assert (found["phase"], found["progressedAt"]) == ("Executing", stamp(running.now))


def test_while_the_window_is_closed_nothing_is_left_out_for_waiting(running: World) -> None:
    windows = [{"start": "0 22 * * *", "durationMinutes": 60}]
    proposed, _ = settle(running, waiting(running), view=moved_by_others(), windows=windows)
    found = proposed.statuses["demo-1"]

    assert "dropped" not in found
    # It begins anew when the window opens; until then nothing has to be written.
    assert found["progressedAt"] == stamp(running.now - 3600)


def test_while_kafka_is_silent_patience_does_not_run_out(running: World) -> None:
    found = settle(running, waiting(running), view=KafkaView(error="away"))[0].statuses["demo-1"]

    assert found["progressedAt"] == stamp(running.now)


def test_leaders_that_cannot_be_had_are_not_waited_for_for_ever(running: World) -> None:
    leaders = [{"topic": "t", "partition": 1, "broker": 2}]
    raw = executing(WITHIN, outcomes="+", leaders=leaders)
    raw["status"]["progressedAt"] = stamp(running.now - 3600)

    found = settle(running, raw)[0].statuses["demo-1"]

    assert (found["phase"], found["message"]) == (
        "Done",
        "1 move done. 1 partition kept another leader than planned.",
    )


def ran(running: World, *moves: dict[str, Any], **status: Any) -> dict[str, Any]:
    """One that was carried out for ten minutes, and was last written a quarter of a minute ago."""
    raw = executing(*moves, by="rule", approved=None)
    raw["status"] |= {
        "ranSeconds": 600,
        "updatedAt": stamp(running.now - 15),
        "reason": "Executing",
        **status,
    }
    return raw


def test_the_time_that_it_was_carried_out_is_counted(running: World) -> None:
    going = settle(running, ran(running, ACROSS))[0].statuses["demo-1"]
    shut = settle(running, ran(running, ACROSS, reason="MaintenanceWindowClosed"))[0].statuses["demo-1"]

    assert (going["ranSeconds"], shut["ranSeconds"]) == (615, 600)


def test_when_its_time_is_over_nothing_more_begins_and_what_is_in_motion_lands(running: World) -> None:
    journal = Journal(moves=(in_journal(ACROSS),))
    proposed, builder = settle(
        running, ran(running, ACROSS, WITHIN), journal=journal, approval="auto", maxDurationMinutes=10
    )
    raw = ran(running, ACROSS, WITHIN, outcomes="+.", reason="MaxDurationExceeded")
    ended, told = settle(running, raw, approval="auto", maxDurationMinutes=10)

    assert (proposed.requests.moves, proposed.requests.withdrawn) == ((), frozenset())
    assert phases(proposed) == {"demo-1": "Executing"}
    assert [wait.reason for wait in builder.waits] == ["MaxDurationExceeded"]
    assert phases(ended) == {"demo-1": "Stopped"}
    assert "maxDurationMinutes (10)" in ended.statuses["demo-1"]["message"]
    assert reasons(told) == ["RebalanceStopped"]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"maxDurationMinutes": 11}, id="it has a minute more"),
        pytest.param({"maxDurationMinutes": 10, "view": KafkaView(error="away")}, id="Kafka is silent"),
    ],
)
def test_before_its_time_is_over_it_is_not_stopped(running: World, more: dict[str, Any]) -> None:
    assert phases(settle(running, ran(running, ACROSS), **more)[0]) == {"demo-1": "Executing"}
