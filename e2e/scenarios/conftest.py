"""A real cluster with Spindle in it. KUBECONFIG chooses another one than the testbed; what only that can do is skipped."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from e2e.cluster.build import ensure_helm
from e2e.cluster.layout import SPINDLE_IMAGE, Layout
from e2e.cluster.state import Options
from e2e.cluster.target import ForeignCluster, Target, foreign_kubeconfig
from e2e.cluster.testbed import Testbed
from e2e.scenarios.lab import CLUSTER, ROOT, Lab, sample

_SYSTEM: Final = "spindle-system"
_OPTIONS: Final = Options(nodes=5, zones=3, disks=3)
_KEEP: Final = "SPINDLE_KEEP"  # leave the testbed up after the run, for a look around


@pytest.fixture(scope="session")
def target() -> Iterator[Target]:
    """The cluster."""
    named = foreign_kubeconfig()
    if named is not None:
        yield ForeignCluster(named)
        return
    os.environ.setdefault("SPINDLE_TESTBED", "scenarios")
    testbed = Testbed(Layout.default())
    testbed.up(_OPTIONS)
    try:
        yield testbed
    finally:
        if _KEEP not in os.environ:
            testbed.down()


@pytest.fixture(scope="session")
def spindle_image() -> str:
    """Spindle's image, as the chart names it."""
    return os.environ.get("SPINDLE_IMAGE", SPINDLE_IMAGE)


@pytest.fixture(scope="session")
def installed(target: Target) -> Target:
    """The cluster with Spindle installed by its chart."""
    if isinstance(target, Testbed):
        target.load_images()
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
        [str(ensure_helm()), *command, "--namespace", _SYSTEM], cwd=ROOT, env=environment, check=True
    )
    if isinstance(target, Testbed):
        # The tag stays the same; pods of an earlier run would go on with the image that they were made from.
        system = Lab((str(target.kubectl_program()),), target.kubeconfig, _SYSTEM)
        system.kubectl("rollout", "restart", "deployment/spindle")
        system.kubectl("rollout", "status", "deployment/spindle", "--timeout=180s", timeout=200)
    return target


@pytest.fixture
def lab(installed: Target, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A namespace of its own with blank disks; whatever the scenario leaves there is taken away."""
    yield from _lab(installed, request.node.name)


@pytest.fixture(scope="module")
def running(installed: Target, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """The twelve-line sample, up and settled; shared by a file's scenarios, each of which leaves it well."""
    for lab in _lab(installed, request.module.__name__.rsplit(".", 1)[-1]):
        lab.apply(sample())
        took = lab.until_ready()
        print(f"the sample was ready after {took:.1f} s")
        yield lab


def _lab(target: Target, title: str) -> Iterator[Lab]:
    if isinstance(target, Testbed):
        target.disks_reset()
    name = "".join(c if c.isalnum() else "-" for c in title.lower()).strip("-")[:40].strip("-")
    lab = Lab((str(target.kubectl_program()),), target.kubeconfig, name)
    lab.kubectl("create", "namespace", name)
    try:
        yield lab
    finally:
        if lab.get("kafkacluster", CLUSTER) is not None:
            lab.patch("kafkacluster", CLUSTER, {"spec": {"deleteClaims": True, "paused": False}})
            lab.kubectl("delete", "kafkacluster", CLUSTER, "--wait=false")
            # Nobody needs the data any more: brokers whose quorum a scenario broke would try to hand over for minutes.
            lab.kubectl("delete", "pods", "-l", "spindle.dev/role", "--grace-period=1", "--wait=false")
            lab.until("the KafkaCluster is gone", lambda: lab.get("kafkacluster", CLUSTER) is None, 240)
        lab.kubectl("delete", "namespace", name, "--wait=false")
        lab.until("its pods are gone", lambda: not lab.list("pods"), 120)


@dataclass(frozen=True)
class Machine:
    """The machine below the cluster."""

    testbed: Testbed

    def node_off(self, node: str) -> None:
        """Pull a node's plug."""
        self.testbed.node_off(int(node.removeprefix("node")))

    def node_on(self, node: str) -> None:
        """Give it its power back."""
        self.testbed.node_on(int(node.removeprefix("node")))

    def new_disk(self, volume: str) -> None:
        """Put a blank disk in place of the one behind a volume."""
        node, slot = self.testbed.disk_of(volume)
        self.testbed.disk_swap(node, slot)


@pytest.fixture
def machine(installed: Target) -> Machine:
    """Faults of the machine; skipped where there is none in our hands."""
    if not isinstance(installed, Testbed):
        pytest.skip("needs the testbed")
    return Machine(installed)


class Killer:
    """Kills whichever operator leads."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._system = Lab((str(target.kubectl_program()),), target.kubeconfig, _SYSTEM)
        self._dead: set[str] = set()

    def leader(self) -> str:
        """Who holds the lease: ``<pod>_<random>``; empty if nobody does, or a dead one."""
        holder = str(self._system.list("lease")[0]["spec"].get("holderIdentity") or "")
        return "" if holder in self._dead else holder

    def kill(self) -> None:
        """Wait for a leader, then kill its process with SIGKILL."""
        self._system.until("somebody leads", self.leader, 90)
        holder = self.leader()
        self._dead.add(holder)
        pod = self._system.get("pod", holder.rsplit("_", 1)[0])
        if pod is None:
            return
        if isinstance(self._target, Testbed):
            node = self._target.node(int(pod["spec"]["nodeName"].removeprefix("node")))
            container = pod["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
            node.run("ctr", "-n", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", container)
        # A container that dies again and again is restarted ever later; a new pod starts at once.
        self._system.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")


@pytest.fixture
def killer(installed: Target) -> Killer:
    """Kills operators."""
    return Killer(installed)
