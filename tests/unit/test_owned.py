"""Rule 16: what is not the cluster's own is not read as such, not written, not deleted; and it is told."""

from dataclasses import replace
from typing import Any

import pytest

from spindle.api import names
from spindle.model.actions import Action, Apply, Create, Delete, IssueCa, IssueCertificate, Patch
from spindle.model.ownership import Owners, ours_only, owners_of
from spindle.model.plan_builder import PlanBuilder
from spindle.model.state import ClusterState, read_state
from spindle.proposals.rebalance_job import reconcile_job
from spindle.reconcile.plan import plan
from spindle.security.name_conflicts import leave_alone, regards
from tests.model.world import World

LABELS = {names.LABEL_CLUSTER: "demo"}
OURS = {"kind": "KafkaCluster", "apiVersion": names.API_VERSION, "name": "demo", "uid": "uid-demo"}
FORMER = {**OURS, "uid": "uid-of-another-time"}
ID = "Jm5Xk0aMTq2sVYbE7pWc1A"


def thing(kind: str, name: str, *owners: dict[str, Any], **meta: Any) -> dict[str, Any]:
    references = {"ownerReferences": list(owners)} if owners else {}
    made = {
        "kind": kind,
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": LABELS, **references, **meta},
    }
    return made | (
        {"view": {"cn": "x", "issuer": "x", "fingerprint": "x", "dns": [], "trust": [], "issued": 0.0}}
        if kind == "Secret"
        else {}
    )


def touched(world: World) -> set[tuple[str, str]]:
    """Kind and name of what a pass would touch."""
    made = plan(world.snapshot(), world.now)
    return {(kind, name) for action in made.actions for kind, _, name in regards(action, "kafka")}


def waits(world: World) -> dict[str, str]:
    found = plan(world.snapshot(), world.now).status["waiting"]
    return {wait["object"]: wait["reason"] for wait in found}


OWNERS = Owners(
    "demo",
    "kafka",
    "uid-demo",
    frozenset({"uid-alice"}),
    frozenset({"uid-kept"}),
    ID,
    frozenset({ID}),
    "agents",
)


@pytest.mark.parametrize(
    ("obj", "held"),
    [
        pytest.param(thing("Service", "demo-kafka", OURS), True, id="by its owner"),
        pytest.param(thing("Service", "demo-kafka"), False, id="a label is no owner"),
        pytest.param(thing("Pod", "demo-broker-0", FORMER), False, id="of another time"),
        pytest.param(
            thing("Secret", "demo.user.alice", {"kind": "KafkaUser", "uid": "uid-alice"}), True, id="a user's"
        ),
        pytest.param(
            thing("Service", "demo-kafka", {"kind": "KafkaUser", "uid": "uid-alice"}),
            False,
            id="no user has one",
        ),
        pytest.param(thing("Secret", "demo-ca", uid="uid-kept"), True, id="restored"),
        pytest.param(thing("Secret", "demo-ca"), False, id="not said to be restored"),
        pytest.param(
            thing("Secret", "demo-ca", uid="uid-kept", labels={}),
            False,
            id="said so by one who may not write it",
        ),
        pytest.param(
            thing("ConfigMap", "demo-moves", annotations={names.ANN_CLUSTER_ID: ID}), True, id="journal"
        ),
        pytest.param(
            thing("ConfigMap", "demo-moves", annotations={names.ANN_CLUSTER_ID: "x"}),
            False,
            id="of another cluster",
        ),
        pytest.param(thing("ConfigMap", "demo-pools"), True, id="of an earlier release"),
        pytest.param(thing("ConfigMap", "demo-pools", labels={}), False, id="nobody's"),
        pytest.param(
            {**thing("ConfigMap", "demo-identity", labels={}), "data": {"clusterId": ID}},
            True,
            id="birth record",
        ),
        pytest.param(
            {**thing("ConfigMap", "demo-identity", labels={}), "data": {"a": "b"}},
            False,
            id="no birth record",
        ),
        pytest.param(
            thing("ConfigMap", "demo-other", annotations={names.ANN_CLUSTER_ID: ID}),
            False,
            id="outlives nothing",
        ),
        pytest.param(
            thing("PersistentVolumeClaim", "data-disk0-demo-0", annotations={names.ANN_CLUSTER_ID: ID}),
            True,
            id="claim",
        ),
        pytest.param(thing("PersistentVolumeClaim", "data-disk0-demo-0"), False, id="claim without an id"),
        pytest.param(thing("KafkaBroker", "demo-broker-0", FORMER), False, id="a former one"),
        pytest.param(
            thing("KafkaBroker", "demo-broker-0", FORMER, deletionTimestamp="now"),
            True,
            id="one that waits for us",
        ),
        pytest.param(
            thing("Secret", "kafka.demo.spindle-agent", labels={**LABELS, names.LABEL_NAMESPACE: "kafka"}),
            True,
            id="the agents'",
        ),
        pytest.param(thing("Secret", "kafka.demo.spindle-agent"), False, id="not of our namespace"),
        pytest.param(
            thing("ConfigMap", "kafka.demo.spindle-agent", labels={**LABELS, names.LABEL_NAMESPACE: "kafka"}),
            True,
            id="the agents' certificates",
        ),
        pytest.param(
            thing("ConfigMap", "kafka.demo.spindle-agent"), False, id="certificates not of our namespace"
        ),
    ],
)
def test_whose_it_is(obj: dict[str, Any], held: bool) -> None:
    assert OWNERS.hold(obj) is held


def test_of_a_settled_cluster_everything_is_its_own() -> None:
    world = World.of()
    world.settle()
    snapshot, taken = ours_only(world.snapshot())
    assert taken == {}
    assert snapshot == world.snapshot()
    assert owners_of(snapshot).cluster_id == world.get("ConfigMap", "demo-identity")["data"]["clusterId"]


@pytest.mark.parametrize("kind", ["Service", "PodDisruptionBudget", "Secret", "ConfigMap"])
@pytest.mark.parametrize(("owner", "reason"), [(None, "NameConflict"), (FORMER, "OrphanedObject")])
def test_a_name_that_is_taken_is_left_alone_and_told_and_the_rest_goes_on(
    kind: str, owner: dict[str, Any] | None, reason: str
) -> None:
    name = {
        "Service": names.bootstrap_service("demo"),
        "PodDisruptionBudget": names.broker_budget("demo"),
        "Secret": names.admin_secret("demo"),
        "ConfigMap": names.config_map("demo", 0),
    }[kind]
    world = World.of()
    world.put(thing(kind, name, *([owner] if owner else [])))
    for _ in range(12):
        assert (kind, name) not in touched(world)
        world.reconcile()
        world.breathe()
    assert waits(world)[f"{kind}/{name}"] == reason
    assert ("Pod", "demo-broker-1") in world.objects, "who does not need it starts"
    assert (("Pod", "demo-broker-0") in world.objects) is (kind != "ConfigMap"), (
        "and who does is not started with it"
    )
    del world.objects[kind, name]
    world.settle()
    assert world.get(kind, name)["metadata"]["ownerReferences"][0]["uid"] == "uid-demo"


def test_an_object_without_our_label_is_told_once_it_was_found_by_its_name() -> None:
    world = World.of()
    world.reconcile()
    name = names.bootstrap_service("demo")
    snapshot = replace(world.snapshot(), named=(thing("Service", name, labels={}),))
    snapshot = replace(snapshot, services=())
    made = plan(snapshot, world.now)
    assert ("Service", "", name) not in {key for action in made.actions for key in regards(action, "kafka")}
    assert {w["reason"] for w in made.status["waiting"] if w["object"] == f"Service/{name}"} == {
        "NameConflict"
    }


def test_an_authority_that_is_not_ours_signs_nothing_and_its_way_out_works() -> None:
    world = World.of()
    world.settle()
    kept = world.get("Secret", "demo-ca")
    back = {
        **kept,
        "metadata": {k: v for k, v in kept["metadata"].items() if k != "ownerReferences"}
        | {"uid": "uid-back"},
    }
    world.objects["Secret", "demo-ca"] = back
    made = plan(world.snapshot(), world.now)
    assert not [a for a in made.actions if isinstance(a, IssueCa | IssueCertificate)]
    (wait,) = [w for w in made.status["waiting"] if w["object"] == "Secret/demo-ca"]
    assert (wait["reason"], f"{names.ANN_RESTORED}=uid-back" in wait["unblockedBy"]) == ("NameConflict", True)
    world.cluster["metadata"]["annotations"] = {names.ANN_RESTORED: "another, uid-back"}
    bare = {**back, "metadata": {k: v for k, v in back["metadata"].items() if k != "labels"}}
    world.objects["Secret", "demo-ca"] = bare
    assert not [a for a in plan(world.snapshot(), world.now).actions if isinstance(a, IssueCertificate)]
    world.objects["Secret", "demo-ca"] = back
    assert not [
        w for w in plan(world.snapshot(), world.now).status["waiting"] if w["object"] == "Secret/demo-ca"
    ]


def test_without_its_journal_nothing_is_done_that_rests_on_it() -> None:
    world = World.of()
    world.settle()
    world.put(thing("ConfigMap", "demo-moves", labels=LABELS, annotations={names.ANN_CLUSTER_ID: "x" * 22}))
    state = read_state(world.snapshot(), world.now)
    builder = PlanBuilder()
    journal = {"kind": "ConfigMap", "metadata": {"name": "demo-moves", "namespace": "kafka"}}
    first: Action = Delete(kind="Pod", name="before", uid="u")
    builder.do(first, Create(object=journal), Delete(kind="Pod", name="after", uid="u"))
    leave_alone(state, builder)
    assert builder.actions == [first]
    assert [(wait.object, wait.reason) for wait in builder.waits] == [
        ("ConfigMap/demo-moves", "NameConflict")
    ]


def test_a_volume_is_not_kept_for_somebody_elses_claim() -> None:
    patch = Patch(
        kind="PersistentVolume",
        name="pv",
        uid="u",
        body={"spec": {"claimRef": {"name": "data-disk1-demo-0"}}},
    )
    assert regards(patch, "kafka") == [("PersistentVolumeClaim", "", "data-disk1-demo-0")]


def test_a_deleted_cluster_takes_only_its_own_with_it() -> None:
    world = World.of(deleteClaims=True)
    world.settle()
    lost = {"spec": {"storageClassName": "none"}, "status": {"phase": "Lost"}}
    world.put({**thing("PersistentVolumeClaim", "data-disk0-demo-7"), **lost})
    world.put({**thing("Pod", "demo-broker-7"), "spec": {"volumes": []}})
    world.cluster["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    stopped = touched(world)
    assert ("Pod", "demo-broker-0") in stopped
    assert ("Pod", "demo-broker-7") not in stopped
    del world.objects["Pod", "demo-broker-7"]
    for _ in range(20):
        if world.reconcile().finished:
            break
        world.breathe()
    else:
        raise AssertionError(waits(world))
    assert ("PersistentVolumeClaim", "data-disk0-demo-7") in world.objects
    assert not [
        name
        for kind, name in world.objects
        if kind == "PersistentVolumeClaim" and name != "data-disk0-demo-7"
    ]


@pytest.mark.parametrize("kind", ["ServiceAccount", "Role", "RoleBinding", "Secret"])
def test_no_job_runs_under_what_is_somebody_elses(kind: str) -> None:
    """An account of that name may be bound to anything."""
    name = names.rebalance_job("demo")
    world = World.of()
    stranger = thing(kind, name)

    def job(*there: dict[str, Any]) -> list[Apply]:
        objects = {"rebalance_objects": there}
        snapshot = replace(world.snapshot(), rebalance_image="rebalance:test", named=(stranger,), **objects)  # type: ignore[arg-type]
        builder, state = PlanBuilder(), _state(snapshot, world.now)
        reconcile_job(state, builder)
        leave_alone(state, builder)
        return [a for a in builder.actions if isinstance(a, Apply) and a.object["kind"] == "CronJob"]

    assert job() == []
    (suspended,) = job(thing("CronJob", name, OURS))
    assert suspended.object["spec"]["suspend"] is True


def _state(snapshot: Any, now: float) -> ClusterState:
    return read_state(snapshot, now)
