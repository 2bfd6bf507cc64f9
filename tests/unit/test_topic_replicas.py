"""The replication factor of an existing topic: replicas that are added and that leave, over whole passes, interrupted ones too."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from spindle.model.actions import ConfigureTopic, PlaceReplicas, Reassign
from spindle.model.requests import RestartRequest
from spindle.model.view import Broker, KafkaView, LogDir, Partition
from spindle.moves.journal import Journal, RemovedReplica, parse, render
from spindle.moves.kafka_index import KafkaIndex
from spindle.moves.removals import may_remove, step_removals
from spindle.moves.signals import MoveSignals
from spindle.reconcile.healing import removal_pending
from spindle.topics.placement import Rooms
from spindle.topics.replica_choice import Grower, HeldReplica, choose_leaver
from tests.model.failing import Failing
from tests.unit.test_healing_plan import until
from tests.unit.test_topics import cluster, condition, message, rows, running, topic


def ask(world: Failing, replicas: int | None, **config: str) -> None:
    spec = world.get("KafkaTopic", "orders")["spec"]
    spec["replicas"] = replicas
    if config:
        spec["config"] = {key.replace("_", "."): value for key, value in config.items()}


def waits(world: Failing) -> set[str]:
    return {wait["reason"] for wait in world.cluster["status"]["waiting"]}


def racks(world: Failing) -> list[set[str | None]]:
    return [{world.kafkas.racks[broker] for broker in row} for row in rows(world)]


def held(world: Failing) -> list[int]:
    return [sum(broker in row for row in rows(world)) for broker in sorted(world.kafkas.racks)]


def test_more_replicas_are_added_on_chosen_disks_one_at_a_time_and_leaders_stay() -> None:
    world = running(topic(partitions=6, replicas=2), zones="aabbcc")
    before = rows(world)
    ask(world, 3)
    placed: dict[tuple[int, str, int], str] = {}
    for made in until(world, lambda: condition(world) == ("True", "SpecApplied") and held(world) == [3] * 6):
        for action in made.actions:
            if isinstance(action, PlaceReplicas):
                placed |= {(action.broker, t, i): path for t, i, path in action.placements}
            if isinstance(action, Reassign):
                assert all(order is None or len(order) <= 3 for _, _, order in action.assignments)
    assert [row[:2] for row in rows(world)] == before, "the new one comes last"
    assert racks(world) == [set(world.kafkas.racks.values())] * 6
    assert len(placed) == 6
    for (broker, name, index), path in placed.items():
        assert world.kafkas.running[broker].where((name, index)) == path
    world.settle()
    assert not any(key.endswith("throttled.replicas") for key in world.kafkas.settings["topic", "orders"])
    assert not world.kafkas.losses
    assert world.get("KafkaTopic", "orders")["status"]["replicas"] == 3


def test_fewer_replicas_leave_the_leaders_the_racks_and_even_brokers() -> None:
    world = running(topic(partitions=6, replicas=3), zones="aabbcc")
    before = rows(world)
    ask(world, 2)
    made = until(world, lambda: condition(world) == ("True", "SpecApplied") and held(world) != [3] * 6)
    asked = [action.reason for each in made for action in each.actions if isinstance(action, Reassign)]
    assert asked == ["ReplicasReduced"]
    assert "ReplicasChanged" in [event.reason for each in made for event in each.events]
    assert [row[0] for row in rows(world)] == [row[0] for row in before]
    assert all(len(on) == 2 for on in racks(world))
    assert max(held(world)) - min(held(world)) <= 1
    assert not world.settle().actions
    assert not world.kafkas.losses


def test_a_topic_can_end_with_one_replica() -> None:
    world = running(topic(partitions=2, replicas=3))
    world.kafkas.min_isr = 1
    before = rows(world)
    ask(world, 1)
    world.settle()
    assert condition(world) == ("True", "SpecApplied")
    assert rows(world) == [row[:1] for row in before]


def test_fewer_than_min_isr_is_refused_with_a_way_out() -> None:
    world = running(topic(replicas=3))
    ask(world, 1)
    made = world.settle()
    assert condition(world) == ("False", "ReplicasBelowMinIsr")
    assert "Set spec.replicas to 2 or more" in message(world)
    assert "ReplicasBelowMinIsr" in waits(world)
    assert not made.actions
    assert len(rows(world)[0]) == 3
    ask(world, 2)
    world.settle()
    assert condition(world) == ("True", "SpecApplied")
    assert "ReplicasBelowMinIsr" not in waits(world)


def test_more_than_the_cluster_can_take_waits_and_says_what_helps() -> None:
    world = running(topic(replicas=3))
    ask(world, 4)
    made = world.settle()
    assert condition(world) == ("False", "ReplicasNotPlaceable")
    assert "set spec.replicas of the KafkaTopic to 3" in message(world)
    assert not made.actions
    ask(world, 3)
    world.settle()
    assert condition(world) == ("True", "SpecApplied")
    assert "ReplicasNotPlaceable" not in waits(world)


def test_a_rack_without_room_is_waited_for_and_not_passed_over() -> None:
    world = running(topic(partitions=1, replicas=2), zones="aabbcc")
    (row,) = rows(world)
    free = next(zone for zone in ("zone-a", "zone-b", "zone-c") if zone not in racks(world)[0])
    there = [broker for broker, rack in world.kafkas.racks.items() if rack == free]
    for broker in there:
        for disk in ("disk0", "disk1"):
            world.disk(broker, disk).others = 9500
    ask(world, 3)
    world.reconcile()
    world.breathe()
    world.reconcile()
    assert condition(world) == ("False", "ReplicasNotPlaceable")
    assert rows(world) == [row]
    world.disk(there[0], "disk0").others = world.disk(there[0], "disk1").others = 0
    until(world, lambda: condition(world) == ("True", "SpecApplied"))
    assert rows(world) == [(*row, there[0])]


@pytest.mark.parametrize(("first", "then"), [(2, 3), (3, 2)])
@pytest.mark.parametrize("stop", [0, 1, 2, 4])
def test_an_operator_that_ends_in_the_middle_is_followed_by_one_that_goes_on(
    first: int, then: int, stop: int
) -> None:
    world = running(topic(partitions=3, replicas=first), zones="aabbcc")
    ask(world, then)
    for _ in range(12):
        world.reconcile(stop_after=stop)
        world.breathe()
    world.settle()
    assert condition(world) == ("True", "SpecApplied")
    assert [len(row) for row in rows(world)] == [then] * 3
    assert not world.kafkas.losses
    assert not any(key.endswith("throttled.replicas") for key in world.kafkas.settings["topic", "orders"])


@pytest.mark.parametrize(
    ("how", "beats"), [("back", 1), ("back", 2), ("back", 4), ("unset", 3), ("deleted", 2), ("paused", 3)]
)
def test_an_addition_that_is_not_wanted_any_more_is_cancelled(how: str, beats: int) -> None:
    world = running(topic(partitions=3, replicas=2), zones="aabbcc")
    before = rows(world)
    ask(world, 3)
    for _ in range(beats):
        world.reconcile()
        for state in world.kafkas.partitions.values():
            state.isr = tuple(b for b in state.isr if b not in state.adding)  # copies take their time
    if how == "deleted":
        del world.objects["KafkaTopic", "orders"]
    elif how == "paused":
        world.cluster["spec"]["paused"] = True
        assert not world.reconcile().actions
        world.cluster["spec"]["paused"] = False
        ask(world, 2)
    else:
        ask(world, 2 if how == "back" else None)
    world.settle()
    assert [set(row) for row in rows(world)] == [set(row) for row in before]
    assert not world.kafkas.losses
    assert not any(key.endswith("throttled.replicas") for key in world.kafkas.settings["topic", "orders"])


def test_a_topic_that_is_deleted_in_the_middle_ends_the_change_and_a_new_one_is_not_changed_for_it() -> None:
    world = running(topic(partitions=3, replicas=2), zones="aabbcc")
    ask(world, 3)
    world.reconcile()
    del world.objects["KafkaTopic", "orders"]
    world.kafkas.delete_topic(world.kafkas.ids["orders"])
    world.kafkas.make_topic("orders", ((0, 2),), {})
    world.settle()
    assert rows(world) == [(0, 2)]


def test_a_disk_that_dies_in_the_middle_is_healed_and_the_change_is_completed() -> None:
    world = running(topic(partitions=6, replicas=2), zones="aabbcc")
    ask(world, 3)
    world.reconcile()
    world.breathe()
    world.disk(1, "disk0").state = "dead"
    until(
        world,
        lambda: condition(world) == ("True", "SpecApplied") and [len(row) for row in rows(world)] == [3] * 6,
        200,
    )
    assert not world.kafkas.losses


def test_what_somebody_else_reassigns_is_left_alone() -> None:
    world = running(topic(partitions=1, replicas=3), zones="aabbcc")
    (row,) = rows(world)
    other = next(b for b in world.kafkas.racks if b not in row)
    world.kafkas.reassign("orders", 0, (*row[:2], other))
    world.kafkas.partitions["orders", 0].isr = row
    state = copy.deepcopy(world.kafkas.partitions["orders", 0])
    assert state.adding == (other,)
    ask(world, 2)
    world.reconcile()
    assert "ExternalReassignment" in waits(world)
    assert world.kafkas.partitions["orders", 0].target == state.target
    until(world, lambda: condition(world) == ("True", "SpecApplied") and len(rows(world)[0]) == 2)


def test_min_isr_rises_when_the_replicas_for_it_are_there() -> None:
    world = cluster("aabbcc")
    world.kafkas.min_isr = 1
    world.put(topic(partitions=3, replicas=1))
    world.settle()
    ask(world, 3, min_insync_replicas="2")
    made = until(
        world,
        lambda: world.kafkas.settings["topic", "orders"].get("min.insync.replicas") == "2",
        100,
    )
    assert [len(row) for row in rows(world)] == [3] * 3
    assert not [a for a in made[0].actions if isinstance(a, ConfigureTopic)]
    world.settle()
    assert condition(world) == ("True", "SpecApplied")


def test_without_any_broker_that_accepts_replicas_nothing_ends() -> None:
    assert Grower(Rooms({}), {0: "a", 1: "b"}).choose([0], 1.0, {}, {}) is None


def test_min_isr_without_its_setting_rises_when_the_replicas_for_it_are_there() -> None:
    world = running(topic(partitions=2, replicas=1, config={"min.insync.replicas": "1"}), zones="aabbcc")
    world.get("KafkaTopic", "orders")["spec"] |= {"replicas": 3, "config": {}}

    def done() -> bool:
        few = any(
            len(state.isr) < 3 for (name, _), state in world.kafkas.partitions.items() if name == "orders"
        )
        has = world.kafkas.settings["topic", "orders"].get("min.insync.replicas")
        assert has == "1" or not few
        return has is None

    until(world, done)
    world.settle()
    assert condition(world) == ("True", "SpecApplied")


@pytest.mark.parametrize("replicas", [2, 3])
def test_fewer_than_min_isr_will_be_without_its_setting_is_refused(replicas: int) -> None:
    config = {"min.insync.replicas": "1"}
    world = running(topic(partitions=2, replicas=replicas, config=config), zones="aabbcc")
    world.get("KafkaTopic", "orders")["spec"] |= {"replicas": 1, "config": {}}
    world.settle()
    assert [len(row) for row in rows(world)] == [replicas] * 2
    assert condition(world) == ("False", "ReplicasBelowMinIsr")
    assert "min.insync.replicas in spec.config to 1" in message(world)
    ask(world, 1, min_insync_replicas="1")
    world.settle()
    assert condition(world) == ("True", "SpecApplied")
    assert [len(row) for row in rows(world)] == [1] * 2


def test_partitions_without_a_leader_do_not_delay_those_of_other_topics() -> None:
    world = running(topic(partitions=210, replicas=1), topic("payments", partitions=1, replicas=1))
    for (name, _), state in world.kafkas.partitions.items():
        if name == "orders":
            state.leader, state.isr = None, ()
    for name in ("orders", "payments"):
        world.get("KafkaTopic", name)["spec"]["replicas"] = 2
    until(world, lambda: len(rows(world, "payments")[0]) == 2, 3)
    assert "NoLeader" in waits(world)


# One removal


def view(isr: tuple[int, ...] = (0, 1, 2), replicas: tuple[int, ...] = (0, 1, 2), **part: Any) -> KafkaView:
    partition = Partition("t", 0, isr[0] if isr else None, replicas, isr, (), **part)
    dirs = LogDir("/d", total_bytes=1000, usable_bytes=500, replicas={("t", 0): 10})
    return KafkaView(
        brokers={b: Broker(b, "aabc"[b], fenced=False, log_dirs=(dirs,)) for b in range(4)},
        partitions=(partition,),
        min_isr={"t": 2},
        settings={},
    )


def allowed(seen: KafkaView, broker: int, down: frozenset[int] = frozenset()) -> str:
    look = KafkaIndex(seen)
    refusal = may_remove(look, look.partitions["t", 0], broker, down)
    return "" if refusal is None else refusal.reason


def test_a_replica_leaves_only_if_enough_others_are_in_sync_on_enough_racks() -> None:
    assert allowed(view(), 2) == "WouldReduceRackSpread", "0 and 1 share a rack"
    assert allowed(view(), 1) == ""
    assert allowed(view(isr=(0, 2)), 1) == ""
    assert allowed(view(isr=(0, 1)), 1) == "ReplicaRemovalPending", "2 is not in sync"
    assert allowed(view(), 1, frozenset({2})) == "ReplicaRemovalPending"
    assert allowed(view(), 1, frozenset({1})) == ""
    assert allowed(view(isr=(0, 2), replicas=(0, 2)), 2) == "ReplicaRemovalPending", "below min ISR"
    assert allowed(view(removing=(2,)), 1) == "ExternalReassignment"


def test_a_broker_that_does_not_show_its_dirs_is_not_one_that_stays() -> None:
    seen = view()
    brokers = dict(seen.brokers or {})
    seen = replace(seen, brokers={**brokers, 2: replace(brokers[2], log_dirs=None)})
    assert allowed(seen, 1) == "ReplicaRemovalPending", (
        "it is in the ISR for as long as it leads with a hung disk"
    )


def test_a_removal_is_asked_for_again_or_cancelled_and_forgotten_after_a_while() -> None:
    entry = RemovedReplica("t", 0, 1, until=60.0)
    going = view(isr=(0, 2), removing=(1,))

    again = step_removals(KafkaIndex(going), [entry], [entry])
    assert (again.again, again.standing) == ([("t", 0, (0, 2))], [entry])
    taken_back = step_removals(KafkaIndex(going), [entry])
    assert (taken_back.again, taken_back.standing) == ([("t", 0, None)], [entry])
    stuck = step_removals(KafkaIndex(view(isr=(0, 1), removing=(1,))), [entry], [entry])
    assert stuck.again == [("t", 0, None)], "a replica that stays is out of sync"

    done = KafkaIndex(view(isr=(0, 2), replicas=(0, 2)))
    assert step_removals(done, [entry], signals=MoveSignals(now=59.0)).standing == [entry]
    assert not step_removals(done, [entry], signals=MoveSignals(now=61.0)).standing

    # It was never asked for, and now another replica leaves, or moves: one at a time.
    later = step_removals(
        KafkaIndex(view()), [entry], [entry], busy={("t", 0)}, signals=MoveSignals(now=59.0)
    )
    assert (later.again, later.begun, later.standing) == ([], [], [entry])
    given_up = step_removals(
        KafkaIndex(view()), [entry], [entry], busy={("t", 0)}, signals=MoveSignals(now=61.0)
    )
    assert (given_up.again, given_up.begun, given_up.standing) == ([], [], [])

    # Another broker, whose metadata is older: the very same is asked for, and no other.
    older = step_removals(KafkaIndex(view()), [entry], [entry], signals=MoveSignals(now=59.0))
    assert older.again == [("t", 0, (0, 2))]
    other = step_removals(KafkaIndex(view()), [entry], [RemovedReplica("t", 0, 0)])
    assert not other.again
    assert not other.begun

    # A second one leaves after the first; a view from before the first changes nothing.
    second = RemovedReplica("t", 0, 2, until=60.0)
    both = step_removals(KafkaIndex(view()), [entry, second], [second])
    assert (both.again, both.begun, both.standing) == ([], [], [entry, second])


def test_the_journal_keeps_removals() -> None:
    journal = Journal(removed=(RemovedReplica("t", 0, 1, 60.0),))
    assert parse(render(journal)) == journal


def test_no_broker_restarts_in_the_pass_in_which_a_partition_of_it_loses_a_replica() -> None:
    journal = Journal(removed=(RemovedReplica("t", 0, 1, 60.0),))
    parts = view().partition_index.by_key
    wanted = {
        0: RestartRequest("SpecChanged", ""),
        2: RestartRequest("Fenced", ""),
        3: RestartRequest("SpecChanged", ""),
    }
    assert set(removal_pending(journal, parts, wanted)) == {0}
    assert not removal_pending(journal, view(isr=(0, 2), replicas=(0, 2)).partition_index.by_key, wanted)


def test_the_replica_that_hurts_least_leaves() -> None:
    def leaves(*replicas: HeldReplica) -> int:
        return choose_leaver(replicas)

    assert leaves(HeldReplica(0, "a"), HeldReplica(1, "b"), HeldReplica(2, "c", fullness=0.5)) == 2
    assert (
        leaves(HeldReplica(0, "a", fullness=0.9), HeldReplica(1, "b"), HeldReplica(2, "c", fullness=0.1)) == 2
    )
    assert (
        leaves(HeldReplica(0, "a"), HeldReplica(1, "b", in_sync=False), HeldReplica(2, "c", fullness=0.5))
        == 1
    )
    assert (
        leaves(HeldReplica(0, "a"), HeldReplica(1, "b", unwanted=True), HeldReplica(2, "c", fullness=0.5))
        == 1
    )
    assert leaves(HeldReplica(0, "a"), HeldReplica(1, "a"), HeldReplica(2, "c", in_sync=False)) == 1
    assert leaves(HeldReplica(0, "a", in_sync=False), HeldReplica(1, "a"), HeldReplica(2, "c")) == 0
