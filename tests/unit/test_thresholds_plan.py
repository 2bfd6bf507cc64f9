"""What becomes of disks that fill, over whole passes on the model cluster."""

import contextlib
from typing import Any

from spindle.model.actions import Evict, TrimPartitions
from spindle.model.requests import RestartRequest
from spindle.model.view import CORDONED, DEFAULT_USERS, MAX_MESSAGE_BYTES, PRODUCER_RATE, RETENTION_MS
from spindle.moves.journal import DroppedReplica, Journal
from spindle.reconcile.healing import restore_pending
from tests.model.failing import Failing
from tests.model.kafka import CAPACITY, path_of
from tests.model.store import ConflictError
from tests.unit.test_healing_plan import condition, give_word, reasons, until

ALL = {"reduceRetention": True, "deleteRecords": True, "throttleProducers": True, "blockProducers": True}


def cluster(brokers: int = 3, *, volumes: int = 2, **disks: Any) -> Failing:
    """Brokers on three zones with two disks each, on nodes with so many volumes."""
    pool = {
        "name": "main",
        "replicas": brokers,
        "disks": {"count": 2, "size": "100Gi", "storageClass": "local-disks"},
    }
    world = Failing.of("abc" * ((brokers + 2) // 3), disks=volumes, brokerPools=[pool])
    world.cluster["spec"]["disks"] = disks
    world.settle(80)
    return world


def topic(world: Failing, name: str, disk: str, size: int, replicas: tuple[int, ...] = (0, 1, 2)) -> None:
    world.kafkas.create(name, 0, replicas, lambda _: path_of(disk))
    world.kafkas.sizes[name] = size


def fill_of(world: Failing, broker: int, disk: str) -> dict[str, Any]:
    status = world.get("KafkaBroker", f"demo-broker-{broker}")["status"]
    found = next(d for d in status["disks"] if d["name"] == disk)
    return dict(found["usage"], state=found["state"])


def level(world: Failing, broker: int, disk: str) -> str:
    return str(fill_of(world, broker, disk)["level"])


def used(world: Failing, broker: int, disk: str) -> int:
    volume = world.disk(broker, disk)
    return volume.others + sum(world.kafkas.sizes.get(key[0], 100) for key in volume.logs)


def told(world: Failing) -> dict[str, Any]:
    """The entry about brokers that wait for each other; empty if there is none."""
    found = (w for w in world.cluster["status"]["waiting"] if w["reason"] == "RestartDeadlock")
    return next(found, {})


def full_number(world: Failing) -> bool:
    return all(len(s.isr) == 3 for s in world.kafkas.partitions.values())


def untouched(world: Failing) -> bool:
    """Whether no setting of Kafka's is other than before."""
    return all(not values for values in world.kafkas.settings.values())


def test_one_full_disk_is_relieved_and_no_cordon_is_left() -> None:
    world = cluster()
    for n in range(9):
        topic(world, f"t{n}", "disk0", 960)  # 86 %
    until(world, lambda: all(used(world, broker, "disk0") < 0.75 * CAPACITY for broker in range(3)), 80)
    for broker in range(3):
        assert used(world, broker, "disk0") < 0.75 * CAPACITY
        assert used(world, broker, "disk1") < 0.80 * CAPACITY
    until(world, lambda: fill_of(world, 0, "disk0")["state"] == "Active")
    world.settle(40)
    assert fill_of(world, 0, "disk0")["state"] == "Active"
    assert condition(world, "DiskPressure")["reason"] in ("BelowThresholds", "Warn")
    assert untouched(world)


def test_the_cordon_stands_while_the_disk_is_full() -> None:
    world = cluster()
    world.disk(0, "disk0").others = 8700
    until(world, lambda: ("broker", "0") in world.kafkas.settings)
    assert world.kafkas.settings["broker", "0"] == {CORDONED: path_of("disk0")}
    assert fill_of(world, 0, "disk0")["reason"] == "UsedPercent"
    assert condition(world, "DiskPressure")["reason"] == "Cordon"
    world.disk(0, "disk0").others = 8200
    for _ in range(5):
        world.reconcile()
        world.breathe()
    assert fill_of(world, 0, "disk0")["reason"] == "NotReleased"
    assert world.kafkas.settings["broker", "0"] == {CORDONED: path_of("disk0")}
    world.disk(0, "disk0").others = 100
    until(world, lambda: level(world, 0, "disk0") == "Normal")
    world.settle(40)
    assert untouched(world)


def test_a_broker_that_is_full_as_a_whole_gives_to_others() -> None:
    world = cluster(6)
    for n in range(9):
        topic(world, f"a{n}", "disk0", 900, (0, 1, 2))
        topic(world, f"b{n}", "disk1", 900, (0, 1, 2))
    until(
        world,
        lambda: all(level(world, b, d) in ("Normal", "Warn") for b in range(6) for d in ("disk0", "disk1")),
        120,
    )
    assert any(set(state.replicas) & {3, 4, 5} for state in world.kafkas.partitions.values())
    assert all(len(state.replicas) == 3 for state in world.kafkas.partitions.values())
    assert world.kafkas.losses == []


def test_no_more_leaves_a_broker_than_it_takes() -> None:
    world = cluster(6)
    for n in range(17):
        topic(world, f"t{n}", "disk0", 500, (0, 1, 2))  # 85 %
    until(world, lambda: all(level(world, b, "disk0") == "Warn" for b in range(3)), 120)
    world.settle(80)
    for broker in range(3):
        # Kafka deletes a minute after a move has landed: until then the disk looks as full as before.
        assert used(world, broker, "disk0") >= 0.75 * CAPACITY - 2 * 500


def test_thresholds_of_a_pool_and_bytes_free_count() -> None:
    world = cluster(thresholds={"free": {"warn": "5000"}})
    world.disk(0, "disk0").others = 5100
    world.disk(1, "disk0").others = 4900
    until(world, lambda: level(world, 0, "disk0") == "Warn")
    assert fill_of(world, 0, "disk0")["reason"] == "BytesFree"
    assert level(world, 1, "disk0") == "Normal"
    world.cluster["spec"]["brokerPools"][0]["disks"]["thresholds"] = {"warn": 45}
    until(world, lambda: level(world, 1, "disk0") == "Warn")
    handed = world.get("KafkaBroker", "demo-broker-1")["spec"]["thresholds"]
    assert handed["warn"] == 45


def full_cluster(share: int, **disks: Any) -> Failing:
    """Every disk as full as that, of two topics with all replicas everywhere, so that nothing can move."""
    world = cluster(**disks)
    for disk in ("disk0", "disk1"):
        topic(world, f"big-{disk}", disk, share * CAPACITY // 100 - 200)
        topic(world, f"small-{disk}", disk, 200)
    return world


def test_where_nothing_helps_a_person_is_told_and_nothing_is_touched() -> None:
    world = full_cluster(88)
    until(world, lambda: "InsufficientSpace" in reasons(world))
    for _ in range(10):
        world.reconcile()
        world.breathe()
    assert all(set(values) <= {CORDONED} for values in world.kafkas.settings.values())
    assert all(len(state.replicas) == 3 for state in world.kafkas.partitions.values())


def test_a_replica_is_shed_and_comes_back() -> None:
    world = full_cluster(92)
    plans = until(world, lambda: any(len(s.replicas) == 2 for s in world.kafkas.partitions.values()))
    assert "ReplicasDropped" in {getattr(a, "reason", "") for made in plans for a in made.actions}
    assert all(len(s.replicas) >= 2 for s in world.kafkas.partitions.values())
    for name in list(world.kafkas.sizes):
        world.kafkas.sizes[name] //= 4
    until(world, lambda: all(len(s.isr) == 3 for s in world.kafkas.partitions.values()), 80)
    world.settle(60)
    assert untouched(world)
    assert world.kafkas.losses == []


def test_the_last_resorts_one_after_the_other_and_back_byte_for_byte() -> None:
    world = full_cluster(96, lastResortActions=ALL)
    mine = {"retention.ms": "1000000", "max.message.bytes": "5000"}
    world.kafkas.configure("topic", "big-disk0", dict(mine))
    world.kafkas.min_isr = 3  # so that nothing can be shed
    plans = until(
        world,
        lambda: (
            world.kafkas.settings["topic", "big-disk0"].get(MAX_MESSAGE_BYTES) == "100"
            and PRODUCER_RATE in world.kafkas.settings.get(DEFAULT_USERS, {})
        ),
    )
    assert world.kafkas.settings["topic", "big-disk0"][RETENTION_MS] == "500000"
    assert {
        "ProducersBlocked",
        "RetentionReduced",
        "ProducersThrottled",
        "InsufficientInSyncReplicas",
    } <= reasons(world)
    for _ in range(6):
        plans.append(world.reconcile())
        world.breathe()
    assert world.kafkas.settings["topic", "big-disk0"][RETENTION_MS] == "500000", (
        "halved once, not again and again"
    )
    trims = [a for made in plans for a in made.actions if isinstance(a, TrimPartitions)]
    assert trims
    for name in list(world.kafkas.sizes):
        world.kafkas.sizes[name] //= 4
    until(world, lambda: untouched_but(world, mine), 80)
    assert not reasons(world) & {"ProducersBlocked", "RetentionReduced", "ProducersThrottled"}


def untouched_but(world: Failing, mine: dict[str, str]) -> bool:
    left = {key: values for key, values in world.kafkas.settings.items() if values}
    return left == {("topic", "big-disk0"): mine}


def test_what_a_user_sets_meanwhile_stays() -> None:
    world = full_cluster(96, lastResortActions={"blockProducers": True})
    until(
        world, lambda: world.kafkas.settings.get(("topic", "big-disk0"), {}).get(MAX_MESSAGE_BYTES) == "100"
    )
    world.kafkas.configure("topic", "big-disk0", {MAX_MESSAGE_BYTES: "7777"})
    for _ in range(6):
        world.reconcile()
        world.breathe()
    assert world.kafkas.settings["topic", "big-disk0"][MAX_MESSAGE_BYTES] == "7777"
    for name in list(world.kafkas.sizes):
        world.kafkas.sizes[name] //= 4
    until(world, lambda: untouched_but(world, {MAX_MESSAGE_BYTES: "7777"}), 80)


def test_a_disk_that_others_fill_takes_no_moves_and_loses_replicas() -> None:
    world = cluster(6)
    for n in range(4):
        topic(world, f"t{n}", "disk0", 300, (0, 1, 2))
    world.disk(0, "disk0").others = 8450
    until(world, lambda: not world.disk(0, "disk0").logs, 80)
    assert all(len(state.replicas) == 3 for state in world.kafkas.partitions.values())
    until(world, lambda: level(world, 0, "disk0") == "Cordon")


def test_no_move_goes_above_what_a_pool_refuses() -> None:
    world = cluster(thresholds={"free": {"rejectMoves": "7000"}})
    for n in range(9):
        topic(world, f"t{n}", "disk0", 960)
    for _ in range(8):
        world.reconcile()
        world.breathe()
    assert all(used(world, broker, "disk1") <= 0.3 * CAPACITY for broker in range(3))


def test_the_forecast_warns_and_moves_before_the_level_is_reached() -> None:
    world = cluster()
    for n in range(8):
        topic(world, f"t{n}", "disk0", 900)  # 72 %
    world.forecasts[0, "disk0"] = 12 * 3600.0
    world.forecasts[1, "disk1"] = 600.0  # nothing is on it: what comes is only expected
    until(world, lambda: fill_of(world, 1, "disk1")["reason"] == "Forecast")
    assert level(world, 0, "disk0") == level(world, 1, "disk1") == "Warn"
    before = used(world, 0, "disk0")
    world.forecasts[0, "disk0"] = 1800.0
    until(world, lambda: used(world, 0, "disk0") < before)
    world.forecasts.clear()
    until(world, lambda: level(world, 1, "disk1") == "Normal")


def test_a_disk_that_is_added_makes_room_for_what_was_shed() -> None:
    world = cluster(volumes=3)
    for n in range(8):
        topic(world, f"t{n}", f"disk{n % 2}", 2300)  # 92 %
    until(world, lambda: any(len(s.replicas) == 2 for s in world.kafkas.partitions.values()))
    world.cluster["spec"]["config"] = {"queued.max.requests": "400"}  # read at a start only
    until(world, lambda: "ReplicaRestorePending" in reasons(world))
    world.cluster["spec"]["brokerPools"][0]["disks"]["count"] = 3
    # Each broker has given up a replica of what two others have left, and is needed for what another one gave up.
    until(world, lambda: bool(told(world)), 100)
    words = 0
    while not full_number(world):
        give_word(world, told(world)["unblockedBy"])
        words += 1
        until(world, lambda: not told(world))  # nobody is named while one that others need is on its way back
        until(world, lambda: full_number(world) or bool(told(world)), 200)
    assert words == 2  # the third can be spared then
    assert world.kafkas.losses == []


def test_who_gave_a_replica_up_takes_its_new_disk_up_before_those_that_its_partition_needs() -> None:
    world = cluster(volumes=3)
    for n in range(8):
        topic(world, f"t{n}", f"disk{n % 2}", 1500)  # 60 %
    for disk in ("disk0", "disk1"):
        world.disk(2, disk).others = int(0.32 * CAPACITY)  # 92 % of these, and nothing can go elsewhere
    until(world, lambda: any(len(s.replicas) == 2 for s in world.kafkas.partitions.values()))
    assert all({0, 1} <= set(s.replicas) for s in world.kafkas.partitions.values())
    world.cluster["spec"]["brokerPools"][0]["disks"]["count"] = 3
    gone: list[str] = []
    for _ in range(200):
        short = not full_number(world)
        with contextlib.suppress(ConflictError):
            evicted = [a.pod for a in world.reconcile().actions if isinstance(a, Evict)]
            assert not short or set(evicted) <= {"demo-broker-2"}
            gone += evicted
        world.breathe()
    assert gone[0] == "demo-broker-2"
    assert set(gone) == {f"demo-broker-{broker}" for broker in range(3)}
    assert full_number(world)


def test_only_a_disk_that_is_added_goes_before_what_was_shed() -> None:
    dead, shed = DroppedReplica("d", 0, 1, 10, (1, 2)), DroppedReplica("s", 0, 1, 10, (1, 2), "shed")
    wanted = {
        0: RestartRequest("DisksAdded", ""),
        1: RestartRequest("SpecChanged", ""),
        2: RestartRequest("DiskReturned", ""),
    }
    assert set(restore_pending(Journal(dropped=(shed,)), {}, wanted)) == {1}
    assert set(restore_pending(Journal(dropped=(shed, dead)), {}, wanted)) == {0, 1}
    assert not restore_pending(Journal(), {}, wanted)
