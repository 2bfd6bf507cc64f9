"""The rebalance job in a pass: made where there is an image, put right, and what its latest run came to."""

import json
from dataclasses import replace
from typing import Any

import pytest

from spindle.api import names
from spindle.manifests.common import with_applied
from spindle.manifests.cronjob import rebalance_objects, report_map
from spindle.model.actions import Apply, Delete, GrantRebalance, Patch
from spindle.model.plan_builder import PlanBuilder
from spindle.model.state import ClusterState, read_state
from spindle.proposals.rebalance_job import reconcile_job, runs_row, withdraw_job
from spindle.security.secrets import reconcile_rebalance
from tests.model.world import World


@pytest.fixture(scope="module")
def running() -> World:
    world = World.of()
    world.settle()
    return world


def state_of(world: World, **seen: Any) -> ClusterState:
    seen.setdefault("rebalance_image", "rebalance:1")
    return read_state(replace(world.snapshot(), **seen), world.now)


def objects(world: World) -> tuple[dict[str, Any], ...]:
    state = state_of(world)
    return tuple(with_applied(each) for each in rebalance_objects(state.cluster, state.spec, "rebalance:1"))


def job(name: str, kind: str, at: str, message: str = "") -> dict[str, Any]:
    condition = {"type": kind, "status": "True", "lastTransitionTime": at, "message": message}
    return {"kind": "Job", "metadata": {"name": name}, "status": {"conditions": [condition]}}


def pod(of: str, message: str) -> dict[str, Any]:
    ended = {"name": names.CONTAINER_REBALANCE, "state": {"terminated": {"message": message}}}
    return {
        "metadata": {"name": f"{of}-x", "labels": {"batch.kubernetes.io/job-name": of}},
        "status": {"containerStatuses": [ended]},
    }


def applied(builder: PlanBuilder) -> list[str]:
    return [str(each.object["kind"]) for each in builder.actions if isinstance(each, Apply)]


def test_without_an_image_there_is_no_job(running: World) -> None:
    builder = PlanBuilder()
    reconcile_job(state_of(running, rebalance_image=""), builder)

    assert builder.actions == []


def test_it_is_made_once_and_put_right(running: World) -> None:
    made, again, mended = PlanBuilder(), PlanBuilder(), PlanBuilder()
    there = objects(running)
    report = with_applied(report_map(state_of(running).cluster))
    kept = (*running.snapshot().config_maps, {**report, "binaryData": {names.REPORT_KEY: "x"}})
    changed = tuple({**each, "rules": []} if each["kind"] == "Role" else each for each in there)
    reconcile_job(state_of(running), made)
    reconcile_job(state_of(running, rebalance_objects=there, config_maps=kept), again)
    reconcile_job(state_of(running, rebalance_objects=changed, config_maps=kept), mended)

    assert applied(made) == ["ConfigMap", "ServiceAccount", "Role", "RoleBinding", "CronJob"]
    assert again.actions == []
    assert applied(mended) == ["Role"]


def test_what_cannot_be_read_is_left_as_it_is(running: World) -> None:
    builder = PlanBuilder()
    reconcile_job(state_of(running, unknown=frozenset({"roles"})), builder)

    assert builder.actions == []
    assert [wait.reason for wait in builder.waits] == ["JobUnreadable"]


def test_before_a_cluster_goes_its_cron_job_goes(running: World) -> None:
    builder = PlanBuilder()

    assert withdraw_job(state_of(running), PlanBuilder()) is True
    assert withdraw_job(state_of(running, rebalance_objects=objects(running)), builder) is False
    assert [each.kind for each in builder.actions if isinstance(each, Delete)] == ["CronJob"]


@pytest.mark.parametrize(
    ("jobs", "pods", "wanted"),
    [
        pytest.param((), (), None, id="never ran"),
        pytest.param(
            (job("a", "Complete", "2026-09-01T00:00:00Z"),),
            (pod("a", json.dumps({"reason": "RunSucceeded", "message": "12 moves proposed."})),),
            ("RebalanceRuns", "True", "RunSucceeded", "a: 12 moves proposed."),
            id="well",
        ),
        pytest.param(
            (job("a", "Complete", "2026-09-01T00:00:00Z"), job("b", "Failed", "2026-09-02T00:00:00Z")),
            (
                pod(
                    "b",
                    json.dumps({"reason": "NoSamples", "message": "There is nothing.", "lines": ["x", "y"]}),
                ),
            ),
            ("RebalanceRuns", "False", "NoSamples", "b: There is nothing. Last lines: x | y"),
            id="the latest failed",
        ),
        pytest.param(
            (job("b", "Failed", "2026-09-02T00:00:00Z"),),
            (pod("b", "Traceback: boom"),),
            ("RebalanceRuns", "False", "RunFailed", "b: It ended with: Traceback: boom"),
            id="a log's end",
        ),
        pytest.param(
            (job("b", "Failed", "2026-09-02T00:00:00Z", "Job was active longer than specified deadline"),),
            (),
            (
                "RebalanceRuns",
                "False",
                "RunFailed",
                "b: It failed and left no message: Job was active longer than specified deadline.",
            ),
            id="past its deadline",
        ),
    ],
)
def test_how_the_latest_run_went(
    running: World, jobs: tuple[Any, ...], pods: tuple[Any, ...], wanted: tuple[str, ...] | None
) -> None:
    assert runs_row(state_of(running, jobs=jobs, pods=(*running.snapshot().pods, *pods))) == wanted


def test_its_acls_are_given_once_it_has_a_certificate(running: World) -> None:
    none, first, then = PlanBuilder(), PlanBuilder(), PlanBuilder()
    state = state_of(running)
    reconcile_rebalance(state, none)
    secret = replace(
        next(iter(state.secrets.values())), metadata={"name": "demo-rebalance", "uid": "u", "annotations": {}}
    )
    reconcile_rebalance(replace(state, secrets={"demo-rebalance": secret}), first)
    noted = replace(secret, metadata={**secret.metadata, "annotations": {"spindle.dev/acls": "granted"}})
    reconcile_rebalance(replace(state, secrets={"demo-rebalance": noted}), then)

    assert none.actions == then.actions == []
    assert [type(each) for each in first.actions] == [GrantRebalance, Patch]


@pytest.mark.parametrize(
    "told",
    [
        pytest.param("[" * 4000, id="nested"),
        pytest.param('{"message": ' + "[" * 900 + "]" * 900 + "}", id="nested message"),
        pytest.param(json.dumps({"lines": 5, "reason": {}, "message": [1]}), id="of other types"),
        pytest.param("9" * 4096, id="a long number"),
    ],
)
def test_what_a_compromised_job_reports_does_not_end_the_pass(running: World, told: str) -> None:
    jobs = (job("b", "Failed", "2026-09-02T00:00:00Z"),)
    row = runs_row(state_of(running, jobs=jobs, pods=(*running.snapshot().pods, pod("b", told))))
    assert row is not None
    assert row[:3] == ("RebalanceRuns", "False", "RunFailed")
