"""A real API server for the whole run, with Spindle's resources; no nodes, no controllers."""

import itertools
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from e2e.cluster.apiserver import ApiServer
from spindle.model.actions import Action
from spindle.model.freshness import FactsRead
from spindle_operator.act import Actor
from spindle_operator.kafka_executor import KafkaExecutor
from spindle_operator.kube import Kube, connect
from tests.kube.api import Resources
from tests.kube.samples import cluster as sample_cluster

ROOT = Path(__file__).resolve().parents[2]
_numbers = itertools.count()


@pytest.fixture(scope="session")
def api_server() -> Iterator[ApiServer]:
    """A fresh control plane with the CustomResourceDefinitions established."""
    with ApiServer() as server:
        server.kubectl("apply", "--server-side", "-f", str(ROOT / "crds"))
        server.wait_established("-f", str(ROOT / "crds"))
        yield server


@pytest.fixture(scope="session")
def api_client(api_server: ApiServer) -> Iterator[client.ApiClient]:
    """A client of that server, with all rights."""
    with config.new_client_from_config(config_file=str(api_server.kubeconfig)) as api:
        yield api


@pytest.fixture
def namespace(api_client: client.ApiClient) -> str:
    """A namespace of the test's own."""
    name = f"test-{os.getpid()}-{next(_numbers)}"
    client.CoreV1Api(api_client).create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=name)))
    return name


@pytest.fixture(scope="module")
def shared(api_client: client.ApiClient) -> Resources:
    """Spindle's resources in the default namespace, for tests that store nothing there."""
    return Resources(api_client, "default")


@pytest.fixture
def resources(api_client: client.ApiClient, namespace: str) -> Resources:
    """Spindle's resources in the test's own namespace."""
    return Resources(api_client, namespace)


@pytest.fixture
async def kube(api_server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kube]:
    """The operator's own client of that server."""
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    async with connect() as kube:
        yield kube


@pytest.fixture
async def cluster(kube: Kube, namespace: str) -> dict[str, Any]:
    """The sample's KafkaCluster as it stands in the test's own namespace."""
    return await kube.create(sample_cluster(), namespace)


@pytest.fixture
def act(kube: Kube, cluster: dict[str, Any]) -> Callable[..., Any]:
    """Has actions of the plan carried out as the operator does it; what became of each."""

    async def act(*actions: Action) -> list[str]:
        gate = KafkaExecutor("test", 1)
        results = await Actor(
            kube, cluster, gate, lambda: True, look=FactsRead(listed=True, at=time.monotonic())
        ).run(actions)
        await gate.shutdown()
        return [result.outcome for result in results]

    return act
