"""Requests that the API server refuses are told, as long as they are refused."""

import inspect
import re
from dataclasses import replace
from typing import Any

import pytest

from spindle.model.actions import Action, Create, Evict, MarkDown, SetPassword
from spindle.model.refused_requests import WRITE_STATUS, RefusedRequest, target_of
from spindle.model.snapshot import ClusterSnapshot
from spindle.model.state import read_state
from spindle.reconcile.refused_requests import _ACTIONS, _refused
from tests.model.world import World

POD = "demo-broker-1"


class Refusing(World):
    """One of whose requests is refused."""

    refusal: RefusedRequest | None = None
    refuses: type[Action] | tuple[type[Action], ...] = (Create, Evict)

    def snapshot(self) -> ClusterSnapshot:
        seen = super().snapshot()
        return replace(seen, refused=(self.refusal,)) if self.refusal is not None else seen

    def act(self, action: Any) -> None:
        if self.refusal is None or not isinstance(action, self.refuses):
            super().act(action)


def refusing(message: str, status: int = 403) -> Refusing:
    """A broker's pod is missing, and the API server refuses to create it."""
    world = Refusing.of()
    world.settle()
    del world.objects["Pod", POD]
    world.refusal = RefusedRequest(("Create", "Pod", POD), status, message)
    world.reconcile()
    return world


def entries(world: World) -> list[dict[str, Any]]:
    return [w for w in world.cluster["status"]["waiting"] if w["reason"] == "RequestRefused"]


def pods(world: World) -> set[str]:
    return {pod["metadata"]["uid"] for pod in world.all("Pod")}


QUOTA = 'pods "demo-broker-1" is forbidden: exceeded quota: small, requested: requests.memory=2Gi, used: requests.memory=4Gi, limited: requests.memory=4Gi'


@pytest.mark.parametrize(
    ("message", "status", "way_out"),
    [
        pytest.param(QUOTA, 403, "Raise the ResourceQuota", id="quota"),
        pytest.param('admission webhook "policy.example.com" denied the request: no', 403, "Change the webhook", id="webhook"),
        pytest.param('failed calling webhook "policy.example.com": timeout', 500, "a webhook that does not answer", id="webhook-away"),
        pytest.param("ValidatingAdmissionPolicy 'limits' with binding 'b' denied request: no", 422, "Change the webhook or policy", id="policy"),
        pytest.param('violates PodSecurity "restricted:latest": x', 403, "pod-security.kubernetes.io/enforce", id="pod-security"),
        pytest.param('cannot create resource "pods" in API group ""', 403, "upgrade or reinstall the chart", id="rights"),
        pytest.param("Cannot evict pod as it would violate the pod's disruption budget.", 429, "kubectl get pdb", id="budget"),
        pytest.param("spec.x: nonsense", 422, "Correct what the message says", id="other"),
    ],
)  # fmt: skip
def test_the_servers_message_and_who_can_permit_it(message: str, status: int, way_out: str) -> None:
    (entry,) = entries(refusing(message, status))
    assert (entry["action"], entry["object"]) == ("Create", f"Pod/{POD}")
    assert message in entry["message"]
    assert way_out in entry["unblockedBy"]


def test_it_lasts_as_long_as_the_request_is_refused() -> None:
    world = refusing(QUOTA)
    since = entries(world)[0]["since"]
    world.now += 60
    world.reconcile()
    assert entries(world)[0]["since"] == since
    # By then it is no matter of a moment.
    world.reconcile()
    assert "RequestRefused" in world.cluster["status"]["phase"] + str(world.cluster["status"]["conditions"])
    world.refusal = None
    world.settle()
    assert not entries(world)
    assert 1 in world.running("broker")


def test_what_is_not_wanted_any_more_is_not_told() -> None:
    world = refusing(QUOTA)
    world.get("KafkaBroker", POD)["spec"]["maintenance"] = {"stopped": True}
    world.reconcile()
    assert not entries(world)


def test_every_action_on_an_object_can_be_told() -> None:
    """What `target_of` names has a word in the messages."""
    world = Refusing.of()
    world.settle()
    made = world.reconcile()
    assert not made.actions
    for name in _ACTIONS:
        world.refusal = RefusedRequest((name, "Secret", "x"), 403, QUOTA)
        assert _refused(read_state(world.snapshot(), world.now), world.refusal).message
    source = inspect.getsource(target_of)
    named = set(re.findall(r"\b([A-Z][A-Za-z]+)\(\)", source))
    assert named | {WRITE_STATUS} == set(_ACTIONS)


def test_a_mark_that_is_refused_is_told_and_nothing_is_stopped() -> None:
    world = Refusing.of()
    world.settle()
    world.refusal = RefusedRequest(("MarkDown", "KafkaCluster", ""), 422, "status.takingDown: Invalid value")
    world.refuses = MarkDown
    world.cluster["spec"]["scheduling"] = {"priorityClassName": "high"}
    before = pods(world)
    for _ in range(5):
        world.reconcile()
        world.breathe()
    (entry,) = entries(world)
    assert (entry["action"], entry["object"]) == ("MarkDown", "KafkaCluster/demo")
    assert (
        "refuses writing status.takingDown of KafkaCluster demo (422): status.takingDown: Invalid value"
        in entry["message"]
    )
    assert "Apply the CRDs of the operator's release" in entry["unblockedBy"]
    assert pods(world) == before


@pytest.mark.parametrize(
    ("kind", "name", "told"),
    [
        pytest.param("KafkaBroker", POD, True, id="broker"),
        pytest.param("KafkaBroker", "demo-broker-9", False, id="a broker that is gone"),
        pytest.param("KafkaCluster", "", False, id="the status that would tell it"),
    ],
)
def test_a_status_that_is_refused_is_told_where_it_can_be(kind: str, name: str, told: bool) -> None:
    world = Refusing.of()
    world.settle()
    world.refusal = RefusedRequest(
        (WRITE_STATUS, kind, name), 403, "cannot patch resource kafkabrokers/status"
    )
    world.reconcile()
    assert [(e["action"], e["object"]) for e in entries(world)] == (
        [(WRITE_STATUS, f"{kind}/{name}")] if told else []
    )


def test_a_password_that_cannot_be_noted_is_told() -> None:
    password = SetPassword(user="reader", secret="demo-reader", uid="u")  # noqa: S106 - a name
    assert target_of(password) == ("SetPassword", "Secret", "demo-reader")
