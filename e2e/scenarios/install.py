"""Installs Spindle with its chart, and creates a namespace for one KafkaCluster."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from e2e.cluster.build import ensure_helm
from e2e.cluster.target import Target
from e2e.cluster.testbed import Testbed
from e2e.scenarios.lab import CLUSTER, ROOT, SYSTEM, Lab

AGENTS: Final = "spindle-agents"
# Each scenario has a namespace of its own; images that are built here are called localhost/….
VALUES: Final = (
    "--set=image.repository=localhost/spindle,image.tag=dev",
    "--set=watch.all=true",
    "--set=allow.images={apache/kafka,docker.io/apache/kafka,localhost/}",
    "--set=allow.sidecars=true",
)


def install(target: Target) -> None:
    """Install Spindle with its chart; on a testbed with an image of the checkout's current state."""
    programs = ((SYSTEM, "deployment", "spindle"), (AGENTS, "daemonset", "spindle-agent"))
    labs = {
        namespace: Lab((str(target.kubectl_program()),), target.kubeconfig, namespace)
        for namespace, _, _ in programs
    }
    was_there = [each for each in programs if labs[each[0]].get(*each[1:]) is not None]
    if isinstance(target, Testbed):
        target.load_images()
    upgrade(target)
    if isinstance(target, Testbed):
        # The tag stays the same, so pods of an earlier run would keep the image that they were created from.
        for namespace, kind, name in was_there:
            labs[namespace].kubectl("rollout", "restart", f"{kind}/{name}")
            labs[namespace].kubectl("rollout", "status", f"{kind}/{name}", "--timeout=180s", timeout=200)


def upgrade(target: Target, *values: str) -> None:
    """Install or upgrade the chart with `VALUES` and further ones, and wait until its pods are ready."""
    command = (
        "upgrade",
        "--install",
        "spindle",
        "charts/spindle",
        "--create-namespace",
        "--wait",
        "--timeout=3m",
    )
    environment = {**os.environ, "KUBECONFIG": str(target.kubeconfig)}
    subprocess.run(
        [str(ensure_helm()), *command, "--namespace", SYSTEM, *VALUES, *values],
        cwd=ROOT,
        env=environment,
        check=True,
    )


@contextmanager
def namespace(target: Target, title: str, file_system: str = "xfs", size: int | None = None) -> Iterator[Lab]:
    lab = create_namespace(target, title, file_system, size)
    try:
        yield lab
    finally:
        delete_namespace(lab)


def create_namespace(target: Target, title: str, file_system: str, size: int | None) -> Lab:
    """A namespace on nodes that are all on, with blank disks."""
    if isinstance(target, Testbed):
        for index, node in enumerate(target.nodes(), start=1):
            if not node.is_on():  # a scenario failed during an outage
                target.node_on(index)
        target.disks_reset(file_system, size or target.state.options.disk_size)
    name = "".join(c if c.isalnum() else "-" for c in title.lower()).strip("-")[:40].strip("-")
    lab = Lab((str(target.kubectl_program()),), target.kubeconfig, name)
    lab.kubectl("create", "namespace", name)
    return lab


def delete_namespace(lab: Lab) -> None:
    """Delete a namespace and its KafkaCluster, without waiting for anything that only matters for data."""
    if lab.get("kafkacluster", CLUSTER) is not None:
        # The data is not needed any more. Brokers whose quorum a scenario broke would try to move their leaders for minutes.
        # They are killed before the operator deletes them with a long grace period, which cannot be shortened afterwards.
        lab.patch("kafkacluster", CLUSTER, {"spec": {"deleteClaims": True, "paused": True}})
        lab.kubectl("delete", "pods", "-l", "spindle.dev/role", "--grace-period=1", "--wait=false")
        lab.kubectl("delete", "kafkacluster", CLUSTER, "--wait=false")
        lab.patch("kafkacluster", CLUSTER, {"spec": {"paused": False}})
        lab.until("the KafkaCluster is gone", lambda: lab.get("kafkacluster", CLUSTER) is None, 240)
    lab.kubectl("delete", "namespace", lab.namespace, "--wait=false")
    lab.until("its pods are gone", lambda: not lab.list("pods"), 120)
