"""Settings that a broker takes while it runs, over whole passes: told, recorded, put back, and never a reason to restart for ever."""

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from spindle.config.dynamic_config_record import ANN_DYNAMIC_CONFIG, read_record
from spindle.model.actions import Action, Evict, Tune
from spindle.model.view import Partition
from spindle.moves.journal import DroppedReplica, Journal
from tests.model.dynamic_config import THREADS, ConfiguredWorld, crash

RETENTION = "log.retention.ms"


def running(**config: str) -> ConfiguredWorld:
    world = ConfiguredWorld.of(config=config)
    world.settle()
    return world


def passes(world: ConfiguredWorld, count: int) -> list[Action]:
    made: list[Action] = []
    for _ in range(count):
        made += world.reconcile().actions
        world.breathe()
    return made


def evicted(actions: list[Action]) -> list[str]:
    return [a.pod for a in actions if isinstance(a, Evict)]


def record(world: ConfiguredWorld, broker: int) -> dict[str, str]:
    return dict(read_record(world.get("KafkaBroker", f"demo-broker-{broker}")).settings)


def reasons(world: ConfiguredWorld) -> set[str]:
    return {wait["reason"] for wait in world.cluster["status"]["waiting"]}


def wants(world: ConfiguredWorld, **config: Any) -> None:
    world.cluster["spec"]["config"] = config


def test_threads_that_go_back_long_after_they_were_set_restart_nobody() -> None:
    world = running(**{THREADS: "8"})
    wants(world, **{THREADS: "32"})
    passes(world, 6)
    assert {world.own[n][THREADS] for n in range(3)} == {"32"}
    world.now += 1000
    wants(world, **{THREADS: "8"})
    made = passes(world, 12)
    assert evicted(made) == []
    assert [world.own[n] for n in range(3)] == [{}, {}, {}]
    assert record(world, 0) == {}
    assert not world.turned_down


def test_a_broker_that_was_never_told_is_told_before_it_is_restarted() -> None:
    world = running()
    wants(world, **{RETENTION: "5"})
    first = next(i for i, a in enumerate(world.reconcile(stop_after=0).actions) if isinstance(a, Tune))
    world.reconcile(stop_after=first)  # it dies between the note and the order
    world.now += 1000
    assert evicted(passes(world, 8)) == []
    assert {world.own[n][RETENTION] for n in range(3)} == {"5"}


def test_what_somebody_took_away_is_told_again_and_not_a_reason_for_a_restart() -> None:
    world = running()
    wants(world, **{RETENTION: "5"})
    passes(world, 4)
    for _ in range(2):
        world.now += 1000
        world.own[1].clear()
        assert evicted(passes(world, 8)) == []
        assert world.own[1] == {RETENTION: "5"}


def test_a_value_that_kafka_refuses_holds_up_no_other_and_is_taken_by_one_restart() -> None:
    world = running()
    world.bad = {("num.network.threads", "5")}
    wants(world, **{RETENTION: "5", "num.network.threads": "5"})
    assert evicted(passes(world, 10)) == []
    assert not any(world.own.values())
    world.now += 200
    assert evicted(passes(world, 10)) == []
    assert {world.own[n][RETENTION] for n in range(3)} == {"5"}
    world.now += 200
    assert sorted(evicted(passes(world, 40))) == ["demo-broker-0", "demo-broker-1", "demo-broker-2"]
    assert passes(world, 6) == []
    assert ANN_DYNAMIC_CONFIG not in world.get("KafkaBroker", "demo-broker-0")["metadata"]["annotations"]


@pytest.mark.parametrize("pods", [["demo-broker-0"], [f"demo-broker-{n}" for n in range(3)]])
def test_a_corrected_value_reaches_a_broker_that_does_not_start_with_the_one_before(pods: list[str]) -> None:
    world = running(**{RETENTION: "-7"})
    for pod in pods:
        crash(world, pod)
    assert evicted(passes(world, 5)) == []
    wants(world, **{RETENTION: "7"})
    made = passes(world, 20)
    assert sorted(evicted(made)) == pods
    assert {world.files[world.get("Pod", pod)["metadata"]["uid"]][RETENTION] for pod in pods} == {"7"}
    assert world.running("broker") == [0, 1, 2]


def test_a_broker_that_is_down_for_a_moment_comes_back_with_the_file_that_it_had() -> None:
    world = running()
    crash(world, "demo-broker-0", times=1)
    wants(world, **{RETENTION: "-7"})
    assert evicted(passes(world, 5)) == []


def test_a_key_that_leaves_the_file_waits_for_what_has_to_grow_back_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = running(**{RETENTION: "5"})
    gone = Journal(dropped=(DroppedReplica("orders", 0, 1, 100, (0, 1, 2)),))
    world.partitions = (Partition("orders", 0, 0, (0, 2), (0, 2), elr=()),)
    monkeypatch.setattr("spindle.moves.carry_out.read_journal", lambda _: gone)
    wants(world)
    assert evicted(passes(world, 6)) == []
    assert "ReplicaRestorePending" in reasons(world)
    monkeypatch.undo()
    world.partitions = ()
    assert len(evicted(passes(world, 40))) == 3


@pytest.mark.parametrize("key", [RETENTION, THREADS])
def test_a_value_stays_ours_when_the_next_one_never_comes_to_the_broker(key: str) -> None:
    world = running()
    wants(world, **{key: "32"})
    passes(world, 6)
    wants(world, **{key: "4"})
    first = next(i for i, a in enumerate(world.reconcile(stop_after=0).actions) if isinstance(a, Tune))
    world.reconcile(stop_after=first)  # it dies with 4 on record and 32 on the broker
    wants(world, **{key: "64"})
    passes(world, 6)
    assert "ConfigOverridden" not in reasons(world)
    assert {world.own[n][key] for n in range(3)} == {"64"}
    assert [dict(read_record(b).before) for b in world.all("KafkaBroker")] == [{}, {}, {}]


def test_a_value_stays_ours_when_the_next_one_is_turned_down() -> None:
    world = running()
    wants(world, **{RETENTION: "5"})
    passes(world, 4)
    world.bad = {(RETENTION, "6")}
    wants(world, **{RETENTION: "6"})
    passes(world, 4)
    wants(world)
    assert evicted(passes(world, 6)) == []
    assert not any(world.own.values())
    assert record(world, 0) == {}


BORN = running()
CHANGED = st.lists(
    st.tuples(
        st.sampled_from(["1", "4", "8", "30", "200", None]), st.integers(0, 8), st.sampled_from([0, 1000])
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CHANGED)
# A step that was told twice and taken at last is no refusal of the next one, however long the operator was away in between.
@example([("1", 8, 0), ("1", 0, 0), ("30", 8, 1000), ("1", 0, 0), ("30", 3, 1000)])
# Nor was it told twice if the operator died just before it told it again.
@example([("1", 8, 0), ("1", 8, 1000), ("1", 3, 1000)])
def test_threads_come_to_rest_however_often_they_change_and_whoever_dies(
    changes: list[tuple[str | None, int, int]],
) -> None:
    world = copy.deepcopy(BORN)
    for number, death, pause in changes:
        wants(world, **({} if number is None else {THREADS: number}))
        world.reconcile(stop_after=death)
        world.now += pause
    made = passes(world, 20)
    assert evicted(made) == []
    assert "ConfigOverridden" not in reasons(world)
    want = changes[-1][0] or "8"
    assert {world.standing(n)[THREADS].effective for n in range(3)} == {want}
    assert passes(world, 2) == []


def ends(world: ConfiguredWorld) -> None:
    """The KafkaCluster is deleted, and its brokers' pods have gone."""
    world.cluster["metadata"]["deletionTimestamp"] = "now"
    for _ in range(12):
        passes(world, 1)
        if not world.all("KafkaBroker"):
            return
    raise AssertionError("not gone")


def test_what_is_ours_goes_before_its_cluster_threads_in_steps() -> None:
    world = running()
    wants(world, **{THREADS: "64", RETENTION: "5"})
    passes(world, 8)
    ends(world)
    assert not any(world.own.values())
    assert not world.turned_down


def test_an_order_that_is_turned_down_at_the_end_keeps_the_record() -> None:
    world = running()
    wants(world, **{RETENTION: "5"})
    passes(world, 4)
    world.bad = {(RETENTION, None)}
    world.cluster["metadata"]["deletionTimestamp"] = "now"
    passes(world, 3)
    assert record(world, 0) == {RETENTION: "5"}
    assert "DynamicConfigNotReverted" in reasons(world)
    world.bad = set()
    ends(world)
    assert not any(world.own.values())


def test_what_a_silent_broker_keeps_is_found_again_with_its_claims() -> None:
    world = running()
    wants(world, **{RETENTION: "5"})
    passes(world, 4)
    world.silent = {1}
    world.cluster["metadata"]["deletionTimestamp"] = "now"
    passes(world, 3)
    assert len(world.running("broker")) == 3, "it is waited for"
    world.now += 200
    ends(world)
    assert {broker for broker, own in world.own.items() if own} == {1}
    for kind, name in list(world.objects):
        if kind in ("Secret", "Service", "PodDisruptionBudget"):
            del world.objects[kind, name]
    del world.cluster["metadata"]["deletionTimestamp"]
    world.cluster["status"] = {}
    world.silent = set()
    wants(world)
    world.settle()
    assert not any(world.own.values())
    kept = [
        c for c in world.all("PersistentVolumeClaim") if ANN_DYNAMIC_CONFIG in c["metadata"]["annotations"]
    ]
    assert kept == []


def test_a_kafkabroker_that_is_deleted_by_hand_hands_its_record_on() -> None:
    world = running()
    wants(world, **{RETENTION: "5"})
    passes(world, 4)
    world.get("KafkaBroker", "demo-broker-1")["metadata"]["deletionTimestamp"] = "now"
    uid = world.get("KafkaBroker", "demo-broker-1")["metadata"]["uid"]
    passes(world, 8)
    assert world.get("KafkaBroker", "demo-broker-1")["metadata"]["uid"] != uid
    assert record(world, 1) == {RETENTION: "5"}
    wants(world)
    passes(world, 4)
    assert not any(world.own.values())


UNCLEAN = "unclean.leader.election.enable"


def test_the_clusters_defaults_are_put_back_when_they_leave_the_spec() -> None:
    world = running()
    world.shared = {"min.insync.replicas": "2"}  # as Kafka itself has it (KIP-966)
    wants(world, **{"min.insync.replicas": "1", UNCLEAN: "true"})
    passes(world, 3)
    assert world.shared == {"min.insync.replicas": "1", UNCLEAN: "true"}
    assert "UncleanElectionsEnabled" not in reasons(world)
    wants(world)
    passes(world, 3)
    assert world.shared == {"min.insync.replicas": "2"}
    assert passes(world, 2) == []
    assert "UncleanElectionsEnabled" not in reasons(world)
    world.shared[UNCLEAN] = "true"
    passes(world, 1)
    assert "UncleanElectionsEnabled" in reasons(world)
    assert world.shared[UNCLEAN] == "true"


def test_a_default_that_kafka_turns_down_is_told_as_a_wait() -> None:
    world = running()
    world.bad = {("min.insync.replicas", "7")}
    wants(world, **{"min.insync.replicas": "7"})
    passes(world, 4)
    world.now += 60
    passes(world, 1)
    (told,) = [w for w in world.cluster["status"]["waiting"] if w["reason"] == "DynamicConfigRejected"]
    assert told["object"] == "KafkaCluster/demo/min.insync.replicas"
    assert "min.insync.replicas=7" in told["message"]
    wants(world)
    passes(world, 4)
    assert "DynamicConfigRejected" not in reasons(world)


def test_the_clusters_defaults_go_with_the_cluster_that_set_them() -> None:
    world = running()
    wants(world, **{UNCLEAN: "true"})
    passes(world, 3)
    ends(world)
    assert world.shared == {}
