"""A log dir leaves its broker only when nothing came to stand on it after the last look (rules 5 and 15)."""

from collections.abc import Callable
from typing import Any

from spindle.api import names
from spindle.brokers.claim_annotations import noted
from spindle.model.actions import Action, Create, Evict
from spindle.model.dir_removal import unconfirmed
from spindle.model.times import stamp
from spindle.model.view import CORDONED
from tests.model.checked import Checked
from tests.model.kafka import Process, path_of

NEW = ("made-in-between", 0)
RECORDS = 3


def cluster(**spec: Any) -> Checked:
    """Six brokers with two disks each, and partitions of three replicas on both."""
    pool = {
        "name": "main",
        "replicas": 6,
        "disks": {"count": 2, "size": "100Gi", "storageClass": "local-disks"},
    }
    world = Checked.of("abcabc", brokerPools=[pool], **spec)
    world.settle(80)
    for p in range(6):
        replicas = tuple((p + i) % 6 for i in range(3))
        world.kafkas.create("orders", p, replicas, _always(path_of(f"disk{(p + 1) % 2}")))
    world.settle()
    return world


def _always(path: str) -> Callable[[int], str]:
    return lambda _: path


def drain(world: Checked) -> None:
    entry = {"name": "disk1", "desiredState": "Drained"}
    world.get("KafkaBroker", "demo-broker-0")["spec"]["maintenance"] = {"disks": [entry]}


def disk_of(world: Checked, disk: str = "disk1") -> dict[str, Any]:
    spec = world.get("KafkaBroker", "demo-broker-0")["spec"]
    return next(dict(d) for d in spec["disks"] if d["name"] == disk)


def state_of(world: Checked, disk: str = "disk1") -> str:
    status = world.get("KafkaBroker", "demo-broker-0")["status"]
    return str(next(d["state"] for d in status["disks"] if d["name"] == disk))


def before_the_stop(world: Checked, happens: Callable[[], None]) -> list[str]:
    """Have something happen once, just before broker 0's pod is evicted; returns a list that then has one entry."""
    done: list[str] = []
    act = world.act

    def watched(action: Action) -> None:
        if isinstance(action, Evict) and action.pod == "demo-broker-0" and not done:
            happens()
            done.append("happened")
        act(action)

    world.act = watched  # type: ignore[method-assign]
    return done


def make_topic(world: Checked) -> None:
    """One replica, on disk1 of broker 0, and three acknowledged records."""
    world.kafkas.create(*NEW, (0,), _always(path_of("disk1")))
    world.disk(0, "disk1").logs[NEW] = RECORDS
    world.kafkas.partitions[NEW].acked = RECORDS


def run(world: Checked, done: Callable[[], bool], passes: int = 60) -> None:
    for _ in range(passes):
        world.reconcile()
        world.breathe()
        if done():
            return
    raise AssertionError(f"not done after {passes} passes: {world.cluster['status']['waiting']}")


def test_a_topic_made_between_the_last_look_and_the_stop_is_kept_and_moved() -> None:
    world = cluster()
    drain(world)
    happened = before_the_stop(world, lambda: make_topic(world))

    run(world, lambda: bool(happened) and state_of(world) == "Drained", 120)

    assert world.kafkas.losses == []
    assert world.broken == []
    (broker,) = world.kafkas.partitions[NEW].replicas
    held = world.kafkas.log(NEW, broker)
    assert held is not None
    assert held[1] >= RECORDS


def test_a_dir_that_leaves_is_cordoned_until_the_stop_and_no_cordon_is_left() -> None:
    world = cluster()
    drain(world)
    cordons: list[str | None] = []

    def note() -> None:
        cordons.append(world.kafkas.settings.get(("broker", "0"), {}).get(CORDONED))

    before_the_stop(world, note)

    run(world, lambda: bool(cordons) and state_of(world) == "Drained", 120)
    world.settle()

    assert cordons == [path_of("disk1")]
    assert not world.kafkas.settings.get(("broker", "0"))
    assert '"cordoned' not in world.get("ConfigMap", "demo-moves")["data"]["journal"]


def test_in_the_ordinary_case_kafka_starts_once() -> None:
    world = cluster()
    started: list[tuple[str, ...]] = []
    start = world.kafkas.start

    def watched(process: Process, *, clean: bool) -> None:
        if process.broker == 0:
            started.append(tuple(sorted(process.dirs)))
        start(process, clean=clean)

    world.kafkas.start = watched  # type: ignore[method-assign]
    drain(world)

    run(world, lambda: state_of(world) == "Drained", 120)

    assert started == [(path_of("disk0"),)]
    spec = world.get("KafkaBroker", "demo-broker-0")["spec"]
    assert [d["name"] for d in spec["logDirs"]["dirs"]] == ["disk0"]
    assert world.broken == []


def test_a_claim_is_not_called_out_of_use_before_that_is_seen() -> None:
    world = cluster()
    drain(world)
    run(world, lambda: disk_of(world)["mode"] == "Absent")
    world.get("KafkaBroker", "demo-broker-0")["spec"].setdefault("maintenance", {})["disks"] = []
    broker = world.get("KafkaBroker", "demo-broker-0")

    assert unconfirmed(broker) == {"disk1"}
    for claim in ("data-disk0-demo-0", "data-disk1-demo-0"):
        assert noted(broker, disk_of(world, claim.split("-")[1])).get(names.ANN_SLOT) is None


def test_a_disk_that_cannot_be_looked_at_is_left_out_by_a_placeholder_and_its_records_come_back() -> None:
    world = cluster()
    drain(world)

    def topic_then_dead() -> None:
        make_topic(world)
        world.disk(0, "disk1").state = "dead"

    happened = before_the_stop(world, topic_then_dead)
    run(
        world,
        lambda: bool(happened) and 0 in world.kafkas.running and disk_of(world)["mode"] == "Placeholder",
    )
    assert path_of("disk1") in world.kafkas.running[0].offline
    world.disk(0, "disk1").state = "well"

    run(world, lambda: state_of(world) == "Drained", 200)

    assert world.kafkas.losses == []
    (broker,) = world.kafkas.partitions[NEW].replicas
    held = world.kafkas.log(NEW, broker)
    assert held is not None
    assert held[1] >= RECORDS


def test_a_disk_that_dies_before_its_broker_stops_costs_no_pod_that_is_recreated_at_once() -> None:
    world = cluster()
    drain(world)
    made: list[str] = []

    def dead_from_now_on() -> None:
        world.disk(0, "disk1").state = "dead"
        act = world.act

        def watched(action: Action) -> None:
            if isinstance(action, Create) and action.object["metadata"]["name"] == "demo-broker-0":
                made.append(disk_of(world)["mode"])
            act(action)

        world.act = watched  # type: ignore[method-assign]

    happened = before_the_stop(world, dead_from_now_on)

    run(world, lambda: bool(happened) and made[-1:] == ["Absent"] and 0 in world.kafkas.running, 120)

    # With a placeholder until Kafka has said that no replica is missing, then without the disk.
    assert made == ["Placeholder", "Absent"]
    assert world.kafkas.losses == []
    assert world.broken == []


def test_a_folder_that_is_nobodys_any_more_keeps_its_disk_for_one_start_at_most() -> None:
    """Its topic was deleted while the broker stopped: the look counts the folder, and Kafka sets it aside at its start."""
    world = cluster()
    drain(world)
    leftover = ("deleted-meanwhile", 0)

    def leave_behind() -> None:
        world.disk(0, "disk1").logs[leftover] = RECORDS

    happened = before_the_stop(world, leave_behind)
    told: list[str] = []
    for _ in range(120):
        told += [event.reason for event in world.reconcile().events]
        world.breathe()
        if happened and state_of(world) == "Drained":
            break

    assert told.count("DiskRemovalCancelled") == 1
    assert state_of(world) == "Drained"
    assert disk_of(world)["mode"] == "Absent"
    assert world.broken == []


def evict_slowly(world: Checked, restarts: int = 0) -> None:
    """Run until broker 0's pod is evicted; the pod still exists then, while its kubelet stops Kafka."""
    act = world.act
    ending: list[str] = []

    def watched(action: Action) -> None:
        mine = isinstance(action, Evict) and action.pod == "demo-broker-0"
        pod = world.get("Pod", "demo-broker-0") if mine else {}
        act(action)
        if mine:
            pod["metadata"]["deletionTimestamp"] = stamp(world.now)
            for status in pod["status"]["containerStatuses"]:
                status["restartCount"] = restarts
            world.put(pod)
            ending.append("now")

    world.act = watched  # type: ignore[method-assign]
    for _ in range(60):
        world.reconcile()
        if ending:
            world.act = act  # type: ignore[method-assign]
            return
        world.breathe()
    raise AssertionError("not evicted")


def drops_its_dead_disk() -> Checked:
    """Three brokers, so that the replicas of a dead disk of broker 0 are dropped, and Kafka has it offline."""
    pool = {
        "name": "main",
        "replicas": 3,
        "disks": {"count": 2, "size": "100Gi", "storageClass": "local-disks"},
    }
    world = Checked.of("abc", brokerPools=[pool])
    world.settle(80)
    for p in range(6):
        replicas = tuple((p + i) % 3 for i in range(3))
        world.kafkas.create("orders", p, replicas, _always(path_of(f"disk{p % 2}")))
    world.settle()
    world.disk(0, "disk1").state = "dead"
    return world


def listed(world: Checked) -> list[str]:
    dirs = world.get("KafkaBroker", "demo-broker-0")["spec"]["logDirs"]["dirs"]
    return [each["name"] for each in dirs]


def test_a_dead_disk_that_kafka_had_offline_stays_out_while_its_pod_ends() -> None:
    world = drops_its_dead_disk()
    evict_slowly(world)
    assert listed(world) == ["disk0"]

    world.reconcile()
    assert listed(world) == ["disk0"], "its broker does not answer any more, and had it offline to its end"

    # A new mount repairs the file system: it can be read, with the replicas that Kafka has dropped since.
    world.disk(0, "disk1").state = "well"
    told: list[str] = []
    for _ in range(60):
        told += [event.reason for event in world.reconcile().events]
        world.breathe()
    assert not {"DiskRemovalCancelled", "DiskNotObserved"} & set(told)
    assert disk_of(world)["mode"] == "Absent"
    assert state_of(world) == "Evacuated"
    assert world.broken == []
    assert world.kafkas.losses == []


def test_where_kafka_was_restarted_in_that_pod_the_disk_is_looked_at() -> None:
    world = drops_its_dead_disk()
    evict_slowly(world, restarts=1)

    world.reconcile()

    assert listed(world) == ["disk0", "disk1"], "Kafka may have found it well at its restart"


def test_the_record_of_a_disk_whose_claim_was_deleted_goes_without_waiting_for_another_change() -> None:
    world = drops_its_dead_disk()
    run(world, lambda: state_of(world) == "Evacuated")
    world.settle(40)
    del world.objects["PersistentVolumeClaim", disk_of(world)["claim"]]

    plan = world.reconcile()

    assert state_of(world) == "Removed"
    assert not plan.settled, "nothing wakes the operator, and the next pass has something to do"
