"""A real cluster with Spindle in it. KUBECONFIG chooses another one than the testbed; what only that can do is skipped."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from e2e.cluster.build import ensure_helm
from e2e.cluster.disks import Rack
from e2e.cluster.images import ensure_rebalance_image
from e2e.cluster.layout import SPINDLE_IMAGE, Layout
from e2e.cluster.state import Options
from e2e.cluster.target import ForeignCluster, Target, foreign_kubeconfig
from e2e.cluster.testbed import Testbed
from e2e.scenarios.lab import CLUSTER, ROOT, SYSTEM, Lab
from e2e.scenarios.stand import SHOWN, Stand

AGENTS: Final = "spindle-agents"
_OPTIONS: Final = Options(nodes=6, zones=3, disks=3)
_KEEP: Final = "SPINDLE_KEEP"  # leave the testbed up after the run, for a look around


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Scenarios on clusters of the same kind together, and those that spend theirs last: so it is made once for all of them."""

    def turn(item: pytest.Item) -> tuple[bool, bool, bool]:
        fixtures = getattr(item, "fixturenames", ())
        return (
            "running" not in fixtures,
            "job_image" in fixtures,
            item.get_closest_marker("spends") is not None,
        )

    items.sort(key=turn)


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """The cluster."""
    named = foreign_kubeconfig()
    if named is not None:
        yield ForeignCluster(named)
        return
    os.environ.setdefault("SPINDLE_TESTBED", "scenarios")
    testbed = Testbed(Layout.default())
    # Nodes begin as copies of one template: what is imported there need not be imported into each of them.
    asks = any("job_image" in getattr(item, "fixturenames", ()) for item in request.session.items)
    testbed.up(_OPTIONS, more=[ensure_rebalance_image] if asks else [])
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
    programs = ((SYSTEM, "deployment", "spindle"), (AGENTS, "daemonset", "spindle-agent"))
    labs = {
        namespace: Lab((str(target.kubectl_program()),), target.kubeconfig, namespace)
        for namespace, _, _ in programs
    }
    was_there = [each for each in programs if labs[each[0]].get(*each[1:]) is not None]
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
        [str(ensure_helm()), *command, "--namespace", SYSTEM], cwd=ROOT, env=environment, check=True
    )
    if isinstance(target, Testbed):
        # The tag stays the same; pods of an earlier run would go on with the image that they were made from.
        for namespace, kind, name in was_there:
            labs[namespace].kubectl("rollout", "restart", f"{kind}/{name}")
            labs[namespace].kubectl("rollout", "status", f"{kind}/{name}", "--timeout=180s", timeout=200)
    return target


@pytest.fixture
def lab(installed: Target, stands: Stand, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A namespace of its own with blank disks; whatever the scenario leaves there is taken away."""
    stands.close()
    with _namespace(installed, request.node.name) as lab:
        yield lab


@pytest.fixture(scope="module")
def running(stands: Stand) -> Lab:
    """The twelve-line sample, up and settled; shared by all scenarios that leave it well, and made anew after one that does not."""
    return stands.get(SHOWN)


@pytest.fixture(scope="session")
def stands(installed: Target) -> Iterator[Stand]:
    """Whoever makes a namespace of its own closes it first: there are disks for one cluster at a time."""
    made = Stand(lambda title, file_system, size: _namespace(installed, title, file_system, size))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def stand(installed: Target, stands: Stand) -> Stand:
    """Clusters whose disks die, one at a time; shared by scenarios as long as each leaves it well."""
    if not isinstance(installed, Testbed):
        pytest.skip("needs the testbed")
    return stands


@contextmanager
def _namespace(
    target: Target, title: str, file_system: str = "xfs", size: int | None = None
) -> Iterator[Lab]:
    if isinstance(target, Testbed):
        for index, node in enumerate(target.nodes(), start=1):
            if not node.is_on():  # a scenario that failed in the middle of an outage
                target.node_on(index)
        target.disks_reset(file_system, size or target.state.options.disk_size)
    name = "".join(c if c.isalnum() else "-" for c in title.lower()).strip("-")[:40].strip("-")
    lab = Lab((str(target.kubectl_program()),), target.kubeconfig, name)
    lab.kubectl("create", "namespace", name)
    try:
        yield lab
    finally:
        if lab.get("kafkacluster", CLUSTER) is not None:
            # Nobody needs the data any more: brokers whose quorum a scenario broke would try to hand over for minutes.
            # They are ended before the operator ends them with patience, which nobody could take back.
            lab.patch("kafkacluster", CLUSTER, {"spec": {"deleteClaims": True, "paused": True}})
            lab.kubectl("delete", "pods", "-l", "spindle.dev/role", "--grace-period=1", "--wait=false")
            lab.kubectl("delete", "kafkacluster", CLUSTER, "--wait=false")
            lab.patch("kafkacluster", CLUSTER, {"spec": {"paused": False}})
            lab.until("the KafkaCluster is gone", lambda: lab.get("kafkacluster", CLUSTER) is None, 240)
        lab.kubectl("delete", "namespace", name, "--wait=false")
        lab.until("its pods are gone", lambda: not lab.list("pods"), 120)


@dataclass(frozen=True)
class Machine:
    """The machine below the cluster."""

    testbed: Testbed
    hurt: set[tuple[int, str]] = field(default_factory=set)

    def node_off(self, node: str) -> None:
        """Pull a node's plug."""
        self.testbed.node_off(int(node.removeprefix("node")))

    def node_on(self, node: str) -> None:
        """Give it its power back."""
        self.testbed.node_on(int(node.removeprefix("node")))

    def new_disk(self, volume: str, *, keep: bool = False) -> None:
        """Put a blank disk in place of the one behind a volume, which is thrown away or kept."""
        self.testbed.disk_swap(*self.testbed.disk_of(volume), keep=keep)

    def old_disk(self, volume: str, serial: int) -> None:
        """Put a disk back that a swap kept."""
        self.testbed.disk_put(*self.testbed.disk_of(volume), serial)

    def serial(self, volume: str) -> int:
        """Number of the disk behind a volume, among those that its slot has seen."""
        node, slot = self.testbed.disk_of(volume)
        return Rack(self.testbed.layout.node(node)).get(slot).serial

    def disk(self, verb: str, volume: str, *arguments: int) -> None:
        """Hurt the disk behind a volume: fail, error, read_only, fill, slow, hang, freeze, pull; or put, or heal it."""
        node, slot = self.testbed.disk_of(volume)
        getattr(self.testbed, f"disk_{verb}")(node, slot, *arguments)
        if verb in {"heal", "fail", "pull", "put"}:
            self.hurt.discard((node, slot))
        else:
            self.hurt.add((node, slot))

    def run(self, node: str, *command: str) -> str:
        """Run a command on a node."""
        return self.testbed.node(int(node.removeprefix("node"))).run(*command)

    def kill_container(self, pod: Mapping[str, Any], name: str) -> None:
        """Kill a container's processes with SIGKILL, as the kernel would."""
        statuses = {each["name"]: each for each in pod["status"]["containerStatuses"]}
        container = statuses[name]["containerID"].removeprefix("containerd://")
        command = ("ctr", "-n", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", container)
        self.run(pod["spec"]["nodeName"], *command)

    def heal_all(self) -> None:
        """Undo what a scenario left: disks that hang, crawl or are full, and cables."""
        for node, slot in sorted(self.hurt):
            self.testbed.disk_heal(node, slot)
        self.hurt.clear()
        self.testbed.heal_partitions()


@pytest.fixture
def machine(installed: Target) -> Iterator[Machine]:
    """Faults of the machine; skipped where there is none in our hands. None outlives the scenario."""
    if not isinstance(installed, Testbed):
        pytest.skip("needs the testbed")
    made = Machine(installed)
    try:
        yield made
    finally:
        made.heal_all()


class Killer:
    """Kills whichever operator leads."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._system = Lab((str(target.kubectl_program()),), target.kubeconfig, SYSTEM)
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
            Machine(self._target).kill_container(pod, pod["status"]["containerStatuses"][0]["name"])
        # A container that dies again and again is restarted ever later; a new pod starts at once.
        self._system.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")


@pytest.fixture
def killer(installed: Target) -> Killer:
    """Kills operators."""
    return Killer(installed)
