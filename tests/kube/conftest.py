"""A real API server for the whole run, with Spindle's resources; no nodes, no controllers."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client, config

from e2e.cluster.apiserver import ApiServer
from tests.kube.api import Resources

ROOT = Path(__file__).resolve().parents[2]
_numbers = itertools.count()


@pytest.fixture(scope="session")
def api_server() -> Iterator[ApiServer]:
    """A fresh control plane with the CustomResourceDefinitions established."""
    with ApiServer() as server:
        server.kubectl("apply", "--server-side", "-f", str(ROOT / "crds"))
        server.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(ROOT / "crds"))
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
