"""Evictions against the budgets of a cluster, by a real API server and the controller that counts for the budgets."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from e2e.cluster.apiserver import ApiServer
from e2e.cluster.waiting import wait_for
from spindle.api import names
from spindle.manifests.budgets import broker_budget, controller_budget, drain_budget

pytestmark = pytest.mark.kube

OWNER = {"metadata": {"name": "demo", "namespace": "kafka", "uid": "11111111-2222-3333-4444-555555555555"}}
BROKERS = tuple(f"demo-broker-{i}" for i in range(6))  # two in each of three zones: 0 and 3, 1 and 4, 2 and 5
CONTROLLERS = tuple(f"demo-controller-{i}" for i in range(3))
USUAL, OWN = names.broker_budget("demo"), names.drain_budget("demo")


class Fleet:
    """Pods of a cluster that run, as far as the API server knows, and the budgets that they are counted by."""

    def __init__(self, api: client.ApiClient, namespace: str) -> None:
        self.core: Any = client.CoreV1Api(api)
        self.policy: Any = client.PolicyV1Api(api)
        self.namespace = namespace

    def begin(self) -> None:
        """All pods ready, all budgets counted."""
        for budget in (broker_budget(OWNER, 6), drain_budget(OWNER), controller_budget(OWNER, 3)):
            budget["metadata"]["namespace"] = self.namespace
            del budget["metadata"]["ownerReferences"]  # of a KafkaCluster that is not there
            self.policy.create_namespaced_pod_disruption_budget(self.namespace, budget)
        for pod in BROKERS:
            self.start(pod, USUAL)
        for pod in CONTROLLERS:
            self.start(pod, names.controller_budget("demo"))
        self.counted(USUAL, 1)
        self.counted(names.controller_budget("demo"), 1)

    def start(self, pod: str, budget: str) -> None:
        """A pod that runs and is ready."""
        labels = {names.LABEL_CLUSTER: "demo", names.LABEL_BUDGET: budget}
        container = {"name": "kafka", "image": "example.org/kafka"}
        body = {
            "metadata": {"name": pod, "labels": labels},
            "spec": {"containers": [container]},
        }
        self.core.create_namespaced_pod(self.namespace, body)
        self.ready(pod)

    def ready(self, pod: str, *, ready: bool = True) -> None:
        """What the kubelet says of a pod."""
        conditions = [{"type": "Ready", "status": str(ready)}]
        body = {"status": {"phase": "Running", "conditions": conditions}}
        self.core.patch_namespaced_pod_status(pod, self.namespace, body)

    def give(self, pod: str, budget: str) -> None:
        """Have a pod counted by another budget, as a pass does."""
        body = {"metadata": {"labels": {names.LABEL_BUDGET: budget}}}
        self.core.patch_namespaced_pod(pod, self.namespace, body)

    def counted(self, budget: str, allowed: int) -> None:
        """Wait until a budget allows so many evictions."""

        def settled() -> bool:
            found = self.policy.read_namespaced_pod_disruption_budget(budget, self.namespace)
            seen = found.status.observed_generation == found.metadata.generation
            return bool(seen and found.status.disruptions_allowed == allowed)

        wait_for(f"{budget} allows {allowed}", settled, seconds=30)

    def evict(self, pod: str) -> bool:
        """As ``kubectl drain`` does; whether it was allowed."""
        try:
            self.core.create_namespaced_pod_eviction(pod, self.namespace, {"metadata": {"name": pod}})
        except ApiException as error:
            if error.status != HTTPStatus.TOO_MANY_REQUESTS:
                raise
            return False
        return True


@pytest.fixture(scope="module")
def counting() -> Iterator[ApiServer]:
    """A control plane whose controllers run: they say how many evictions a budget allows."""
    with ApiServer(controllers=True) as server:
        yield server


@pytest.fixture
def fleet(counting: ApiServer, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    with config.new_client_from_config(config_file=str(counting.kubeconfig)) as api:
        namespace = request.node.name.replace("_", "-")[:50].strip("-")
        core: Any = client.CoreV1Api(api)
        core.create_namespace({"metadata": {"name": namespace}})
        wait_for(
            "its service account",
            lambda: core.list_namespaced_service_account(namespace).items,
            seconds=60,
        )
        made = Fleet(api, namespace)
        made.begin()
        yield made


def test_one_broker_and_one_controller_of_a_node_may_go_and_no_second_one(fleet: Fleet) -> None:
    assert fleet.evict(BROKERS[0])
    assert fleet.evict(CONTROLLERS[0])
    fleet.counted(USUAL, 0)
    assert not any(fleet.evict(pod) for pod in (*BROKERS[1:], *CONTROLLERS[1:]))
    fleet.start(BROKERS[0], USUAL)
    fleet.counted(USUAL, 1)
    assert fleet.evict(BROKERS[1])


def test_one_that_is_not_in_sync_holds_back_all_others(fleet: Fleet) -> None:
    fleet.ready(BROKERS[4], ready=False)
    fleet.counted(USUAL, 0)
    assert not fleet.evict(BROKERS[0])


def test_a_rack_with_a_budget_of_its_own_goes_and_the_others_lose_none(fleet: Fleet) -> None:
    assert fleet.evict(BROKERS[0])
    fleet.give(BROKERS[3], OWN)
    fleet.counted(OWN, 1)
    assert not any(fleet.evict(BROKERS[i]) for i in (1, 2, 4, 5))
    assert fleet.evict(BROKERS[3])
    fleet.counted(USUAL, 0)
    assert not any(fleet.evict(BROKERS[i]) for i in (1, 2, 4, 5))


def test_a_rack_that_was_not_drained_after_all_is_counted_as_before(fleet: Fleet) -> None:
    """A budget is counted anew when one of its pods changes; one that leaves it by its label is none of them any more.

    So nobody is given to a drain while the usual budget would let anybody go.
    """
    assert fleet.evict(BROKERS[0])
    fleet.give(BROKERS[3], OWN)
    fleet.counted(OWN, 1)
    fleet.start(BROKERS[0], USUAL)
    fleet.counted(USUAL, 0)
    assert not fleet.evict(BROKERS[1])
    fleet.give(BROKERS[3], USUAL)
    fleet.counted(USUAL, 1)
    assert fleet.evict(BROKERS[1])


def test_one_of_the_drained_rack_that_is_not_ready_may_go_too(fleet: Fleet) -> None:
    fleet.give(BROKERS[3], OWN)
    fleet.ready(BROKERS[3], ready=False)
    fleet.counted(OWN, 0)
    assert fleet.evict(BROKERS[3])
