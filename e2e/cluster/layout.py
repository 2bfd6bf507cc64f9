"""Names, addresses and paths of one testbed. With these alone, everything that it creates can be found."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

SERVICE_RANGE: Final = "10.96.0.0/16"
POD_RANGE: Final = "10.56.0.0/16"
CONTROL_ADDRESS: Final = "10.55.0.1"  # bridge, API server and DNS
API_URL: Final = f"https://{CONTROL_ADDRESS}:6443"
REGISTRY: Final = f"{CONTROL_ADDRESS}:5000"  # if a scenario runs one: nodes pull from it without TLS
DOMAIN: Final = "cluster.local"

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
DISK_CLASS: Final = "local-disks"
STANDARD_CLASS: Final = "standard"
STANDARD_DISK: Final = "standard"  # the slot of each node's one volume of that class
DISKS_FOLDER: Final = Path("/mnt/disks")  # on a node: disks are mounted below it

KAFKA_IMAGE: Final = "docker.io/apache/kafka:{version}"
SPINDLE_IMAGE: Final = "localhost/spindle:dev"
SPINDLE_BEFORE_IMAGE: Final = "localhost/spindle:before"
REBALANCE_IMAGE: Final = "localhost/spindle-rebalance:dev"
MONITORING_IMAGE: Final = "localhost/spindle-testbed/monitoring:1"
PAUSE_IMAGE: Final = "localhost/spindle-testbed/pause:1"

MOST_NODES: Final = 50


class LayoutError(ValueError):
    """A name or number that no testbed can have."""


@dataclass(frozen=True)
class Layout:
    """Paths and names of one testbed. Its name comes from SPINDLE_TESTBED, so that two can run side by side.

    Attributes:
        name: lower case letters and digits, at most 12.
        state: folder of all its files; removed by ``down``.
    """

    name: str
    state: Path

    @classmethod
    def default(cls) -> Self:
        """The testbed named by the environment."""
        return cls.named(os.environ.get("SPINDLE_TESTBED", "spindle"))

    @classmethod
    def named(cls, name: str) -> Self:
        """The testbed of this name."""
        if not re.fullmatch(r"[a-z][a-z0-9]{0,11}", name):
            raise LayoutError(
                f"{name!r} is not a valid name for a testbed (SPINDLE_TESTBED): use at most 12 lower-case letters and digits"
            )
        return cls(name, Path("/var/tmp/spindle-testbed") / name)

    @property
    def cgroup(self) -> str:
        """Name of the control group, below the root of every hierarchy, that holds all its processes."""
        return f"testbed-{self.name}"

    @property
    def control_netns(self) -> str:
        """Network namespace of bridge and control plane."""
        return f"{self.netns_prefix}control"

    @property
    def netns_prefix(self) -> str:
        """Prefix of the names of all its network namespaces."""
        return f"testbed-{self.name}-"

    @property
    def pki(self) -> Path:
        """Folder of certificates and kubeconfigs."""
        return self.state / "pki"

    @property
    def logs(self) -> Path:
        """Folder of the logs of control plane and nodes."""
        return self.state / "logs"

    @property
    def images(self) -> Path:
        """Folder of the images of all disks."""
        return self.state / "images"

    @property
    def enclosure(self) -> Path:
        """Where the enclosure serves that folder, in its own mount namespace."""
        return self.state / "enclosure"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, usable from the host."""
        return self.state / "kubeconfig"

    @property
    def last_logs(self) -> Path:
        """Folder for the logs of a failed ``up``."""
        return self.state.with_name(f"{self.name}.logs")

    @property
    def lock(self) -> Path:
        """File that is locked by the command that changes the testbed."""
        return self.state.with_name(f"{self.name}.lock")

    def node(self, index: int) -> "NodeLayout":
        """Names and paths of a node; the first is 1."""
        return NodeLayout(self, index)


@dataclass(frozen=True)
class NodeLayout:
    """Names, addresses and paths of one node."""

    testbed: Layout
    index: int

    @property
    def name(self) -> str:
        """Its name in Kubernetes."""
        return f"node{self.index}"

    @property
    def address(self) -> str:
        """Its own address."""
        return f"10.55.0.{10 + self.index}"

    @property
    def pods(self) -> str:
        """Range of its pods' addresses."""
        return f"10.56.{self.index}.0/24"

    @property
    def netns(self) -> str:
        """Its network namespace."""
        return f"{self.testbed.netns_prefix}{self.name}"

    @property
    def link(self) -> str:
        """The bridge's end of its network cable, an interface in the control plane's namespace."""
        return f"veth{self.index}"

    @property
    def cgroup(self) -> str:
        """Its control group, the root of all groups that the kubelet creates."""
        return f"{self.testbed.cgroup}/{self.name}"

    @property
    def folder(self) -> Path:
        """Its files."""
        return self.testbed.state / "nodes" / self.name

    def boot_id(self) -> str:
        """Changes whenever it is powered on; the kubelet reports it. Empty before the first time."""
        path = self.folder / "boot_id"
        return path.read_text().strip() if path.exists() else ""

    @property
    def images(self) -> Path:
        """Folder of its disks' images."""
        return self.testbed.images / self.name

    @property
    def served(self) -> Path:
        """The same folder as served by the enclosure; only nodes see it."""
        return self.testbed.enclosure / self.name

    @property
    def log(self) -> Path:
        """Folder of its logs."""
        return self.testbed.logs / self.name


def zone_of(index: int, zones: int) -> str:
    """Zone of a node: zone-a, zone-b, … in turn."""
    return f"zone-{chr(ord('a') + (index - 1) % zones)}"
