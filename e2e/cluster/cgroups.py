"""Control groups: one per testbed contains all of its processes, so that all of them can be found."""

import os
import signal
from pathlib import Path
from typing import Final

from e2e.cluster.waiting import wait_for

_ROOT: Final = Path("/sys/fs/cgroup")
_UNIFIED: Final = (_ROOT / "cgroup.controllers").exists()
# The hierarchies that a container runtime uses, one folder each, on kernels that separate them (version 1).
_HIERARCHIES: Final = (
    "pids",
    "cpu",
    "cpuacct",
    "cpuset",
    "memory",
    "devices",
    "freezer",
    "blkio",
    "systemd",
    "unified",
)

# A testbed is a whole cluster, so it gets a larger share than one process.
_TESTBED_WEIGHT: Final = 8


def hierarchies() -> list[Path]:
    """Roots of all hierarchies; processes are tracked in the first one."""
    return [_ROOT] if _UNIFIED else [_ROOT / name for name in _HIERARCHIES if (_ROOT / name).is_dir()]


def make(path: str, weight: int = 1) -> None:
    """Create a group in every hierarchy, with all settings that its members need.

    Args:
        path: from the root of each hierarchy.
        weight: its share of the CPUs, as a multiple of its siblings' share.
    """
    for root in hierarchies():
        folder = root
        for part in path.split("/"):
            if _UNIFIED:
                _delegate(folder)
            folder /= part
            folder.mkdir(exist_ok=True)
            if root.name == "cpuset":
                _inherit_cpuset(folder)
        _weigh(root / path.split("/", maxsplit=1)[0], _TESTBED_WEIGHT)
        if "/" in path:
            _weigh(folder, weight)


def remove(path: str) -> None:
    """Remove a group and all below it, in every hierarchy. It must not contain a process."""
    # The kernel reports a group as busy for a moment after its last process died.
    wait_for(f"removal of control group {path}", lambda: _try_remove(path), seconds=10, every=0.05)


def exists(path: str) -> bool:
    """Whether any hierarchy has this group."""
    return any((root / path).is_dir() for root in hierarchies())


def join_command(path: str) -> list[str]:
    """Prefix of a command line: moves itself into the group, then runs the program that follows."""
    # On version 2, a group whose subgroups have controllers must not contain processes itself, so there is a leaf.
    leaves = [root / path / ("processes" if _UNIFIED else "") for root in _joined()]
    for leaf in leaves:
        leaf.mkdir(parents=True, exist_ok=True)
    joining = " && ".join(f"echo $$ > {leaf}/cgroup.procs" for leaf in leaves)
    return ["sh", "-c", f'{joining} && exec "$@"', "sh"]


def members(path: str) -> list[int]:
    """Pids of all processes in the group and below."""
    found: list[int] = []
    for folder, _, _ in os.walk(hierarchies()[0] / path):
        try:
            found += [int(pid) for pid in (Path(folder) / "cgroup.procs").read_text().split()]
        except OSError:  # removed meanwhile
            continue
    return found


def kill_all(path: str, seconds: float = 20) -> None:
    """Kill every process in the group and below, and wait until none is left."""

    def none_left() -> bool:
        pids = members(path)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not pids

    wait_for(
        f"end of all processes in {path}", none_left, seconds=seconds, every=0.05, detail=lambda: _names(path)
    )


def _try_remove(path: str) -> bool:
    try:
        for root in hierarchies():
            for folder, _, _ in os.walk(root / path, topdown=False):
                Path(folder).rmdir()
    except OSError:
        return False
    return True


def _names(path: str) -> str:
    names = []
    for pid in members(path):
        try:
            names.append(f"{pid} {Path(f'/proc/{pid}/comm').read_text().strip()}")
        except OSError:
            continue
    return f"still running: {', '.join(names)}"


def _joined() -> list[Path]:
    """The hierarchies whose groups contain our own processes: one to find them, the other to distribute the CPUs."""
    roots = hierarchies()
    return roots[:1] if _UNIFIED else [*roots[:1], *(root for root in roots[1:] if root.name == "cpu")]


def _weigh(folder: Path, weight: int) -> None:
    """Set a group's share of the CPUs, as a multiple of the default."""
    for file, usual in (("cpu.shares", 1024), ("cpu.weight", 100)):
        if (folder / file).exists():
            (folder / file).write_text(str(usual * weight))


def _inherit_cpuset(folder: Path) -> None:
    """A new group of this hierarchy has no CPUs and accepts no process until some are assigned."""
    for file in ("cpuset.cpus", "cpuset.mems"):
        if not (folder / file).read_text().strip():
            (folder / file).write_text((folder.parent / file).read_text())


def _delegate(folder: Path) -> None:
    """Enable all controllers of a version 2 group for its children."""
    controllers = (folder / "cgroup.controllers").read_text().split()
    (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))
