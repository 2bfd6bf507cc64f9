"""Leadership moved off a disk that serves, but badly: who takes over, how it is noted, and that it comes back."""

from dataclasses import replace
from typing import Any

import pytest

from spindle.evacuation.leadership import move_leadership
from spindle.model.actions import Action, ElectPreferred, Evict
from spindle.model.actions import Reassign as ReassignAction
from spindle.model.replica_index import Key, ReplicaIndex
from spindle.model.view import KafkaView, Partition
from spindle.moves.intents import ElectIntent, ReassignIntent
from spindle.moves.journal import DroppedReplica, Journal, LeadershipOverride, Move
from spindle.moves.kafka_index import KafkaIndex
from spindle.moves.leadership import reconcile_leadership
from spindle.reconcile.plan import ReconcilePlan
from tests.model.failing import Failing
from tests.model.moving import Kafka, Part
from tests.model.world import World
from tests.unit.test_healing import T, broker, log_dir, part, view
from tests.unit.test_healing_plan import cluster, reasons, until, whole
from tests.unit.test_moves_execute import D1, kafka, step

KEY: Key = ("t", 0)


class TestWho:
    """Partition 0 on broker 0's dir ``a``, which is slow."""

    def look(self, *isr: int, leader: int = 0, **more: Any) -> ReplicaIndex:
        made = view(
            [broker(i, log_dir("a", 0), log_dir("b")) for i in range(3)],
            part(0, (0, 1, 2), isr or (0, 1, 2), leader=leader, **more),
        )
        return ReplicaIndex(made)

    def test_the_first_that_is_in_sync_takes_over(self) -> None:
        assert move_leadership(self.look(), [(0, "a")], frozenset()) == {(T, 0): 1}
        assert move_leadership(self.look(0, 2), [(0, "a")], frozenset()) == {(T, 0): 2}

    def test_who_leads_already_goes_on(self) -> None:
        assert move_leadership(self.look(leader=2), [(0, "a")], frozenset()) == {(T, 0): 2}

    def test_a_broker_that_is_unfit_takes_nothing_over(self) -> None:
        assert move_leadership(self.look(), [(0, "a")], frozenset({1})) == {(T, 0): 2}
        assert move_leadership(self.look(), [(0, "a")], frozenset({1, 2})) == {(T, 0): None}
        assert move_leadership(self.look(), [(0, "a"), (1, "a")], frozenset()) == {(T, 0): 2}

    def test_nobody_in_sync_changes_nothing(self) -> None:
        assert move_leadership(self.look(0), [(0, "a")], frozenset()) == {(T, 0): None}

    def test_what_is_led_elsewhere_by_its_order_stays_as_it_is(self) -> None:
        assert move_leadership(self.look(leader=0), [(2, "a")], frozenset()) == {(T, 0): None}

    def test_a_replica_that_is_not_shown_on_a_live_dir_takes_nothing_over(self) -> None:
        replica_index = self.look()
        brokers = dict(replica_index.brokers) | {1: broker(1, asked=False)}
        hidden = ReplicaIndex(replace(replica_index.view, brokers=brokers))
        assert move_leadership(hidden, [(0, "a")], frozenset()) == {(T, 0): 2}

    def test_a_partition_without_replicas_does_not_end_the_pass(self) -> None:
        """Only a false broker describes one."""
        made = self.look()
        (one,) = made.view.partitions or ()
        bare = replace(made.view, partitions=(one, replace(one, index=1, replicas=(), isr=())))
        assert move_leadership(ReplicaIndex(bare), [(0, "a")], frozenset()) == {(T, 0): 1}

    def test_nothing_is_said_of_what_is_not_known(self) -> None:
        assert move_leadership(ReplicaIndex(KafkaView(error="no")), [(0, "a")], frozenset()) == {}


class TestOrders:
    def test_the_order_is_noted_changed_and_elected_by(self) -> None:
        k = kafka()
        outcome = step(k, Journal(), leads={KEY: 1})
        assert outcome.journal.leadership == (
            LeadershipOverride("t", 0, before=(0, 1, 2), ours=(1, 0, 2), was=(0, 1, 2)),
        )
        assert [type(intent) for intent in outcome.actions] == [ReassignIntent, ElectIntent]
        assert (k.parts[KEY].replicas, k.parts[KEY].leader) == ([1, 0, 2], 1)
        again = step(k, outcome.journal, leads={KEY: 1})
        assert (again.journal, again.actions) == (outcome.journal, ())
        held = step(k, again.journal, leads={KEY: None})
        assert (held.journal, held.actions) == (outcome.journal, ())

    def test_it_comes_back_when_it_is_asked_for_no_more(self) -> None:
        k = kafka()
        journal = step(k, Journal(), leads={KEY: 1}).journal
        back = step(k, journal)
        assert (k.parts[KEY].replicas, k.parts[KEY].leader) == ([0, 1, 2], 0)
        assert back.journal.leadership
        assert step(k, back.journal).journal == Journal()

    def test_it_does_not_come_back_before_the_former_leader_can_lead(self) -> None:
        k = kafka()
        journal = step(k, Journal(), leads={KEY: 1}).journal
        k.parts[KEY].isr.remove(0)
        outcome = step(k, journal)
        assert (outcome.journal, outcome.actions) == (journal, ())

    def test_an_election_that_did_not_come_off_is_asked_for_again(self) -> None:
        k = kafka()
        journal = step(k, Journal(), leads={KEY: 1}).journal
        k.parts[KEY].leader = 0
        assert [type(i) for i in step(k, journal, leads={KEY: 1}).actions] == [ElectIntent]

    def test_dead_before_it_was_done_it_is_done_then(self) -> None:
        k = kafka()
        noted = Journal(leadership=(LeadershipOverride("t", 0, (0, 1, 2), (1, 0, 2), (0, 1, 2)),))
        step(k, noted, leads={KEY: 1})
        assert k.parts[KEY].replicas == [1, 0, 2]
        assert step(kafka(), noted).journal == Journal()

    def test_another_leader_is_chosen_when_that_one_is_unfit_too(self) -> None:
        k = kafka()
        journal = step(k, Journal(), leads={KEY: 1}).journal
        journal = step(k, journal, leads={KEY: 2}).journal
        assert k.parts[KEY].replicas == [2, 1, 0]
        journal = step(k, journal).journal
        assert k.parts[KEY].replicas == [0, 1, 2]
        assert step(k, journal).journal == Journal()

    def test_what_somebody_else_has_ordered_since_is_theirs(self) -> None:
        k = kafka()
        journal = step(k, Journal(), leads={KEY: 1}).journal
        k.parts[KEY].replicas = [2, 0, 1]
        outcome = step(k, journal)
        assert (outcome.journal, outcome.actions) == (Journal(), ())

    def test_a_partition_that_somebody_reassigns_is_left_alone(self) -> None:
        k = kafka()
        k.begin(KEY, [0, 1, 3], foreign=True)
        assert step(k, Journal(), leads={KEY: 1}).actions == ()

    def test_what_moves_afterwards_takes_its_place_in_the_order_of_before(self) -> None:
        k = kafka()
        move = Move("t", 0, 0, None, 3, D1, 100, "drain")
        first = step(k, Journal(), move, leads={KEY: 1})
        assert not first.journal.moves, "who leads is settled first"
        second = step(k, first.journal, move, leads={KEY: 1})
        assert [m.before for m in second.journal.moves] == [(0, 1, 2)]
        k.tick(1.0, {})
        third = step(k, second.journal)
        assert k.parts[KEY].replicas == [3, 1, 2]
        assert step(k, third.journal).journal == Journal()

    def test_what_leaves_for_a_while_is_noted_with_the_order_of_before(self) -> None:
        k = kafka()
        journal = step(k, Journal(), leads={KEY: 1}).journal
        k.parts[KEY].isr.remove(0)
        gone = step(k, journal, shrinks=(DroppedReplica("t", 0, 0, 100, (1, 0, 2)),))
        assert [entry.before for entry in gone.journal.dropped] == [(0, 1, 2)]

    def test_no_more_than_a_journal_holds(self) -> None:
        k = Kafka(kafka().nodes, {("t", p): Part([0, 1, 2], [], 1) for p in range(5)}, 2, 0.9)
        found = reconcile_leadership(KafkaIndex(k.view()), (), {("t", p): 1 for p in range(5)}, (), 3)
        assert len(found.orders) == 3
        assert [len(i.assignments) for i in found.intents if isinstance(i, ReassignIntent)] == [3]
        assert [len(i.partitions) for i in found.intents if isinstance(i, ElectIntent)] == [3]


def leaders(world: Failing) -> set[int | None]:
    return {state.leader for state in world.kafkas.partitions.values()}


class TestOnTheModelCluster:
    def on(self, world: Failing, broker: int, disk: str) -> list[Key]:
        """Partitions led from one disk."""
        logs = world.disk(broker, disk).logs
        return [
            key for key, state in world.kafkas.partitions.items() if state.leader == broker and key in logs
        ]

    def test_a_slow_disk_leads_nothing_and_gets_it_back_when_it_is_well(self) -> None:
        world = cluster(3)
        before = {key: (s.replicas, s.leader) for key, s in world.kafkas.partitions.items()}
        led = self.on(world, 0, "disk1")
        assert led
        world.disk(0, "disk1").state = "slow"
        plans = until(world, lambda: not self.on(world, 0, "disk1"))
        assert {a.reason for p in plans for a in p.actions if isinstance(a, ElectPreferred)} == {
            "LeadershipMoved"
        }
        assert all(world.kafkas.partitions[key].leader in (1, 2) for key in led)
        world.settle()
        for key, state in world.kafkas.partitions.items():
            assert (key in led) == (state.leader != before[key][1])
        world.disk(0, "disk1").state = "well"
        whole(world)
        assert {key: (s.replicas, s.leader) for key, s in world.kafkas.partitions.items()} == before

    def test_a_disk_that_is_drained_hands_its_leadership_over_first(self) -> None:
        world = cluster(6)
        led = self.on(world, 0, "disk1")
        world.get("KafkaBroker", "demo-broker-0")["spec"].setdefault("maintenance", {})["disks"] = [
            {"name": "disk1", "desiredState": "Drained"}
        ]
        made = until(world, lambda: not self.on(world, 0, "disk1"))
        first: dict[Key, tuple[int, ...]] = {}
        for action in (a for p in made for a in p.actions if isinstance(a, ReassignAction)):
            for topic, index, replicas in action.assignments:
                first.setdefault((topic, index), replicas or ())
        assert all(0 in first[key][1:] for key in led)

    def test_slow_everywhere_is_not_the_disks_fault(self) -> None:
        world = cluster(3)
        led = leaders(world)
        for at in range(3):
            world.disk(at, "disk1").state = "slow"
        for _ in range(4):
            made = world.reconcile()
            assert not any(isinstance(a, (ElectPreferred, ReassignAction)) for a in made.actions)
            world.breathe()
        assert "CorrelatedDiskFailures" in reasons(world)
        assert leaders(world) == led

    @pytest.mark.parametrize(("reason", "moves"), [("NotAnswering", True), ("Full", False)])
    def test_suspicion_has_to_last_and_to_matter(self, reason: str, moves: bool) -> None:
        world = cluster(3)
        world.disk(0, "disk1").state = f"suspect {reason}"
        for _ in range(6):
            world.reconcile()
            world.breathe()
        assert self.on(world, 0, "disk1")
        for _ in range(12):
            world.reconcile()
            world.breathe()
        assert bool(self.on(world, 0, "disk1")) is not moves


class TestGoingDown:
    """A broker that goes down leads nothing any more before it does."""

    def test_another_one_leads_what_a_leaving_broker_led(self) -> None:
        replica_index = TestWho().look()
        assert move_leadership(replica_index, [], frozenset(), frozenset({0})) == {(T, 0): 1}
        assert move_leadership(replica_index, [], frozenset({1}), frozenset({0})) == {(T, 0): 2}

    def test_who_only_follows_there_changes_nothing(self) -> None:
        assert move_leadership(TestWho().look(), [], frozenset(), frozenset({2})) == {(T, 0): None}

    def test_where_all_leave_it_stays_as_it_is(self) -> None:
        assert move_leadership(TestWho().look(), [], frozenset(), frozenset({0, 1, 2})) == {(T, 0): None}

    def test_a_broker_is_evicted_when_it_leads_nothing(self) -> None:
        world = led()
        world.get("KafkaBroker", "demo-broker-0")["spec"].setdefault("maintenance", {})["stopped"] = True
        world.reconcile()
        assert [mark["nodeId"] for mark in world.cluster["status"]["takingDown"]] == [0]
        assert not evicted(world.reconcile())
        assert "LeadershipMoving" in waits(world)
        assert [p.leader for p in world.partitions] == [1, 1, 1]
        assert evicted(world.reconcile())

    def test_its_patience_is_bounded(self) -> None:
        world = led()
        world.stubborn = True
        world.get("KafkaBroker", "demo-broker-0")["spec"].setdefault("maintenance", {})["stopped"] = True
        world.reconcile()
        for _ in range(5):
            assert not evicted(world.reconcile())
            world.now += 5
        world.now += 10
        assert evicted(world.reconcile())
        assert world.partitions[0].leader == 0

    def test_it_leads_again_when_it_is_back(self) -> None:
        world = led()
        before = world.partitions
        world.get("KafkaBroker", "demo-broker-0")["spec"].setdefault("maintenance", {})["stopped"] = True
        world.settle()
        assert ("Pod", "demo-broker-0") not in world.objects
        world.get("KafkaBroker", "demo-broker-0")["spec"].setdefault("maintenance", {})["stopped"] = False
        world.settle()
        assert world.partitions == before

    def test_a_broker_on_a_closed_node_leads_nothing(self) -> None:
        world = led()
        before = world.partitions
        node = world.get("Node", world.get("KafkaBroker", "demo-broker-0")["spec"]["node"])
        node["spec"]["unschedulable"] = True
        world.settle()
        assert {p.leader for p in world.partitions} == {1}
        world.unknown = frozenset({"nodes"})
        world.settle()
        assert {p.leader for p in world.partitions} == {1}, "who is on a closed node is not known"
        world.unknown = frozenset()
        world.get("Node", node["metadata"]["name"])["spec"]["unschedulable"] = False
        world.settle()
        assert world.partitions == before


class Stubborn(World):
    """Kafka may not take elections."""

    stubborn = False

    def act(self, action: Action) -> None:
        if not (self.stubborn and isinstance(action, ElectPreferred)):
            super().act(action)


def led() -> Stubborn:
    """Three brokers; broker 0 leads two partitions of three."""
    world = Stubborn.of()
    world.settle()
    order = ((0, 1, 2), (1, 0, 2), (0, 1, 2))
    world.partitions = tuple(Partition("t", i, r[0], r, (0, 1, 2)) for i, r in enumerate(order))
    world.settle()
    return world


def evicted(made: ReconcilePlan) -> bool:
    return any(isinstance(action, Evict) for action in made.actions)


def waits(world: World) -> set[str]:
    return {wait["reason"] for wait in world.cluster["status"]["waiting"]}
