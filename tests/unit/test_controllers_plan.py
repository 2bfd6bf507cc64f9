"""Whole passes over a model cluster whose controllers become more, fewer, or others."""

import json
from typing import Any

import pytest

from spindle.api import names
from spindle.model.actions import Delete, RemoveVoter
from spindle.model.times import stamp
from tests.model.quorate import QuorateWorld

A, B, C, D, E = 9000, 9001, 9002, 9003, 9004


def running(controllers: int = 3, zones: str = "abcab") -> QuorateWorld:
    storage = {"size": "1Gi", "storageClass": "local-disks"}
    spec: dict[str, Any] = {"controllers": {"replicas": controllers, "storage": storage}}
    world = QuorateWorld.of(zones, disks=6, **spec)
    world.settle()
    return world


def want(world: QuorateWorld, controllers: int) -> None:
    world.cluster["spec"]["controllers"]["replicas"] = controllers


def reasons(world: QuorateWorld) -> set[str]:
    return {wait["reason"] for wait in world.cluster["status"]["waiting"]}


def record(world: QuorateWorld) -> dict[str, Any]:
    data: dict[str, Any] = world.get("ConfigMap", "demo-identity")["data"]
    return data


def bootstrap(world: QuorateWorld, node_id: int) -> str:
    properties = world.get("ConfigMap", names.config_map("demo", node_id))["data"]["server.properties"]
    (line,) = [x for x in properties.splitlines() if x.startswith("controller.quorum.bootstrap.servers=")]
    return str(line.partition("=")[2])


def hosts(*indexes: int) -> str:
    return ",".join(f"demo-controller-{i}.demo-controllers.kafka.svc:9090" for i in indexes)


def test_one_controller_becomes_three() -> None:
    world = running(1)
    formats = len(world.formats)
    want(world, 3)
    world.settle(120)
    assert world.changes == [f"+{B}", f"+{C}"]
    assert world.healthy(A, B, C)
    assert len(world.formats) == formats + 2
    assert not world.cluster["status"]["waiting"]
    assert world.cluster["status"]["quorum"] == {
        "leader": world.leader,
        "voters": [{"id": i, "directoryId": world.voters[i], "caughtUp": True, "lag": 0} for i in (A, B, C)],
        "observers": [],
    }


@pytest.mark.parametrize(("born", "wanted"), [(1, 3), (3, 5), (3, 1)])
def test_nobody_restarts_for_another_number_of_controllers(born: int, wanted: int) -> None:
    world = running(born)
    uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in world.all("Pod")}
    want(world, wanted)
    world.settle(150)
    assert world.healthy(*(A, B, C, D, E)[:wanted])
    now = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in world.all("Pod")}
    assert all(now[name] == uid for name, uid in uids.items() if name in now)
    assert uids.keys() - now.keys() == {names.pod_name("demo", i) for i in (A, B, C)[wanted:born]}


def test_every_node_names_whoever_may_become_a_controller() -> None:
    """A broker finds a leader that it has not known by these names alone."""
    world = running(1)
    for node in (0, 1, 2, A):
        assert bootstrap(world, node) == hosts(0, 1, 2, 3, 4)


def test_three_become_five_and_one_again_and_the_claims_of_those_that_left_stay() -> None:
    world = running(3)
    want(world, 5)
    world.settle(150)
    assert world.healthy(A, B, C, D, E)
    world.leader = E
    want(world, 1)
    world.settle(200)
    assert world.changes == [f"+{D}", f"+{E}", f"-{D}", f"-{C}", f"-{B}", f"-{E}"]
    assert world.healthy(A)
    assert world.running("controller") == [A]
    claims = [c["metadata"]["name"] for c in world.all("PersistentVolumeClaim")]
    assert len([name for name in claims if name.startswith("data-metadata-")]) == 5
    left = [n for k, n in world.objects if k in ("ConfigMap", "Secret") and n.startswith("demo-controller-")]
    assert sorted(left) == ["demo-controller-0-config", "demo-controller-0-tls"]


def test_who_left_comes_back_with_its_own_disk() -> None:
    world = running(3)
    before = dict(world.voters)
    want(world, 1)
    world.settle(120)
    formats = list(world.formats)
    want(world, 3)
    world.settle(120)
    assert world.voters == before
    assert world.formats == formats


def test_a_controller_with_a_blank_disk_is_replaced() -> None:
    world = running(3)
    old = world.voters[C]
    born = record(world)["voters"]
    world.blank(C)
    world.settle(80)
    assert world.changes == [f"-{C}", f"+{C}"]
    assert world.healthy(A, B, C)
    assert world.voters[C] != old
    # The list of the birth stays, so nobody founds the cluster a second time; and nobody restarts for it.
    assert record(world)["voters"] == born
    assert json.loads(record(world)["clearances"]).keys() >= {old, world.voters[C]}
    assert not world.cluster["status"]["waiting"]


def test_a_controller_whose_node_was_deleted_is_made_on_another_one() -> None:
    world = running(3)
    old, volume = world.voters[C], world.volume_of(C)
    world.lose_node(C)
    for _ in range(80):
        world.reconcile()
        world.breathe()
    assert set(world.voters) == {A, B, C}
    assert world.voters[C] != old
    assert world.volume_of(C) != volume
    assert world.get("PersistentVolume", volume)["status"]["phase"] == "Released"


def test_whose_node_another_controller_has_by_now_begins_anew_on_another_one() -> None:
    world = running(5)
    want(world, 3)
    world.settle(150)
    volume, old = world.volume_of(D), world.formatted[world.volume_of(D)]["id"]
    host = world.node_of(D)
    world.move_disk(C, host)
    want(world, 5)
    world.settle(250)
    assert world.healthy(A, B, C, D, E)
    assert world.volume_of(D) != volume
    assert world.node_of(D) != host
    assert world.voters[D] != old
    # Nothing of what was on it is destroyed.
    assert world.get("PersistentVolume", volume)["status"]["phase"] == "Released"
    assert not world.cluster["status"]["waiting"]


def test_nobody_is_put_where_the_disk_of_another_controller_is() -> None:
    """It may be down only for a moment, and can go nowhere else."""
    world = running(3)
    taken = {world.node_of(i) for i in (A, B, C)}
    want(world, 5)
    for _ in range(10):
        world.end(C)
        world.reconcile()
    assert set(avoided_by(world, D)) == set(avoided_by(world, E)) == taken
    world.settle(150)
    assert world.node_of(C) in taken
    assert world.healthy(A, B, C, D, E)


def avoided_by(world: QuorateWorld, node_id: int) -> list[str]:
    pod = world.get("Pod", names.pod_name("demo", node_id))
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    return [v for part in term["matchExpressions"] if part["operator"] == "NotIn" for v in part["values"]]


def test_a_node_that_is_only_away_costs_nobody_the_vote() -> None:
    world = running(3)
    node = world.get("Pod", "demo-controller-2")["spec"]["nodeName"]
    world.get("Node", node)["status"]["conditions"][0]["status"] = "Unknown"
    world.end(C)
    for _ in range(20):
        made = world.reconcile()
        assert not any(isinstance(action, RemoveVoter) for action in made.actions)
        world.breathe()
    assert set(world.voters) == {A, B, C}
    world.get("Node", node)["spec"]["taints"] = [
        {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    ]
    for _ in range(60):
        world.reconcile()
        world.breathe()
    assert f"-{C}" in world.changes


def _cannot_be_made(place: str) -> dict[str, Any]:
    """The state of a container as containerd has it for a volume that cannot be read."""
    text = f'failed to generate container "8eba" spec: failed to generate spec: failed to stat "{place}": stat {place}: input/output error'
    return {"waiting": {"reason": "CreateContainerError", "message": text}}


def _hurt(world: QuorateWorld, state: dict[str, Any]) -> str:
    """Controller 2 ended, its container is in this state, and a blank disk stands in the place of its own; its directory id before."""
    pod = world.get("Pod", "demo-controller-2")
    pod["status"]["containerStatuses"][0] |= {"state": state, "restartCount": 1, "ready": False}
    world.formatted[world.volume_of(C)] = {"fs": "fs-new"}
    return world.voters[C]


@pytest.mark.parametrize(
    "place", ["{path}", "/var/lib/kubelet/pods/d489/volumes/kubernetes.io~local-volume/{volume}"]
)
def test_a_controller_whose_disk_died_gets_a_new_pod_that_finds_the_blank_one(place: str) -> None:
    world = running(3)
    volume = world.volume_of(C)
    path = world.get("PersistentVolume", volume)["spec"]["local"]["path"]
    old = _hurt(world, _cannot_be_made(place.format(path=path, volume=volume)))
    world.settle(80)
    assert world.healthy(A, B, C)
    assert world.voters[C] != old


def test_a_controller_that_finds_another_disk_gets_a_new_pod() -> None:
    world = running(3)
    said = "/d is not the expected disk. To resolve: attach the expected disk again, then delete the pod."
    old = _hurt(world, {"terminated": {"exitCode": 1, "message": said}})
    world.settle(80)
    assert world.healthy(A, B, C)
    assert world.voters[C] != old


@pytest.mark.parametrize("other", ["{path}0", "/var/lib/kubelet/pods/d489/volumes/kubernetes.io~secret/tls"])
def test_what_is_wrong_with_another_path_is_no_word_about_the_disk(other: str) -> None:
    world = running(3)
    path = world.get("PersistentVolume", world.volume_of(C))["spec"]["local"]["path"]
    old = _hurt(world, _cannot_be_made(other.format(path=path)))
    for _ in range(30):
        world.reconcile()
        world.breathe()
    assert world.voters[C] == old


def test_a_pod_that_was_made_before_the_blank_disk_was_there_is_made_again_a_while_later() -> None:
    world = running(3)
    volume, old = world.volume_of(C), world.voters[C]
    world.end(C)
    world.formatted[volume] = {"fs": "fs-new"}
    world.reconcile()
    pod = world.get("Pod", "demo-controller-2")
    pod["metadata"]["creationTimestamp"] = stamp(world.now)
    place = f"/var/lib/kubelet/pods/d489/volumes/kubernetes.io~local-volume/{volume}"
    unreadable = {"name": "inspect", "state": _cannot_be_made(place), "restartCount": 0}
    pod["spec"]["nodeName"] = world.node_of(C)
    pod["status"] = {"phase": "Pending", "initContainerStatuses": [unreadable], "containerStatuses": []}
    world.put(pod)
    for _ in range(10):  # the model's kubelet does not look at this one, as its disk is the dead one
        world.now += 5
        world.reconcile()
    assert world.get("Pod", "demo-controller-2")["metadata"]["uid"] == pod["metadata"]["uid"]
    world.now += 15
    world.settle(80)
    assert world.healthy(A, B, C)
    assert world.voters[C] != old


def test_one_that_lost_its_disk_while_it_was_being_restarted_joins_all_the_same() -> None:
    world = running(3)
    world.cluster["spec"]["config"] = {"queued.max.requests": "400"}
    while not any(mark["nodeId"] == C for mark in world.cluster["status"].get("takingDown", ())):
        world.reconcile()
        world.breathe()
    for _ in range(3):
        world.reconcile()
    assert C not in world.live()
    world.blank(C)
    world.settle(150)
    assert world.healthy(A, B, C)
    assert not world.cluster["status"]["takingDown"]


def test_without_a_majority_nothing_is_formatted_and_it_is_said() -> None:
    world = running(3)
    formats = list(world.formats)
    world.blank(B)
    world.blank(C)
    for _ in range(30):
        world.reconcile()
        world.breathe()
    assert world.changes == []
    assert world.formats == formats
    assert {"QuorumUnknown", "VoterLogLost"} & reasons(world)


def test_the_only_controller_is_not_replaced() -> None:
    world = running(1)
    formats = list(world.formats)
    world.blank(A)
    for _ in range(30):
        world.reconcile()
        world.breathe()
    assert world.formats == formats
    assert reasons(world) & {"QuorumUnknown"}


def test_a_controller_that_left_is_stopped_only_when_the_quorum_has_forgotten_it() -> None:
    world = running(3)
    want(world, 1)
    for _ in range(40):
        voters = set(world.voters)
        stopped = [a.name for a in world.reconcile().actions if isinstance(a, Delete) and a.kind == "Pod"]
        assert not {names.pod_name("demo", i) for i in voters} & set(stopped)
        world.breathe()
    assert world.running("controller") == [A]


def test_what_only_has_the_name_of_a_controllers_object_is_left_alone() -> None:
    world = running(3)
    labels = {"spindle.dev/cluster": "demo"}
    for kind, name in (("Pod", names.pod_name("demo", 9003)), ("ConfigMap", names.config_map("demo", 9004))):
        world.put(
            {
                "apiVersion": "v1",
                "kind": kind,
                "metadata": {"name": name, "namespace": "kafka", "labels": labels},
            }
        )
    for _ in range(3):
        assert not [action for action in world.reconcile().actions if isinstance(action, Delete)]
    assert "OrphanedPod" in reasons(world)


def test_the_record_is_made_again_from_the_claims_of_those_that_are_controllers_now() -> None:
    world = running(3)
    world.blank(A)
    world.settle(80)
    want(world, 5)
    world.settle(150)
    voters = dict(world.voters)
    formats = list(world.formats)
    del world.objects["ConfigMap", "demo-identity"]
    world.settle(120)
    assert world.voters == voters
    assert world.formats == formats
    # A blank disk under the first controller's id of the birth would found the cluster again: that id counts as given away.
    born = {voter["id"]: voter["directoryId"] for voter in json.loads(record(world)["voters"])}
    assert born[A] in json.loads(record(world)["clearances"])


@pytest.mark.parametrize("wanted", [1, 5])
def test_a_stopped_quorum_changes_nothing(wanted: int) -> None:
    world = running(3)
    want(world, wanted)
    world.kafka_up = False
    for _ in range(10):
        world.reconcile()
        world.breathe()
    assert world.changes == []
    assert "QuorumUnknown" in reasons(world)
