"""What becomes of a broker whose node is gone for good, over whole passes on the model cluster."""

import contextlib

import pytest

from spindle.api import names
from spindle.model.node_loss import OUT_OF_SERVICE
from tests.model.failing import Failing
from tests.model.store import ConflictError
from tests.unit.test_healing_plan import cluster, condition, reasons, state_of, until, whole


def node_of(world: Failing, broker: int) -> str:
    return str(world.get("KafkaBroker", names.broker_name("demo", broker))["spec"].get("node"))


def power_off(world: Failing, broker: int) -> str:
    """The kubelet is gone with the process, so the pod looks as it did; returns the node."""
    name = node_of(world, broker)
    world._end(world.get("Pod", names.broker_name("demo", broker))["metadata"]["uid"], clean=False)
    world.silent.add(name)
    world.get("Node", name)["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    return name


def taint(world: Failing, node: str, *, gone: bool = True) -> None:
    world.get("Node", node)["spec"]["taints"] = (
        [{"key": OUT_OF_SERVICE, "effect": "NoExecute"}] if gone else []
    )


def agree(world: Failing, broker: int, node: str) -> None:
    world.get("KafkaBroker", names.broker_name("demo", broker))["spec"].setdefault("acceptDataLoss", {})[
        "node"
    ] = node


def claims(world: Failing, broker: int) -> dict[str, str]:
    """Claim → volume."""
    return {
        name: str(claim["spec"].get("volumeName"))
        for (kind, name), claim in world.objects.items()
        if kind == "PersistentVolumeClaim" and name.endswith(f"-demo-{broker}")
    }


def passes(world: Failing, count: int = 30) -> None:
    for _ in range(count):
        with contextlib.suppress(ConflictError):
            world.reconcile()
        world.breathe()


def lose(world: Failing, broker: int, *, deleted: bool = False) -> str:
    node = power_off(world, broker)
    if deleted:
        del world.objects["Node", node]
    else:
        taint(world, node)
    agree(world, broker, node)
    return node


def test_silence_alone_is_no_evidence_however_long() -> None:
    world = cluster(3)
    world.cluster["spec"]["disks"] = {"nodeGoneAfterSeconds": 0}
    world.add_node("spare", "zone-a", 3)
    node, before = power_off(world, 0), claims(world, 0)
    agree(world, 0, node)
    passes(world, 60)
    assert "NodeNotReady" in reasons(world)
    assert OUT_OF_SERVICE in str(world.cluster["status"]["waiting"])
    assert claims(world, 0) == before
    assert all(len(s.replicas) == 3 for s in world.kafkas.partitions.values())


@pytest.mark.parametrize("deleted", [False, True])
def test_evidence_alone_gives_nothing_up(*, deleted: bool) -> None:
    world = cluster(6)
    lose(world, 0, deleted=deleted)
    agree(world, 0, "another")
    before = claims(world, 0)
    passes(world)
    assert "NodeLost" in reasons(world)
    assert claims(world, 0) == before
    assert all(0 in s.replicas for key, s in world.kafkas.partitions.items() if key[1] in (0, 4, 5))


def test_a_node_that_answers_is_not_gone() -> None:
    world = cluster(6)
    node = node_of(world, 0)
    taint(world, node)
    agree(world, 0, node)
    passes(world, 5)
    assert "NodeStillReachable" in reasons(world)
    assert world.kafkas.running.keys() == set(range(6))


@pytest.mark.parametrize("deleted", [False, True])
def test_its_replicas_go_to_others_and_it_starts_anew_when_there_is_room(*, deleted: bool) -> None:
    world = cluster(6)
    before = claims(world, 0)
    lose(world, 0, deleted=deleted)
    until(
        world, lambda: all(len(s.isr) == 3 and 0 not in s.replicas for s in world.kafkas.partitions.values())
    )
    passes(world)
    assert claims(world, 0) == before, "no node has room, so the old one may as well come back"
    assert state_of(world, 0, "disk0") == "Evacuating"
    world.add_node("spare", "zone-a", 3)
    until(world, lambda: node_of(world, 0) == "spare" and 0 in world.kafkas.running, 90)
    until(world, lambda: state_of(world, 0, "disk0") == state_of(world, 0, "disk1") == "Active", 90)
    whole(world)
    assert not set(claims(world, 0).values()) & set(before.values())
    assert {world.get("PersistentVolume", v)["status"]["phase"] for v in before.values()} == {"Released"}
    assert not world.destroyed


def test_with_three_brokers_its_replicas_leave_and_come_back_on_another_node() -> None:
    world = cluster(3)
    assigned = {key: s.replicas for key, s in world.kafkas.partitions.items()}
    lose(world, 0)
    passes(world)
    assert {key: s.replicas for key, s in world.kafkas.partitions.items()} == assigned, "there is no room yet"
    world.add_node("spare", "zone-a", 3)
    until(world, lambda: all(0 not in s.replicas for s in world.kafkas.partitions.values()))
    until(world, lambda: all(len(s.isr) == 3 for s in world.kafkas.partitions.values()), 90)
    whole(world)
    assert node_of(world, 0) == "spare"
    assert {key: sorted(s.replicas) for key, s in world.kafkas.partitions.items()} == {
        key: sorted(replicas) for key, replicas in assigned.items()
    }
    assert len(world.get("KafkaBroker", "demo-broker-0")["spec"]["retired"]) == 2


def test_a_time_that_was_set_stands_for_a_person() -> None:
    world = cluster(6)
    world.cluster["spec"]["disks"] = {"nodeGoneAfterSeconds": 120}
    node = power_off(world, 0)
    taint(world, node)
    began, before = world.now, {key: s.replicas for key, s in world.kafkas.partitions.items()}
    until(world, lambda: {key: s.replicas for key, s in world.kafkas.partitions.items()} != before)
    assert world.now - began >= 120
    until(world, lambda: all(0 not in s.replicas for s in world.kafkas.partitions.values()))


def test_it_comes_back_with_its_disks_as_long_as_they_were_not_given_up() -> None:
    world = cluster(6)
    node = lose(world, 0)
    until(world, lambda: all(0 not in s.replicas for s in world.kafkas.partitions.values()))
    before = claims(world, 0)
    taint(world, node, gone=False)
    world.get("Node", node)["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    world.silent.discard(node)
    until(world, lambda: 0 in world.kafkas.running)
    whole(world)
    assert claims(world, 0) == before
    assert not world.get("KafkaBroker", "demo-broker-0")["spec"].get("retired")


def test_a_last_copy_holds_everything_back() -> None:
    world = cluster(3)
    world.add_node("spare", "zone-a", 3)
    world.kafkas.create("single", 0, (0,), lambda _: "/var/lib/kafka/disks/disk0/log")
    world.settle()
    before = claims(world, 0)
    lose(world, 0)
    passes(world, 40)
    assert condition(world, "DataAtRisk")["status"] == "True"
    assert "single-0" in condition(world, "DataAtRisk")["message"]
    assert claims(world, 0) == before


def test_a_zone_that_is_lost_for_good() -> None:
    world = cluster(6)
    for broker in (0, 3):
        lose(world, broker)
    until(
        world,
        lambda: all(
            len(s.isr) == 3 and not {0, 3} & set(s.replicas) for s in world.kafkas.partitions.values()
        ),
        120,
    )
    racks = world.kafkas.racks
    assert all(len({racks[b] for b in s.replicas}) == 2 for s in world.kafkas.partitions.values())
    assert not world.kafkas.losses


def test_two_that_are_gone_do_not_count_on_the_same_place() -> None:
    world = cluster(6)
    before = {broker: claims(world, broker) for broker in (0, 3)}
    for broker in (0, 3):
        lose(world, broker)
    passes(world, 60)
    world.add_node("spare", "zone-a", 3)
    until(world, lambda: 0 in world.kafkas.running, 90)
    passes(world)
    assert claims(world, 3) == before[3], "nobody has room for it"
    world.add_node("other", "zone-a", 3)
    until(world, lambda: 3 in world.kafkas.running, 90)
    whole(world)


@pytest.mark.parametrize("seed", range(12))
def test_an_operator_that_dies_anywhere_is_followed_by_one_that_goes_on(seed: int) -> None:
    world = cluster(3)
    lose(world, 0)
    world.add_node("spare", "zone-a", 3)
    for count in range(70):
        with contextlib.suppress(ConflictError):
            world.reconcile(stop_after=(seed + count) % 4 if (seed + count) % 3 else None)
        world.breathe()
    until(world, lambda: 0 in world.kafkas.running, 60)
    whole(world)
    assert not world.destroyed


@pytest.mark.parametrize("local", [True, False])
def test_what_a_lost_node_takes_along_depends_on_the_volumes(local: bool) -> None:
    world = cluster(3)
    if not local:
        for volume in world.all("PersistentVolume"):
            volume["spec"].pop("nodeAffinity", None)
            world.put(volume)
    power_off(world, 0)
    passes(world, 1)
    waits = world.cluster["status"]["waiting"]
    told = next(each for each in waits if each["reason"] == "NodeNotReady" and "broker-0" in each["object"])
    assert ("and has its disks" in told["message"]) is local
    assert ("starts on another node with its volumes" in told["unblockedBy"]) is not local
    assert OUT_OF_SERVICE in told["unblockedBy"]
