"""The cluster that scenarios run against: any Kubernetes cluster; only the testbed supports faults."""

import json
import os
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Never

import yaml

from e2e.cluster.apiserver import KubectlError
from e2e.cluster.debian import which


class Unsupported(RuntimeError):  # noqa: N818 - it says what the cluster is, not what went wrong
    """This cluster does not support that; only the testbed does."""


class Target(ABC):
    """A cluster, accessed with kubectl; faults are only possible with access to its machines.

    Attributes:
        kubeconfig: of an administrator.
    """

    kubeconfig: Path

    @abstractmethod
    def kubectl_program(self) -> Path:
        """The kubectl to use."""

    def kubectl(
        self, *arguments: str, stdin: str | None = None, check: bool = True, seconds: float = 300
    ) -> str:
        """Run kubectl as administrator and return what it printed.

        Raises:
            KubectlError: it failed and ``check`` is set.
        """
        command: list[str | Path] = [self.kubectl_program(), "--kubeconfig", self.kubeconfig, *arguments]
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=seconds, check=False
        )
        if check and done.returncode != 0:
            raise KubectlError(arguments, done.stdout, done.stderr)
        return done.stdout

    def get(self, *arguments: str) -> Any:
        """The parsed output of ``kubectl get … -o json``."""
        return json.loads(self.kubectl("get", *arguments, "--output=json"))

    def apply(self, *objects: dict[str, Any]) -> None:
        """Apply objects, server side."""
        self.kubectl("apply", "--server-side", "--filename=-", stdin=yaml.safe_dump_all(objects))


class ForeignCluster(Target):
    """The cluster that KUBECONFIG names."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    def kubectl_program(self) -> Path:
        """The kubectl on the PATH, or the one that the testbed builds."""
        found = which("kubectl")
        if found:
            return Path(found)
        from e2e.cluster.build import ensure_kubernetes  # noqa: PLC0415 - minutes, if it comes to it

        return ensure_kubernetes() / "kubectl"

    def __getattr__(self, name: str) -> Never:
        """Features that only the testbed has: powering nodes off, breaking disks, cutting links."""
        if name.startswith(("node", "disk", "link", "partition", "heal", "inside", "reset", "load_images")):
            raise Unsupported(
                f"{name} needs the testbed, but KUBECONFIG={self.kubeconfig} selects another cluster"
            )
        raise AttributeError(f"{type(self).__name__} has no {name}")


def foreign_kubeconfig() -> Path | None:
    """The file named by KUBECONFIG; None if there is none, or if it belongs to a testbed."""
    named = os.environ.get("KUBECONFIG")
    if not named or "/spindle-testbed/" in named:
        return None
    return Path(named)
