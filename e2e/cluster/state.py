"""State of a testbed between two commands: its options and its processes."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from e2e.cluster.procs import Process


@dataclass(frozen=True)
class Options:
    """Options of a testbed.

    Attributes:
        nodes: number of nodes.
        zones: number of zones; nodes are assigned in turn.
        disks: data disks per node.
        disk_size: bytes of each; images are sparse, so the machine needs less.
        file_system: of the disks: xfs or ext4.
    """

    nodes: int = 5
    zones: int = 3
    disks: int = 3
    disk_size: int = 100 << 30
    file_system: str = "xfs"


@dataclass
class State:
    """The contents of the state file.

    Attributes:
        options: options of the testbed.
        port: of the API server, on the host's loopback.
        kubernetes: folder of the Kubernetes programs in use.
        loops: loop devices that the machine had before.
        blobs: SHA-256 of the image parts that every node started with.
        processes: of the control plane, by name.
        complete: whether ``up`` has completed.
    """

    options: Options
    port: int
    kubernetes: str
    loops: list[str] = field(default_factory=list)
    blobs: list[str] = field(default_factory=list)
    processes: dict[str, Process] = field(default_factory=dict)
    complete: bool = False

    def save(self, path: Path) -> None:
        """Write it atomically."""
        part = path.with_suffix(".part")
        part.write_text(json.dumps(asdict(self), indent=1))
        part.rename(path)

    @classmethod
    def load(cls, path: Path) -> "State | None":
        """Read it; None if it does not exist or is not valid."""
        try:
            found = json.loads(path.read_text())
            found["options"] = Options(**found["options"])
            found["processes"] = {name: Process(**each) for name, each in found["processes"].items()}
            return cls(**found)
        except (OSError, ValueError, TypeError, KeyError):
            return None
