"""What grows with the number of brokers and must not grow without bound: the steps of a roll, and the objects that Spindle writes."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from bench.fleet import sizes
from bench.fleet.rolls import roll
from bench.fleet.shape import Shape
from bench.fleet.sizes import of_load
from spindle.disks.acceptance import Loss
from spindle.evacuation.data_loss import MOST_TEXT as MOST_RISK
from spindle.evacuation.data_loss import at_risk, broker_risks
from spindle.model.condition_rows import LONGEST
from spindle.model.events import MOST as MOST_EVENTS
from spindle.model.given_consent import losses_named_in, restart_command
from spindle.model.plan_builder import MOST_LISTED, PlanBuilder
from spindle.model.times import stamp
from spindle.model.waiting import TEXT_LEFT_OUT, Waiting, some
from spindle.reconcile import plan
from spindle.rollout.rollout_order import at_once
from tests.model.world import World

LIMIT = 900_000  # bytes; the API server takes 1.5 MB with everything else in the object
LONGEST_NAME = "t" * 243


def waits(count: int, *, quiet: int = 0) -> list[Waiting]:
    """Waits of pods, with the longest names that Kafka takes for topics."""
    partitions = [f"{LONGEST_NAME}-{index}" for index in range(40)]
    return [
        Waiting(
            "RestartPod",
            f"Pod/demo-broker-{number:05}",
            "WouldBeUnderMinIsr",
            f"Without broker {number}, 40 partitions would have fewer in-sync replicas than min.insync.replicas: {some(partitions)}.",
            "Bring the other replicas of these partitions back in sync. Spindle continues by itself when brokers that are restarting "
            "are back in sync.",
            quiet=number >= count - quiet,
        )
        for number in range(count)
    ]


def lost_node(number: int) -> Waiting:
    return Waiting(
        "RecreateBroker",
        f"KafkaBroker/demo-broker-{number:05}",
        "NodeLost",
        f"Node ip-10-42-1-{number}.eu-central-1.compute.internal is tainted node.kubernetes.io/out-of-service, and the disks of demo-broker-{number:05} with it. "
        f"Spindle does not treat them as lost yet: the partitions of demo-broker-{number:05} stay one replica short.",
        f"Bring the node back with its disks. If the disks are lost, accept that: spindle broker node-lost demo-broker-{number:05}.",
        asks=True,
    )


def lossy(disks: int) -> Any:
    """What is known of disks, up to 64 a broker, each with the only replica of 40 partitions."""
    partitions = frozenset((LONGEST_NAME, index) for index in range(40))
    losses = tuple(
        Loss(number // 64, f"disk{number % 64}", f"{number:022}", partitions) for number in range(disks)
    )
    return SimpleNamespace(losses=losses, slots=(), state=SimpleNamespace(name="demo", brokers={}))


def built(count: int, *, quiet: int = 0) -> PlanBuilder:
    builder = PlanBuilder()
    builder.wait(*waits(count, quiet=quiet))
    return builder


@pytest.mark.parametrize(("brokers", "steps"), [(3, 3), (10, 10), (60, 12)])
def test_a_roll_takes_twelve_steps_at_most_however_large_the_cluster(brokers: int, steps: int) -> None:
    found = list(roll(Shape(brokers)))
    assert len(found) == steps
    gone = [node for step in found for node in step.brokers]
    assert sorted(gone) == list(range(brokers))
    assert all(len({node % 3 for node in step.brokers}) == 1 for step in found)
    assert max(len(step.brokers) for step in found) <= at_once(brokers, None)


def test_a_roll_one_by_one_if_asked_for() -> None:
    assert len(list(roll(Shape(12), 1))) == 12


@pytest.mark.parametrize("count", [500, 1000, 20_000])
def test_the_waits_of_a_large_cluster_fit_into_its_status(count: int) -> None:
    assert len(json.dumps(built(count).waiting_status([], 0.0))) < LIMIT


def test_a_wait_without_a_text_keeps_its_time() -> None:
    builder = built(500, quiet=100)
    first = builder.waiting_status([], 0.0)
    assert first[0]["message"] != first[-1]["message"] == TEXT_LEFT_OUT
    assert first[-1]["unblockedBy"].endswith("spindle explain WouldBeUnderMinIsr")
    assert len({entry["object"] for entry in first}) == 500
    again = builder.waiting_status(first, 3600.0)
    assert {entry["since"] for entry in again} == {stamp(0.0)}


def test_those_that_need_attention_are_listed_first() -> None:
    builder = built(2 * MOST_LISTED, quiet=2 * MOST_LISTED - 10)
    assert not any(wait.quiet for wait in builder.listed[:10])
    assert all(wait.quiet for wait in builder.listed[10:])
    assert len(builder.listed) == MOST_LISTED


def test_the_texts_of_all_nodes_of_a_lost_zone_have_room() -> None:
    builder = PlanBuilder()
    builder.wait(*(lost_node(number) for number in range(600)))
    assert all(entry["message"] != TEXT_LEFT_OUT for entry in builder.waiting_status([], 0.0))


def test_what_a_command_asks_about_is_listed_with_its_text_before_everything_else() -> None:
    builder = built(20_000)
    builder.wait(*(lost_node(number) for number in range(2 * MOST_LISTED)))
    text = f"Choose one broker: `{restart_command('demo-broker-7', '0' * 16)}`."
    builder.wait(
        Waiting("RestartPod", "KafkaCluster/demo", "RestartDeadlock", "They block.", text, asks=True)
    )
    status = builder.waiting_status([], 0.0)
    assert status[0]["unblockedBy"] == text
    assert {entry["reason"] for entry in status[1:]} == {"NodeLost"}
    assert len(json.dumps(status)) < LIMIT


def test_no_object_that_grows_with_load_has_more_than_one_megabyte() -> None:
    found = dict(of_load(1000))
    assert len(found) == 6
    assert {name: size for name, size in found.items() if not 50_000 < size < sizes.LIMIT} == {}


@pytest.mark.parametrize("disks", [1, 2, 7, 12, 64, 4000])
def test_every_token_that_a_condition_names_is_whole(disks: int) -> None:
    inventory = lossy(disks)
    losses = {(loss.broker, loss.disk): loss.text for loss in inventory.losses}
    message = at_risk(inventory)
    assert message is not None
    assert len(message) <= LONGEST
    named = {(int(each.broker.rsplit("-", 1)[1]), each.disk): each.token for each in losses_named_in(message)}
    assert named
    assert named.items() <= losses.items()
    assert (len(named) < disks) == (
        "the condition DataAtRisk of their KafkaBrokers names them now" in message
    )
    theirs = broker_risks(inventory)
    everywhere = [each.token for row in theirs.values() for each in losses_named_in(row[3])]
    assert sorted(everywhere) == sorted(losses.values())
    assert max(len(row[3]) for row in theirs.values()) <= MOST_RISK


def test_a_pass_lists_counts_and_reports_its_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World.of()
    world.settle()
    many = waits(MOST_LISTED + 500)
    monkeypatch.setattr(plan, "leave_alone", lambda _state, builder: builder.wait(*many))

    first = plan.plan(world.snapshot(), world.now)
    world.cluster["status"] = first.status
    second = plan.plan(world.snapshot(), world.now)

    for status in (first.status, second.status):
        assert len(status["waiting"]) == MOST_LISTED
        assert status["waitingMore"] == 500
    told = [event.message for event in first.events if event.reason == "WouldBeUnderMinIsr"]
    assert len(told) == MOST_EVENTS + 1
    assert f"And {MOST_LISTED - MOST_EVENTS - 1} more; see the status" in told[-1]
    assert not [event for event in second.events if event.reason == "WouldBeUnderMinIsr"]
