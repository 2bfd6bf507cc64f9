"""What a scenario does to the machine below the cluster, and to whichever operator leads."""

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
    """The machine below the cluster."""

    testbed: Testbed
    hurt: set[tuple[int, str]] = field(default_factory=set)
    shifted: set[str] = field(default_factory=set)

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

    @contextmanager
    def held_still(self, pod: Mapping[str, Any], name: str) -> Iterator[None]:
        """A container's processes are stopped meanwhile; what they listen to is still connected to, by the kernel."""
        statuses = {each["name"]: each for each in pod["status"]["containerStatuses"]}
        container = statuses[name]["containerID"].removeprefix("containerd://")
        tasks = ("ctr", "-n", "k8s.io", "tasks")
        self.run(pod["spec"]["nodeName"], *tasks, "pause", container)
        try:
            yield
        finally:
            self.run(pod["spec"]["nodeName"], *tasks, "resume", container)

    def clock(self, node: str, seconds: int) -> None:
        """Shift the clock of what is started on a node from now on, in Kafka's and Spindle's containers; 0 for no shift.

        The kubelet's cannot be shifted. Pods that run keep their time until they are made anew.
        """
        self.testbed.clock(int(node.removeprefix("node")), seconds)
        if seconds:
            self.shifted.add(node)
        else:
            self.shifted.discard(node)

    def heal_all(self) -> None:
        """Undo what a scenario left: disks that hang, crawl or are full, cables, and clocks of what starts next."""
        for name in sorted(self.shifted):
            self.clock(name, 0)
        for node, slot in sorted(self.hurt):
            self.testbed.disk_heal(node, slot)
        self.hurt.clear()
        self.testbed.heal_partitions()


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
