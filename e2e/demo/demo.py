"""The demo, step by step. Each step detects what an earlier run has done and continues from there."""

import os
import shlex
import sys
from pathlib import Path
from typing import Final

from e2e.cluster.build import ensure_helm
from e2e.cluster.console import heartbeat, say
from e2e.cluster.disks import parse_size
from e2e.cluster.images import (
    Image,
    ensure_rebalance_image,
    ensure_spindle_image,
    rebalance_image_is_built,
)
from e2e.cluster.layout import REBALANCE_IMAGE, SPINDLE_IMAGE
from e2e.cluster.state import Options
from e2e.cluster.target import foreign_kubeconfig
from e2e.cluster.testbed import Testbed, prepare
from e2e.demo.balance import Balance
from e2e.demo.dying_disk import DyingDisk
from e2e.demo.later import Later
from e2e.demo.show import DemoError, Show

OWN: Final = "e2e/demo/cluster.yaml"
SAMPLE: Final = "examples/quickstart.yaml"
CLUSTER: Final = "demo"
SYSTEM: Final = "spindle-system"
AGENTS: Final = "spindle-agents"  # name given by the chart
TOPIC: Final = "orders"
MESSAGES: Final = 10_000
# ext4, since XFS preallocates space for growing files, which would dominate the usage shown of disks this small.
OPTIONS: Final = Options(nodes=4, zones=3, disks=2, disk_size=parse_size("400Mi"), file_system="ext4")
_READY_S: Final = 600
_KINDS: Final = ("clusters", "brokers", "rebalances", "users", "topics")

_IN_YOUR_SHELL: Final = """
The cluster is ready. To use it, run this in your shell, in this folder:

  source {env}
"""
_NEXT: Final = """
Inspect it:

  kubectl get skc,skb                     clusters and brokers, one line each
  kubectl -n spindle-agents get pods    one agent per node, which probes the disks
  spindle status                        racks, nodes, disks, log dirs, and what Spindle waits for
  kubectl describe skc demo              conditions and events, each with a reason
  spindle verify --messages 1000        write and read messages again
{more}
Watch it recover:

  kubectl delete pod demo-broker-1      Spindle recreates it with its disks
  kubectl delete svc demo-bootstrap     Spindle recreates it, too
  spindle broker stop demo-broker-1     maintenance: it stops when min.insync.replicas allows it …
  spindle broker start demo-broker-1    … and starts again
  kubectl delete skc demo                the disks' claims stay: apply it again, and Spindle uses them with their data
                                        (kubectl apply -f {file})
"""
_BALANCE: Final = """
  spindle disks                         usage of each broker and each disk
  spindle rebalance list                proposals; see also `show` and `report`
  spindle rebalance run --wait          create a new one; then `approve` it and `wait` for it
"""
_FAULTS: Final = """
Inject faults (`spindle status` shows the node and the disks of each broker):

  python -m e2e.cluster node off 2      power a node off; `node on 2` powers it on
  python -m e2e.cluster disk fail 1 0   a disk fails: its replicas are re-created elsewhere, until it is safe to pull
  python -m e2e.cluster disk swap 1 0   insert a blank disk: it is recognised, formatted and backfilled
  python -m e2e.cluster --help          slow and hung disks, cut cables, network partitions
"""


def _foreign_image(kubeconfig: Path) -> list[str]:
    """Helm's options for the image, on a cluster that is not of this machine.

    Raises:
        DemoError: no image is named; a KUBECONFIG that is set by accident must not install Spindle there.
    """
    image = os.environ.get("SPINDLE_IMAGE", "")
    repository, colon, tag = image.rpartition(":")
    if not colon:
        raise DemoError(
            f"KUBECONFIG={kubeconfig} names a cluster that is not on this machine. Unset it to create one here; or, to "
            "run the demo there, push Spindle's image to a registry that it can pull from, and set SPINDLE_IMAGE=repository:tag"
        )
    return ["--set", f"image.repository={repository}", "--set", f"image.tag={tag}"]


def _own_images() -> list[str]:
    """Helm's options for the images that were built here."""
    options = []
    for key, image in (("image", SPINDLE_IMAGE), ("rebalance.image", REBALANCE_IMAGE)):
        repository, _, tag = image.rpartition(":")
        options += ["--set", f"{key}.repository={repository}", "--set", f"{key}.tag={tag}"]
    return options


class Demo:
    """The demo, on a testbed of this machine or, if KUBECONFIG names another cluster, on that one."""

    def __init__(self) -> None:
        self._testbed = Testbed()
        self._foreign = foreign_kubeconfig()
        self._show = Show()
        self._job_image: Later[Image] | None = None
        self._has_job_image = False

    def up(self) -> None:
        """Bring it up, continuing from its present state."""
        newer = False
        if self._foreign:
            values = _foreign_image(self._foreign)
            self._path(Path(sys.executable).parent, ensure_helm().parent)
        else:
            values = _own_images()
            newer = self._make_testbed()
        self._spindle(values, newer=newer)
        self._kafka()
        show = self._show
        balance = Balance(show, CLUSTER, self._testbed.kubeconfig.parent)
        if not self._foreign:
            balance.begin()  # before the messages, since the pod takes some seconds to start
        self._messages()
        if not self._foreign:
            DyingDisk(show, CLUSTER).play()
            self._give_job_image()
            balance.play()
        show.step("Clusters and brokers")
        show.run("kubectl", "get", "skc,skb")
        show.run("spindle", "status", CLUSTER)
        if self._foreign:
            show.say(_NEXT.format(more="", file=SAMPLE))
        else:
            show.say(
                _IN_YOUR_SHELL.format(env=self._env_file()) + _NEXT.format(more=_BALANCE, file=OWN) + _FAULTS
            )
        show.say(f"To remove everything:  make demo-down\n\n(Up in {show.seconds:.0f} s.)")

    def _spindle(self, values: list[str], *, newer: bool) -> None:
        """Install it.

        Args:
            values: more options for Helm.
            newer: whether its pods must be recreated because the image changed under the same tag.
        """
        run = self._show.run
        self._show.step("Spindle, with Helm")
        chart = ["charts/spindle", "--namespace", SYSTEM, "--create-namespace"]
        shown = ("-o", "jsonpath={..namespace}")
        here = self._show.ask("kubectl", "config", "view", "--minify", *shown).strip() or "default"
        watched = ["--set", f"watch.namespaces={{{here}}}"]  # namespace of the demo's cluster
        run("helm", "upgrade", "--install", "spindle", *chart, "--hide-notes", *watched, *values)
        if newer:
            run("kubectl", "-n", SYSTEM, "rollout", "restart", "deployment/spindle")
            run("kubectl", "-n", AGENTS, "rollout", "restart", "daemonset/spindle-agent")
        run("kubectl", "-n", SYSTEM, "rollout", "status", "deployment/spindle", "--timeout=300s")
        run("kubectl", "-n", AGENTS, "rollout", "status", "daemonset/spindle-agent", "--timeout=300s")

    def _kafka(self) -> None:
        """The cluster."""
        run, file = self._show.run, SAMPLE if self._foreign else OWN
        self._show.step("Create a KafkaCluster")
        run("cat", file)
        run("kubectl", "apply", "-f", file)
        self._wait()

    def _messages(self) -> None:
        """A topic, and messages through it."""
        self._show.step(f"Create a topic that spans the racks, then write and read {MESSAGES:,} messages")
        self._show.run("spindle", "verify", "--topic", TOPIC, "--messages", str(MESSAGES))

    def down(self) -> None:
        """Take it down. Built images stay in the cache, so that the next run is faster."""
        if not self._foreign:
            self._testbed.down()
            return
        run = self._show.run
        self._path(Path(sys.executable).parent, ensure_helm().parent)
        # Before its deletion the cluster is set to delete its claims, too: the demo must leave nothing behind.
        request = '{"spec":{"deleteClaims":true}}'
        run("kubectl", "patch", "-f", SAMPLE, "--type=merge", f"--patch={request}")
        run("kubectl", "delete", "-f", SAMPLE, "--timeout=300s")
        run("helm", "uninstall", "spindle", "--namespace", SYSTEM)
        run("kubectl", "delete", "namespace", SYSTEM, AGENTS)
        run("kubectl", "delete", "crd", *(f"kafka{kind}.spindle.dev" for kind in _KINDS))

    def _make_testbed(self) -> bool:
        """Create the testbed, or reuse it; True if it now has a newer image than the one that Spindle runs."""
        if os.geteuid() != 0:
            raise DemoError("it creates network namespaces, mounts and loop devices: run it as root")
        self._show.step(
            f"A Kubernetes of {OPTIONS.nodes} nodes in {OPTIONS.zones} zones, each node with {OPTIONS.disks} disks"
        )
        stood = self._testbed.is_up()
        prepare()
        # Only for later chapters: on a fresh machine they are built while the testbed starts.
        built = rebalance_image_is_built()
        helm, self._job_image = Later(ensure_helm), Later(ensure_rebalance_image)
        self._testbed.up(OPTIONS, more=[ensure_rebalance_image] if built else [])
        path = self._path(
            Path(sys.executable).parent, helm.get().parent, self._testbed.kubectl_program().parent
        )
        values = {"KUBECONFIG": str(self._testbed.kubeconfig), "SPINDLE_TESTBED": self._testbed.layout.name}
        os.environ |= values
        lines = [f"export {name}={shlex.quote(value)}" for name, value in values.items()]
        # For the user's shell. It is deleted with the testbed.
        self._env_file().write_text("\n".join([*lines, f"export PATH={shlex.quote(path)}:$PATH", ""]))
        spindle = ensure_spindle_image()
        if not stood:
            on_nodes = [spindle, *([ensure_rebalance_image()] if built else [])]
            self._has_job_image = built
            self._given().write_text("".join(f"{image.folder.name}\n" for image in on_nodes))
        return self._give(spindle)

    def _env_file(self) -> Path:
        return self._testbed.kubeconfig.with_name("env")

    def _path(self, *folders: Path) -> str:
        """Prepend folders to this process's PATH."""
        path = os.pathsep.join(map(str, folders))
        os.environ["PATH"] = f"{path}{os.pathsep}{os.environ['PATH']}"
        return path

    def _give_job_image(self) -> None:
        if self._job_image is None or self._has_job_image:
            return
        with heartbeat():
            if not self._job_image.done():
                say("waiting for the image of the rebalance job, which is built in the background")
            self._give(self._job_image.get())

    def _give(self, image: Image) -> bool:
        """Load an image, built from this checkout, onto the nodes; False if they have it already."""
        given = self._given()
        known = given.read_text().splitlines() if given.exists() else []
        if image.folder.name in known:
            return False
        self._testbed.give(image)
        name = image.folder.name
        kept = [each for each in known if each.rpartition("-")[0] != name.rpartition("-")[0]]
        given.write_text("".join(f"{each}\n" for each in (*kept, name)))
        return True

    def _given(self) -> Path:
        """The file that lists the images that the nodes have; it is deleted with the testbed."""
        return self._testbed.kubeconfig.with_name("demo-images")

    def _wait(self) -> None:
        try:
            self._show.run("spindle", "wait", CLUSTER, "--timeout", str(_READY_S))
        except DemoError as error:
            self._show.run("spindle", "status", CLUSTER)
            self._show.run("kubectl", "get", "events", "--sort-by=.lastTimestamp")
            raise DemoError(f"{CLUSTER} did not become ready; what it waits for is shown above") from error
