"""Faults of the machines below the cluster, and of the leading operator."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from e2e.cluster.disks import Rack
from e2e.cluster.target import Target
from e2e.cluster.testbed import Testbed
from e2e.scenarios.lab import SYSTEM, Lab


@dataclass(frozen=True)
class Machine:
    """The machines below the cluster."""

    testbed: Testbed
    hurt: set[tuple[int, str]] = field(default_factory=set)
    shifted: set[str] = field(default_factory=set)

    def node_off(self, node: str) -> None:
        """Power a node off."""
        self.testbed.node_off(int(node.removeprefix("node")))

    def node_on(self, node: str) -> None:
        """Power a node on."""
        self.testbed.node_on(int(node.removeprefix("node")))

    def new_disk(self, volume: str, *, keep: bool = False) -> None:
        """Replace the disk of a volume by a blank one; the old disk is discarded or kept."""
        self.testbed.disk_swap(*self.testbed.disk_of(volume), keep=keep)

    def old_disk(self, volume: str, serial: int) -> None:
        """Put back a disk that a swap kept."""
        self.testbed.disk_put(*self.testbed.disk_of(volume), serial)

    def serial(self, volume: str) -> int:
        """Number of a volume's disk among those of its slot."""
        node, slot = self.testbed.disk_of(volume)
        return Rack(self.testbed.layout.node(node)).get(slot).serial

    def disk(self, verb: str, volume: str, *arguments: int) -> None:
        """Inject a fault into the disk of a volume: fail, error, read_only, fill, slow, hang, freeze, pull; or put, or heal it."""
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
        """Kill a container's processes with SIGKILL, like the kernel's OOM killer."""
        statuses = {each["name"]: each for each in pod["status"]["containerStatuses"]}
        container = statuses[name]["containerID"].removeprefix("containerd://")
        command = ("ctr", "-n", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", container)
        self.run(pod["spec"]["nodeName"], *command)

    @contextmanager
    def held_still(self, pod: Mapping[str, Any], name: str) -> Iterator[None]:
        """Stop a container's processes meanwhile (SIGSTOP); the kernel still accepts connections to them."""
        statuses = {each["name"]: each for each in pod["status"]["containerStatuses"]}
        container = statuses[name]["containerID"].removeprefix("containerd://")
        tasks = ("ctr", "-n", "k8s.io", "tasks")
        self.run(pod["spec"]["nodeName"], *tasks, "pause", container)
        try:
            yield
        finally:
            self.run(pod["spec"]["nodeName"], *tasks, "resume", container)

    def clock(self, node: str, seconds: int) -> None:
        """Shift the clock of containers of Kafka and Spindle that a node starts from now on; 0 for no shift.

        The kubelet's clock cannot be shifted. Running pods keep their time until they are recreated.
        """
        self.testbed.clock(int(node.removeprefix("node")), seconds)
        if seconds:
            self.shifted.add(node)
        else:
            self.shifted.discard(node)

    def heal_all(self) -> None:
        """Undo a scenario's faults: hung, slow or full disks, cables, and clocks of future containers."""
        for name in sorted(self.shifted):
            self.clock(name, 0)
        for node, slot in sorted(self.hurt):
            self.testbed.disk_heal(node, slot)
        self.hurt.clear()
        self.testbed.heal_partitions()


class Killer:
    """Kills the leading operator."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._system = Lab((str(target.kubectl_program()),), target.kubeconfig, SYSTEM)
        self._dead: set[str] = set()

    def leader(self) -> str:
        """Holder of the Lease: ``<pod>_<random>``; empty if there is none, or it is dead."""
        holder = str(self._system.list("lease")[0]["spec"].get("holderIdentity") or "")
        return "" if holder in self._dead else holder

    def kill(self) -> None:
        """Wait for a leader, then kill its process with SIGKILL."""
        self._system.until("an operator leads", self.leader, 90)
        holder = self.leader()
        self._dead.add(holder)
        pod = self._system.get("pod", holder.rsplit("_", 1)[0])
        if pod is None:
            return
        if isinstance(self._target, Testbed):
            Machine(self._target).kill_container(pod, pod["status"]["containerStatuses"][0]["name"])
        # A container that dies again and again is restarted with increasing delays; a new pod starts at once.
        self._system.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")
