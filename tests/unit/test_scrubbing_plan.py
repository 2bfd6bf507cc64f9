"""What becomes of corrupt segments, over whole passes on the model cluster; and when a replica may be made anew."""

import json
from typing import Any

import pytest

from spindle.evacuation.repair import repair
from spindle.model.actions import Patch, Reassign
from spindle.model.replica_index import ReplicaIndex
from spindle.model.state import read_state
from spindle.model.times import stamp
from spindle.model.view import Broker, KafkaView, LogDir, Partition
from spindle.moves.journal import REPAIR, DroppedReplica, Journal
from spindle.moves.journal_record import read_journal, write_journal
from spindle.scrub.scrubbing import ANN_REPAIRED
from tests.model.failing import Failing
from tests.unit.test_healing_plan import cluster as plain
from tests.unit.test_healing_plan import reasons, until

KEY = ("orders", 0)


def cluster(brokers: int = 3, rf: int = 3, **scrub: Any) -> Failing:
    world = plain(brokers, 3, rf)
    world.cluster["spec"]["disks"] = {"scrub": scrub}
    world.settle()
    return world


def disk_of(world: Failing, broker: int, key: tuple[str, int] = KEY) -> str:
    return next(name for name in ("disk0", "disk1") if key in world.disk(broker, name).logs)


def corrupt(world: Failing, broker: int, key: tuple[str, int] = KEY) -> None:
    world.corrupt.setdefault((broker, disk_of(world, broker, key)), []).append((key, world.now))
    world.breathe()


def waits(world: Failing, reason: str) -> list[dict[str, Any]]:
    return [wait for wait in world.cluster["status"]["waiting"] if wait["reason"] == reason]


def dropped(plans: list[Any]) -> list[Reassign]:
    return [
        action
        for made in plans
        for action in made.actions
        if isinstance(action, Reassign) and action.reason == "CorruptReplicasDropped"
    ]


def test_each_agent_gets_its_pace_and_none_where_segments_are_not_to_be_checked() -> None:
    world = cluster(bytesPerSecond=123456, everyDays=7)
    spec = world.get("KafkaBroker", "demo-broker-1")["spec"]
    assert spec["scrub"] == {"bytesPerSecond": 123456, "everyDays": 7}
    world.cluster["spec"]["disks"] = {"scrub": {"enabled": False}}
    world.settle()
    assert "scrub" not in world.get("KafkaBroker", "demo-broker-1")["spec"]


def test_a_person_is_told_and_nothing_is_done_unless_that_is_asked_for() -> None:
    world = cluster()
    corrupt(world, 1)
    plans = until(world, lambda: "CorruptSegment" in reasons(world))
    for _ in range(10):
        plans.append(world.reconcile())
        world.breathe()
    (wait,) = waits(world, "CorruptSegment")
    assert wait["object"].endswith(f"demo-broker-1/{disk_of(world, 1)}")
    assert "orders-0: Crc at byte 61 of 00000000000000000077.log" in wait["message"]
    assert "spec.disks.scrub.repair" in wait["unblockedBy"]
    assert dropped(plans) == []


def whole(world: Failing) -> bool:
    return not any(world.corrupt.values()) and all(
        len(state.isr) == len(state.replicas) for state in world.kafkas.partitions.values()
    )


def test_a_replica_is_dropped_once_and_comes_back_from_the_others() -> None:
    world = cluster(repair=True)
    corrupt(world, 1)
    plans = until(world, lambda: whole(world) and "CorruptSegment" not in reasons(world), 80)
    assert len(dropped(plans)) == 1
    assert len(world.kafkas.partitions[KEY].isr) == 3
    assert world.kafkas.losses == []
    world.settle(60)


def test_one_replica_at_a_time_and_all_of_them_in_the_end() -> None:
    world = cluster(repair=True)
    for broker, key in ((1, ("orders", 0)), (1, ("orders", 1)), (2, ("orders", 2))):
        corrupt(world, broker, key)
    fewest = 3
    for _ in range(200):
        world.reconcile()
        world.breathe()
        states = world.kafkas.partitions.values()
        missing = sum(3 - len(state.replicas) for state in states)
        fewest = min(fewest, *(len(state.replicas) for state in states))
        assert missing <= 1
        if whole(world):
            break
    assert whole(world)
    assert fewest == 2
    assert world.kafkas.losses == []


def test_where_both_copies_are_corrupt_a_person_decides() -> None:
    world = cluster(repair=True)
    corrupt(world, 1)
    corrupt(world, 2)
    plans = until(world, lambda: "RepairDeferred" in reasons(world))
    for _ in range(10):
        plans.append(world.reconcile())
        world.breathe()
    assert dropped(plans) == []
    assert "corrupt too" in waits(world, "RepairDeferred")[0]["message"]


def test_what_was_found_before_the_last_repair_is_not_dropped_again() -> None:
    world = cluster(repair=True)
    broker = world.get("KafkaBroker", "demo-broker-1")
    corrupt(world, 1)
    note = json.dumps({"orders-0": int(world.now) + 5})
    broker = world.get("KafkaBroker", "demo-broker-1")
    broker["metadata"].setdefault("annotations", {})[ANN_REPAIRED] = note
    world.put(broker)
    plans = [world.reconcile() for _ in range(3)]
    assert dropped(plans) == []
    world.now += 3601
    plans = until(world, lambda: whole(world), 80)
    assert len(dropped(plans)) == 1


def test_that_it_is_dropped_is_noted_before_it_is_done() -> None:
    world = cluster(repair=True)
    corrupt(world, 1)
    plans = until(world, lambda: whole(world), 80)
    (made,) = [each for each in plans if dropped([each])]
    kinds = [type(action).__name__ for action in made.actions]
    (noted,) = [i for i, a in enumerate(made.actions) if isinstance(a, Patch) and ANN_REPAIRED in str(a.body)]
    assert noted < kinds.index("Reassign")


def noted(world: Failing, broker: int, ago: float = 0.0) -> None:
    """As if the operator had ended between noting that a replica is to be dropped and dropping it, so long ago."""
    replicas = tuple(world.kafkas.partitions[KEY].replicas)
    entry = DroppedReplica(*KEY, broker=broker, bytes=100, before=replicas, reason=REPAIR)
    state = read_state(world.snapshot(), world.now)
    for action in write_journal(state, Journal(dropped=(entry,))):
        world.act(action)
    kafka_broker = world.get("KafkaBroker", f"demo-broker-{broker}")
    note = json.dumps({"orders-0": int(world.now - ago)})
    kafka_broker["metadata"].setdefault("annotations", {})[ANN_REPAIRED] = note
    world.put(kafka_broker)


def pending(world: Failing) -> tuple[DroppedReplica, ...]:
    return read_journal(read_state(world.snapshot(), world.now)).dropped


def sound_elsewhere(world: Failing) -> None:
    """The other agents have answered, and nothing was dropped for that yet."""
    world.unread.add(0)
    until(world, lambda: "RepairDeferred" in reasons(world))
    world.unread.clear()
    world.breathe()


def test_what_was_noted_a_moment_ago_is_gone_on_with() -> None:
    world = cluster(repair=True)
    corrupt(world, 1)
    sound_elsewhere(world)
    noted(world, 1)
    assert len(dropped([world.reconcile()])) == 1


def test_no_replica_is_dropped_in_the_pass_that_takes_another_broker_down() -> None:
    world = cluster(repair=True)
    corrupt(world, 1)
    sound_elsewhere(world)
    pod = world.get("Pod", "demo-broker-2")["metadata"]
    mark = {
        "pod": pod["name"],
        "uid": pod["uid"],
        "nodeId": 2,
        "since": stamp(world.now),
        "reason": "SpecChanged",
    }
    world.cluster["status"]["takingDown"] = [mark]
    made = world.reconcile()
    assert dropped([made]) == []
    assert "is being taken down" in waits(world, "RepairDeferred")[0]["message"]
    plans = until(world, lambda: whole(world), 80)
    assert len(dropped(plans)) == 1


@pytest.mark.parametrize("why", ["brought back", "not asked for", "long ago", "not sound"])
def test_what_was_noted_is_not_dropped_where_that_may_not_be_any_more(why: str) -> None:
    world = cluster(repair=True)
    if why != "brought back":  # by a person: then nothing is told of the replica that stands there
        corrupt(world, 1)
        sound_elsewhere(world)
    if why == "not asked for":
        world.cluster["spec"]["disks"] = {"scrub": {"repair": False}}
    if why == "not sound":
        corrupt(world, 2)
    if why == "long ago":  # the agent does not look any more, and tells what it has told before
        world.corrupt[1, disk_of(world, 1)] = [(KEY, world.now - 900.0)]
        world.breathe()
    noted(world, 1, ago=600.0 if why == "long ago" else 0.0)
    plans = [world.reconcile()]
    assert dropped(plans) == []
    for _ in range(5):
        world.breathe()
        plans.append(world.reconcile())
    assert dropped(plans) == []
    assert pending(world) == ()


def test_without_an_agent_that_lives_nothing_is_dropped() -> None:
    world = cluster(repair=True)
    corrupt(world, 1)
    node = world.get("KafkaBroker", "demo-broker-1")["spec"]["node"]
    world.silent.add(node)
    world.now += 3600
    plans = []
    for _ in range(10):
        plans.append(world.reconcile())
        world.breathe()
    assert dropped(plans) == []


def test_nothing_is_dropped_before_the_other_replicas_are_known_to_be_sound() -> None:
    world = cluster(repair=True)
    world.unread.add(2)
    corrupt(world, 1)
    plans = until(world, lambda: "RepairDeferred" in reasons(world))
    for _ in range(10):
        plans.append(world.reconcile())
        world.breathe()
    assert dropped(plans) == []
    assert "broker 2 has not been checked completely" in waits(world, "RepairDeferred")[0]["message"]
    asked = [world.get("KafkaBroker", f"demo-broker-{i}")["spec"]["scrub"].get("first") for i in range(3)]
    assert asked == [[{"topic": "orders", "partition": 0}], None, [{"topic": "orders", "partition": 0}]]
    world.unread.clear()
    plans = until(world, lambda: whole(world), 80)
    assert len(dropped(plans)) == 1
    world.settle(60)
    assert "first" not in world.get("KafkaBroker", "demo-broker-2")["spec"]["scrub"]


def test_what_an_agent_said_before_it_fell_silent_is_no_proof_that_a_replica_is_sound() -> None:
    world = cluster(repair=True)
    world.unread.add(0)  # so that broker 2's agent has spoken, and nothing is dropped yet
    corrupt(world, 1)
    until(world, lambda: "RepairDeferred" in reasons(world))
    world.settle(10)
    world.silent.add(world.get("KafkaBroker", "demo-broker-2")["spec"]["node"])
    world.now += 3600
    world.unread.clear()
    plans = []
    for _ in range(10):
        plans.append(world.reconcile())
        world.breathe()
    assert dropped(plans) == []


# The predicate


def view(
    isr: tuple[int, ...], min_isr: int = 1, room: int = 500, replicas: tuple[int, ...] = (0, 1)
) -> KafkaView:
    dirs = {
        broker: (LogDir("/d0", total_bytes=1000, usable_bytes=room, replicas={("t", 0): 100}),)
        for broker in replicas
    }
    return KafkaView(
        brokers={b: Broker(b, None, fenced=False, log_dirs=dirs[b]) for b in replicas},
        partitions=(Partition("t", 0, isr[0], replicas, isr, elr=()),),
        min_isr={"t": min_isr},
    )


def why(
    seen: KafkaView,
    corrupt: dict[tuple[str, int], set[int]] | None = None,
    sound: frozenset[int] = frozenset({1, 2}),
) -> str:
    made = repair(ReplicaIndex(seen), 0, ("t", 0), corrupt or {("t", 0): {0}}, {("t", 0): sound})
    assert (made.refusal is None) == bool(made.shrunk)
    return made.refusal.message if made.refusal is not None else "may"


def test_a_replica_may_go_where_the_others_are_in_sync_as_many_as_the_least_and_well() -> None:
    assert why(view((0, 1))) == "may"
    assert "too few" in why(view((0,)))
    assert "too few" in why(view((0, 1), min_isr=2))
    assert "too few" in why(view((0,), replicas=(0,)))
    assert "corrupt too" in why(view((0, 1)), {("t", 0): {0, 1}})
    assert "no disk" in why(view((0, 1), room=50))
    assert "has not been checked completely" in why(view((0, 1)), sound=frozenset())
    assert "broker 1 has not been checked completely" in why(
        view((0, 1, 2), replicas=(0, 1, 2)), sound=frozenset({2})
    )
    (shrunk,) = repair(ReplicaIndex(view((0, 1))), 0, ("t", 0), {}, {("t", 0): {1}}).shrunk
    assert (shrunk.reason, shrunk.before, shrunk.bytes) == (REPAIR, (0, 1), 100)


def test_a_replica_that_is_not_there_is_no_matter() -> None:
    assert repair(ReplicaIndex(view((0, 1))), 0, ("other", 0), {}, {}).shrunk == ()
    assert repair(ReplicaIndex(view((0, 1))), 7, ("t", 0), {}, {}).refusal is None
