"""Pods as the API server has them: what they may write to their node is limited, and they serve what the manual lists and no more."""

import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from e2e.cluster.apiserver import ApiServer
from e2e.cluster.build import ensure_helm
from spindle.api import names
from spindle_operator.kinds import POD, SERVICE
from spindle_operator.kube import Kube
from tests.kube.conftest import ROOT
from tests.kube.samples import cluster as sample
from tests.security.nodes import some_nodes
from tests.security.test_tenants import a_pass

pytestmark = pytest.mark.kube


@pytest.fixture(scope="module", autouse=True)
def nodes(api_server: ApiServer) -> Iterator[None]:
    """Three nodes in three zones, for pods to be planned on."""
    yield from some_nodes(api_server, 3)


async def pods_of(kube: Kube, namespace: str, **spec: Any) -> list[dict[str, Any]]:
    """Those that the operator's first passes make."""
    wanted = sample()
    wanted["spec"] |= spec
    await kube.create(wanted, namespace)
    for _ in range(5):
        await a_pass(kube, namespace)
    pods = await kube.items(POD, namespace)
    assert pods
    return [dict(pod) for pod in pods]


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def ports(pods: list[dict[str, Any]]) -> set[int]:
    return {
        port["containerPort"]
        for pod in pods
        for container in containers(pod)
        for port in container.get("ports", ())
    }


async def test_what_a_pod_writes_to_its_node_is_limited(kube: Kube, namespace: str) -> None:
    for pod in await pods_of(kube, namespace):
        folders = [volume["emptyDir"] for volume in pod["spec"]["volumes"] if "emptyDir" in volume]
        assert folders
        assert all(folder.get("sizeLimit") for folder in folders), folders
        for container in pod["spec"]["initContainers"]:
            assert container["resources"]["limits"]["memory"], container["name"]
        assert all(each["securityContext"]["readOnlyRootFilesystem"] for each in containers(pod))


async def test_metrics_that_are_for_nobody_have_no_port(kube: Kube, namespace: str) -> None:
    pods = await pods_of(kube, namespace, metrics={"enabled": False})
    assert names.PORT_METRICS not in ports(pods)
    for pod in pods:
        assert not [key for key in pod["metadata"]["annotations"] if key.startswith("prometheus.io/")]
        told = {env["name"]: env.get("value") for each in containers(pod) for env in each.get("env", ())}
        assert told[names.ENV_METRICS_BIND] == "127.0.0.1"


@pytest.fixture(scope="module")
def charts() -> set[int]:
    """Ports of the pods that the chart makes: operator and agents."""
    command = [str(ensure_helm()), "template", "spindle", str(ROOT / "charts/spindle")]
    rendered = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    made = [each for each in yaml.safe_load_all(rendered) if each]
    return ports([each["spec"]["template"] for each in made if each["kind"] in ("Deployment", "DaemonSet")])


async def test_the_manual_lists_every_port_that_is_served(
    kube: Kube, namespace: str, charts: set[int]
) -> None:
    page = (ROOT / "docs/security.md").read_text()
    table = page[page.index("## Open ports") : page.index("None of them accepts commands")]
    listed = {int(found) for row in table.splitlines() for found in re.findall(r"\b\d{4}\b", row)}
    served = ports(await pods_of(kube, namespace))
    for service in await kube.items(SERVICE, namespace):
        served |= {port["port"] for port in service["spec"]["ports"]}
    served |= charts
    assert {names.PORT_CONTROLLER, names.PORT_METRICS, 8080} <= served
    assert served <= listed, served - listed
