"""Brokers that wait for each other: no shrink begins that cannot end, the deadlock is named, and a person's word leads out of it."""

import contextlib
from collections.abc import Callable

import pytest

from spindle.evacuation.deadlock import deadlock, word_for
from spindle.model.actions import Evict
from spindle.model.blockers import Blocker
from spindle.model.given_consent import restart_named_in
from spindle.model.restart_safety import RestartSafety
from spindle.model.view import KafkaView, Partition
from spindle.moves.journal import DroppedReplica, Journal, Move
from spindle.moves.limits import Limits
from spindle.moves.missing_replicas import meant, taken_over
from tests.model.failing import Failing
from tests.model.kafka import path_of
from tests.model.moving import execute
from tests.model.store import ConflictError
from tests.unit.test_healing_plan import cluster, give_word, reasons, until, whole
from tests.unit.test_rolling import partition, view

GONE = DroppedReplica("t", 0, broker=1, bytes=1, before=(0, 1, 2))


def standing(*replicas: int, adding: tuple[int, ...] = (), removing: tuple[int, ...] = ()) -> Partition:
    return partition(
        0, tuple(b for b in replicas if b not in adding), replicas, adding=adding, removing=removing
    )


class TestReassignedByOthers:
    """What a partition is meant to have is what Spindle found, until somebody else decides otherwise."""

    @pytest.mark.parametrize(
        ("now", "theirs"),
        [
            (standing(0, 2), False),
            (standing(0, 1, 2), False),  # it has not left yet
            (standing(0, 1, 2, removing=(1,)), False),
            (standing(0, 2, 1, adding=(1,)), False),  # it grows back
            (standing(2, 3), True),
            (standing(0, 2, 3), True),
            (standing(0, 2, 3, adding=(3,)), True),
            (standing(0), True),
        ],
    )
    def test_whose_assignment_it_is(self, now: Partition, theirs: bool) -> None:
        assert bool(taken_over(Journal(dropped=(GONE,)), {("t", 0): now})) is theirs
        assert meant(Journal(dropped=(GONE,)), {("t", 0): now}) == ({} if theirs else {("t", 0): (0, 1, 2)})

    @pytest.mark.parametrize(
        "now", [standing(0, 2), standing(0, 3), standing(0, 2, 3, adding=(3,), removing=(2,))]
    )
    def test_what_spindle_moves_itself_is_no_one_elses(self, now: Partition) -> None:
        move = Move("t", 0, source=2, from_dir="/d0", target=3, to_dir="/d0", bytes=1)
        assert not taken_over(Journal(moves=(move,), dropped=(GONE,)), {("t", 0): now})

    def test_a_move_that_has_landed_belongs_to_what_is_meant(self) -> None:
        move = Move("t", 0, source=2, from_dir="/d0", target=3, to_dir="/d0", bytes=1, before=(0, 2))
        replica_index = view(standing(0, 3))
        after = execute(replica_index, Journal(moves=(move,), dropped=(GONE,)), [], Limits()).journal
        assert after.moves == ()
        assert [entry.before for entry in after.dropped] == [(0, 1, 3)]
        assert not taken_over(after, {("t", 0): standing(0, 3)})

    def test_rule_two_counts_what_the_others_gave_it(self) -> None:
        """Somebody made it two replicas with a minimum of two: nothing could ever spare one, so it is named and not counted."""
        replica_index = view(standing(2, 3))
        before = meant(Journal(dropped=(GONE,)), replica_index.partition_index.by_key)
        assert RestartSafety(replica_index, before).may_go_down(2).named == ("t-0",)

    def test_as_many_as_before_is_put_right_and_nothing_is_added_to_it(self) -> None:
        assert execute(view(standing(0, 2, 3)), Journal(dropped=(GONE,)), [], Limits()).journal == Journal()

    def test_fewer_than_before_still_get_theirs_back(self) -> None:
        assert execute(view(standing(2, 3)), Journal(dropped=(GONE,)), [], Limits()).journal.dropped == (
            GONE,
        )


def blocked(*missing: int, needs: int = 1) -> Blocker:
    return Blocker("-".join(map(str, missing)), frozenset(missing), needs)


class TestWhoWaitsForWhom:
    @pytest.mark.parametrize(
        ("waiting", "left"),
        [
            ({1: [blocked(2)], 2: [blocked(1)]}, {1, 2}),
            ({1: [blocked(2)], 2: [blocked(3)]}, set()),  # 3 comes back, then 2 goes, then 1
            ({1: [blocked(2)], 2: [blocked(3)], 3: [blocked(1)]}, {1, 2, 3}),
            ({1: [blocked(2)], 2: [blocked(1)], 3: [blocked(1)]}, {1, 2, 3}),
            ({1: [blocked(2, 4)], 2: [blocked(1)]}, set()),  # 4 is enough for 1
            ({1: [blocked(2, 4, needs=2)], 2: [blocked(1)]}, {1, 2}),
            ({1: [blocked(2)], 2: [blocked(1), blocked(5)]}, {1, 2}),
            ({1: [blocked(needs=1)], 2: [blocked(1)]}, set()),  # 1 waits for a further broker, not for 2
            ({1: [blocked(2)], 2: []}, set()),
            ({}, set()),
        ],
    )
    def test_what_is_left_is_a_deadlock(self, waiting: dict[int, list[Blocker]], left: set[int]) -> None:
        assert set(deadlock(waiting)) == left

    def test_each_is_named_with_what_only_another_one_can_help(self) -> None:
        assert deadlock({1: [blocked(2), blocked(7)], 2: [blocked(1)]}) == {1: ("2",), 2: ("1",)}

    def test_a_copy_that_catches_up_blocks_nobody(self) -> None:
        replica_index: KafkaView = view(partition(0, (0, 1), (0, 1, 2)))
        assert RestartSafety(replica_index).blockers(1, ["t-0"], frozenset()) == ()
        dead = view(partition(0, (0, 1), (0, 1, 2)), dead=(2,), lost=[(2, 0)])
        assert RestartSafety(dead).blockers(1, ["t-0"], frozenset()) == (Blocker("t-0", frozenset({2}), 1),)


def _other_disk(broker: int) -> Callable[[int], str]:
    """On disk1 of one broker, on disk0 of the others."""
    return lambda b: path_of("disk1" if b == broker else "disk0")


def two_dead(state_on_1: str = "dead") -> Failing:
    """``p`` stands on the dead disk of broker 2, ``q`` on that of broker 1; each needs both of its other replicas."""
    world = cluster(3, partitions=0)
    world.cluster["spec"]["disks"] = {"automaticShare": 100}
    for topic, at in (("p", 2), ("q", 1)):
        world.kafkas.create(topic, 0, (0, 1, 2), _other_disk(at))
    world.settle()
    world.disk(1, "disk1").state = state_on_1
    world.disk(2, "disk1").state = "dead"
    return world


def told(world: Failing) -> dict[str, str]:
    return next(w for w in world.cluster["status"]["waiting"] if w["reason"] == "RestartDeadlock")


class TestTwoDeadDisks:
    def test_no_replica_leaves_a_broker_that_could_not_restart_after_it(self) -> None:
        world = two_dead()
        for _ in range(40):
            with contextlib.suppress(ConflictError):
                world.reconcile()
            world.breathe()
            assert all(len(s.replicas) == 3 for s in world.kafkas.partitions.values())
        entry = told(world)
        assert "demo-broker-1 for p-0; demo-broker-2 for q-0" in entry["message"]

    def test_a_persons_word_leads_out(self) -> None:
        world = two_dead()
        until(world, lambda: "RestartDeadlock" in reasons(world))
        name = give_word(world, told(world)["unblockedBy"])
        pods = {p["metadata"]["name"]: p["metadata"]["uid"] for p in world.all("Pod")}
        until(world, lambda: all(len(s.isr) == 3 for s in world.kafkas.partitions.values()), 200)
        assert world.kafkas.losses == []
        assert world.get("Pod", name)["metadata"]["uid"] != pods[name]

    def test_a_broker_that_is_not_stopped_for_a_hang_is_part_of_it_and_goes_by_a_persons_word(self) -> None:
        world = two_dead("hung")
        until(world, lambda: "RestartDeadlock" in reasons(world), 200)
        assert "demo-broker-1 for p-0; demo-broker-2 for p-0" in told(world)["message"]
        uid = world.get("Pod", "demo-broker-1")["metadata"]["uid"]
        world.get("KafkaBroker", "demo-broker-1")["spec"]["acceptUnavailable"] = word_for(uid, ["p-0"])
        until(world, lambda: "deletionTimestamp" in world.get("Pod", "demo-broker-1")["metadata"], 60)

    def test_a_word_for_other_partitions_does_not_count(self) -> None:
        world = two_dead()
        until(world, lambda: "RestartDeadlock" in reasons(world))
        uid = world.get("Pod", "demo-broker-1")["metadata"]["uid"]
        for word in (word_for(uid, ["p-0", "q-0"]), word_for("another pod", ["p-0"])):
            world.get("KafkaBroker", "demo-broker-1")["spec"]["acceptUnavailable"] = word
            for _ in range(10):
                with contextlib.suppress(ConflictError):
                    assert not [a for a in world.reconcile().actions if isinstance(a, Evict)]
                world.breathe()
        assert all(len(s.replicas) == 3 for s in world.kafkas.partitions.values())


class TestTheWord:
    """Disks of brokers 0 and 1 answer again, and Kafka takes them up only at its start."""

    def back(self, isr_of_p: tuple[int, ...] = (1, 2)) -> Failing:
        world = cluster(3, partitions=0)
        for topic, at in (("p", 0), ("q", 1)):
            world.kafkas.create(topic, 0, (0, 1, 2), _other_disk(at))
        world.settle()
        for broker in (0, 1):
            world.kafkas.running[broker].offline.add(path_of("disk1"))
        return world

    def test_it_lets_exactly_one_go_and_counts_once(self) -> None:
        world = self.back()
        until(world, lambda: "RestartDeadlock" in reasons(world), 100)
        way_out = told(world)["unblockedBy"]
        name = give_word(world, way_out)
        gone: list[str] = []
        for _ in range(100):
            with contextlib.suppress(ConflictError):
                gone += [a.pod for a in world.reconcile().actions if isinstance(a, Evict)]
            world.breathe()
        assert gone[0] == name
        whole(world)
        # The same disk once more: the word is still written, and was for a pod that is no more.
        for broker in (0, 1):
            world.kafkas.running[broker].offline.add(path_of("disk1"))
        until(world, lambda: "RestartDeadlock" in reasons(world), 100)
        assert told(world)["unblockedBy"] != way_out
        named = restart_named_in(way_out)
        assert named == (name, world.get("KafkaBroker", name)["spec"]["acceptUnavailable"])

    def test_the_only_copy_in_sync_is_never_let_go_by_it(self) -> None:
        world = self.back()
        until(world, lambda: "RestartDeadlock" in reasons(world), 100)
        world.kafkas.partitions["p", 0].isr = (1,)
        world.kafkas.running[2].offline.add(path_of("disk0"))
        uid = world.get("Pod", "demo-broker-1")["metadata"]["uid"]
        world.get("KafkaBroker", "demo-broker-1")["spec"]["acceptUnavailable"] = word_for(uid, ["p-0"])
        for _ in range(3):
            with contextlib.suppress(ConflictError):
                plan = world.reconcile()
                assert not [a for a in plan.actions if isinstance(a, Evict) and a.pod == "demo-broker-1"]
