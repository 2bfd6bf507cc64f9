"""Brokers that come and go on the model cluster: filled by plan, emptied first, and brought back in the middle."""

import contextlib
from functools import cache, partial
from typing import Any, TypeGuard

import pytest

from spindle.api import names
from spindle.model.actions import Action, Apply, Delete, Evict, PlaceReplicas, UnregisterBroker
from spindle.reconcile.plan import ReconcilePlan
from tests.model.checked import Checked
from tests.model.kafka import CAPACITY, path_of
from tests.model.store import ConflictError
from tests.unit.test_healing_plan import accept_text, condition, reasons, until

TOPIC = "orders"


def pool(name: str = "main", replicas: int = 3, **disks: Any) -> dict[str, Any]:
    return {
        "name": name,
        "replicas": replicas,
        "disks": {"count": 2, "size": "100Gi", "storageClass": "local-disks", **disks},
    }


@cache
def _settled(brokers: int, zones: str, partitions: int, rf: int) -> Checked:
    world = Checked.of(zones, disks=3, brokerPools=[pool(replicas=brokers)])
    world.settle(80)
    for index in range(partitions):
        replicas = tuple((index + i) % brokers for i in range(rf))
        world.kafkas.create(TOPIC, index, replicas, partial(_on, path_of(f"disk{index % 2}")))
        world.factors[TOPIC, index] = rf
    world.settle()
    return world


def _on(path: str, _: int) -> str:
    return path


def cluster(brokers: int = 5, zones: str = "abcabc", partitions: int = 10, rf: int = 3) -> Checked:
    """Brokers on nodes in these zones, with partitions spread over them."""
    return _settled(brokers, zones, partitions, rf).fork()


def scale(world: Checked, replicas: int, index: int = 0) -> None:
    world.cluster["spec"]["brokerPools"][index]["replicas"] = replicas


def ids(world: Checked) -> list[int]:
    return sorted(broker["spec"]["id"] for broker in world.all("KafkaBroker"))


def holders(world: Checked) -> set[int]:
    return {broker for state in world.kafkas.partitions.values() for broker in state.replicas}


def well(world: Checked, brokers: list[int], rf: int = 3) -> None:
    """Exactly these brokers are there, all is in sync, and nothing is left over."""
    world.settle(200)
    assert world.broken == []
    assert world.kafkas.losses == []
    assert world.destroyed == []
    assert ids(world) == brokers, world.cluster["status"]["waiting"]
    assert sorted(world.registered) == brokers
    assert sorted(world.kafkas.running) == brokers
    for key, state in world.kafkas.partitions.items():
        assert len(state.replicas) == rf, key
        assert sorted(state.isr) == sorted(state.replicas), key
    for broker in world.all("KafkaBroker"):
        assert not broker["spec"].get("leaving")
        assert not broker["spec"].get("joining")
        assert {d["state"] for d in broker["status"]["disks"]} == {"Active"}
    for kind in ("ConfigMap", "Secret"):
        own = {name for k, name in world.objects if k == kind and "-broker-" in name}
        assert {int(name.split("-broker-")[1].split("-")[0]) for name in own} == set(brokers)
    assert not any(world.kafkas.settings.values())
    assert not world.cluster["status"].get("takingDown")


def told(plans: list[ReconcilePlan]) -> list[str]:
    return [event.reason for made in plans for event in made.events]


def said(plans: list[ReconcilePlan]) -> list[str]:
    """Reasons of what was done."""
    return [a.reason for made in plans for a in made.actions if a.reason]


class TestOut:
    def test_new_brokers_join_and_are_filled_by_plan(self) -> None:
        world = cluster(3, partitions=12)
        scale(world, 5)
        plans = until(world, lambda: ids(world) == [0, 1, 2, 3, 4] and len(holders(world)) == 5, 60)
        placed = [a for made in plans for a in made.actions if isinstance(a, PlaceReplicas)]
        assert {a.broker for a in placed} == {3, 4}, "each replica comes to a chosen disk"
        well(world, [0, 1, 2, 3, 4])
        held = [sum(b in s.replicas for s in world.kafkas.partitions.values()) for b in range(5)]
        assert held[2] == 12, "the only one in its rack, and each partition has a copy in each rack"
        assert abs(held[0] - held[3]) <= 2
        assert abs(held[1] - held[4]) <= 2

    def test_nobody_restarts_for_a_new_broker(self) -> None:
        world = cluster(3)
        scale(world, 5)
        plans = until(world, lambda: len(holders(world)) == 5, 60)
        evicted = {a.pod for made in plans for a in made.actions if isinstance(a, Evict)}
        assert not evicted & {f"demo-broker-{i}" for i in range(3)}

    def test_a_pool_of_another_kind_is_added(self) -> None:
        world = cluster(3)
        world.cluster["spec"]["brokerPools"].append(
            pool("large", 3, count=3) | {"resources": {"requests": {"memory": "3Gi"}}, "jvm": {"heap": "2g"}}
        )
        well(world, [0, 1, 2, 3, 4, 5])
        for broker in world.all("KafkaBroker"):
            large = broker["spec"]["pool"] == "large"
            assert len(broker["spec"]["disks"]) == (3 if large else 2)
            pod = world.get("Pod", broker["metadata"]["name"])
            kafka = next(c for c in pod["spec"]["containers"] if c["name"] == names.CONTAINER_KAFKA)
            assert (kafka["resources"]["requests"]["memory"] == "3Gi") is large
        assert {3, 4, 5} <= holders(world)


class TestIn:
    def test_brokers_are_drained_stopped_unregistered_and_forgotten(self) -> None:
        world = cluster()
        scale(world, 3)
        plans = until(world, lambda: ids(world) == [0, 1, 2], 120)
        assert "ScaleInStarted" in told(plans)
        steps = [r for r in said(plans) if r in ("ScaledIn", "BrokerUnregistered", "BrokerRemoved")]
        assert (
            steps.count("ScaledIn") == steps.count("BrokerUnregistered") == steps.count("BrokerRemoved") == 2
        )
        assert steps[0] == "ScaledIn"
        assert steps[-1] == "BrokerRemoved"
        well(world, [0, 1, 2])

    def test_its_volumes_are_kept_and_that_is_told(self) -> None:
        world = cluster()
        scale(world, 4)
        plans = until(world, lambda: ids(world) == [0, 1, 2, 3], 120)
        forgotten = [
            a for made in plans for a in made.actions if isinstance(a, Delete) and a.reason == "BrokerRemoved"
        ]
        assert len(forgotten) == 1
        assert "data-disk0-demo-4" in forgotten[0].message
        for disk in ("disk0", "disk1"):
            claim = world.get("PersistentVolumeClaim", f"data-{disk}-demo-4")
            assert claim["status"]["phase"] == "Bound"
            assert claim["metadata"]["annotations"][names.ANN_LEFT] == "true"

    def test_its_claims_go_where_the_owner_said_so_and_the_volumes_stay(self) -> None:
        world = cluster()
        world.cluster["spec"]["deleteClaims"] = True
        scale(world, 4)
        well(world, [0, 1, 2, 3])
        claims = [
            name for kind, name in world.objects if kind == "PersistentVolumeClaim" and name.endswith("-4")
        ]
        assert claims == []
        assert sum(v["status"]["phase"] == "Released" for v in world.all("PersistentVolume")) == 2

    def test_a_broker_that_is_named_goes_first(self) -> None:
        world = cluster(zones="ababab")
        world.get("KafkaBroker", "demo-broker-1")["spec"].setdefault("maintenance", {})["removeFirst"] = True
        scale(world, 4)
        well(world, [0, 2, 3, 4])

    def test_it_restarts_like_any_other_while_it_is_emptied(self) -> None:
        world = cluster()
        scale(world, 4)
        until(world, lambda: "ScaleInStarted" in _lives(world, 4))
        world.cluster["spec"]["brokerPools"][0]["jvm"] = {"heap": "2g"}
        world.kafkas.traffic = False
        evicted: list[str] = []
        # About eight passes for each: what it leads is led elsewhere first, and comes back after it.
        for _ in range(50):
            with contextlib.suppress(ConflictError):
                evicted += [a.pod for a in world.reconcile().actions if isinstance(a, Evict)]
            world.breathe()
        assert {f"demo-broker-{i}" for i in range(4)} <= set(evicted)
        well(world, [0, 1, 2, 3])

    @pytest.mark.parametrize("deleted", [0, 4])
    def test_a_record_that_is_deleted_by_hand_keeps_nobody_from_leaving(self, deleted: int) -> None:
        world = cluster()
        scale(world, 4)
        world.get("KafkaBroker", f"demo-broker-{deleted}")["metadata"]["deletionTimestamp"] = "now"
        well(world, [0, 1, 2, 3])

    def test_a_pool_that_is_removed_is_emptied(self) -> None:
        world = cluster(3)
        world.cluster["spec"]["brokerPools"].append(pool("other", 3))
        well(world, [0, 1, 2, 3, 4, 5])
        del world.cluster["spec"]["brokerPools"][0]
        until(world, lambda: "ScaleInStarted" in _lives(world, 0))
        plans = until(world, lambda: ids(world) == [3, 4, 5], 150)
        plans.append(world.reconcile())
        well(world, [3, 4, 5])
        noted = [a.object for made in plans for a in made.actions if _names_pools(a)]
        assert [set(each["data"]) - {"_accepted"} for each in noted] == [{"other"}]

    def test_a_broker_of_a_removed_pool_starts_again_while_it_is_emptied(self) -> None:
        world = cluster(3)
        world.cluster["spec"]["brokerPools"].append(pool("other", 3))
        well(world, [0, 1, 2, 3, 4, 5])
        del world.cluster["spec"]["brokerPools"][0]
        until(world, lambda: "ScaleInStarted" in _lives(world, 0))
        del world.objects["Pod", "demo-broker-0"]
        until(world, lambda: ("Pod", "demo-broker-0") in world.objects, 5)

    def test_a_broker_that_never_ran_goes_and_leaves_no_claim(self) -> None:
        world = cluster(3, zones="abca")
        scale(world, 4)
        world.reconcile()
        world.reconcile()
        assert 3 in ids(world)
        assert 3 not in world.registered
        scale(world, 3)
        well(world, [0, 1, 2])
        assert not [
            name for kind, name in world.objects if kind == "PersistentVolumeClaim" and name.endswith("-3")
        ]

    def test_a_dead_broker_can_leave_once_its_replicas_are_elsewhere(self) -> None:
        world = cluster(4, zones="abca")
        for disk in ("disk0", "disk1"):
            world.disk(3, disk).state = "dead"
        until(world, lambda: 3 not in world.kafkas.running, 20)
        scale(world, 3)
        until(world, lambda: ids(world) == [0, 1, 2], 150)
        assert world.broken == []
        assert world.kafkas.losses == []


def _names_pools(action: Action) -> TypeGuard[Apply]:
    return isinstance(action, Apply) and action.object["metadata"]["name"] == "demo-pools"


def _lives(world: Checked, broker: int) -> set[str]:
    status = world.get("KafkaBroker", f"demo-broker-{broker}").get("status") or {}
    return {str(disk.get("reason")) for disk in status.get("disks") or ()}


class TestBack:
    def test_raised_again_in_the_middle_it_stays_and_is_filled_again(self) -> None:
        world = cluster()
        scale(world, 3)
        until(world, lambda: sum(3 in s.replicas for s in world.kafkas.partitions.values()) < 5)
        scale(world, 5)
        well(world, [0, 1, 2, 3, 4])
        assert holders(world) == {0, 1, 2, 3, 4}

    def test_raised_again_when_it_is_stopped_already_it_comes_back_with_its_disks(self) -> None:
        world = cluster()
        scale(world, 4)
        until(world, lambda: 4 not in world.kafkas.running, 80)
        assert 4 in ids(world)
        scale(world, 5)
        formats = len(world.formats)
        well(world, [0, 1, 2, 3, 4])
        assert len(world.formats) == formats
        assert 4 in holders(world)

    def test_raised_again_when_it_is_gone_its_disks_are_found_again(self) -> None:
        world = cluster()
        scale(world, 4)
        well(world, [0, 1, 2, 3])
        formats = len(world.formats)
        scale(world, 5)
        well(world, [0, 1, 2, 3, 4])
        assert len(world.formats) == formats, "they are its own still"
        assert 4 in holders(world)
        claim = world.get("PersistentVolumeClaim", "data-disk0-demo-4")
        assert names.ANN_LEFT not in {k for k, v in claim["metadata"]["annotations"].items() if v}

    def test_a_cluster_that_is_applied_again_takes_those_with_data_first(self) -> None:
        world = cluster(zones="ababab")
        world.get("KafkaBroker", "demo-broker-1")["spec"].setdefault("maintenance", {})["removeFirst"] = True
        scale(world, 4)
        well(world, [0, 2, 3, 4])
        for kind, name in [key for key in world.objects if key[0] in ("Pod", "KafkaBroker")]:
            del world.objects[kind, name]
        world.kafkas.running.clear()
        world.processes.clear()
        until(world, lambda: len(ids(world)) == 4, 5)
        assert ids(world) == [0, 2, 3, 4]

    def test_a_topic_made_on_it_in_the_last_moment_takes_it_up_again(self) -> None:
        world = cluster()
        scale(world, 4)
        until(world, lambda: bool(world.get("KafkaBroker", "demo-broker-4")["spec"].get("leaving")), 80)
        world.kafkas.create("late", 0, (4, 0, 1), partial(_on, path_of("disk0")))
        world.reconcile()
        assert not world.get("KafkaBroker", "demo-broker-4")["spec"].get("leaving")
        well(world, [0, 1, 2, 3])


def nothing_is_done(world: Checked, reason: str) -> None:
    """It says why, and nobody is moved or stopped."""
    there, replicas = ids(world), {key: state.replicas for key, state in world.kafkas.partitions.items()}
    for _ in range(5):
        made = world.reconcile()
        assert [a for a in made.actions if not _names_pools(a)] == [], "no more than what the pools are now"
        world.breathe()
    assert reason in reasons(world)
    assert ids(world) == there
    assert {key: state.replicas for key, state in world.kafkas.partitions.items()} == replicas


class TestRefusals:
    def test_too_few_brokers_for_the_copies(self) -> None:
        world = cluster(3)
        scale(world, 2)
        nothing_is_done(world, "InsufficientBrokers")
        scale(world, 3)
        world.reconcile()
        assert "InsufficientBrokers" not in reasons(world)

    def test_the_last_broker_of_a_rack(self) -> None:
        world = cluster(4, zones="abca")
        assert [i for i, rack in world.kafkas.racks.items() if rack == "zone-c"] == [2]
        world.get("KafkaBroker", "demo-broker-2")["spec"].setdefault("maintenance", {})["removeFirst"] = True
        scale(world, 3)
        nothing_is_done(world, "InsufficientRacks")

    def test_no_room_elsewhere(self) -> None:
        world = cluster(4, zones="abca")
        world.kafkas.sizes[TOPIC] = size = 12 * CAPACITY // 100
        for broker in range(3):
            for disk in ("disk0", "disk1"):
                volume = world.disk(broker, disk)
                volume.others = 79 * CAPACITY // 100 - size * len(volume.logs)
        scale(world, 3)
        nothing_is_done(world, "InsufficientSpaceToScaleIn")
        for broker in range(3):
            for disk in ("disk0", "disk1"):
                world.disk(broker, disk).others = 0
        well(world, [0, 1, 2])

    def test_what_the_config_asks_for(self) -> None:
        world = cluster(5, partitions=0)
        world.cluster["spec"]["config"] = {"default.replication.factor": "4"}
        world.settle(120)
        scale(world, 3)
        world.settle()
        assert "ConfigNeedsMoreBrokers" in reasons(world)
        assert ids(world) == [0, 1, 2, 3, 4]
        world.cluster["spec"]["config"] = {"default.replication.factor": "3"}
        well(world, [0, 1, 2])

    def test_a_stopped_broker_says_nothing_about_what_it_holds(self) -> None:
        world = cluster()
        world.get("KafkaBroker", "demo-broker-4")["spec"].setdefault("maintenance", {})["stopped"] = True
        until(world, lambda: 4 not in world.kafkas.running)
        scale(world, 4)
        for _ in range(8):
            world.reconcile()
            world.breathe()
        assert "LogDirsUnknown" in reasons(world)
        world.get("KafkaBroker", "demo-broker-4")["spec"].setdefault("maintenance", {})["stopped"] = False
        well(world, [0, 1, 2, 3])


class TestInterrupted:
    def test_no_unregistering_while_kafka_does_not_say_what_stands_there(self) -> None:
        world = cluster()
        scale(world, 4)
        until(world, lambda: 4 not in world.kafkas.running, 80)
        world.kafka_up = False
        done: list[Any] = []
        for _ in range(5):
            done += world.reconcile().actions
            world.breathe()
        assert not [a for a in done if isinstance(a, UnregisterBroker | Delete)]
        world.kafka_up = True
        well(world, [0, 1, 2, 3])

    @pytest.mark.parametrize("death", [1, 3])
    def test_the_operator_may_die_at_any_point(self, death: int) -> None:
        world = cluster()
        scale(world, 3)
        for index in range(60):
            with contextlib.suppress(ConflictError):
                world.reconcile(stop_after=death if index % 2 else None)
            world.breathe()
        well(world, [0, 1, 2])


def test_an_accepted_loss_is_honoured_on_a_broker_that_is_scaled_in() -> None:
    """Its broker restarts without the disk, as the partition that was only there has no leader to move it from."""
    world = cluster(4)
    world.kafkas.min_isr = 1
    world.kafkas.create("single", 0, (3,), partial(_on, path_of("disk0")))
    world.factors["single", 0] = 1
    world.settle()
    world.disk(3, "disk0").state = "dead"
    until(world, lambda: condition(world, "DataAtRisk")["status"] == "True")
    scale(world, 3)
    for _ in range(20):
        world.reconcile()
        world.breathe()
    assert ids(world) == [0, 1, 2, 3]
    world.get("KafkaBroker", "demo-broker-3")["spec"]["acceptDataLoss"] = {
        "disks": [{"name": "disk0", "token": accept_text(world, "disk0")}]
    }
    world.given_up.add(("single", 0))
    until(world, lambda: ids(world) == [0, 1, 2], 120)
    state = world.kafkas.partitions["single", 0]
    assert state.leader in (0, 1, 2)
    assert world.broken == []


def test_no_broker_goes_while_it_is_not_known_which_throttles_it_has() -> None:
    """Kafka changes no setting of a broker that it has forgotten, so nobody could remove them later."""
    world = cluster(5)
    scale(world, 4)
    until(world, lambda: 4 not in holders(world))
    record = world.get("ConfigMap", "demo-moves")
    kept = dict(record["data"])
    record["data"] = {"x": "garbage"}
    for _ in range(40):
        with contextlib.suppress(ConflictError):
            world.reconcile()
        world.breathe()
    assert "JournalUnreadable" in reasons(world)
    assert ids(world) == [0, 1, 2, 3, 4]
    world.get("ConfigMap", "demo-moves")["data"] = kept
    until(world, lambda: ids(world) == [0, 1, 2, 3])
    assert not world.kafkas.settings.get(("broker", "4"))
