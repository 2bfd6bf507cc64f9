"""What the demo does, step by step. Every step finds what an earlier run has done already and goes on from there."""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from e2e.cluster.build import ensure_helm
from e2e.cluster.images import ensure_spindle_image
from e2e.cluster.state import Options
from e2e.cluster.target import foreign_kubeconfig
from e2e.cluster.testbed import Testbed

ROOT: Final = Path(__file__).resolve().parents[2]
SAMPLE: Final = "examples/quickstart.yaml"
CLUSTER: Final = "demo"
SYSTEM: Final = "spindle-system"
AGENTS: Final = "spindle-agents"  # as the chart names it
TOPIC: Final = "orders"
MESSAGES: Final = 10_000
OPTIONS: Final = Options(nodes=5, zones=3, disks=2)
_READY_S: Final = 600
_WIDTH: Final = 100
_KINDS: Final = ("clusters", "brokers", "rebalances", "users")

_IN_YOUR_SHELL: Final = """
Now it is yours. In your shell, in this folder:

  source {env}
"""
_NEXT: Final = f"""
Look at it:

  kubectl get kc,kb                     what there is, at a glance
  kubectl -n spindle-agents get pods    on each node an agent that probes the disks
  spindle status                        racks, nodes, disks, log dirs, and what is waited for
  kubectl describe kc {CLUSTER}              conditions and events, each with a reason
  spindle verify --messages 1000        messages in and out once more

See it heal:

  kubectl delete pod {CLUSTER}-broker-1      it comes back with its disks
  kubectl delete svc {CLUSTER}-bootstrap     so does this
  spindle stop {CLUSTER}-broker-1            maintenance: it goes down when no partition suffers …
  spindle start {CLUSTER}-broker-1           … and returns
  kubectl delete kc {CLUSTER}                the disks' claims stay: apply the sample again, and it finds its data
"""
_FAULTS: Final = """
Break it (`spindle status` says which node and disk is whose):

  python -m e2e.cluster node off 2      pull the plug of a node; `node on 2` gives it back
  python -m e2e.cluster disk fail 1 0   a disk dies: what stood on it is put elsewhere, until it is safe to pull
  python -m e2e.cluster disk swap 1 0   a blank one in its slot: it is recognised, formatted and filled
  python -m e2e.cluster --help          slow and hung disks, cut cables, partitions
"""


class DemoError(RuntimeError):
    """A step failed; the message says which and what there is to see."""


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


class Demo:
    """The demo, on a testbed of this machine or, if KUBECONFIG names another cluster, on that one."""

    def __init__(self) -> None:
        self._testbed = Testbed()
        self._foreign = foreign_kubeconfig()
        self._began = time.monotonic()

    def up(self) -> None:
        """Bring it up, from wherever it stands."""
        newer = False
        if self._foreign:
            values = _foreign_image(self._foreign)
            self._path(Path(sys.executable).parent, ensure_helm().parent)
        else:
            values = []
            newer = self._make_testbed()
        self._step("Spindle, with Helm")
        chart = ["charts/spindle", "--namespace", SYSTEM, "--create-namespace"]
        self._run("helm", "upgrade", "--install", "spindle", *chart, *values)
        if newer:
            self._run("kubectl", "-n", SYSTEM, "rollout", "restart", "deployment/spindle")
            self._run("kubectl", "-n", AGENTS, "rollout", "restart", "daemonset/spindle-agent")
        self._run("kubectl", "-n", SYSTEM, "rollout", "status", "deployment/spindle", "--timeout=300s")
        self._run("kubectl", "-n", AGENTS, "rollout", "status", "daemonset/spindle-agent", "--timeout=300s")
        self._step("A KafkaCluster of twelve lines")
        self._run("cat", SAMPLE)
        self._run("kubectl", "apply", "-f", SAMPLE)
        self._wait()
        self._step(f"A topic over the racks, and {MESSAGES:,} messages in and out")
        self._run("spindle", "topic", "create", TOPIC, "--partitions", "12", "--replication-factor", "3")
        self._run("spindle", "verify", "--topic", TOPIC, "--messages", str(MESSAGES))
        self._step("What there is")
        self._run("kubectl", "get", "kc,kb")
        self._run("spindle", "status", CLUSTER)
        print(_NEXT if self._foreign else _IN_YOUR_SHELL.format(env=self._env_file()) + _NEXT + _FAULTS)
        print(f"Take it all down, leaving nothing:  make demo-down\n\n(Up in {self._seconds():.0f} s.)")

    def down(self) -> None:
        """Take it down. What was built stays in the cache, so that the next time is quick."""
        if not self._foreign:
            self._testbed.down()
            return
        self._path(Path(sys.executable).parent, ensure_helm().parent)
        # Ahead of its deletion the cluster is told to take its claims along: of a demo nothing is to be left.
        wish = '{"spec":{"deleteClaims":true}}'
        self._run("kubectl", "patch", "-f", SAMPLE, "--type=merge", f"--patch={wish}")
        self._run("kubectl", "delete", "-f", SAMPLE, "--timeout=300s")
        self._run("helm", "uninstall", "spindle", "--namespace", SYSTEM)
        self._run("kubectl", "delete", "namespace", SYSTEM, AGENTS)
        self._run("kubectl", "delete", "crd", *(f"kafka{kind}.spindle.dev" for kind in _KINDS))

    def _make_testbed(self) -> bool:
        """Make it, or find it; True if it has an image now that is newer than the one that Spindle runs from."""
        if os.geteuid() != 0:
            raise DemoError("it makes network namespaces, mounts and loop devices: run it as root")
        self._step("A Kubernetes of 5 nodes in 3 zones, each node with 2 disks")
        stood = self._testbed.is_up()
        self._testbed.up(OPTIONS)
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
        """See to it that the nodes have Spindle's image as the checkout is now; True if an older one was replaced.

        Args:
            into_running: the testbed stood before, so that it may have the image of an earlier checkout.
        """
        name = ensure_spindle_image().folder.name
        marker = self._testbed.kubeconfig.with_name("demo-image")
        if not into_running or (marker.exists() and marker.read_text() == name):
            marker.write_text(name)
            return False
        self._testbed.load_images()
        marker.write_text(name)
        return True

    def _wait(self) -> None:
        try:
            self._run("spindle", "wait", CLUSTER, "--timeout", str(_READY_S))
        except DemoError as error:
            self._run("spindle", "status", CLUSTER)
            self._run("kubectl", "get", "events", "--sort-by=.lastTimestamp")
            raise DemoError(f"{CLUSTER} did not become ready; see above what it waits for") from error

    def _step(self, what: str) -> None:
        print(f"\n══ {what}  [{self._seconds():.0f} s]", flush=True)

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _run(self, *command: str) -> None:
        """Show a command as the user would type it, and run it.

        Raises:
            DemoError: it failed.
        """
        print(f"\n$ {shlex.join(command)}", flush=True)
        width = {} if sys.stdout.isatty() else {"COLUMNS": str(_WIDTH)}
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, **width}, check=False)
        if done.returncode != 0:
            raise DemoError(f"`{shlex.join(command)}` failed")
