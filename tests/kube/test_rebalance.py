"""Proposals and their job on a real API server: what may be changed, what the job's account may do, what the operator writes."""

import json
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from e2e.cluster.apiserver import ApiServer, KubectlError
from spindle.api import names
from tests.kube.api import Resources, refusal
from tests.kube.operator_process import OperatorProcess, until
from tests.kube.samples import INPUT_HASH, bent, cluster, rebalance

pytestmark = pytest.mark.kube


def changed(resources: Resources, thing: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return resources.update(bent(resources.get(thing), changes))


@pytest.mark.parametrize(
    ("changes", "field", "way_out"),
    [
        pytest.param({"spec.moves[0].bytes": 7}, "spec.moves", "delete it and create a new one", id="moves"),
        pytest.param(
            {"spec.leaders": []},
            "spec.leaders",
            "cannot be changed except for approved and stop",
            id="leaders come",
        ),
        pytest.param(
            {"spec.estimatedMinutes": 3},
            "spec.estimatedMinutes",
            "cannot be changed except for approved and stop",
            id="duration comes",
        ),
        pytest.param(
            {"spec.approved": "0123456789abcdef"}, "spec.approved", "copy spec.inputHash", id="another hash"
        ),
    ],
)
def test_only_approval_and_stop_can_be_changed(
    resources: Resources, changes: dict[str, Any], field: str, way_out: str
) -> None:
    thing = resources.create(rebalance())

    with pytest.raises(ApiException) as caught:
        changed(resources, thing, changes)

    said = refusal(caught.value)
    assert any(way_out in message for message in said.causes[field]), said.message


def test_a_proposal_is_approved_withdrawn_and_stopped_for_good(resources: Resources) -> None:
    thing = resources.create(rebalance())

    assert changed(resources, thing, {"spec.approved": INPUT_HASH})["spec"]["approved"] == INPUT_HASH
    assert changed(resources, thing, {"spec.approved": None})["spec"].get("approved") is None
    assert changed(resources, thing, {"spec.stop": True})["spec"]["stop"] is True
    with pytest.raises(ApiException) as caught:
        changed(resources, thing, {"spec.stop": False})
    assert "create a new one" in refusal(caught.value).message


def test_the_largest_proposal_fits_with_its_status(resources: Resources) -> None:
    moves = [
        {**rebalance()["spec"]["moves"][0], "partition": i, "topic": "t" * 100, "wave": i}
        for i in range(2000)
    ]
    leaders = [{"topic": "t" * 100, "partition": i, "broker": 1} for i in range(2000)]
    thing = resources.create(bent(rebalance(), {"spec.moves": moves, "spec.leaders": leaders}))
    dropped = [
        {"topic": "t" * 100, "partition": i, "reason": "ReplicaSizeChanged", "message": "m" * 200}
        for i in range(1000)
    ]
    body = {**rebalance(), "status": {"phase": "Executing", "outcomes": "." * 2000, "dropped": dropped}}
    del body["spec"]

    assert len(resources.report(body, "spindle-operator")["status"]["dropped"]) == 1000
    assert len(resources.get(thing)["spec"]["moves"]) == 2000


@pytest.fixture
def served(api_server: ApiServer, namespace: str, tmp_path: Path) -> Any:
    """A KafkaCluster whose operator knows an image of the rebalance job."""
    api_server.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(cluster()))
    with OperatorProcess(
        api_server.kubeconfig, namespace, tmp_path, "--rebalance-image=example.org/rebalance:1", "--resync=1"
    ) as operator:

        def job() -> str:
            return api_server.kubectl(
                "-n", namespace, "get", "cronjob", "demo-rebalance", "--ignore-not-found", "-o", "name"
            )

        until("the CronJob", job, 60, lambda: operator.log)
        yield operator


def can(api_server: ApiServer, namespace: str, verb: str, resource: str) -> bool:
    account = f"system:serviceaccount:{namespace}:demo-rebalance"
    said = api_server.kubectl("auth", "can-i", verb, resource, "-n", namespace, "--as", account, check=False)
    return said.strip() == "yes"


def test_the_jobs_account_may_do_its_work_and_nothing_else(
    api_server: ApiServer, namespace: str, served: OperatorProcess
) -> None:
    def ask(verb: str, resource: str) -> bool:
        return can(api_server, namespace, verb, resource)

    for verb, resource in (
        ("get", "kafkaclusters.spindle.dev/demo"),
        ("list", "kafkabrokers.spindle.dev"),
        ("get", "kafkarebalances.spindle.dev"),
        ("create", "kafkarebalances.spindle.dev"),
        ("patch", "kafkarebalances.spindle.dev"),
        ("get", "configmaps/demo-rebalance-report"),
        ("patch", "configmaps/demo-rebalance-report"),
    ):
        assert ask(verb, resource), (verb, resource, served.log)
    for verb, resource in (
        ("list", "kafkaclusters.spindle.dev"),
        ("get", "kafkaclusters.spindle.dev/other"),
        ("patch", "kafkaclusters.spindle.dev/demo"),
        ("patch", "kafkabrokers.spindle.dev"),
        ("delete", "kafkarebalances.spindle.dev"),
        ("get", "configmaps/demo-moves"),
        ("create", "configmaps"),
        ("get", "secrets"),
        ("get", "secrets/demo-rebalance"),
        ("create", "pods"),
        ("list", "pods"),
        ("create", "jobs.batch"),
        ("create", "rolebindings.rbac.authorization.k8s.io"),
    ):
        assert not ask(verb, resource), (verb, resource)


def test_rights_over_pods_come_and_go_with_executors(
    api_server: ApiServer, namespace: str, served: OperatorProcess
) -> None:
    for engine, wanted in (({"executors": {"count": 2}}, True), ({"executors": None}, False)):
        patch = json.dumps({"spec": {"rebalance": {"engine": engine}}})
        api_server.kubectl("-n", namespace, "patch", "skc", "demo", "--type=merge", "-p", patch)
        until(
            f"pods: {wanted}",
            lambda wanted=wanted: can(api_server, namespace, "create", "pods") is wanted,  # type: ignore[misc]
            40,
            lambda: served.log,
        )


def test_the_report_is_applied_by_its_name_alone(
    api_server: ApiServer, namespace: str, served: OperatorProcess
) -> None:
    account = f"system:serviceaccount:{namespace}:demo-rebalance"

    def apply(name: str) -> str:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}}
        return api_server.kubectl(
            *("apply", "--server-side", "--field-manager", names.FIELD_MANAGER_REBALANCE, "-n", namespace),
            *("--as", account, "-f", "-"),
            stdin=json.dumps(body),
        )

    assert "serverside-applied" in apply(names.rebalance_report("demo"))
    with pytest.raises(KubectlError, match="forbidden"):
        apply("demo-moves")


def test_the_jobs_pod_satisfies_the_strictest_pod_security(
    api_server: ApiServer, namespace: str, served: OperatorProcess
) -> None:
    api_server.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    found = json.loads(api_server.kubectl("-n", namespace, "get", "cronjob", "demo-rebalance", "-o", "json"))
    spec = found["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "run"}, "spec": spec}

    api_server.kubectl("-n", namespace, "create", "-f", "-", stdin=json.dumps(pod))
    made = api_server.kubectl("-n", namespace, "create", "job", "--from=cronjob/demo-rebalance", "now")
    assert "job.batch/now created" in made
    assert found["spec"]["suspend"] is True


def test_the_operator_tells_the_phase_of_each_proposal_and_clears_up(
    api_server: ApiServer, namespace: str, resources: Resources, served: OperatorProcess
) -> None:
    def phase(name: str) -> str:
        return api_server.kubectl("-n", namespace, "get", "skr", name, "-o", "jsonpath={.status.phase}")

    uid = api_server.kubectl("-n", namespace, "get", "skc", "demo", "-o", "jsonpath={.metadata.uid}")
    owner = {"apiVersion": "spindle.dev/v1alpha1", "kind": "KafkaCluster", "name": "demo", "uid": uid}
    by_the_job = {"metadata.ownerReferences": [owner]}
    resources.create(bent(rebalance(), by_the_job))
    until("proposed", lambda: phase("demo-1") == "Proposed", 40, lambda: served.log)
    late = {"metadata.name": "demo-2", "spec.expires": "2020-01-01T00:00:00Z"}
    resources.create(bent(rebalance(), {**by_the_job, **late}))
    until("superseded", lambda: phase("demo-1") == "Superseded", 40, lambda: served.log)
    until("expired", lambda: phase("demo-2") == "Expired", 40, lambda: served.log)
    resources.create(bent(rebalance(), {"metadata.name": "demo-3", "spec.approved": INPUT_HASH}))
    # There is no Kafka here: it is approved, and waits for one.
    until("approved", lambda: phase("demo-3") == "Approved", 40, lambda: served.log)
    resources.create(bent(rebalance(), {"metadata.name": "other", "spec.cluster": "other"}))

    api_server.kubectl("-n", namespace, "delete", "skc", "demo", "--wait=false")
    gone = ("-n", namespace, "get", "skc", "demo", "--ignore-not-found", "-o", "name")
    until("the cluster is gone", lambda: not api_server.kubectl(*gone), 60, lambda: served.log)
    left = api_server.kubectl("-n", namespace, "get", "skr", "-o", "name").split()
    assert left == ["kafkarebalance.spindle.dev/demo-3", "kafkarebalance.spindle.dev/other"], (
        "one was made by hand"
    )
    assert "ERROR" not in served.log
