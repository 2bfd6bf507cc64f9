"""Removes everything that a testbed left behind, even if it was killed at any moment and has no usable state file.

It finds things by name and path only: processes by their control group, network namespaces by name, loop devices
and mounts by the path of their files.
"""

import fcntl
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from e2e.cluster import cgroups, net
from e2e.cluster.freeze import thaw_all
from e2e.cluster.layout import Layout
from e2e.cluster.system import run
from e2e.cluster.waiting import wait_for

_LOOP_CTL_REMOVE: Final = 0x4C81
_AT_ONCE: Final = 6  # deletions that wait for the disk


def clear(layout: Layout, loops_before: list[str] | None = None) -> None:
    """Remove everything of this testbed.

    Args:
        layout: the testbed.
        loops_before: loop devices that existed before, and stay even if they are unused.
    """
    if cgroups.exists(layout.cgroup):
        thaw_all(layout.cgroup)
        cgroups.kill_all(layout.cgroup)
    net.remove(layout)
    for mount in _mounts_below(layout.state):
        run("umount", "--lazy", mount)
    for loop in attached_loops(layout.state):
        run("losetup", "--detach", loop)
    wait_for("removal of loop devices", lambda: not attached_loops(layout.state), seconds=20)
    if loops_before is not None:
        remove_free_loops(set(loops_before))
    if cgroups.exists(layout.cgroup):
        cgroups.remove(layout.cgroup)
    if layout.state.exists():
        _delete(layout.state)


def _delete(state: Path) -> None:
    """Delete the folder of a testbed, those of its nodes at once: each has tens of thousands of files."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda node: run("rm", "-rf", node, seconds=300), (state / "nodes").glob("*")))
    shutil.rmtree(state)


def leftovers(layout: Layout) -> list[str]:
    """What still exists of this testbed, in words; empty after ``clear``."""
    found = [f"process {pid}" for pid in cgroups.members(layout.cgroup)]
    found += [f"control group {layout.cgroup}"] if cgroups.exists(layout.cgroup) else []
    found += [f"network namespace {name}" for name in net.namespaces(layout)]
    found += [f"mount {path}" for path in _mounts_below(layout.state)]
    found += [f"loop device {name}" for name in attached_loops(layout.state)]
    found += [f"folder {layout.state}"] if layout.state.exists() else []
    return found


def loop_devices() -> list[str]:
    """Names of all loop devices of the machine, in use or not."""
    return sorted(path.name for path in Path("/sys/block").glob("loop*"))


def attached_loops(folder: Path) -> list[str]:
    """Loop devices whose files are below a folder."""
    listed = json.loads(
        run("losetup", "--list", "--json", "--output", "NAME,BACK-FILE") or '{"loopdevices": []}'
    )
    return [
        each["name"] for each in listed["loopdevices"] if (each["back-file"] or "").startswith(f"{folder}/")
    ]


def _mounts_below(folder: Path) -> list[str]:
    """Mount points below a folder as seen by this process, the deepest first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return sorted(
        (path for line in lines if (path := line.split()[4]).startswith(f"{folder}/")), reverse=True
    )


def remove_free_loops(keep: set[str]) -> None:
    """Remove loop devices that were created meanwhile; the kernel refuses if they are in use."""
    control = os.open("/dev/loop-control", os.O_RDWR)
    try:
        for name in loop_devices():
            if name in keep:
                continue
            try:
                fcntl.ioctl(control, _LOOP_CTL_REMOVE, int(name.removeprefix("loop")))
            except OSError:  # in use by another process
                continue
    finally:
        os.close(control)
