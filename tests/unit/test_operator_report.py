from typing import Any

import pytest

from spindle.model.actions import Apply, Create
from spindle.model.refused_requests import RefusedRequest
from spindle.reconcile.plan import Event, ReconcilePlan
from spindle_operator import report as report_module
from spindle_operator.act import CONFLICT, DONE, REFUSED, Result
from spindle_operator.report import Events, Written, events_of, keep_timestamps, report
from spindle_shared.api_answers import ApiError
from tests.unit.operator_fakes import FakeKube, cluster, conflict

OLD, NEW = "2026-01-01T00:00:00Z", "2026-02-02T00:00:00Z"


def ready(status: str, since: str, reason: str = "R") -> dict[str, str]:
    return {"type": "Ready", "status": status, "reason": reason, "lastTransitionTime": since}


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    kept = keep_timestamps(
        {"conditions": [ready("True", NEW, "Other")]}, {"conditions": [ready("True", OLD)]}
    )
    assert kept == {"conditions": [ready("True", OLD, "Other")]}


def test_a_condition_that_changed_has_the_new_time() -> None:
    kept = keep_timestamps({"conditions": [ready("False", NEW)]}, {"conditions": [ready("True", OLD)]})
    assert kept["conditions"][0]["lastTransitionTime"] == NEW


async def test_an_unchanged_status_is_not_written() -> None:
    obj = cluster()
    obj["status"] = {"phase": "fine", "conditions": [ready("True", OLD)], "takingDown": [{"pod": "p"}]}
    broker = {
        "metadata": {"name": "demo-broker-0", "namespace": "ns", "uid": "b", "resourceVersion": "3"},
        "status": {"state": "Ready"},
    }
    plan = ReconcilePlan(
        status={"phase": "fine", "conditions": [ready("True", NEW)]},
        broker_statuses={"demo-broker-0": {"state": "Ready"}},
    )
    kube = FakeKube()
    assert await report(kube, obj, [broker], plan) == Written()
    assert kube.calls == []


async def test_changed_statuses_are_applied_to_these_very_objects() -> None:
    broker = {"metadata": {"name": "demo-broker-0", "namespace": "ns", "uid": "b", "resourceVersion": "3"}}
    plan = ReconcilePlan(
        status={"phase": "new", "takingDown": []},
        broker_statuses={"demo-broker-0": {"state": "Ready"}, "other": {}},
    )
    kube = FakeKube()
    assert await report(kube, cluster(), [broker], plan) == Written(done=2)
    assert kube.done("apply") == ["demo/status", "demo-broker-0/status"]
    body = kube.calls[0][2]
    assert body["metadata"]["resourceVersion"] == "7"
    assert body["status"] == {"phase": "new"}, "marks are written by compare-and-swap only"


async def test_a_status_of_what_was_deleted_meanwhile_is_no_error() -> None:
    kube = FakeKube()
    kube.failures = {"apply": conflict()}
    assert await report(kube, cluster(), [], ReconcilePlan(status={"phase": "x"})) == Written(skipped=1)


@pytest.mark.parametrize("status", [400, 403, 422, 500])
async def test_a_refused_status_keeps_no_other_from_being_written_and_is_told(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    brokers = [
        {"metadata": {"name": f"demo-broker-{i}", "namespace": "ns", "uid": f"b{i}", "resourceVersion": "3"}}
        for i in range(2)
    ]
    plan = ReconcilePlan(
        status={"phase": "x"}, broker_statuses={f"demo-broker-{i}": {"state": "Ready"} for i in range(2)}
    )
    kube = FakeKube()
    error = ApiError(status, "Reason", "status.waiting: Too long")
    kube.failures = {("apply", "demo/status"): error, ("apply", "demo-broker-0/status"): error}

    written = await report(kube, cluster(), brokers, plan)

    assert written == Written(
        done=1,
        skipped=2,
        refused=(
            RefusedRequest(("WriteStatus", "KafkaCluster", ""), status, "status.waiting: Too long"),
            RefusedRequest(
                ("WriteStatus", "KafkaBroker", "demo-broker-0"), status, "status.waiting: Too long"
            ),
        ),
    )
    assert kube.done("apply") == ["demo/status", "demo-broker-0/status", "demo-broker-1/status"]
    assert "the status of KafkaCluster ns/demo is refused" in caplog.text


@pytest.mark.parametrize("status", [0, 401, 429, 503, 504])
async def test_an_api_server_that_answers_nobody_ends_the_pass(status: int) -> None:
    kube = FakeKube()
    kube.failures = {"apply": ApiError(status, "Reason", "later")}
    with pytest.raises(ApiError):
        await report(kube, cluster(), [], ReconcilePlan(status={"phase": "x"}))


class Overtaken(FakeKube):
    """Answers the first writes with a conflict: somebody else was there before."""

    def __init__(self, times: int, now: dict[str, Any]) -> None:
        super().__init__()
        self.times = times
        self.objects["/apis/spindle.dev/v1alpha1/namespaces/ns/kafkabrokers/demo-broker-0"] = now

    async def apply(self, obj: Any, namespace: str | None = None, *, subresource: str | None = None) -> Any:
        answer = await super().apply(obj, namespace, subresource=subresource)
        self.times -= 1
        if self.times >= 0:
            raise conflict()
        return answer


def broker(version: str, *, stopped: bool = False, **status: Any) -> dict[str, Any]:
    meta = {"name": "demo-broker-0", "namespace": "ns", "uid": "b", "resourceVersion": version}
    return {
        "metadata": meta,
        "spec": {"maintenance": {"stopped": stopped}},
        "status": {"state": "Starting", **status},
    }


READY = ReconcilePlan(broker_statuses={"demo-broker-0": {"state": "Running"}})


async def test_what_an_agent_reported_meanwhile_does_not_hold_up_our_own_status() -> None:
    kube = Overtaken(2, broker("9", observed={"node": "n1"}))

    assert await report(kube, cluster(), [broker("3")], READY) == Written(done=1)

    bodies = [body for verb, _, body in kube.calls if verb == "apply"]
    assert [body["metadata"]["resourceVersion"] for body in bodies] == ["3", "9", "9"]
    assert all(body["status"] == {"state": "Running"} for body in bodies), (
        "what is observed is not ours to write"
    )


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(broker("9", stopped=True), id="a person changed the spec"),
        pytest.param(broker("9", message="by another leader"), id="another leader wrote the status"),
        pytest.param(
            broker("9") | {"metadata": {**broker("9")["metadata"], "uid": "c"}}, id="another object"
        ),
    ],
)
async def test_what_anybody_else_changed_is_looked_at_again_first(now: dict[str, Any]) -> None:
    kube = Overtaken(1, now)
    assert await report(kube, cluster(), [broker("3")], READY) == Written(skipped=1)


async def test_an_agent_that_never_rests_is_left_to_the_next_pass() -> None:
    kube = Overtaken(100, broker("9"))
    assert await report(kube, cluster(), [broker("3")], READY) == Written(skipped=1)
    assert len(kube.done("apply")) == 3


async def test_what_an_agent_observes_is_no_difference() -> None:
    kube = FakeKube()
    standing = broker("3", observed={"node": "n1"})
    wanted = ReconcilePlan(
        broker_statuses={"demo-broker-0": {"state": "Starting", "observed": {"node": "old"}}}
    )
    assert await report(kube, cluster(), [standing], wanted) == Written()


async def test_the_same_event_is_posted_once() -> None:
    kube = FakeKube()
    events = Events(kube, "me")
    event = Event("Normal", "Made", "A pod was made.", "KafkaCluster", "demo", "u-1")
    await events.post("ns", [event, event])
    await events.post("ns", [event])
    await events.post("ns", [Event("Normal", "Made", "Another pod was made.", "KafkaCluster", "demo", "u-1")])
    assert len(kube.done("create")) == 2


async def test_events_of_nodes_live_in_the_default_namespace() -> None:
    kube = FakeKube()
    await Events(kube, "me").post("ns", [Event("Warning", "Gone", "A node is gone.", "Node", "n1", "u")])
    assert kube.calls[0][2]["metadata"]["namespace"] == "default"


async def test_an_event_that_cannot_be_posted_is_no_error() -> None:
    kube = FakeKube()
    kube.failures = {"create": conflict()}
    await Events(kube, "me").post("ns", [Event("Normal", "Made", "m", "KafkaCluster", "demo", "u-1")])


def test_actions_tell_what_was_done_and_what_failed_but_not_what_the_next_pass_settles() -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p"}}
    results = [
        Result(Create(object=pod, reason="PodCreated", message="Pod p was made."), DONE),
        Result(Apply(object=pod), DONE),
        Result(Create(object=pod), CONFLICT, "exists"),
        Result(Create(object=pod), REFUSED, "exceeded quota"),
    ]
    told = [(event.type, event.reason) for event in events_of(cluster(), results)]
    assert told == [("Normal", "PodCreated"), ("Warning", "CreateFailed")]


async def test_statuses_that_take_too_long_are_left_to_the_next_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_module, "REPORTING", -1.0)
    meta = {"namespace": "ns", "uid": "b", "resourceVersion": "3"}
    brokers = [
        {"metadata": {**meta, "name": f"demo-broker-{n}"}, "status": {"state": "Ready" if n else "Starting"}}
        for n in range(2)
    ]
    plan = ReconcilePlan(
        status={"phase": "new"},
        broker_statuses={each["metadata"]["name"]: {"state": "Ready"} for each in brokers},
    )
    kube = FakeKube()
    assert await report(kube, cluster(), brokers, plan) == Written(done=1, skipped=1)
    assert kube.done("apply") == ["demo/status"]
