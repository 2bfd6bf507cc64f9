"""The testbed: creating, removing, inspecting and changing it."""

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.cluster import cgroups, cleanup, net, policies, versions
from e2e.cluster.apiserver import free_ports
from e2e.cluster.build import ensure_coredns, ensure_enclosure, ensure_kubernetes
from e2e.cluster.clocks import shifted
from e2e.cluster.console import heartbeat, say
from e2e.cluster.controlplane import ControlPlane
from e2e.cluster.debian import ensure_cni_plugins, ensure_programs
from e2e.cluster.disks import Disk, Rack, parse_size, storage_classes
from e2e.cluster.enclosure import Enclosure
from e2e.cluster.faults import Faults
from e2e.cluster.images import Image, ensure_images, ensure_kafka_image, ensure_spindle_image
from e2e.cluster.layout import MOST_NODES, STANDARD_DISK, Layout, zone_of
from e2e.cluster.limits import inotify_shortage
from e2e.cluster.nodes import Node
from e2e.cluster.state import Options, State
from e2e.cluster.system import CommandError, in_netns
from e2e.cluster.template import ensure_template, import_running
from e2e.cluster.waiting import wait_for

_PROGRAMS: Final = (
    "containerd",
    "runc",
    "etcd",
    "ip",
    "nft",
    "conntrack",
    "nsenter",
    "mkfs.xfs",
    "mkfs.ext4",
)
_STANDARD_SIZE: Final = parse_size("10Gi")


class TestbedError(RuntimeError):
    """The testbed is not in a state that permits this; the message says what would help."""

    __test__ = False  # not a test class, although pytest would collect it by its name


class Testbed(Faults):
    """One testbed, running or not.

    Attributes:
        layout: its names and paths.
        kubeconfig: of an administrator, for use on the host.
    """

    __test__ = False

    def __init__(self, layout: Layout | None = None) -> None:
        self.layout = layout or Layout.default()
        self.kubeconfig = self.layout.kubeconfig
        self.enclosure = Enclosure(self.layout)
        self._state_file = self.layout.state / "state.json"

    # Creation and removal

    def up(self, options: Options, more: Sequence[Callable[[], Image]] = ()) -> None:
        """Create it, or find that it exists already.

        Args:
            options: its options.
            more: returns additional images for all nodes; called only if the testbed is created.

        Raises:
            TestbedError: one with other options exists.
        """
        _check(options)
        with self._locked(), heartbeat():
            state = State.load(self._state_file)
            if state and state.complete and self._stands(state):
                if state.options != options:
                    raise TestbedError(
                        f"a testbed with other options is up ({state.options}): take it down first"
                    )
                say(f"already up: {self.kubeconfig}")
                return
            self._clear("removing the remains of an earlier testbed")
            if shortage := inotify_shortage(options.nodes):
                raise TestbedError(shortage)
            kubernetes, coredns, images = prepare()
            images += [ensure() for ensure in more]
            template = ensure_template(images)
            os.sync()  # as below: no large writes should be pending when the disks are measured
            try:
                self._make(options, kubernetes, coredns, template, images)
            except BaseException:
                say("failed: cleaning up")
                self._keep_logs()
                self._clear(None)
                raise

    def down(self) -> None:
        """Remove everything, whatever state it was in."""
        with self._locked():
            there = bool(cleanup.leftovers(self.layout))
            self._clear("taking the testbed down")
            shutil.rmtree(self.layout.last_logs, ignore_errors=True)
            self.layout.lock.unlink(missing_ok=True)
        say("down" if there else "there was nothing to remove")

    def is_up(self) -> bool:
        """Whether it was created and its control plane runs."""
        state = State.load(self._state_file)
        return bool(state and state.complete and self._stands(state))

    # For other modules

    @property
    def state(self) -> State:
        """Its options.

        Raises:
            TestbedError: it is not up.
        """
        state = State.load(self._state_file)
        if not state or not state.complete:
            raise TestbedError("the testbed is not up: python -m e2e.cluster up")
        return state

    def kubectl_program(self) -> Path:
        """The kubectl of the testbed's version."""
        state = State.load(self._state_file)
        return (Path(state.kubernetes) if state else ensure_kubernetes()) / "kubectl"

    def nodes(self) -> list[Node]:
        """All nodes, on or off."""
        return [self.node(index) for index in range(1, self.state.options.nodes + 1)]

    def node(self, index: int) -> Node:
        """A node by its number; the first is 1.

        Raises:
            TestbedError: there is no such node.
        """
        state = self.state
        if not 1 <= index <= state.options.nodes:
            raise TestbedError(f"there is no node {index}: they are 1 to {state.options.nodes}")
        return self._node(state, index)

    def status(self) -> list[str]:
        """A description of its state, in lines."""
        state = self.state
        dead = [name for name, process in state.processes.items() if not process.alive()]
        lines = [
            f"control plane   {'dead: ' + ', '.join(dead) if dead else 'running'}",
            f"kubeconfig      {self.kubeconfig}",
            f"{'node':8}{'zone':10}{'power':7}{'ready':7}{'link':6}disks",
        ]
        ready = {} if dead else ready_nodes(self.get("nodes"))
        for node in self.nodes():
            layout = node.layout
            power = "on" if node.is_on() else "off"
            link = "up" if net.link_is_up(layout) else "down"
            is_ready = "yes" if layout.name in ready else "no"
            lines.append(
                f"{layout.name:8}{node.zone:10}{power:7}{is_ready:7}{link:6}{self._disks_line(node)}"
            )
        return lines

    def inside(self, *command: str | Path) -> list[str]:
        """The command line that runs a command where pod addresses are routed and cluster DNS answers.

        That is in the network of the control plane, with a resolv.conf for the cluster's DNS; everything else is
        the host's.
        """
        resolv = self.layout.state / "resolv.conf"
        script = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
        isolated = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, resolv, *command]
        return in_netns(self.layout.control_netns, *isolated)

    def load_images(self) -> None:
        """Build Spindle's image from the current state of the checkout and load it onto all nodes that are powered on.

        Pods that are created from now on run it. Nodes that are off get it when ``up`` creates them again.
        """
        self.give(ensure_spindle_image())

    def give(self, image: Image) -> None:
        """Load an image onto all nodes that are powered on."""
        on = [node for node in self.nodes() if node.is_on()]
        say(f"loading {image.name} into {len(on)} nodes")
        known = set(self.state.blobs)

        def load(node: Node) -> None:
            import_running(node.command("ctr", "--namespace=k8s.io", "images", "import", "-"), image, known)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(load, on))
        # Otherwise all disks, which are files on one real disk, hang when the kernel writes the images back later.
        os.sync()

    def clock(self, index: int, seconds: int) -> None:
        """Shift the clock of containers of Kafka and Spindle that a node starts from now on.

        Running containers keep their time; so do the kubelet and containerd, which are not containers.

        Args:
            index: the node.
            seconds: offset to the machine's clock; 0 for none.
        """
        node = self.node(index)
        known = set(self.state.blobs)
        for image in (ensure_kafka_image(), ensure_spindle_image()):
            chosen = shifted(image, seconds) if seconds else image
            # The layers are common to both. The configuration is not: containerd deletes one without an image name.
            there = known.difference(chosen.blobs()[:1])
            import_running(node.command("ctr", "--namespace=k8s.io", "images", "import", "-"), chosen, there)

    def enforce_policies(self, *, on: bool) -> None:
        """Start or stop enforcing NetworkPolicies with kube-router on all nodes that are powered on.

        A node that loses power no longer enforces them. The plain bridge, the default, does not enforce policies.

        Raises:
            MissingProgramError: kube-router is not installed on this machine.
        """
        policies.prepare()
        powered = [node for node in self.nodes() if node.is_on()]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(policies.start if on else policies.stop, powered))

    # Implementation

    def _disks_line(self, node: Node) -> str:
        """The node's disks in one line, each with its usage, or its fault."""
        parts = []
        sick = self.enclosure.sick()
        for disk in Rack(node.layout).all():
            how = "off"
            if mode := sick.get(f"{node.layout.name}/{disk.image}"):
                how = mode.upper()
            elif node.is_on():
                try:
                    node.run("sync", "--file-system", disk.mount, seconds=2)
                    how = node.run("df", "--output=pcent", disk.mount, seconds=2).split()[-1]
                except CommandError:
                    how = "DEAD"
            parts.append(f"{disk.slot} {how}")
        return ", ".join(parts)

    def _make(
        self, options: Options, kubernetes: Path, coredns: Path, template: Path, images: Sequence[Image]
    ) -> None:
        layout = self.layout
        layout.state.mkdir(parents=True)
        layout.logs.mkdir()
        (port,) = free_ports(1)
        blobs = [blob for image in images for blob in image.blobs()]
        state = State(options, port, str(kubernetes), loops=cleanup.loop_devices(), blobs=blobs)
        state.save(self._state_file)
        # A real control plane has machines of its own; here it must not starve while brokers start.
        cgroups.make(f"{layout.cgroup}/control", weight=8)
        say(f"network and control plane, Kubernetes {versions.KUBERNETES}")
        net.make(layout, options.nodes)
        plane = ControlPlane(layout, kubernetes, coredns)
        plane.make_certificates(options.nodes)
        self._write_kubeconfig(port)
        state.processes = {
            "enclosure": self.enclosure.start(),
            "door": plane.start_door(port),
        } | plane.start_store()
        state.save(self._state_file)
        say(f"{options.nodes} nodes in {options.zones} zones, {options.disks} disks each")
        nodes = [self._node(state, index) for index in range(1, options.nodes + 1)]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda node: self._make_node(node, options, template), nodes))
        wait_for("the API server", self._api_ready, seconds=120, detail=lambda: self._log("kube-apiserver"))
        state.processes |= plane.start_rest()
        state.save(self._state_file)
        for node in nodes:
            node.switch_on()
        say("volumes")
        volumes = [disk.persistent_volume(node.layout) for node in nodes for disk in Rack(node.layout).all()]
        self.apply(*storage_classes(), *volumes)
        self.wait_ready(range(1, options.nodes + 1), seconds=180)
        state.complete = True
        state.save(self._state_file)
        say(f"up. export KUBECONFIG={self.kubeconfig}")

    def _make_node(self, node: Node, options: Options, template: Path) -> None:
        slots = {f"disk{number}": options.disk_size for number in range(options.disks)}
        slots[STANDARD_DISK] = _STANDARD_SIZE
        node.layout.log.mkdir(parents=True)
        node.make(template, options.nodes)
        disks = [Disk.first(node.layout, slot, size, options.file_system) for slot, size in slots.items()]
        Rack(node.layout).put(*disks)

    def wait_ready(self, indices: Sequence[int], seconds: float = 120) -> None:
        """Wait until these nodes are Ready, as reported by the kubelet of this boot."""
        nodes = [self.layout.node(index) for index in indices]

        def unready() -> list[str]:
            listed = self.kubectl("get", "nodes", "--output=json", check=False)
            ready = ready_nodes(json.loads(listed)) if listed else {}
            return [node.name for node in nodes if ready.get(node.name) != node.boot_id()]

        def missing() -> str:
            return f"not ready: {', '.join(unready())}; logs in {self.layout.logs}"

        wait_for("readiness of nodes", lambda: not unready(), seconds=seconds, every=0.4, detail=missing)

    def _node(self, state: State, index: int) -> Node:
        return Node(
            self.layout.node(index),
            zone_of(index, state.options.zones),
            Path(state.kubernetes),
            state.processes["enclosure"].pid,
        )

    def _write_kubeconfig(self, port: int) -> None:
        """The administrator's kubeconfig, but through the proxy."""
        config = yaml.safe_load((self.layout.pki / "admin.conf").read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(yaml.safe_dump(config, sort_keys=False))

    def _api_ready(self) -> bool:
        return self.kubectl("get", "--raw", "/readyz", check=False) == "ok"

    def _stands(self, state: State) -> bool:
        return all(process.alive() for process in state.processes.values()) and self._api_ready()

    def _log(self, name: str) -> str:
        path = self.layout.logs / f"{name}.log"
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""

    def _clear(self, why: str | None) -> None:
        if why and cleanup.leftovers(self.layout):
            say(why)
        state = State.load(self._state_file)
        cleanup.clear(self.layout, state.loops if state else None)

    def _keep_logs(self) -> None:
        if not self.layout.logs.exists():
            return
        shutil.rmtree(self.layout.last_logs, ignore_errors=True)
        shutil.copytree(self.layout.logs, self.layout.last_logs, ignore_dangling_symlinks=True)
        say(f"logs are kept in {self.layout.last_logs}")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Only one command at a time may change the testbed."""
        self.layout.lock.parent.mkdir(parents=True, exist_ok=True)
        with self.layout.lock.open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TestbedError("another command is changing this testbed") from None
            yield


def prepare() -> tuple[Path, Path, list[Image]]:
    """Build or fetch everything that a testbed needs: Kubernetes, CoreDNS, images. Fast when all of it is in the cache."""
    with heartbeat(), ThreadPoolExecutor(2) as pool:
        ensure_programs(*_PROGRAMS)
        ensure_cni_plugins()
        images = pool.submit(ensure_images)
        ensure_enclosure()
        kubernetes = ensure_kubernetes()
        coredns = ensure_coredns()
        return kubernetes, coredns, images.result()


def ready_nodes(nodes: dict[str, Any]) -> dict[str, str]:
    """Name and boot id of each node of a list that is Ready."""
    return {
        node["metadata"]["name"]: node["status"]["nodeInfo"]["bootID"]
        for node in nodes["items"]
        for condition in node["status"].get("conditions", [])
        if condition["type"] == "Ready" and condition["status"] == "True"
    }


def _check(options: Options) -> None:
    if not 1 <= options.nodes <= MOST_NODES:
        raise TestbedError(f"--nodes must be 1 to {MOST_NODES}")
    if not 1 <= options.zones <= 26 or not 0 <= options.disks <= 64:
        raise TestbedError("--zones must be 1 to 26 and --disks 0 to 64")
    if options.file_system not in {"xfs", "ext4"}:
        raise TestbedError("the file system must be xfs or ext4")
    if options.disk_size < parse_size("320Mi"):
        raise TestbedError("disks must have at least 320Mi, the minimum of XFS")
