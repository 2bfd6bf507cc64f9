"""Whole passes over a model cluster: what is made, what is refused, and what is said."""

import json
from dataclasses import replace
from typing import Any

import pytest

from spindle.api import names
from spindle.api.enums import DiskVerdict
from spindle.config.dynamic_config_record import ANN_DYNAMIC_CONFIG
from spindle.disks.broker_disks import EXCLUDED, HUNG, BrokerDisk
from spindle.disks.health import Health
from spindle.model.actions import Action, Apply, Create, Delete, Evict, MarkDown, Tune
from spindle.model.config_values import ConfigValues
from spindle.model.maintenance import NO_REQUEST
from spindle.model.snapshot import ClusterSnapshot
from spindle.model.times import stamp
from spindle.model.view import Partition
from spindle.reconcile.healing import _excluded
from tests.model.world import World


def reasons(world: World) -> set[str]:
    return {wait["reason"] for wait in world.cluster["status"]["waiting"]}


def condition(world: World, kind: str) -> dict[str, Any]:
    return next(c for c in world.cluster["status"]["conditions"] if c["type"] == kind)


def running() -> World:
    world = World.of()
    world.settle()
    return world


def finished(world: World, passes: int = 10) -> bool:
    """Whether a deletion comes to its end."""
    for _ in range(passes):
        done = world.reconcile().finished
        world.breathe()
        if done:
            return True
    return False


def with_topic(world: World, *replicas: tuple[int, ...]) -> World:
    world.partitions = tuple(Partition("orders", i, r[0], r, r, elr=()) for i, r in enumerate(replicas))
    return world


def test_the_sample_becomes_a_running_cluster() -> None:
    world = running()
    assert world.cluster["status"]["phase"] == "Running: 3 brokers on 3 racks, all 6 disks healthy."
    assert world.running("broker") == [0, 1, 2]
    assert world.running("controller") == [9000, 9001, 9002]
    assert {c["type"]: c["status"] for c in world.cluster["status"]["conditions"]} == {
        "Available": "True",
        "Ready": "True",
        "Reconciling": "False",
        "Stalled": "False",
        "RacksSatisfied": "True",
        "DisksHealthy": "True",
        "DiskPressure": "False",
        "DataAtRisk": "False",
    }


def test_each_brokers_rack_is_its_nodes_zone_and_no_two_share_one() -> None:
    world = running()
    racks = []
    for broker in world.all("KafkaBroker"):
        node = world.get("Node", broker["spec"]["node"])
        assert broker["spec"]["rack"] == node["metadata"]["labels"]["topology.kubernetes.io/zone"]
        racks.append(broker["spec"]["rack"])
    assert len(set(racks)) == 3


def test_a_settled_cluster_is_left_alone() -> None:
    world = running()
    before = world.cluster["status"]
    for _ in range(3):
        assert not world.reconcile().actions
        assert world.cluster["status"] == before


def test_every_disk_is_formatted_once_and_with_the_id_on_record() -> None:
    world = running()
    assert len(world.formats) == len(set(world.formats)) == 9
    recorded = {d["directoryId"] for b in world.all("KafkaBroker") for d in b["spec"]["disks"]}
    assert recorded <= {directory_id for _, directory_id in world.formats}


@pytest.mark.parametrize("ready", [0, 1])
def test_brokers_of_a_new_cluster_start_when_most_controllers_know_a_quorum(ready: int) -> None:
    world = World.of()
    world.unready = {f"demo-controller-{number}" for number in range(ready, 3)}
    world.settle()
    assert world.running("controller") == [9000, 9001, 9002]
    assert not world.running("broker")
    wait = next(w for w in world.cluster["status"]["waiting"] if w["reason"] == "QuorumPending")
    assert wait["object"].startswith("KafkaBroker/demo-broker-0/")
    assert f"{ready} of 3 controllers" in wait["message"]
    for number in range(2):
        world.is_ready(f"demo-controller-{number}")
    world.settle()
    assert world.running("broker") == [0, 1, 2]


def test_identity_is_written_down_before_anything_else() -> None:
    made = World.of().reconcile()
    assert [type(a) for a in made.actions] == [Create]
    assert made.actions[0].object["metadata"]["name"] == "demo-identity"  # type: ignore[attr-defined]


def test_a_cluster_that_was_deleted_finds_its_disks_again() -> None:
    world = running()
    cluster_id = world.cluster["status"]["clusterId"]
    formats, racks = list(world.formats), world.cluster["status"]["racks"]
    world.cluster["metadata"]["deletionTimestamp"] = "now"
    assert finished(world)
    assert not world.all("Pod")
    assert not world.all("KafkaBroker")
    assert len(world.all("PersistentVolumeClaim")) == 9
    for kind, name in list(world.objects):
        if (
            kind in ("Secret", "Service", "PodDisruptionBudget")
            or name.endswith("-config")
            or name == "demo-identity"
        ):
            del world.objects[kind, name]
    fresh = World.of()
    fresh.objects, fresh.formatted, fresh._serial = world.objects, world.formatted, world._serial
    fresh.cluster["metadata"]["uid"] = "another"
    fresh.settle()
    assert fresh.cluster["status"]["clusterId"] == cluster_id
    assert fresh.cluster["status"]["racks"] == racks
    assert fresh.formats == []
    assert formats


def test_a_deleted_cluster_deletes_its_own_proposals_only() -> None:
    world = running()
    owner = {"kind": "KafkaCluster", "apiVersion": names.API_VERSION, "name": "demo"}
    for name, uid in (("ours", world.cluster["metadata"]["uid"]), ("of-a-former-one", "another")):
        meta = {"name": name, "uid": f"uid-{name}", "ownerReferences": [{**owner, "uid": uid}]}
        world.put({"kind": "KafkaRebalance", "apiVersion": names.API_VERSION, "metadata": meta, "spec": {}})
    world.cluster["metadata"]["deletionTimestamp"] = "now"
    assert finished(world)
    assert [obj["metadata"]["name"] for obj in world.all("KafkaRebalance")] == ["of-a-former-one"]


def test_delete_claims_deletes_them_and_the_record() -> None:
    world = running()
    world.cluster["spec"]["deleteClaims"] = True
    world.cluster["metadata"]["deletionTimestamp"] = "now"
    assert finished(world)
    assert not world.all("PersistentVolumeClaim")
    assert ("ConfigMap", "demo-identity") not in world.objects


def test_brokers_stop_before_controllers_when_the_cluster_is_deleted() -> None:
    world = running()
    world.cluster["metadata"]["deletionTimestamp"] = "now"
    stopped = [a.name for a in world.reconcile().actions if isinstance(a, Delete)]
    assert stopped == ["demo-broker-0", "demo-broker-1", "demo-broker-2"]


def test_paused_changes_nothing_and_says_so() -> None:
    world = World.of(paused=True)
    assert not world.reconcile().actions
    assert world.cluster["status"]["phase"].startswith("Paused")


@pytest.mark.parametrize("kind", ["pods", "persistentvolumeclaims", "configmaps", "kafkabrokers"])
def test_what_cannot_be_read_is_not_taken_for_gone(kind: str) -> None:
    world = running()
    world.unknown = frozenset({kind})
    assert not world.reconcile().actions
    assert "CannotRead" in reasons(world)


@pytest.mark.parametrize("kind", ["nodes", "persistentvolumes", "storageclasses", "secrets", "services"])
def test_a_running_cluster_bears_that_the_rest_cannot_be_read(kind: str) -> None:
    world = running()
    world.unknown = frozenset({kind})
    assert not [a for a in world.reconcile().actions if not isinstance(a, Create)]
    assert not [a for a in world.reconcile().actions if isinstance(a, Create)]


def test_a_changed_configuration_rolls_one_broker_after_the_other() -> None:
    world = with_topic(running(), (0, 1, 2), (1, 2, 0), (2, 0, 1))
    world.cluster["spec"]["config"] = {"log.retention.hours": "24"}
    evicted: list[str] = []
    for _ in range(80):
        made = world.reconcile()
        evicted += [a.pod for a in made.actions if isinstance(a, Evict)]
        marks = world.cluster["status"].get("takingDown", [])
        assert len(marks) <= 1
        world.breathe()
    assert sorted(evicted) == sorted({p["metadata"]["name"] for p in world.all("Pod")})
    assert world.cluster["status"]["takingDown"] == []
    assert world.cluster["status"]["phase"].startswith("Running")


def test_a_roll_stops_where_a_partition_would_fall_below_min_isr() -> None:
    world = running()
    world.partitions = (Partition("orders", 0, 0, (0, 1, 2), (0, 1), elr=()),)
    world.cluster["spec"]["brokerPools"][0]["config"] = {"log.retention.hours": "24"}
    for _ in range(20):
        made = world.reconcile()
        assert not {a.pod for a in made.actions if isinstance(a, Evict)} & {"demo-broker-0", "demo-broker-1"}
        world.breathe()
    assert "WouldBeUnderMinIsr" in reasons(world)


def test_stopping_a_broker_for_maintenance_and_starting_it_again() -> None:
    world = with_topic(running(), (0, 1, 2))
    world.get("KafkaBroker", "demo-broker-1")["spec"].setdefault("maintenance", {})["stopped"] = True
    world.settle()
    assert world.running("broker") == [0, 2]
    assert world.get("KafkaBroker", "demo-broker-1")["status"]["state"] == "Stopped"
    assert world.cluster["status"]["phase"].endswith("Stopped by an administrator: demo-broker-1.")
    assert condition(world, "Ready")["reason"] == "BrokersStopped"
    assert condition(world, "Reconciling")["reason"] == "Settled"
    assert condition(world, "Stalled")["status"] == "False"
    assert world.cluster["status"]["takingDown"] == []
    world.get("KafkaBroker", "demo-broker-1")["spec"].setdefault("maintenance", {})["stopped"] = False
    world.settle()
    assert world.running("broker") == [0, 1, 2]


def test_a_second_broker_is_not_stopped_while_the_first_is_down() -> None:
    world = with_topic(running(), (0, 1, 2))
    world.get("KafkaBroker", "demo-broker-1")["spec"].setdefault("maintenance", {})["stopped"] = True
    world.settle()
    world.partitions = (Partition("orders", 0, 0, (0, 1, 2), (0, 2), elr=()),)
    world.get("KafkaBroker", "demo-broker-2")["spec"].setdefault("maintenance", {})["stopped"] = True
    for _ in range(10):
        world.reconcile()
        world.breathe()
    assert world.running("broker") == [0, 2]
    assert "WouldBeUnderMinIsr" in reasons(world)


def test_a_broker_that_is_on_its_way_down_counts_before_kafka_has_noticed() -> None:
    world = with_topic(running(), (0, 1, 2))
    world.get("KafkaBroker", "demo-broker-1")["spec"].setdefault("maintenance", {})["stopped"] = True
    assert [type(a) for a in world.reconcile().actions] == [MarkDown]
    world.get("KafkaBroker", "demo-broker-2")["spec"].setdefault("maintenance", {})["stopped"] = True
    world.reconcile()
    assert [mark["nodeId"] for mark in world.cluster["status"]["takingDown"]] == [1]
    assert "WouldBeUnderMinIsr" in reasons(world)


def test_a_mark_is_withdrawn_by_changing_the_pod_first() -> None:
    world = with_topic(running(), (0, 1, 2))
    world.get("KafkaBroker", "demo-broker-1")["spec"].setdefault("maintenance", {})["stopped"] = True
    made = world.reconcile()
    assert [type(a) for a in made.actions] == [MarkDown]
    world.get("KafkaBroker", "demo-broker-1")["spec"].setdefault("maintenance", {})["stopped"] = False
    version = world.get("Pod", "demo-broker-1")["metadata"]["resourceVersion"]
    world.reconcile()
    assert world.get("Pod", "demo-broker-1")["metadata"]["resourceVersion"] != version
    assert world.cluster["status"]["takingDown"]
    world.reconcile()
    assert world.cluster["status"]["takingDown"] == []
    assert world.running("broker") == [0, 1, 2]


def test_a_successor_is_not_back_before_its_own_kafka_runs_whatever_kafka_still_believes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = with_topic(running(), (0, 1, 2))
    believed = world.kafka()
    monkeypatch.setattr(
        world, "kafka", lambda: believed
    )  # the session of the old process has not run out yet
    world.cluster["spec"]["config"] = {"log.retention.hours": "24"}
    evicted: list[str] = []
    for _ in range(6):
        evicted += [a.pod for a in world.reconcile().actions if isinstance(a, Evict)]
    assert len(evicted) == 1  # nothing breathed: its successor has not started
    successor = world.get("Pod", evicted[0])
    assert not any(c["status"] == "True" for c in (successor.get("status") or {}).get("conditions", ()))


def test_a_successor_that_cannot_start_is_made_anew_when_its_spec_is_corrected() -> None:
    world = with_topic(running(), (0, 1, 2))
    world.cluster["spec"]["image"] = "no/such:1"
    evicted: list[str] = []
    for _ in range(6):  # nothing breathes: the successor never starts
        evicted += [a.pod for a in world.reconcile().actions if isinstance(a, Evict)]
    assert len(evicted) == 1
    del world.cluster["spec"]["image"]
    world.settle()
    assert world.cluster["status"]["takingDown"] == []
    assert world.cluster["status"]["phase"].startswith("Running")
    images = {c["image"] for pod in world.all("Pod") for c in pod["spec"]["containers"]}
    assert images == {"apache/kafka:4.3.1"}


class _OtherRegistry(World):
    def snapshot(self) -> ClusterSnapshot:
        return replace(super().snapshot(), kafka_repository="registry.example/apache/kafka")


def test_the_installation_says_which_repository_has_kafkas_image() -> None:
    world = _OtherRegistry.of()
    world.settle()
    assert world.running("broker") == [0, 1, 2]
    images = {c["image"] for pod in world.all("Pod") for c in pod["spec"]["containers"]}
    assert images == {"registry.example/apache/kafka:4.3.1"}


def test_hand_edited_and_deleted_things_are_put_right() -> None:
    world = running()
    del world.objects["Service", "demo-bootstrap"]
    world.get("Service", "demo-brokers")["spec"]["publishNotReadyAddresses"] = False
    world.get("Pod", "demo-broker-0")["metadata"]["labels"][names.LABEL_BUDGET] = "mine"
    world.get("ConfigMap", "demo-broker-2-config")["data"]["server.properties"] = "log.dirs=/tmp"
    del world.objects["Pod", "demo-broker-1"]
    world.settle()
    assert ("Service", "demo-bootstrap") in world.objects
    assert world.get("Service", "demo-brokers")["spec"]["publishNotReadyAddresses"] is True
    assert world.get("Pod", "demo-broker-0")["metadata"]["labels"][names.LABEL_BUDGET] == "demo-brokers"
    assert "log.dirs=/tmp" not in world.get("ConfigMap", "demo-broker-2-config")["data"]["server.properties"]
    assert world.running("broker") == [0, 1, 2]


def _restored(world: World) -> list[str]:
    actions = world.reconcile().actions
    return [a.message for a in actions if isinstance(a, Apply) and a.reason == "Restored"]


def test_what_somebody_else_changed_is_told_and_what_follows_the_spec_is_not_called_that() -> None:
    world = running()
    world.cluster["spec"]["controllers"]["replicas"] = 5
    world.cluster["spec"]["config"] = {"num.io.threads": "5"}
    assert all(not _restored(world) for _ in range(3))
    assert world.get("PodDisruptionBudget", "demo-controllers")["spec"]["minAvailable"] == 4
    world.get("PodDisruptionBudget", "demo-controllers")["spec"]["minAvailable"] = 0
    said = "PodDisruptionBudget demo-controllers was changed by another client; Spindle restored it."
    assert _restored(world) == [said]


def test_a_lost_ca_is_told_and_not_replaced_behind_the_brokers_backs() -> None:
    world = running()
    del world.objects["Secret", "demo-ca"]
    world.reconcile()
    assert "CaMissing" in reasons(world)
    assert ("Secret", "demo-ca") not in world.objects


def test_a_broker_record_deleted_by_hand_is_made_again_from_its_claims() -> None:
    world = running()
    before = world.get("KafkaBroker", "demo-broker-1")["spec"]
    world.get("KafkaBroker", "demo-broker-1")["metadata"]["deletionTimestamp"] = "now"
    world.settle()
    after = world.get("KafkaBroker", "demo-broker-1")
    assert "deletionTimestamp" not in after["metadata"]
    assert {k: v for k, v in after["spec"].items() if k != "node"} == {
        k: v for k, v in before.items() if k != "node"
    }
    assert world.running("broker") == [0, 1, 2]
    assert len(world.formats) == 9


def test_a_stopped_brokers_record_is_kept_when_it_is_deleted_by_hand() -> None:
    world = running()
    world.get("KafkaBroker", "demo-broker-1")["spec"].setdefault("maintenance", {})["stopped"] = True
    world.settle()
    world.get("KafkaBroker", "demo-broker-1")["metadata"]["deletionTimestamp"] = "now"
    world.settle()
    assert "BrokerRecordRetained" in reasons(world)
    assert world.running("broker") == [0, 2]


def test_a_version_that_is_not_run_is_a_wait_and_nothing_else() -> None:
    world = World.of(version="3.9.0")
    assert not world.reconcile().actions
    assert reasons(world) == {"VersionNotSupported"}


def test_a_version_that_is_not_run_changes_nothing_and_the_cluster_is_looked_after_as_ever() -> None:
    world = running()
    before = {pod["metadata"]["uid"] for pod in world.all("Pod")}
    was = world.cluster["spec"]["version"]
    world.cluster["spec"]["version"] = "9.9.0"
    world.settle()
    (told,) = [w for w in world.cluster["status"]["waiting"] if w["reason"] == "VersionNotSupported"]
    assert f"stays on Kafka {was}" in told["message"]
    assert told["unblockedBy"].endswith(f"or back to {was}.")
    assert {pod["metadata"]["uid"] for pod in world.all("Pod")} == before
    del world.objects["Pod", "demo-broker-1"]
    world.settle()
    assert world.running("broker") == [0, 1, 2], "a broker whose pod is gone comes back"
    assert world.get("Pod", "demo-broker-1")["metadata"]["annotations"][names.ANN_VERSION] == was
    world.cluster["spec"]["version"] = was
    world.settle()
    assert "VersionNotSupported" not in reasons(world)


@pytest.mark.parametrize(
    ("zones", "reason", "brokers"),
    [
        pytest.param("aaaa", "SingleZone", 3, id="one zone only"),
        pytest.param("----", "NoZoneLabels", 3, id="no label anywhere"),
        pytest.param("ab-", "NodesWithoutZone", 2, id="one node without label"),
        pytest.param("ab", "InsufficientNodes", 2, id="more brokers than nodes"),
    ],
)
def test_a_spread_that_cannot_be_had_is_a_condition_and_the_best_is_made(
    zones: str, reason: str, brokers: int
) -> None:
    world = World.of(zones, disks=3)
    for _ in range(30):
        world.reconcile()
        world.breathe()
    assert len(world.running("broker")) == brokers
    assert reason in reasons(world)
    assert condition(world, "RacksSatisfied")["status"] == "False"
    assert not world.reconcile().events  # told once, not in every pass


def test_a_zone_that_appears_later_takes_the_next_broker() -> None:
    world = World.of(
        "aabb",
        brokerPools=[
            {
                "name": "main",
                "replicas": 4,
                "disks": {"count": 1, "size": "1Gi", "storageClass": "local-disks"},
            }
        ],
    )
    world.settle()
    world.add_node("node9", "zone-c", 3)
    world.reconcile()
    assert "ZoneWithoutBrokers" in reasons(world)
    world.cluster["spec"]["brokerPools"][0]["replicas"] = 5
    world.settle()
    assert world.get("KafkaBroker", "demo-broker-4")["spec"]["rack"] == "zone-c"


def test_a_changed_zone_label_is_told_and_changes_nothing() -> None:
    world = running()
    node = world.get("KafkaBroker", "demo-broker-0")["spec"]["node"]
    world.get("Node", node)["metadata"]["labels"]["topology.kubernetes.io/zone"] = "zone-z"
    assert not world.reconcile().actions
    assert condition(world, "RacksSatisfied")["reason"] == "ZoneChanged"


# -- disks -------------------------------------------------------------------------------------------------------


def lose_pod(world: World, name: str) -> None:
    del world.objects["Pod", name]


def test_a_disk_replaced_by_a_blank_one_is_not_formatted() -> None:
    world = with_topic(running(), (0, 1, 2))
    volume = world.get("PersistentVolumeClaim", "data-disk0-demo-0")["spec"]["volumeName"]
    world.formatted[volume] = {"fs": "another"}
    formats = len(world.formats)
    lose_pod(world, "demo-broker-0")
    for _ in range(20):
        world.reconcile()
        world.breathe()
    assert len(world.formats) == formats
    (disk, *_) = world.get("KafkaBroker", "demo-broker-0")["spec"]["disks"]
    assert disk["mode"] == "Placeholder"  # the broker runs without it, and it is healed as a dead one


def test_a_disk_that_was_emptied_is_not_formatted() -> None:
    world = with_topic(running(), (0, 1, 2))
    volume = world.get("PersistentVolumeClaim", "data-disk0-demo-0")["spec"]["volumeName"]
    world.formatted[volume] = {}  # the same file system
    formats = len(world.formats)
    lose_pod(world, "demo-broker-0")
    told = set()
    for _ in range(20):
        world.reconcile()
        world.breathe()
        told |= {wait["reason"] for wait in world.cluster["status"].get("waiting") or ()}
    assert len(world.formats) == formats
    assert "DiskContentLost" in told


def test_controllers_that_lost_their_disks_are_not_born_again() -> None:
    world = running()
    formats = len(world.formats)
    for node_id in (9000, 9001):
        volume = world.get("PersistentVolumeClaim", f"data-metadata-demo-{node_id}")["spec"]["volumeName"]
        world.formatted[volume] = {"fs": f"new-{node_id}"}
        lose_pod(world, f"demo-controller-{node_id - 9000}")
    for _ in range(20):
        world.reconcile()
        world.breathe()
    assert len(world.formats) == formats
    assert {
        w["object"] for w in world.cluster["status"]["waiting"] if w["reason"] == "DirectoryIdAlreadyUsed"
    } == {
        "Pod/demo-controller-0",
        "Pod/demo-controller-1",
    }


@pytest.mark.parametrize("state", ["not-mounted", "foreign"])
def test_a_broker_starts_without_a_disk_that_cannot_be_used_and_with_it_when_it_is_back(state: str) -> None:
    world = running()
    volume = world.get("PersistentVolumeClaim", "data-disk1-demo-0")["spec"]["volumeName"]
    world.formatted[volume]["state"] = state
    lose_pod(world, "demo-broker-0")
    for _ in range(9):
        world.reconcile()
        world.breathe()
    assert world.running("broker") == [0, 1, 2]
    entry = next(w for w in world.cluster["status"]["waiting"] if w["reason"] == "DiskExcluded")
    assert entry["unblockedBy"].startswith("If the disk is healthy, stop and start the broker")
    assert condition(world, "DisksHealthy")["status"] == "False"
    del world.formatted[volume]["state"]
    broker = world.get("KafkaBroker", "demo-broker-0")
    broker["spec"].setdefault("maintenance", {})["stopped"] = True
    world.settle()
    world.get("KafkaBroker", "demo-broker-0")["spec"].setdefault("maintenance", {})["stopped"] = False
    world.settle()
    assert condition(world, "DisksHealthy")["status"] == "True"


def test_a_disk_that_kafka_gave_up_is_told_with_the_way_back() -> None:
    world = running()
    world.offline = {(1, "disk1")}
    made = world.reconcile()
    assert not made.actions
    entry = next(w for w in world.cluster["status"]["waiting"] if w["reason"] == "DiskOffline")
    assert entry["object"] == "KafkaBroker/demo-broker-1/disk1"
    assert "restarted with it" in entry["unblockedBy"]
    broker = world.get("KafkaBroker", "demo-broker-1")["status"]
    assert (broker["state"], broker["disksSummary"]) == ("Degraded", "1/2")


def test_a_disk_that_kafka_gives_up_again_while_it_is_being_emptied_is_told_as_well() -> None:
    world = running()
    world.offline = {(1, "disk1")}
    world.reconcile()
    broker = world.get("KafkaBroker", "demo-broker-1")["status"]
    next(disk for disk in broker["disks"] if disk["name"] == "disk1")["state"] = "Evacuating"
    assert not world.reconcile().actions
    assert "DiskOffline" in reasons(world)


def test_a_broker_that_is_behind_says_where() -> None:
    world = with_topic(running(), (0, 1, 2), (0, 1, 2))
    world.settle()
    world.partitions = tuple(replace(each, isr=(1, 2)) for each in world.partitions)
    world.settle()
    status = world.get("KafkaBroker", "demo-broker-0")["status"]
    assert status["state"] == "Starting"
    assert "not in the ISR of" in status["message"]
    assert all(each.name in status["message"] for each in world.partitions)


def test_a_new_broker_of_a_born_cluster_is_formatted_only_when_kafka_can_be_asked() -> None:
    world = running()
    world.cluster["spec"]["brokerPools"][0]["replicas"] = 4
    world.kafka_up = False
    formats = len(world.formats)
    for _ in range(15):
        world.reconcile()
        world.breathe()
    assert len(world.formats) == formats
    assert "KafkaUnknown" in reasons(world)
    world.kafka_up = True
    world.settle()
    assert len(world.formats) == formats + 2


def rolled(world: World, most: int = 80) -> list[set[str]]:
    """Let a roll go on; the pods of each state of marks on its way."""
    seen: list[set[str]] = []
    for _ in range(most):
        world.reconcile()
        marked = {m["pod"] for m in world.cluster["status"].get("takingDown") or ()}
        if marked and (not seen or seen[-1] != marked):
            seen.append(marked)
        world.breathe()
    return seen


def test_brokers_of_one_rack_go_down_together_where_that_is_asked_for() -> None:
    pool = {
        "name": "main",
        "replicas": 6,
        "disks": {"count": 1, "size": "100Gi", "storageClass": "local-disks"},
    }
    world = World.of("abcabc", brokerPools=[pool], rolling={"maxUnavailable": 2})
    world.settle()
    racks = {f"demo-broker-{b['spec']['id']}": b["spec"]["rack"] for b in world.all("KafkaBroker")}
    world.cluster["spec"]["image"] = "mine/kafka:1"
    marks = [marked & racks.keys() for marked in rolled(world)]
    assert max(len(marked) for marked in marks) == 2
    assert all(len({racks[pod] for pod in marked}) <= 1 for marked in marks)
    images = {c["image"] for pod in world.all("Pod") for c in pod["spec"]["containers"]}
    assert images == {"mine/kafka:1"}


def test_a_restart_says_what_has_changed() -> None:
    world = running()
    world.cluster["spec"]["image"] = "mine/kafka:1"
    evicted = [a for _ in range(4) for a in world.reconcile().actions if isinstance(a, Evict)]
    assert evicted[0].reason == "SpecChanged"
    assert "Kafka's image (from apache/kafka:4.3.1 to mine/kafka:1) changed" in evicted[0].message


def test_another_text_in_rolling_restart_restarts_every_pod_once() -> None:
    world = running()
    pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in world.all("Pod")}
    world.cluster["spec"]["rolling"] = {"restart": "2026-05-01T10:00:00Z"}

    said = [a.message for _ in range(2) for a in world.reconcile().actions if isinstance(a, Evict)]
    world.settle()

    assert "spec.rolling.restart changed" in said[0]
    after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in world.all("Pod")}
    assert after.keys() == pods.keys()
    assert not set(after.values()) & set(pods.values())
    assert [a for a in world.reconcile().actions if isinstance(a, Evict)] == []


def test_a_broker_that_does_not_come_back_stops_the_roll() -> None:
    world = running()
    world.cluster["spec"]["brokerPools"][0]["config"] = {"num.partitions": "3"}
    for _ in range(6):  # nothing breathes: the successor never starts
        world.reconcile()
    assert "ProgressDeadlineExceeded" not in reasons(world)
    world.now += 700
    world.reconcile()
    assert {m["pod"] for m in world.cluster["status"]["takingDown"]} == {"demo-broker-0"}
    assert {"ProgressDeadlineExceeded", "RolloutStalled"} <= reasons(world)
    assert condition(world, "Ready")["reason"] == "ProgressDeadlineExceeded"
    assert condition(world, "Stalled")["reason"] == "ProgressDeadlineExceeded"
    assert condition(world, "Reconciling")["status"] == "False"
    rolled(world)
    assert world.cluster["status"]["takingDown"] == []
    assert "RolloutStalled" not in reasons(world)


def test_a_broker_that_ends_again_and_again_stops_the_roll_though_it_was_back() -> None:
    world = running()
    pod = world.get("Pod", "demo-broker-0")
    entry = pod["status"]["containerStatuses"][0]
    entry["restartCount"] = 3
    entry["lastState"] = {
        "terminated": {"exitCode": 1, "message": "out of memory", "finishedAt": stamp(world.now)}
    }
    world.put(pod)
    world.cluster["spec"]["brokerPools"][0]["config"] = {"num.partitions": "3"}
    pod["metadata"]["annotations"][names.ANN_SPEC_HASH] = "outdated"
    made = rolled(world, 3)
    assert made, "one that is outdated itself is no verdict on the change"


def test_a_broker_of_the_new_kind_that_ends_again_and_again_stops_the_roll() -> None:
    world = running()
    for number in (1, 2):
        world.get("Pod", f"demo-broker-{number}")["metadata"]["annotations"][names.ANN_SPEC_HASH] = "outdated"
    entry = world.get("Pod", "demo-broker-0")["status"]["containerStatuses"][0]
    entry["restartCount"] = 3
    entry["lastState"] = {
        "terminated": {"exitCode": 1, "message": "out of memory", "finishedAt": stamp(world.now)}
    }
    assert rolled(world, 5) == []
    assert {"CrashLooping", "RolloutStalled"} <= reasons(world)
    world.now += 700
    rolled(world)
    assert "CrashLooping" not in reasons(world)
    hashes = {p["metadata"]["annotations"][names.ANN_SPEC_HASH] for p in world.all("Pod")}
    assert "outdated" not in hashes


def test_a_renewed_certificate_rolls_the_nodes_that_run_with_the_one_before() -> None:
    world = running()
    world.get("Secret", "demo-broker-1-tls")["view"]["fingerprint"] = "renewed"
    evicted = {a.pod: a.reason for _ in range(20) for a in _step(world) if isinstance(a, Evict)}
    assert evicted == {"demo-broker-1": "CertificateRenewed"}
    pod = world.get("Pod", "demo-broker-1")
    assert pod["metadata"]["annotations"][names.ANN_CERTIFICATE] == "renewed"


def test_what_kafka_takes_while_it_runs_restarts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = running()
    told: dict[int, dict[str, ConfigValues]] = {
        node: {"log.retention.ms": ConfigValues(default="1")} for node in range(3)
    }
    seen = World.kafka
    monkeypatch.setattr(World, "kafka", lambda self: replace(seen(self), standing=told))
    before = {p["metadata"]["name"]: p["metadata"]["uid"] for p in world.all("Pod")}
    world.cluster["spec"]["config"] = {"log.retention.ms": "5"}
    made = world.reconcile().actions
    assert {(a.broker, a.values["log.retention.ms"]) for a in made if isinstance(a, Tune)} == {
        (n, "5") for n in range(3)
    }
    for node in range(3):
        record = json.loads(
            world.get("KafkaBroker", f"demo-broker-{node}")["metadata"]["annotations"][ANN_DYNAMIC_CONFIG]
        )
        assert record["settings"] == {"log.retention.ms": "5"}
        told[node]["log.retention.ms"] = ConfigValues(own="5", default="1")
    assert not [a for _ in range(5) for a in _step(world)]
    told[1]["log.retention.ms"] = ConfigValues(own="7", default="1")
    world.reconcile()
    assert "ConfigOverridden" in reasons(world)
    assert {p["metadata"]["name"]: p["metadata"]["uid"] for p in world.all("Pod")} == before


def test_what_a_broker_does_not_take_while_it_runs_it_takes_by_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = running()
    seen = World.kafka
    told = {0: {"log.retention.ms": ConfigValues(default="1")}}
    monkeypatch.setattr(World, "kafka", lambda self: replace(seen(self), standing=told))
    world.cluster["spec"]["config"] = {"log.retention.ms": "5"}
    assert not [a for _ in range(5) for a in _step(world) if isinstance(a, Evict)]
    world.now += 200
    assert not [a for _ in range(5) for a in _step(world) if isinstance(a, Evict)], (
        "it is told once more first"
    )
    world.now += 200
    evicted = [a for _ in range(4) for a in _step(world) if isinstance(a, Evict)]
    assert [(a.pod, a.reason) for a in evicted] == [("demo-broker-0", "SpecChanged")]


def _step(world: World) -> tuple[Action, ...]:
    made = world.reconcile().actions
    world.breathe()
    return made


@pytest.mark.parametrize(
    ("reason", "begins"),
    [(EXCLUDED, "If the disk is healthy, stop and start the broker"), (HUNG, "Nothing to do")],
    ids=["the agent is gone", "an agent watches it"],
)
def test_who_notices_that_an_excluded_disk_is_healthy_again(reason: str, begins: str) -> None:
    """Only an agent shows that a disk without which a broker runs is healthy; without one a user has it tried again."""
    health = Health(verdict=DiskVerdict.FAILED, reason=reason, since=0.0, fresh=True)
    slot = BrokerDisk(
        broker=0, disk={"name": "disk1", "mode": "Placeholder"}, health=health, log_dir=None, broker_answered=True, pod=None,
        watched=reason == HUNG, before={}, observed={}, request=NO_REQUEST,
    )  # fmt: skip
    wait = _excluded("demo-broker-0", slot)
    assert wait.unblocked_by.startswith(begins)
