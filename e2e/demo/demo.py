"""What the demo does, step by step. Every step finds what an earlier run has done already and goes on from there."""

import os
import shlex
import sys
from pathlib import Path
from typing import Final

from e2e.cluster.build import ensure_helm
from e2e.cluster.disks import parse_size
from e2e.cluster.images import ensure_rebalance_image, ensure_spindle_image
from e2e.cluster.layout import REBALANCE_IMAGE
from e2e.cluster.state import Options
from e2e.cluster.target import foreign_kubeconfig
from e2e.cluster.testbed import Testbed
from e2e.demo.balance import GROWN, Balance
from e2e.demo.show import DemoError, Show

BORN: Final = "e2e/demo/cluster.yaml"
SAMPLE: Final = "examples/quickstart.yaml"
CLUSTER: Final = "demo"
SYSTEM: Final = "spindle-system"
AGENTS: Final = "spindle-agents"  # as the chart names it
TOPIC: Final = "orders"
MESSAGES: Final = 10_000
# ext4, since XFS sets aside ahead of files that grow: on disks this small that would be much of what is shown.
OPTIONS: Final = Options(nodes=5, zones=3, disks=2, disk_size=parse_size("640Mi"), file_system="ext4")
_READY_S: Final = 600
_KINDS: Final = ("clusters", "brokers", "rebalances", "users")

_IN_YOUR_SHELL: Final = """
Now it is yours. In your shell, in this folder:

  source {env}
"""
_NEXT: Final = """
Look at it:

  kubectl get skc,skb                     what there is, at a glance
  kubectl -n spindle-agents get pods    on each node an agent that probes the disks
  spindle status                        racks, nodes, disks, log dirs, and what is waited for
  kubectl describe skc demo              conditions and events, each with a reason
  spindle verify --messages 1000        messages in and out once more
{more}
See it heal:

  kubectl delete pod demo-broker-1      it comes back with its disks
  kubectl delete svc demo-bootstrap     so does this
  spindle stop demo-broker-1            maintenance: it goes down when no partition suffers …
  spindle start demo-broker-1           … and returns
  kubectl delete skc demo                the disks' claims stay: apply it again, and it finds its data
                                        (kubectl apply -f {file})
"""
_BALANCE: Final = """
  spindle disks                         how full each broker and each disk is
  spindle rebalance list                proposals; `show` and `report` say more
  spindle rebalance run --wait          have a new one made; `approve` it, `wait` for it
"""
_FAULTS: Final = """
Break it (`spindle status` says which node and disk is whose):

  python -m e2e.cluster node off 2      pull the plug of a node; `node on 2` gives it back
  python -m e2e.cluster disk fail 1 0   a disk dies: what stood on it is put elsewhere, until it is safe to pull
  python -m e2e.cluster disk swap 1 0   a blank one in its slot: it is recognised, formatted and filled
  python -m e2e.cluster --help          slow and hung disks, cut cables, partitions
"""


def _foreign_image(kubeconfig: Path) -> list[str]:
    """Helm's options for the image, on a cluster that is not of this machine.

    Raises:
        DemoError: none is named; whoever has KUBECONFIG set by chance is not to find Spindle there.
    """
    image = os.environ.get("SPINDLE_IMAGE", "")
    repository, colon, tag = image.rpartition(":")
    if not colon:
        raise DemoError(
            f"KUBECONFIG={kubeconfig} names a cluster that is not of this machine. Unset it to have one made here; or, to "
            "run the demo there, push Spindle's image to where it can be pulled and set SPINDLE_IMAGE=repository:tag"
        )
    return ["--set", f"image.repository={repository}", "--set", f"image.tag={tag}"]


def _job_image() -> list[str]:
    """Helm's options for the image of the rebalance job."""
    repository, _, tag = REBALANCE_IMAGE.rpartition(":")
    return ["--set", f"rebalance.image.repository={repository}", "--set", f"rebalance.image.tag={tag}"]


class Demo:
    """The demo, on a testbed of this machine or, if KUBECONFIG names another cluster, on that one."""

    def __init__(self) -> None:
        self._testbed = Testbed()
        self._foreign = foreign_kubeconfig()
        self._show = Show()

    def up(self) -> None:
        """Bring it up, from wherever it stands."""
        newer = False
        if self._foreign:
            values = _foreign_image(self._foreign)
            self._path(Path(sys.executable).parent, ensure_helm().parent)
        else:
            values = _job_image()
            newer = self._make_testbed()
        self._spindle(values, newer=newer)
        self._kafka()
        show = self._show
        if not self._foreign:
            Balance(show, CLUSTER, self._testbed.kubeconfig.parent).play()
        show.step("What there is")
        show.run("kubectl", "get", "skc,skb")
        show.run("spindle", "status", CLUSTER)
        if self._foreign:
            show.say(_NEXT.format(more="", file=SAMPLE))
        else:
            show.say(
                _IN_YOUR_SHELL.format(env=self._env_file())
                + _NEXT.format(more=_BALANCE, file=GROWN)
                + _FAULTS
            )
        show.say(f"Take it all down, leaving nothing:  make demo-down\n\n(Up in {show.seconds:.0f} s.)")

    def _spindle(self, values: list[str], *, newer: bool) -> None:
        """Install it.

        Args:
            values: more options for Helm.
            newer: whether its pods have to be made anew, for an image that has changed under the same name.
        """
        run = self._show.run
        self._show.step("Spindle, with Helm")
        chart = ["charts/spindle", "--namespace", SYSTEM, "--create-namespace"]
        shown = ("-o", "jsonpath={..namespace}")
        here = self._show.ask("kubectl", "config", "view", "--minify", *shown).strip() or "default"
        watched = ["--set", f"watch.namespaces={{{here}}}"]  # where the demo's cluster is
        run("helm", "upgrade", "--install", "spindle", *chart, "--hide-notes", *watched, *values)
        if newer:
            run("kubectl", "-n", SYSTEM, "rollout", "restart", "deployment/spindle")
            run("kubectl", "-n", AGENTS, "rollout", "restart", "daemonset/spindle-agent")
        run("kubectl", "-n", SYSTEM, "rollout", "status", "deployment/spindle", "--timeout=300s")
        run("kubectl", "-n", AGENTS, "rollout", "status", "daemonset/spindle-agent", "--timeout=300s")

    def _kafka(self) -> None:
        """The cluster, a topic, and messages through it."""
        run, file = self._show.run, self._file()
        self._show.step("A KafkaCluster of a few lines")
        run("cat", file)
        run("kubectl", "apply", "-f", file)
        self._wait()
        self._show.step(f"A topic over the racks, and {MESSAGES:,} messages in and out")
        run("spindle", "topic", "create", TOPIC, "--partitions", "12", "--replication-factor", "3")
        run("spindle", "verify", "--topic", TOPIC, "--messages", str(MESSAGES))

    def _file(self) -> str:
        """What the cluster is made from; one that an earlier run has grown is not to be shrunk."""
        if self._foreign:
            return SAMPLE
        shown = ("-o", "jsonpath={.spec.brokerPools[0].replicas}", "--ignore-not-found")
        replicas = self._show.ask("kubectl", "get", "kafkacluster", CLUSTER, *shown).strip()
        return GROWN if replicas == "5" else BORN

    def down(self) -> None:
        """Take it down. What was built stays in the cache, so that the next time is quick."""
        if not self._foreign:
            self._testbed.down()
            return
        run = self._show.run
        self._path(Path(sys.executable).parent, ensure_helm().parent)
        # Ahead of its deletion the cluster is told to take its claims along: of a demo nothing is to be left.
        request = '{"spec":{"deleteClaims":true}}'
        run("kubectl", "patch", "-f", SAMPLE, "--type=merge", f"--patch={request}")
        run("kubectl", "delete", "-f", SAMPLE, "--timeout=300s")
        run("helm", "uninstall", "spindle", "--namespace", SYSTEM)
        run("kubectl", "delete", "namespace", SYSTEM, AGENTS)
        run("kubectl", "delete", "crd", *(f"kafka{kind}.spindle.dev" for kind in _KINDS))

    def _make_testbed(self) -> bool:
        """Make it, or find it; True if it has an image now that is newer than the one that Spindle runs from."""
        if os.geteuid() != 0:
            raise DemoError("it makes network namespaces, mounts and loop devices: run it as root")
        self._show.step("A Kubernetes of 5 nodes in 3 zones, each node with 2 disks")
        stood = self._testbed.is_up()
        self._testbed.up(OPTIONS, more=[ensure_rebalance_image])
        path = self._path(
            Path(sys.executable).parent, ensure_helm().parent, self._testbed.kubectl_program().parent
        )
        values = {"KUBECONFIG": str(self._testbed.kubeconfig), "SPINDLE_TESTBED": self._testbed.layout.name}
        os.environ |= values
        lines = [f"export {name}={shlex.quote(value)}" for name, value in values.items()]
        # For the user's shell. It goes when the testbed goes.
        self._env_file().write_text("\n".join([*lines, f"export PATH={shlex.quote(path)}:$PATH", ""]))
        return self._load_image(into_running=stood)

    def _env_file(self) -> Path:
        return self._testbed.kubeconfig.with_name("env")

    def _path(self, *folders: Path) -> str:
        """Put folders in front of this process's PATH."""
        path = os.pathsep.join(map(str, folders))
        os.environ["PATH"] = f"{path}{os.pathsep}{os.environ['PATH']}"
        return path

    def _load_image(self, *, into_running: bool) -> bool:
        """See to it that the nodes have Spindle's images as the checkout is now; True if an older one was replaced.

        Args:
            into_running: the testbed stood before, so that it may have the image of an earlier checkout.
        """
        images = [ensure_spindle_image(), ensure_rebalance_image()]
        names = "\n".join(image.folder.name for image in images)
        marker = self._testbed.kubeconfig.with_name("demo-image")
        if not into_running or (marker.exists() and marker.read_text() == names):
            marker.write_text(names)
            return False
        for image in images:
            self._testbed.give(image)
        marker.write_text(names)
        return True

    def _wait(self) -> None:
        try:
            self._show.run("spindle", "wait", CLUSTER, "--timeout", str(_READY_S))
        except DemoError as error:
            self._show.run("spindle", "status", CLUSTER)
            self._show.run("kubectl", "get", "events", "--sort-by=.lastTimestamp")
            raise DemoError(f"{CLUSTER} did not become ready; see above what it waits for") from error
