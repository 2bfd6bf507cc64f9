"""The executor inside a pass: what is written first, what agents are told, what Kafka is told, and what is put back at the end."""

from dataclasses import replace
from typing import Any

import pytest

from spindle.api import names
from spindle.api.enums import Pressure
from spindle.model.actions import Create, ElectPreferred, Patch, PlaceReplicas, Reassign, SetConfigs
from spindle.model.broker_records import BrokerRecords
from spindle.model.plan_builder import PlanBuilder
from spindle.model.state import ClusterState, read_state
from spindle.model.view import KafkaView
from spindle.moves import carry_out as carry_out_module
from spindle.moves import journal
from spindle.moves.carry_out import carry_out, load_journal, reconcile_moves, signals_of
from spindle.moves.journal import (
    DroppedReplica,
    Journal,
    LeadershipOverride,
    Move,
    RemovedReplica,
    SavedConfig,
    parse,
    render,
)
from spindle.moves.journal_record import reconcile_cleanup
from spindle.moves.limits import Limits
from spindle.moves.requests import MoveRequests
from tests.model.moving import Dir, Kafka, Node, Part
from tests.model.world import World

D0, D1 = names.log_dir("disk0"), names.log_dir("disk1")
ACROSS = Move("t", 0, 0, D0, 2, D1, 100, "evacuate")
WITHIN = Move("t", 1, 1, D1, 1, D0, 100, "backfill")
TURNED = LeadershipOverride("t", 0, before=(0, 1), ours=(1, 0), was=(0, 1))
THROTTLE = SavedConfig("broker", "0", "leader.replication.throttled.rate", None, "1000")


def kafka(*more: tuple[str, int]) -> Kafka:
    nodes = {b: Node("abc"[b], {D0: Dir(1000), D1: Dir(1000)}) for b in range(3)}
    parts = {("t", 0): Part([0, 1], [], 100), ("t", 1): Part([1, 2], [], 100)}
    return Kafka(nodes, parts | {key: Part([1, 2], [], 100) for key in more}, 1, 0.9)


@pytest.fixture(scope="module")
def running() -> World:
    world = World.of()
    world.settle()
    return world


@pytest.fixture
def world(running: World) -> World:
    running.objects.pop(("ConfigMap", "demo-moves"), None)
    running.get("ConfigMap", "demo-identity")["metadata"].get("annotations", {}).pop(names.ANN_JOURNAL, None)
    return running


def state_of(world: World, view: KafkaView | None = None) -> ClusterState:
    snapshot = replace(world.snapshot(), kafka=kafka().view() if view is None else view)
    return read_state(snapshot, world.now)


def step(state: ClusterState, *wanted: Move) -> tuple[PlanBuilder, BrokerRecords]:
    builder, records = PlanBuilder(), BrokerRecords()
    recorded = load_journal(state, builder)
    assert recorded is not None
    carry_out(builder, reconcile_moves(state, builder, records, recorded, MoveRequests(moves=wanted)))
    return builder, records


def put(world: World, text: str, **metadata: Any) -> dict[str, Any]:
    owner = {"uid": world.cluster["metadata"]["uid"], "name": "demo", "kind": "KafkaCluster"}
    return world.put(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": "demo-moves",
                "namespace": world.cluster["metadata"]["namespace"],
                "labels": {names.LABEL_CLUSTER: "demo"},
                "ownerReferences": [owner],
                **metadata,
            },
            "data": {"journal": text},
        }
    )


def test_the_journal_is_written_first_then_agents_are_told_then_kafka(world: World) -> None:
    builder, records = step(state_of(world), ACROSS, WITHIN)
    first, *others = builder.actions
    assert isinstance(first, Create)
    assert first.object["metadata"]["name"] == "demo-moves"
    assert [move.key for move in parse(first.object["data"]["journal"]).moves] == [("t", 0), ("t", 1)]
    kinds = [type(action) for action in others]
    assert kinds == [SetConfigs] * (len(kinds) - 2) + [PlaceReplicas, Reassign]
    assert len(kinds) > 2
    (wait,) = builder.waits
    assert (wait.reason, wait.quiet) == ("ReplicasMoving", True)
    assert wait.message == "Moving 2 replicas (0.0 GB) to other disks: 0 % copied."
    assert others[-1].reason == "MovesStarted"
    assert records.fields == {
        1: {
            "moves": [{"topic": "t", "partition": 1, "fromDir": D1, "toDir": D0}],
            "throttleBytesPerSecond": 50_000_000,
            "throttleBytesPerSecondMin": 1_000_000,
        }
    }


def test_a_standing_journal_is_guarded_by_the_version_it_was_read_with(world: World) -> None:
    record = put(world, render(Journal()))
    builder, _ = step(state_of(world), WITHIN)
    (patch,) = builder.actions
    assert isinstance(patch, Patch)
    assert (patch.uid, patch.resource_version) == (
        record["metadata"]["uid"],
        record["metadata"]["resourceVersion"],
    )
    put(world, render(Journal()), finalizers=[names.FINALIZER_JOURNAL])
    assert step(state_of(world))[0].actions == []


def test_moves_that_are_done_are_taken_back_from_the_agent(world: World) -> None:
    broker = world.get("KafkaBroker", "demo-broker-1")
    broker["spec"]["moves"] = [{"topic": "t", "partition": 1, "fromDir": D1, "toDir": D0}]
    try:
        _, records = step(state_of(world))
    finally:
        del broker["spec"]["moves"]
    assert records.fields == {
        1: {"moves": [], "throttleBytesPerSecond": None, "throttleBytesPerSecondMin": None}
    }


def test_what_must_not_begin_waits_and_what_was_given_up_or_has_landed_is_told(world: World) -> None:
    full = kafka()
    full.nodes[2].dirs[D1].deleting.append(900)
    landed = replace(ACROSS, source=2, target=0, to_dir=D0)
    put(world, render(Journal((landed, replace(WITHIN, to_dir="/gone")))))
    builder, _ = step(state_of(world, full.view()), replace(ACROSS, topic="t", partition=0))
    assert {(w.action, w.reason) for w in builder.waits} == {("MoveReplicas", "TargetDiskFull")}
    assert {(e.type, e.reason) for e in builder.events} == {
        ("Warning", "TargetUnusable"),
        ("Normal", "ReplicasMoved"),
    }


def test_what_agents_tell_is_heard(world: World) -> None:
    broker = world.get("KafkaBroker", "demo-broker-1")
    status = broker.get("status")
    broker["status"] = {
        "observed": {
            "disks": [
                {"name": "disk0", "verdict": "Healthy", "latencyMs": 50},
                {"name": "disk1", "verdict": "Slow", "latencyMs": 1},
                {"name": "disk2", "verdict": "Healthy"},
            ],
            "moves": [
                {
                    "topic": "t",
                    "partition": 1,
                    "fromDir": D1,
                    "toDir": D0,
                    "state": "Failed",
                    "message": "It stood.",
                },
                {"topic": "t", "partition": 2, "fromDir": D1, "toDir": D0, "state": "Copying"},
            ],
        }
    }
    try:
        state = state_of(world)
        heard = signals_of(state)
        put(world, render(Journal((WITHIN,))))
        builder, records = step(state_of(world), WITHIN)
    finally:
        broker["status"] = status

    assert heard.now == state.now
    assert {key: felt for key, felt in heard.felt.items() if key[0] == 1} == {
        (1, D0): Pressure.BUSY,
        (1, D1): Pressure.STRAINED,
        (1, names.log_dir("disk2")): Pressure.CALM,
    }
    assert heard.failed == {(1, ("t", 1), D0): "It stood."}
    (event,) = builder.events
    assert (event.type, event.reason) == ("Warning", "MoveFailed")
    assert event.message.endswith("It stood.")
    assert [wait.reason for wait in builder.waits] == ["MoveBackOff"]
    assert records.fields == {}
    (patch,) = builder.actions
    assert isinstance(patch, Patch)
    assert [rest.times for rest in parse(patch.body["data"]["journal"]).backoffs] == [1]


def test_where_nobody_can_write_the_agent_is_slowed_down(world: World) -> None:
    put(world, render(Journal((WITHIN,))))
    k = kafka(("u", 0))
    k.min_isr, k.parts["u", 0].isr = 2, [2]

    _, records = step(state_of(world, k.view()))

    assert records.fields[1]["throttleBytesPerSecond"] == 1_000_000
    assert records.fields[1]["moves"]


def test_a_journal_that_cannot_be_read_stops_moves_and_says_so(world: World) -> None:
    put(world, "{")
    builder = PlanBuilder()
    assert load_journal(state_of(world), builder) is None
    assert [wait.reason for wait in builder.waits] == ["JournalUnreadable"]


def test_a_journal_that_has_no_room_for_all_moves_takes_those_that_fit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = [("t", number) for number in range(2, 14)]
    moves = [replace(WITHIN, partition=number) for number in range(1, 14, 2)]
    roomy = kafka(*more)
    for node in roomy.nodes.values():
        for each in node.dirs.values():
            each.total = 10**6
    state = state_of(world, roomy.view())
    monkeypatch.setattr(journal, "MOST_BYTES", 300)
    monkeypatch.setattr(carry_out_module, "limits_of", lambda _: replace(Limits(), moves_in_all=8))
    builder, records = step(state, *moves)
    written = builder.actions[0]
    assert isinstance(written, Create)
    begun = parse(written.object["data"]["journal"]).moves
    assert 0 < len(begun) < len(moves)
    assert len(records.fields[1]["moves"]) == len(begun)
    assert {wait.reason for wait in builder.waits} == {"ReplicasMoving", "JournalFull"}


def test_moves_that_have_completed_leave_a_journal_that_is_full(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    landed = replace(ACROSS, source=2, target=0, to_dir=D0)
    put(world, render(Journal((landed,))))
    monkeypatch.setattr(journal, "MOST_BYTES", 180)
    builder, _ = step(state_of(world), WITHIN)
    (patch,) = builder.actions
    assert isinstance(patch, Patch)
    assert parse(patch.body["data"]["journal"]).moves == ()
    assert [wait.reason for wait in builder.waits] == ["JournalFull"]
    assert [event.reason for event in builder.events] == ["ReplicasMoved"]


def test_replicas_that_leave_for_good_do_not_keep_moves_out_of_the_journal(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd = [("u", number) for number in range(2, 40)]
    roomy = kafka(*crowd)
    for node in roomy.nodes.values():
        for each in node.dirs.values():
            each.total = 10**6
    state = state_of(world, roomy.view())
    monkeypatch.setattr(journal, "MOST_BYTES", 600)
    removals = tuple(RemovedReplica(*key, 2) for key in crowd)
    builder, records = PlanBuilder(), BrokerRecords()
    reconcile_moves(state, builder, records, Journal(), MoveRequests(moves=(WITHIN,), removals=removals))
    written = builder.actions[0]
    assert isinstance(written, Create)
    found = parse(written.object["data"]["journal"])
    assert found.moves
    assert not found.removed
    assert [wait.reason for wait in builder.waits if wait.reason == "JournalFull"]


def test_a_journal_in_which_nothing_fits_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MOST_BYTES", 10)
    builder, records = step(state_of(world), WITHIN)
    assert (builder.actions, records.fields) == ([], {})
    assert [wait.reason for wait in builder.waits] == ["JournalFull"]


def test_one_of_an_earlier_cluster_of_that_name_does_not_count(world: World) -> None:
    put(world, render(Journal((ACROSS,))), annotations={names.ANN_CLUSTER_ID: "another"})
    assert load_journal(state_of(world), PlanBuilder()) == Journal()


def test_one_that_outlived_its_kafkacluster_is_taken_over(world: World) -> None:
    put(world, render(Journal(dropped=(DroppedReplica("t", 0, 2, 1, (2, 0, 1)),))), ownerReferences=[])
    builder, _ = step(state_of(world))
    (patch,) = builder.actions
    assert isinstance(patch, Patch)
    (owner,) = patch.body["metadata"]["ownerReferences"]
    assert owner["uid"] == world.cluster["metadata"]["uid"]


def test_a_deleted_cluster_puts_its_settings_back_before_its_brokers_stop(world: World) -> None:
    k = kafka()
    k.settings["broker", "0"][THROTTLE.key] = "1000"
    put(world, render(Journal(settings=(THROTTLE,))))
    builder = PlanBuilder()
    assert not reconcile_cleanup(state_of(world, k.view()), builder)
    assert [type(action) for action in builder.actions] == [Patch, SetConfigs]
    assert builder.actions[1].values == {THROTTLE.key: None}  # type: ignore[attr-defined]
    put(world, render(Journal()))
    assert reconcile_cleanup(state_of(world), PlanBuilder())


def test_a_deleted_cluster_says_which_reassignments_kafka_does_not_take_back(world: World) -> None:
    k = kafka()
    k.parts[ACROSS.key] = Part([0, 2], [], 100, target=[2], before=[0])
    put(world, render(Journal(moves=(ACROSS,))))
    builder = PlanBuilder()
    assert not reconcile_cleanup(state_of(world, k.view()), builder)
    assert not [action for action in builder.actions if isinstance(action, Reassign)]
    (wait,) = builder.waits
    assert wait.reason == "CancellationRejected"
    assert not wait.quiet
    assert "t-0" in wait.message


def turned() -> Kafka:
    """Another replica leads for a while."""
    k = kafka()
    k.parts["t", 0].replicas, k.parts["t", 0].leader = [1, 0], 1
    return k


def test_a_deleted_cluster_lets_the_previous_leaders_take_over_before_its_brokers_stop(world: World) -> None:
    k = turned()
    put(world, render(Journal(leadership=(TURNED,))), finalizers=[names.FINALIZER_JOURNAL])
    builder = PlanBuilder()
    assert not reconcile_cleanup(state_of(world, k.view()), builder)
    order, elect = builder.actions
    assert isinstance(order, Reassign)
    assert isinstance(elect, ElectPreferred)
    assert (order.assignments, elect.partitions) == ((("t", 0, (0, 1)),), (("t", 0),))
    assert [wait.reason for wait in builder.waits] == ["ThrottlesReverting"]
    k = kafka()
    builder = PlanBuilder()
    assert not reconcile_cleanup(state_of(world, k.view()), builder)
    (patch,) = builder.actions
    assert isinstance(patch, Patch)
    assert parse(patch.body["data"]["journal"]) == Journal()
    put(world, render(Journal()))
    assert reconcile_cleanup(state_of(world, k.view()), PlanBuilder())


def test_a_deleted_cluster_does_not_wait_for_a_previous_leader_that_is_not_in_sync(world: World) -> None:
    k = turned()
    k.stop(0)
    put(world, render(Journal(leadership=(TURNED,))), finalizers=[names.FINALIZER_JOURNAL])
    builder = PlanBuilder()
    assert reconcile_cleanup(state_of(world, k.view()), builder)
    (patch,) = builder.actions
    assert isinstance(patch, Patch)
    assert patch.body == {"metadata": {"finalizers": [], "ownerReferences": None}}
    assert not reconcile_cleanup(state_of(world, KafkaView(error="down")), PlanBuilder())


def test_a_deleted_cluster_waits_for_its_agents_to_put_their_throttle_back(world: World) -> None:
    broker = world.get("KafkaBroker", "demo-broker-1")
    broker["spec"]["moves"] = [{"topic": "t", "partition": 1, "fromDir": D1, "toDir": D0}]
    builder = PlanBuilder()
    try:
        assert not reconcile_cleanup(state_of(world), builder)
    finally:
        del broker["spec"]["moves"]
    (patch,) = builder.actions
    assert isinstance(patch, Patch)
    assert patch.body["spec"]["moves"] is None
    observed = {"observed": {"throttle": {"ours": ["5"]}}}
    status = broker.get("status")
    broker["status"] = observed
    try:
        builder = PlanBuilder()
        assert not reconcile_cleanup(state_of(world), builder)
        assert builder.actions == []
    finally:
        broker["status"] = status


def test_what_cannot_be_put_back_stays_on_record_with_the_data(world: World) -> None:
    put(world, render(Journal(settings=(THROTTLE,))))
    late = replace(state_of(world, KafkaView(error="down")), now=world.now)
    assert not reconcile_cleanup(late, PlanBuilder())
    cluster = {
        **world.cluster,
        "metadata": {**world.cluster["metadata"], "deletionTimestamp": "2000-01-01T00:00:00Z"},
    }
    gone = replace(late, snap=replace(late.snap, cluster=cluster), now=1e10)
    builder = PlanBuilder()
    assert reconcile_cleanup(gone, builder)
    (patch,) = builder.actions
    assert isinstance(patch, Patch)
    assert patch.body == {"metadata": {"ownerReferences": None}}
