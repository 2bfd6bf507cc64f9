"""A spec with settings that Kafka would not take is not carried out, is told, and stops nobody from looking after the cluster."""

import json
from typing import Any

import pytest

from spindle.api import names
from spindle.config.dynamic_config_record import ANN_DYNAMIC_CONFIG
from spindle.model.actions import Action, Apply, Create, Delete, Evict, Tune
from tests.model.dynamic_config import ConfiguredWorld
from tests.model.world import World

BAD = {"num.network.threads": "many"}
SLIP = {"num.partitons": "5"}


def running(version: str = "4.3.1", **config: str) -> ConfiguredWorld:
    world = ConfiguredWorld.of(version=version, config=config)
    world.settle()
    return world


def passes(world: World, count: int) -> list[Action]:
    made: list[Action] = []
    for _ in range(count):
        made += world.reconcile().actions
        world.breathe()
    return made


def waiting(world: World, reason: str = "InvalidConfig") -> list[dict[str, Any]]:
    return [wait for wait in world.cluster["status"]["waiting"] if wait["reason"] == reason]


def condition(world: World, kind: str) -> dict[str, Any]:
    (found,) = (c for c in world.cluster["status"]["conditions"] if c["type"] == kind)
    return dict(found)


def changing(actions: list[Action]) -> list[Action]:
    """What a running cluster would notice."""
    return [a for a in actions if isinstance(a, (Evict, Tune, Apply, Create, Delete))]


@pytest.mark.parametrize("refused", [BAD, SLIP, {"log.cleaner.threads": "128"}])
@pytest.mark.parametrize("where", ["cluster", "pool"])
def test_a_refused_setting_is_told_and_changes_nothing(refused: dict[str, str], where: str) -> None:
    world = running(**{"log.retention.ms": "5000"})
    spec = world.cluster["spec"]
    asked = {
        "log.retention.ms": "9000",
        "num.partitions": "7",
    } | refused  # the others need a telling and a restart
    (spec if where == "cluster" else spec["brokerPools"][0])["config"] = asked
    spec["brokerPools"][0]["resources"] = {"limits": {"memory": "4Gi"}}
    assert changing(passes(world, 8)) == []
    (wait,) = waiting(world)
    (key,) = refused
    field = "spec.config" if where == "cluster" else "spec.brokerPools[main].config"
    assert wait["object"] == f"KafkaCluster/demo/{key}"
    assert wait["message"].startswith(f"{field}: ")
    assert key in wait["message"]
    assert wait["unblockedBy"]
    assert condition(world, "Ready")["status"] == "False"
    assert condition(world, "Ready")["reason"] == "InvalidConfig"
    assert condition(world, "Stalled")["reason"] == "InvalidConfig"
    assert condition(world, "Reconciling")["reason"] == "Stalled"
    assert "InvalidConfig" in world.cluster["status"]["phase"]


def test_corrected_it_is_carried_out_as_a_whole() -> None:
    world = running()
    world.cluster["spec"]["config"] = {"log.retention.ms": "9000", **BAD}
    passes(world, 3)
    world.cluster["spec"]["config"] = {"log.retention.ms": "9000", "num.network.threads": "4"}
    made = passes(world, 12)
    assert not waiting(world)
    assert {world.own[n]["log.retention.ms"] for n in range(3)} == {"9000"}
    assert not [a for a in made if isinstance(a, Evict)]
    assert condition(world, "Ready")["status"] == "True"


def test_taken_back_nothing_happened() -> None:
    world = running()
    world.cluster["spec"]["config"] = BAD
    passes(world, 3)
    world.cluster["spec"].pop("config")
    assert changing(passes(world, 6)) == []
    assert condition(world, "Ready")["status"] == "True"


def test_the_cluster_is_looked_after_meanwhile_by_the_spec_before() -> None:
    world = running(**{"log.retention.ms": "5000"})
    world.cluster["spec"]["config"] = {"log.retention.ms": "9000", **BAD}
    world.cluster["spec"]["brokerPools"][0]["name"] = "other"
    passes(world, 2)
    pod = world.get("Pod", "demo-broker-1")
    world.objects.pop(("Pod", "demo-broker-1"))
    world.objects.pop(("ConfigMap", names.config_map("demo", 1)))
    passes(world, 6)
    again = world.get("Pod", "demo-broker-1")
    assert again["metadata"]["uid"] != pod["metadata"]["uid"]
    assert world.files[again["metadata"]["uid"]]["log.retention.ms"] == "5000"
    assert "num.network.threads" not in world.files[again["metadata"]["uid"]]
    assert (
        again["metadata"]["annotations"][names.ANN_SPEC_HASH]
        == pod["metadata"]["annotations"][names.ANN_SPEC_HASH]
    )


def test_pausing_counts_at_once() -> None:
    world = running()
    world.cluster["spec"] |= {"config": BAD, "paused": True}
    world.reconcile()
    assert world.cluster["status"]["phase"].startswith("Paused")


def test_a_cluster_is_not_born_with_settings_that_its_kafka_refuses() -> None:
    world = ConfiguredWorld.of(config=SLIP)
    assert passes(world, 3) == []
    (wait,) = waiting(world)
    assert "Spindle creates nothing until it is corrected" in wait["message"]
    assert wait["unblockedBy"].startswith("Use num.partitions or remove num.partitons")
    world.cluster["spec"]["config"] = {"num.partitions": "5"}
    world.settle()
    assert world.running("broker") == [0, 1, 2]


def test_an_upgrade_does_not_begin_with_settings_that_the_later_release_refuses() -> None:
    world = running("4.2.1", **{"group.share.enable": "true"})  # 4.3 has it no more
    assert not waiting(world)
    world.cluster["spec"]["version"] = "4.3.1"
    assert changing(passes(world, 8)) == []
    (wait,) = waiting(world)
    assert "group.share.enable is not a setting of Kafka 4.3.1; it is one of 4.2" in wait["message"]
    assert "or set spec.version back to 4.2.1" in wait["unblockedBy"]
    assert {names.ANN_VERSION: "4.2.1"}.items() <= world.get("Pod", "demo-broker-0")["metadata"][
        "annotations"
    ].items()
    world.cluster["spec"]["config"] = {}
    assert any(isinstance(a, Evict) for a in passes(world, 8))


def test_a_setting_that_came_before_the_check_goes_on_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator without the check has carried it out, and left no record of the spec."""
    with monkeypatch.context() as before:
        before.setattr("spindle.reconcile.plan.as_accepted", lambda state: state)
        world = running(**SLIP)
    pools = world.get("ConfigMap", names.pools_map("demo"))
    pools["data"] = {key: text for key, text in pools["data"].items() if not key.startswith("_")}
    assert not [a for a in passes(world, 4) if isinstance(a, (Evict, Tune, Create, Delete))]
    assert len(waiting(world)) == 1
    # What it has not carried out does not come by way of the check either.
    pools = world.get("ConfigMap", names.pools_map("demo"))
    pools["data"] = {key: text for key, text in pools["data"].items() if not key.startswith("_")}
    world.cluster["spec"]["config"] = SLIP | BAD
    assert not [a for a in passes(world, 4) if isinstance(a, (Evict, Tune, Create, Delete))]
    assert len(waiting(world)) == 2


def test_the_record_of_another_kafkacluster_of_that_name_counts_for_nothing() -> None:
    world = running()
    pools = world.get("ConfigMap", names.pools_map("demo"))
    record = json.loads(pools["data"]["_accepted"])
    assert record["uid"] == "uid-demo"
    pools["data"]["_accepted"] = json.dumps({**record, "uid": "uid-before"})
    for key in [key for key in world.objects if key[0] == "Pod"]:
        world.objects.pop(key)
    world.cluster["spec"]["config"] = BAD
    assert passes(world, 3) == []
    assert "Spindle creates nothing until it is corrected" in waiting(world)[0]["message"]


def test_deleting_asks_for_no_correction() -> None:
    world = running()
    world.cluster["spec"]["config"] = BAD
    world.reconcile()
    world.cluster["metadata"]["deletionTimestamp"] = "now"
    assert passes(world, 2)
    assert not waiting(world)


def test_a_value_that_kafka_turns_down_while_it_runs_is_told_as_a_wait() -> None:
    world = running()
    world.bad = {("num.network.threads", "5")}
    world.cluster["spec"]["config"] = {"num.network.threads": "5"}
    passes(world, 3)
    assert not waiting(world, "DynamicConfigRejected")  # it may have been told this very moment
    world.now += 60
    passes(world, 2)
    waits = waiting(world, "DynamicConfigRejected")
    assert {wait["object"] for wait in waits} == {
        f"KafkaBroker/demo-broker-{n}/num.network.threads" for n in range(3)
    }
    assert "num.network.threads=5" in waits[0]["message"]
    world.cluster["spec"]["config"] = {"num.network.threads": "4"}
    passes(world, 6)
    assert not waiting(world, "DynamicConfigRejected")
    assert ANN_DYNAMIC_CONFIG in world.get("KafkaBroker", "demo-broker-0")["metadata"]["annotations"]


def test_whatever_is_written_fits_into_a_status() -> None:
    world = running()
    world.cluster["spec"]["config"] = {"a" * 5000: "1", "num.io.threads": "9" * 4000}
    passes(world, 1)
    waits = waiting(world)
    assert len(waits) == 2
    assert max(len(wait["object"]) for wait in waits) <= 253
    assert max(len(text) for wait in waits for text in wait.values()) <= 32768
