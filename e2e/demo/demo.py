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
from e2e.cluster.testbed import Testbed

ROOT: Final = Path(__file__).resolve().parents[2]
CLUSTER: Final = "demo"
SYSTEM: Final = "spindle-system"
TOPIC: Final = "orders"
MESSAGES: Final = 10_000
OPTIONS: Final = Options(nodes=5, zones=3, disks=2)
_READY_S: Final = 600
_WIDTH: Final = 100

_NEXT: Final = f"""
Now it is yours. In your shell, in this folder:

  source {{env}}

  kubectl get kc,kb                     what there is, at a glance
  spindle status                        racks, nodes, disks, log dirs, and what is waited for
  kubectl describe kc {CLUSTER}              conditions and events, each with a reason
  spindle verify --messages 1000        messages in and out once more

See it heal:

  kubectl delete pod {CLUSTER}-broker-1      it comes back with its disks
  kubectl delete svc {CLUSTER}-bootstrap    so does this
  spindle stop {CLUSTER}-broker-1            maintenance: it goes down when no partition suffers …
  spindle start {CLUSTER}-broker-1           … and returns
  python -m e2e.cluster node off 2      pull the plug of a node; `node on 2` gives it back
  python -m e2e.cluster disk fail 1 0   a disk dies; if it was in use, its broker goes on with the other
  kubectl delete kc {CLUSTER}                the disks' claims stay: apply the sample again, and it finds its data

Take it all down, leaving nothing:  make demo-down
"""


class DemoError(RuntimeError):
    """A step failed; the message says which and what there is to see."""


class Demo:
    """The demo on this machine's testbed."""

    def __init__(self) -> None:
        self._testbed = Testbed()
        self._began = time.monotonic()

    def up(self) -> None:
        """Bring it up, from wherever it stands."""
        if os.geteuid() != 0:
            raise DemoError("it makes network namespaces, mounts and loop devices: run it as root")
        self._step("A Kubernetes of 5 nodes in 3 zones, each node with 2 disks")
        stood = self._testbed.is_up()
        self._testbed.up(OPTIONS)
        environment = self._environment()
        newer = self._load_image(into_running=stood)
        self._step("Spindle, with Helm")
        self._run(
            "helm", "upgrade", "--install", "spindle", "charts/spindle",
            *("--namespace", SYSTEM, "--create-namespace"),
        )  # fmt: skip
        if newer:
            self._run("kubectl", "-n", SYSTEM, "rollout", "restart", "deployment/spindle")
        self._run("kubectl", "-n", SYSTEM, "rollout", "status", "deployment/spindle", "--timeout=300s")
        self._step("A KafkaCluster of twelve lines")
        self._run("cat", "examples/quickstart.yaml")
        self._run("kubectl", "apply", "-f", "examples/quickstart.yaml")
        self._wait()
        self._step(f"A topic over the racks, and {MESSAGES:,} messages in and out")
        self._run("spindle", "topic", "create", TOPIC, "--partitions", "12", "--replication-factor", "3")
        self._run("spindle", "verify", "--topic", TOPIC, "--messages", str(MESSAGES))
        self._step("What there is")
        self._run("kubectl", "get", "kc,kb")
        self._run("spindle", "status", CLUSTER)
        print(_NEXT.format(env=environment))
        print(f"(Up in {time.monotonic() - self._began:.0f} s.)")

    def down(self) -> None:
        """Take it down. What was built stays in the cache, so that the next time is quick."""
        self._testbed.down()

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

    def _environment(self) -> Path:
        """A file for the user's shell: the same programs and the same cluster. It goes when the testbed goes."""
        folders = [Path(sys.executable).parent, ensure_helm().parent, self._testbed.kubectl_program().parent]
        path = os.pathsep.join(map(str, folders))
        kubeconfig = self._testbed.kubeconfig
        os.environ["KUBECONFIG"] = str(kubeconfig)
        os.environ["PATH"] = f"{path}{os.pathsep}{os.environ['PATH']}"
        file = kubeconfig.with_name("env")
        values = {"KUBECONFIG": str(kubeconfig), "SPINDLE_TESTBED": self._testbed.layout.name}
        lines = [f"export {name}={shlex.quote(value)}" for name, value in values.items()]
        file.write_text("\n".join([*lines, f"export PATH={shlex.quote(path)}:$PATH", ""]))
        return file

    def _step(self, what: str) -> None:
        print(f"\n══ {what}  [{time.monotonic() - self._began:.0f} s]", flush=True)

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
