"""The operator as processes: it leads, stands by, takes over, leaves, and finishes what another one began."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.apiserver import ApiServer
from spindle_operator.lease import DEADLINE, DURATION, RETRY
from spindle_operator.loop import FINALIZER
from tests.kube.operator_process import OperatorProcess, until
from tests.kube.samples import cluster

pytestmark = pytest.mark.kube

Start = Callable[..., OperatorProcess]


@pytest.fixture
def start(api_server: ApiServer, namespace: str, tmp_path: Path) -> Start:
    def make(*arguments: str, name: str = "one") -> OperatorProcess:
        return OperatorProcess(api_server.kubeconfig, namespace, tmp_path, *arguments, name=name)

    return make


def read(server: ApiServer, namespace: str, *what: str) -> Any:
    return json.loads(server.kubectl("-n", namespace, "get", *what, "-o", "json"))


def make_cluster(server: ApiServer, namespace: str) -> None:
    server.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(cluster()))


def versions(server: ApiServer, namespace: str) -> dict[str, str]:
    """Every object of ours in the namespace → its resourceVersion."""
    kinds = "kafkaclusters,kafkabrokers,configmaps,secrets,services,poddisruptionbudgets,pods,persistentvolumeclaims"
    items = read(server, namespace, kinds)["items"]
    return {
        f"{item['kind']}/{item['metadata']['name']}": item["metadata"]["resourceVersion"] for item in items
    }


def test_a_settled_cluster_is_not_written_to(api_server: ApiServer, namespace: str, start: Start) -> None:
    make_cluster(api_server, namespace)
    with start("--resync=1") as operator:
        until("objects", lambda: len(versions(api_server, namespace)) > 8, detail=lambda: operator.log)

        def rests() -> bool:
            """Whether three passes left everything as it was; the first ones still have things to do."""
            before, passes = versions(api_server, namespace), operator.passes()
            until("three passes", lambda: operator.passes() >= passes + 3, 60, lambda: operator.log)
            return versions(api_server, namespace) == before

        until("rest", rests, 120, detail=lambda: operator.log)
        assert "error" not in operator.log


def test_pages_for_probes_and_for_prometheus(api_server: ApiServer, namespace: str, start: Start) -> None:
    make_cluster(api_server, namespace)
    with start() as operator:
        until("a pass", lambda: operator.passes() > 0, detail=lambda: operator.log)
        assert operator.get("/healthz") == (200, "ok\n")
        assert operator.get("/readyz") == (200, "ok\n")
        text = operator.get("/metrics")[1]
        for name in (
            "spindle_reconcile_age_seconds",
            "spindle_leader 1.0",
            "spindle_actions_total",
            "spindle_cluster_condition",
            "spindle_build_info",
        ):
            assert name in text
        print(f"resident memory with one cluster: {operator.resident_mib():.0f} MiB")
        assert operator.resident_mib() < 160


def test_after_an_orderly_end_the_other_replica_takes_over_at_once(start: Start) -> None:
    with start(name="one") as one:
        until("the first leads", lambda: one.leads, detail=lambda: one.log)
        with start(name="two") as two:
            until("the second stands by", lambda: "standby; the leader" in two.log, detail=lambda: two.log)
            assert two.get("/healthz")[0] == 200
            assert one.stop(signal.SIGTERM) == 0
            took = until("the second leads", lambda: two.leads, 10, lambda: two.log)
            print(f"fail-over after SIGTERM: {took:.1f} s")
            assert took < 2 * RETRY


@pytest.mark.slow  # that a frozen one is followed shows the same
def test_after_a_kill_the_other_replica_takes_over_when_the_lease_has_run_out(start: Start) -> None:
    with start(name="one") as one:
        until("the first leads", lambda: one.leads, detail=lambda: one.log)
        with start(name="two") as two:
            until("the second stands by", lambda: "standby; the leader" in two.log, detail=lambda: two.log)
            one.stop(signal.SIGKILL)
            took = until("the second leads", lambda: two.leads, 40, lambda: two.log)
            print(f"fail-over after SIGKILL: {took:.1f} s")
            assert DEADLINE < took < DURATION + 2 * RETRY + 1


def test_a_leader_whose_lease_is_taken_ends(api_server: ApiServer, namespace: str, start: Start) -> None:
    with start() as operator:
        until("it leads", lambda: operator.leads, detail=lambda: operator.log)
        patch = json.dumps({"spec": {"holderIdentity": "somebody else"}})
        api_server.kubectl("-n", namespace, "patch", "lease", "spindle-operator", "--type=merge", "-p", patch)
        assert operator.process.wait(15) == 3
        assert "the Lease is lost" in operator.log


def test_a_leader_that_was_frozen_past_its_time_ends_before_it_writes(
    api_server: ApiServer, namespace: str, start: Start
) -> None:
    with start(name="one") as one:
        until("it leads", lambda: one.leads, detail=lambda: one.log)
        with start(name="two") as two:
            one.process.send_signal(signal.SIGSTOP)
            until("the second leads", lambda: two.leads, 40, lambda: two.log)
            two.stop(signal.SIGKILL)  # else it, too, would work on the cluster
            make_cluster(api_server, namespace)
            one.process.send_signal(signal.SIGCONT)
            assert one.process.wait(15) == 3
            assert set(versions(api_server, namespace)) == {"KafkaCluster/demo"}


def test_a_cluster_deleted_while_no_operator_runs_gets_its_last_passes(
    api_server: ApiServer, namespace: str, start: Start
) -> None:
    make_cluster(api_server, namespace)
    with start(name="one") as one:
        until(
            "status",
            lambda: (read(api_server, namespace, "skc", "demo").get("status") or {}).get("conditions"),
            detail=lambda: one.log,
        )
        one.stop(signal.SIGKILL)
    api_server.kubectl(
        "-n", namespace, "delete", "lease", "spindle-operator"
    )  # the next one need not wait for it
    api_server.kubectl("-n", namespace, "delete", "skc", "demo", "--wait=false")
    left = read(api_server, namespace, "skc", "demo")["metadata"]
    assert left["finalizers"] == [FINALIZER]
    with start(name="two") as two:

        def gone() -> bool:
            return not api_server.kubectl(
                "-n", namespace, "get", "skc", "demo", "--ignore-not-found", "-o", "name"
            )

        until("it is gone", gone, 40, lambda: two.log)
        assert "clean-up is complete" in two.log


@pytest.mark.parametrize(
    "seconds",
    [0.7, pytest.param(1.2, marks=pytest.mark.slow), 1.7, pytest.param(2.3, marks=pytest.mark.slow)],
)
def test_killed_at_any_moment_it_ends_in_the_same(
    api_server: ApiServer, namespace: str, start: Start, seconds: float
) -> None:
    make_cluster(api_server, namespace)
    with start(name="one") as one:
        until("it leads", lambda: one.leads, detail=lambda: one.log)
        with pytest.raises(Exception, match="timed out"):
            one.process.wait(seconds)
        one.stop(signal.SIGKILL)
    api_server.kubectl("-n", namespace, "delete", "lease", "spindle-operator")
    with start("--resync=1", name="two") as two:
        until("objects", lambda: len(versions(api_server, namespace)) == 15, detail=lambda: two.log)
        until("three passes", lambda: two.passes() >= 3, detail=lambda: two.log)
        identity = read(api_server, namespace, "configmap", "demo-identity")
        assert (
            read(api_server, namespace, "skc", "demo")["status"]["clusterId"] == identity["data"]["clusterId"]
        )
        assert "error" not in two.log
