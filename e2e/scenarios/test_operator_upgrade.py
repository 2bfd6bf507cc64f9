"""Spindle is upgraded from the previous version while a cluster serves, and goes back to it."""

import os
import subprocess
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from e2e.cluster import versions
from e2e.cluster.build import ensure_helm
from e2e.cluster.images import ensure_spindle_image
from e2e.cluster.layout import SPINDLE_BEFORE_IMAGE
from e2e.cluster.target import Target
from e2e.cluster.testbed import Testbed
from e2e.scenarios.install import AGENTS, VALUES
from e2e.scenarios.lab import CLUSTER, ROOT, SYSTEM, Lab
from e2e.scenarios.load import Topic, load
from e2e.scenarios.stand import Stand
from spindle.api import names

pytestmark = pytest.mark.e2e

# The previous chart refuses values that it does not know.
BEFORE = tuple(value for value in VALUES if value != "--set=allow.sidecars=true")


def helm(target: Target, chart: Path, *settings: str) -> None:
    """Install or upgrade Spindle from a chart's folder, and wait until it runs."""
    command = ("upgrade", "--install", "spindle", str(chart), "--namespace", SYSTEM, "--wait", "--timeout=4m")
    environment = {**os.environ, "KUBECONFIG": str(target.kubeconfig)}
    subprocess.run([str(ensure_helm()), *command, *settings], cwd=ROOT, env=environment, check=True)


def install_before(target: Target, folder: Path) -> None:
    """Install the previous version from its checkout, or go back to it."""
    repository, _, tag = SPINDLE_BEFORE_IMAGE.rpartition(":")
    image = (f"--set=image.repository={repository}", f"--set=image.tag={tag}")
    helm(target, folder / "charts/spindle", "--reset-values", *BEFORE, *image)


@pytest.fixture(scope="module")
def before(installed: Target, stands: Stand, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The previous version, installed; its checkout."""
    if not isinstance(installed, Testbed):
        pytest.skip("needs the testbed")
    commit = versions.SPINDLE_BEFORE
    done = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"the checkout has no commit {commit}")
    folder = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    stands.close()  # the cluster must be created with the previous version
    installed.give(ensure_spindle_image(folder, SPINDLE_BEFORE_IMAGE))
    install_before(installed, folder)
    yield folder
    helm(installed, ROOT / "charts/spindle", "--reset-values", *VALUES)


def processes(lab: Lab) -> dict[tuple[str, str], tuple[str, list[int]]]:
    """Role and name of each pod of Kafka → its UID, and how often its containers restarted."""
    return {
        (pod["metadata"]["labels"]["spindle.dev/role"], pod["metadata"]["name"]): (
            pod["metadata"]["uid"],
            [each["restartCount"] for each in pod["status"]["containerStatuses"]],
        )
        for pod in lab.list("pods", "spindle.dev/role")
    }


def images(target: Target) -> set[str]:
    """The images of the operators."""
    system = Lab((str(target.kubectl_program()),), target.kubeconfig, SYSTEM)
    pods = system.list("pods", "app.kubernetes.io/name=spindle")
    return {container["image"] for pod in pods for container in pod["spec"]["containers"]}


def certified_nodes(lab: Lab) -> dict[str, str]:
    """Each node whose agent has a certificate for this cluster, and the last part of the name of the ConfigMap that has it."""
    there = Lab(lab.kubectl_command, lab.kubeconfig, AGENTS)
    where = lab.namespace, CLUSTER
    found = {
        name: there.get("configmap", name) or {}
        for name in (names.agent_certificates(*where), *names.agent_parts(*where))
    }
    return {
        key: name.rpartition(".")[2]
        for name, each in found.items()
        for key in each.get("data", ())
        if key != names.AGENT_AUTHORITIES
    }


def until_it_has_nothing_to_do(lab: Lab) -> None:
    """Wait until the operators that run now have reconciled the cluster and found nothing to do."""
    lab.patch("kafkacluster", CLUSTER, {"spec": {"paused": True}})
    lab.until("the operator reconciles", lambda: lab.condition("Reconciling").get("reason") == "Paused")
    lab.patch("kafkacluster", CLUSTER, {"spec": {"paused": False}})
    lab.until_ready(300)
    lab.until("status.waiting is empty", lambda: not lab.waits(), 180)


@pytest.mark.usefixtures("before")
def test_an_upgrade_loses_nothing_and_restarts_only_what_the_changelog_names(
    running: Lab, installed: Target, spindle_image: str
) -> None:
    lab = running
    assert images(installed) == {SPINDLE_BEFORE_IMAGE}
    found = processes(lab)
    assert len(found) == 6
    nodes = {pod["spec"]["nodeName"] for pod in lab.list("pods", "spindle.dev/role=broker")}
    lab.until("each agent has its certificate", lambda: certified_nodes(lab).keys() == nodes, 120)
    with load(lab, spindle_image, Topic("kept", partitions=6)) as writing:
        helm(installed, ROOT / "charts/spindle", "--reset-values", *VALUES)
        lab.until("only the new version runs", lambda: images(installed) == {spindle_image}, 180)
        until_it_has_nothing_to_do(lab)
        parts = {node: names.agent_part(lab.namespace, CLUSTER, node).rpartition(".")[2] for node in nodes}
        lab.until("each agent has its certificate in its part", lambda: certified_nodes(lab) == parts, 120)
        agents = Lab(lab.kubectl_command, lab.kubeconfig, AGENTS)
        former = names.agent_certificates(lab.namespace, CLUSTER)
        lab.until("the former ConfigMap is gone", lambda: agents.get("configmap", former) is None, 120)
        report = writing.finish()
    for (role, name), (uid, restarts) in processes(lab).items():
        assert restarts == [0]
        assert (uid != found[role, name][0]) == (role in versions.SPINDLE_BEFORE_RESTARTS), name
    assert not report.lost
    print(report.summary())


def test_going_back_keeps_the_cluster_and_its_data(
    before: Path, running: Lab, installed: Target, spindle_image: str
) -> None:
    lab = running
    helm(installed, ROOT / "charts/spindle", "--reset-values", *VALUES)
    lab.until("only the new version runs", lambda: images(installed) == {spindle_image}, 180)
    until_it_has_nothing_to_do(lab)
    identity = lab.the("configmap", f"{CLUSTER}-identity")["data"]
    authority = lab.the("secret", f"{CLUSTER}-ca")["data"]
    with load(lab, spindle_image, Topic("back", partitions=6)) as writing:
        install_before(installed, before)
        lab.until("only the previous version runs", lambda: images(installed) == {SPINDLE_BEFORE_IMAGE}, 180)
        until_it_has_nothing_to_do(lab)
        # It heals what it is for.
        lab.kubectl("delete", "pod", f"{CLUSTER}-broker-1", timeout=400)
        lab.until_ready(300)
        report = writing.finish()
    assert not report.lost
    assert lab.the("configmap", f"{CLUSTER}-identity")["data"]["clusterId"] == identity["clusterId"]
    assert lab.the("secret", f"{CLUSTER}-ca")["data"] == authority
    print(report.summary())
