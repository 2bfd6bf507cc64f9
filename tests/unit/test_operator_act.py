import time
from typing import Any

import pytest

from spindle.model.actions import (
    Action,
    AddVoter,
    Apply,
    Create,
    Delete,
    ElectPreferred,
    ElectUnclean,
    Evict,
    GrantAdmin,
    MarkDown,
    Patch,
    PlaceReplicas,
    RaiseFeatures,
    Reassign,
    RemoveVoter,
    SetConfigs,
    SetPodCondition,
    Tune,
)
from spindle.model.freshness import FactsRead
from spindle.model.refused_requests import RefusedRequest
from spindle_operator.act import (
    CONFLICT,
    DONE,
    FAILED,
    GONE,
    PARTLY,
    REFUSED,
    TAKEN,
    Actor,
    LeadershipLostError,
)
from spindle_operator.descriptions import describe
from spindle_operator.kafka_commands import NotPlacedError
from spindle_operator.kafka_executor import KafkaExecutor
from spindle_operator.kinds import KINDS
from spindle_shared.api_answers import ApiError
from tests.unit.operator_fakes import FakeKube, cluster, conflict

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "demo-broker-0"}}
OURS = {"metadata": {"name": "demo-map", "uid": "u", "resourceVersion": "7"}}
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "demo-map"}}


class Gate(KafkaExecutor):
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[Any] = []

    async def carry_out(self, action: Action) -> None:
        self.asked.append(action)
        if self.error:
            raise self.error


def actor(kube: FakeKube, gate: Gate | None = None, leading: Any = lambda: True) -> Actor:
    return Actor(kube, cluster(), gate or Gate(), leading, look=FactsRead(listed=True, at=time.monotonic()))


async def test_actions_are_carried_out_in_order() -> None:
    kube = FakeKube()
    actions = [
        Create(object=POD),
        Apply(object=MAP),
        Delete(kind="Service", name="s", uid="u"),
        Evict(pod="p", uid="u", resource_version="3"),
    ]
    results = await actor(kube).run(actions)
    assert [result.outcome for result in results] == [DONE] * 4
    assert [verb for verb, _, _ in kube.calls] == ["create", "create", "delete", "evict"]


@pytest.mark.parametrize(
    "action",
    [
        pytest.param(Create(object=POD), id="create"),
        pytest.param(MarkDown(resource_version="7", entries=({"pod": "p"},)), id="mark"),
        pytest.param(Patch(kind="Pod", name="p", uid="u", body={}), id="patch"),
    ],
)
async def test_what_follows_may_rest_on_it_so_its_failure_ends_the_pass(action: Any) -> None:
    kube = FakeKube()
    kube.failures = {"create": conflict(), "patch": conflict()}
    results = await actor(kube).run([action, Evict(pod="p", uid="u", resource_version="3")])
    assert [result.outcome for result in results] == [CONFLICT]
    assert not kube.done("evict")


async def test_other_failures_do_not_hold_up_the_rest() -> None:
    kube = FakeKube()
    kube.failures = {"apply": ApiError(422, "Invalid", "spec.ports: nonsense")}
    results = await actor(kube).run([Apply(object=MAP, seen=OURS), Create(object=POD)])
    assert [result.outcome for result in results] == [REFUSED, DONE]
    assert "nonsense" in results[0].detail


async def test_a_label_of_a_user_that_a_webhook_refuses_does_not_hold_up_the_rest() -> None:
    kube = FakeKube()
    kube.failures = {"patch": ApiError(403, "Forbidden", "admission webhook denied the request")}
    label = Patch(kind="PersistentVolumeClaim", name="c", uid="u", body={}, alone=True)
    results = await actor(kube).run([label, Evict(pod="p", uid="u", resource_version="3")])
    assert [result.outcome for result in results] == [REFUSED, DONE]
    assert results[0].refused is not None  # and told in status.waiting


@pytest.mark.parametrize("object_", [POD, MAP])
async def test_a_pod_that_a_quota_refuses_does_not_hold_up_the_rest(object_: dict[str, Any]) -> None:
    kube = FakeKube()
    kube.failures = {"create": ApiError(403, "Forbidden", "exceeded quota: small")}
    name = object_["metadata"]["name"]
    results = await actor(kube).run([Create(object=object_), Evict(pod="p", uid="u", resource_version="3")])
    assert bool(kube.done("evict")) is (object_ is POD)
    refused = RefusedRequest(("Create", object_["kind"], name), 403, "exceeded quota: small")
    assert results[0].refused == refused
    assert all(result.refused is None for result in results[1:])


async def test_a_conflict_is_no_refusal() -> None:
    kube = FakeKube()
    kube.failures = {"evict": conflict(), "delete": ApiError(404, "NotFound", "gone")}
    results = await actor(kube).run(
        [Evict(pod="p", uid="u", resource_version="3"), Delete(kind="Pod", name="q", uid="u")]
    )
    assert [result.refused for result in results] == [None, None]


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        pytest.param(404, GONE, id="gone already"),
        pytest.param(409, CONFLICT, id="another one by now"),
        pytest.param(429, REFUSED, id="a budget forbids"),
        pytest.param(500, FAILED, id="server error"),
    ],
)
async def test_outcomes_of_an_eviction(status: int, outcome: str) -> None:
    kube = FakeKube()
    kube.failures = {"evict": ApiError(status, "Reason", "why")}
    (result,) = await actor(kube).run([Evict(pod="p", uid="u", resource_version="3")])
    assert result.outcome == outcome


@pytest.mark.parametrize(
    ("named", "where"),
    [pytest.param(None, "ns", id="its own"), pytest.param("agents", "agents", id="another")],
)
async def test_a_deletion_goes_to_the_namespace_that_is_named(
    monkeypatch: pytest.MonkeyPatch, named: str | None, where: str
) -> None:
    kube, places = FakeKube(), []

    async def delete(_kind: Any, namespace: str | None, _name: str, _uid: str, **_: Any) -> None:
        places.append(namespace)

    monkeypatch.setattr(kube, "delete", delete)
    await actor(kube).run([Delete(kind="Secret", name="s", uid="u", namespace=named)])
    assert places == [where]


async def test_without_an_api_server_the_pass_ends() -> None:
    kube = FakeKube()
    kube.failures = {"apply": ApiError(0, "ClientConnectorError", "nobody there")}
    with pytest.raises(ApiError):
        await actor(kube).run([Apply(object=MAP, seen=OURS), Create(object=POD)])
    assert not kube.done("create")


async def test_a_name_that_is_taken_is_told() -> None:
    kube = FakeKube()
    kube.failures = {"create": ApiError(409, "AlreadyExists", "exists")}
    kube.objects[KINDS["Pod"].path("ns", "demo-broker-0")] = {
        **POD,
        "metadata": {**POD["metadata"], "uid": "x", "resourceVersion": "1"},  # type: ignore[dict-item]
    }
    (result,) = await actor(kube).run([Create(object=POD), Evict(pod="p", uid="u", resource_version="3")])
    assert (result.outcome, result.taken) == (TAKEN, ("Pod", "demo-broker-0"))
    assert not kube.done("patch")


async def test_patches_carry_their_preconditions() -> None:
    kube = FakeKube()
    patch = Patch(
        kind="Pod", name="p", uid="u", resource_version="9", body={"metadata": {"labels": {"a": "b"}}}
    )
    await actor(kube).run([patch])
    assert kube.calls[0][2] == {"metadata": {"labels": {"a": "b"}, "uid": "u", "resourceVersion": "9"}}


async def test_marks_are_compared_and_swapped_and_a_second_one_follows_on_the_first() -> None:
    kube = FakeKube()
    marks = [
        MarkDown(resource_version="7", entries=({"pod": "a"},)),
        MarkDown(resource_version="7", entries=()),
    ]
    await actor(kube).run(marks)
    (_, first_name, first), (_, _, second) = kube.calls
    assert first_name == "demo/status"
    assert first["metadata"] == {"uid": "u-1", "resourceVersion": "7"}
    assert first["status"] == {"takingDown": [{"pod": "a"}]}
    assert second["metadata"]["resourceVersion"] == "1001"


async def test_the_readiness_gate_is_one_condition_of_this_very_pod() -> None:
    kube = FakeKube()
    await actor(kube).run(
        [SetPodCondition(pod="p", uid="u", type="spindle.dev/in-sync", status=False, why="lags")]
    )
    _, name, body = kube.calls[0]
    (condition,) = body["status"]["conditions"]
    assert name == "p/status"
    assert body["metadata"] == {"uid": "u"}
    assert (condition["status"], condition["message"]) == ("False", "lags")


async def test_what_kafka_refuses_is_an_outcome() -> None:
    gate = Gate(ConnectionError("no broker"))
    action = GrantAdmin(secret="demo-admin", uid="s-1")  # noqa: S106 - a name
    (result,) = await actor(FakeKube(), gate).run([action])
    assert (result.outcome, result.detail) == (FAILED, "ConnectionError: no broker")
    gate.error = None
    (result,) = await actor(FakeKube(), gate).run([action])
    assert result.outcome == DONE


async def test_elections_go_to_kafka() -> None:
    gate = Gate()
    await actor(FakeKube(), gate).run([ElectPreferred(partitions=(("t", 0),))])
    assert gate.asked == [ElectPreferred(partitions=(("t", 0),))]


async def test_nothing_is_written_without_the_lease() -> None:
    kube = FakeKube()
    turns = iter([True, False])
    with pytest.raises(LeadershipLostError):
        await actor(kube, leading=lambda: next(turns)).run([Apply(object=MAP), Create(object=POD)])
    assert kube.done("create") == ["demo-map"]


def test_descriptions_name_what_they_regard() -> None:
    assert describe(Create(object=POD)) == "Create Pod demo-broker-0"
    assert describe(MarkDown(resource_version="1", entries=())) == "mark pods to be stopped: nothing"


PLACE = PlaceReplicas(broker=2, placements=(("t", 0, "/d/log"),))
REASSIGN = Reassign(assignments=(("t", 0, (1, 2)), ("t", 1, None)))
THROTTLE = SetConfigs(target="broker", name="2", values={"follower.replication.throttled.rate": "100"})


async def test_orders_to_kafka_go_through_the_gate_in_order() -> None:
    gate = Gate()
    actions = [THROTTLE, PLACE, REASSIGN, ElectUnclean(partitions=(("t", 0),))]
    results = await actor(FakeKube(), gate).run(actions)
    assert [result.outcome for result in results] == [DONE] * 4
    assert gate.asked == actions


@pytest.mark.parametrize("action", [THROTTLE, PLACE, REASSIGN], ids=lambda action: type(action).__name__)
async def test_an_order_that_kafka_turns_down_ends_the_pass(action: Any) -> None:
    gate = Gate(RuntimeError("turned down"))
    (result,) = await actor(FakeKube(), gate).run([action, ElectPreferred(partitions=())])
    assert (result.outcome, result.detail) == (FAILED, "RuntimeError: turned down")
    assert len(gate.asked) == 1


async def test_what_a_broker_does_not_place_is_left_out_and_the_rest_goes_on() -> None:
    class Picky(Gate):
        async def carry_out(self, action: Action) -> None:
            if isinstance(action, PlaceReplicas):
                raise NotPlacedError("broker 2 does not place t-0: InvalidTopicError", [("t", 0)])
            await super().carry_out(action)

    gate = Picky()
    results = await actor(FakeKube(), gate).run([PLACE, REASSIGN, Reassign(assignments=(("t", 0, (1, 2)),))])
    assert [result.outcome for result in results] == [PARTLY, DONE, DONE]
    assert gate.asked == [Reassign(assignments=(("t", 1, None),))]


async def test_what_kafka_turns_down_of_the_users_settings_ends_no_pass() -> None:
    gate = Gate(RuntimeError("turned down"))
    settings = [
        Tune(broker=2, values={"num.io.threads": "16"}),
        Tune(broker=None, values={"min.insync.replicas": "2"}),
        RaiseFeatures(levels={"metadata.version": 30}),
    ]
    results = await actor(FakeKube(), gate).run(settings)
    assert [result.outcome for result in results] == [FAILED] * 3
    assert gate.asked == settings
    assert [describe(action) for action in settings] == [
        "set num.io.threads of broker 2",
        "set min.insync.replicas of all brokers",
        "raise metadata.version to 30",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            AddVoter(cluster_id="k", controller=9001, directory_id="d", host="h"),
            "make controller 9001 a voter",
        ),
        (
            RemoveVoter(cluster_id="k", controller=9001, directory_id="d"),
            "remove controller 9001 from the quorum",
        ),
    ],
)
async def test_a_change_of_the_quorum_that_fails_ends_the_pass(change: Any, said: str) -> None:
    gate = Gate(RuntimeError("turned down"))
    (result,) = await actor(FakeKube(), gate).run([change, ElectPreferred(partitions=())])
    assert (result.outcome, result.detail) == (FAILED, "RuntimeError: turned down")
    assert gate.asked == [change]
    assert describe(change) == said


async def test_a_pod_may_be_given_less_grace_but_not_none() -> None:
    kube = FakeKube()
    results = await actor(kube).run(
        [
            Delete(kind="Pod", name="p", uid="u", grace_seconds=1),
            Delete(kind="Pod", name="q", uid="u", grace_seconds=0),
        ]
    )
    assert [result.outcome for result in results] == [DONE, FAILED]
    assert kube.calls == [("delete", "p", {"uid": "u", "grace": 1})]


RECORD = {
    "apiVersion": "spindle.dev/v1alpha1",
    "kind": "KafkaBroker",
    "metadata": {"name": "demo-broker-0", "uid": "u", "resourceVersion": "7", "generation": 3},
}


def recorded(kube: FakeKube, **metadata: Any) -> None:
    path = KINDS["KafkaBroker"].path(cluster()["metadata"]["namespace"], "demo-broker-0")
    kube.objects[path] = {**RECORD, "metadata": {**RECORD["metadata"], **metadata}}  # type: ignore[dict-item]


async def test_what_was_seen_is_applied_over_that_alone() -> None:
    kube = FakeKube()
    await actor(kube).run([Apply(object=RECORD, seen=RECORD)])
    (_, _, body) = kube.calls[0]
    assert (body["metadata"]["uid"], body["metadata"]["resourceVersion"]) == ("u", "7")


async def test_an_apply_over_a_record_that_changed_ends_the_pass() -> None:
    kube = FakeKube()
    kube.failures[("apply", "demo-broker-0")] = conflict()
    recorded(kube, resourceVersion="9", generation=4)
    results = await actor(kube).run(
        [Apply(object=RECORD, seen=RECORD), Delete(kind="Pod", name="p", uid="x")]
    )
    assert [r.outcome for r in results] == [CONFLICT]


async def test_a_status_that_changed_does_not_hold_it_up() -> None:
    kube = FakeKube()
    recorded(kube, resourceVersion="9")
    tried: list[str] = []
    apply = kube.apply

    async def once_late(obj: Any, *args: Any, **kwargs: Any) -> Any:
        tried.append(obj["metadata"]["resourceVersion"])
        if len(tried) == 1:
            raise conflict()
        return await apply(obj, *args, **kwargs)

    kube.apply = once_late  # type: ignore[method-assign]
    results = await actor(kube).run([Apply(object=RECORD, seen=RECORD)])
    assert [r.outcome for r in results] == [DONE]
    assert tried == ["7", "9"]
