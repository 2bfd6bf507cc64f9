"""What Flux (the real kstatus) and Argo CD (our scripts on its Lua) make of the statuses that plans have."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from e2e.cluster.build import ensure_health
from spindle.api.crd import KINDS, crd
from spindle.reconcile.plan import plan
from tests.chart.conftest import CHART
from tests.model.world import World
from tests.unit.test_healing_plan import cluster

SCRIPTS = yaml.safe_load((CHART.parents[1] / "examples/argocd/argocd-cm.yaml").read_text())["data"]


@dataclass(frozen=True)
class Health:
    flux: str
    argocd: str
    message: str


Judge = Callable[[dict[str, Any]], Health]


@pytest.fixture(scope="session")
def judge() -> Judge:
    program = ensure_health()

    def judged(obj: dict[str, Any]) -> Health:
        script = SCRIPTS[f"resource.customizations.health.spindle.dev_{obj['kind']}"]
        asked = json.dumps({"script": script, "objects": [obj]})
        done = subprocess.run([program], input=asked, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        (found,) = json.loads(done.stdout)
        return Health(found["kstatus"], found["argocd"], found["argocdMessage"])

    return judged


def running() -> World:
    world = World.of()
    world.settle()
    return world


def healths(world: World, judge: Judge, passes: int) -> list[Health]:
    """How a cluster is judged after each of some passes."""
    found = []
    for _ in range(passes):
        world.reconcile()
        found.append(judge(world.cluster))
        world.breathe()
    return found


def test_before_spindle_has_looked_nothing_counts_as_done(judge: Judge) -> None:
    """kstatus takes an object without a status for one that is in effect, so the definitions have a default."""
    for kind in KINDS:
        if not kind.made_by_users:
            continue
        (version,) = crd(kind)["spec"]["versions"]
        default = version["schema"]["openAPIV3Schema"]["properties"]["status"]["default"]
        obj = {
            "apiVersion": "spindle.dev/v1alpha1",
            "kind": kind.name,
            "metadata": {"name": "x", "generation": 1},
            "status": default,
        }
        found = judge(obj)
        assert (found.flux, found.argocd) == ("InProgress", "Progressing"), kind.name


def test_first_start_then_healthy(judge: Judge) -> None:
    world = World.of()
    found = healths(world, judge, 40)
    assert (found[0].flux, found[0].argocd) == ("InProgress", "Progressing")
    assert (found[-1].flux, found[-1].argocd) == ("Current", "Healthy")
    assert found[-1].message == "Running: 3 brokers on 3 racks, all 6 disks healthy."
    assert {(each.flux, each.argocd) for each in found} == {
        ("InProgress", "Progressing"),
        ("Current", "Healthy"),
    }
    turns = [each.flux for each in found]
    assert turns == sorted(turns, reverse=True), "once in effect it stays so"


def test_a_new_generation_is_in_progress_before_it_was_looked_at(judge: Judge) -> None:
    world = running()
    world.cluster["metadata"]["generation"] += 1
    found = judge(world.cluster)
    assert (found.flux, found.argocd) == ("InProgress", "Progressing")


def test_a_rolling_restart_is_in_progress_until_it_is_over(judge: Judge) -> None:
    world = running()
    world.cluster["spec"]["image"] = "mine/kafka:1"
    found = healths(world, judge, 60)
    assert {(each.flux, each.argocd) for each in found} == {
        ("InProgress", "Progressing"),
        ("Current", "Healthy"),
    }
    turns = [each.flux for each in found]
    assert turns[0] == "InProgress"
    assert turns == sorted(turns, reverse=True)
    assert {c["image"] for pod in world.all("Pod") for c in pod["spec"]["containers"]} == {"mine/kafka:1"}


def test_a_failed_disk_is_in_progress_until_its_replicas_are_elsewhere(judge: Judge) -> None:
    world = cluster()
    assert judge(world.cluster).flux == "Current"
    world.disk(0, "disk0").state = "dead"
    found = healths(world, judge, 200)
    assert {each.flux for each in found} == {"InProgress", "Current"}
    assert "InProgress" in {each.flux for each in found[:10]}
    assert (found[-1].flux, found[-1].argocd) == ("Current", "Healthy")
    reasons = {wait["reason"] for wait in world.cluster["status"]["waiting"]}
    assert "ReplacementNeeded" in reasons, "the empty slot is reported, and fails no deployment"


def test_an_invalid_config_fails_and_names_the_setting(judge: Judge) -> None:
    world = running()
    world.cluster["spec"]["config"] = {"num.network.threads": "many"}
    (found,) = healths(world, judge, 1)
    assert (found.flux, found.argocd) == ("Failed", "Degraded")
    assert "num.network.threads" in found.message


def test_a_spec_that_is_not_understood_fails(judge: Judge) -> None:
    world = running()
    snapshot = world.snapshot()
    snapshot.cluster["spec"]["brokerPools"] = "none"
    made = plan(snapshot, world.now)
    found = judge({**world.cluster, "status": made.status})
    assert (found.flux, found.argocd) == ("Failed", "Degraded")


def test_a_paused_cluster_is_in_effect_for_flux_and_suspended_for_argocd(judge: Judge) -> None:
    world = running()
    world.cluster["spec"]["paused"] = True
    (found,) = healths(world, judge, 1)
    assert (found.flux, found.argocd) == ("Current", "Suspended")


def test_a_name_that_another_object_has_fails(judge: Judge) -> None:
    world = running()
    service = world.get("Service", "demo-bootstrap")
    service["metadata"]["ownerReferences"] = [{"uid": "theirs", "kind": "Deployment", "name": "theirs"}]
    service["metadata"]["labels"] = {}
    found = healths(world, judge, 2)[-1]
    assert (found.flux, found.argocd) == ("Failed", "Degraded")
    assert found.message.startswith("NameConflict: ")


def test_a_restart_that_does_not_come_back_fails_after_its_deadline(judge: Judge) -> None:
    world = running()
    world.cluster["spec"]["image"] = "mine/kafka:1"
    for _ in range(4):
        world.reconcile()
    assert judge(world.cluster).flux == "InProgress"
    world.now += 700
    world.reconcile()
    found = judge(world.cluster)
    assert (found.flux, found.argocd) == ("Failed", "Degraded")


def test_a_broker_that_a_user_stopped_is_suspended_for_argocd(judge: Judge) -> None:
    world = running()
    world.get("KafkaBroker", "demo-broker-1")["spec"]["maintenance"] = {"stopped": True}
    world.settle()
    found = judge(world.cluster)
    assert (found.flux, found.argocd) == ("InProgress", "Suspended")


def test_a_cluster_that_is_deleted_is_terminating(judge: Judge) -> None:
    world = running()
    world.cluster["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    (found,) = healths(world, judge, 1)
    assert (found.flux, found.argocd) == ("Terminating", "Progressing")


@pytest.mark.parametrize(
    ("phase", "argocd"),
    [
        ("Proposed", "Suspended"),
        ("Executing", "Progressing"),
        ("Done", "Healthy"),
        ("Failed", "Degraded"),
    ],
)
def test_rebalances_by_their_phase(phase: str, argocd: str, judge: Judge) -> None:
    status = {"observedGeneration": 1, "phase": phase, "message": "A sentence."}
    obj = {"kind": "KafkaRebalance", "metadata": {"name": "x", "generation": 1}, "status": status}
    found = judge(obj)
    assert (found.flux, found.argocd, found.message) == ("Current", argocd, "A sentence.")


def test_users(judge: Judge) -> None:
    world = running()
    spec = {"cluster": "demo", "authentication": "mtls"}
    meta = {"name": "orders", "namespace": "kafka", "uid": "uid-orders", "generation": 1}
    user = {"apiVersion": "spindle.dev/v1alpha1", "kind": "KafkaUser", "metadata": meta, "spec": spec}
    world.put(user | {"status": {"observedGeneration": -1}})
    assert judge(world.get("KafkaUser", "orders")).flux == "InProgress"
    world.reconcile()
    world.reconcile()
    assert world.get("KafkaUser", "orders")["status"]["observedGeneration"] == 1
    assert judge(world.get("KafkaUser", "orders")).flux == "InProgress"
    world.settle()
    found = judge(world.get("KafkaUser", "orders"))
    assert (found.flux, found.argocd) == ("Current", "Healthy")
    world.get("KafkaUser", "orders")["spec"]["authentication"] = "none"
    world.reconcile()
    found = judge(world.get("KafkaUser", "orders"))
    assert (found.flux, found.argocd) == ("Failed", "Degraded")
    assert found.message.startswith("InvalidSpec: ")
