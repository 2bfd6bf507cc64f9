"""Frozen file systems: every write waits until it is thawed, and the waiting processes cannot be killed."""

import fcntl
import os
from pathlib import Path
from typing import Final

from e2e.cluster import cgroups
from e2e.cluster.layout import DISKS_FOLDER

_FITHAW: Final = 0xC0045878


def thaw_all(cgroup: str) -> None:
    """Thaw all disks below the disks' folder that are visible to the processes of a control group.

    Called before they are killed: processes that wait for a frozen disk would not die, and a file system that is
    unmounted while frozen stays, with its loop device, until the machine restarts.
    """
    seen = {_namespace(os.getpid())}
    for pid in cgroups.members(cgroup):
        namespace = _namespace(pid)
        if namespace in seen:
            continue
        seen.add(namespace)
        folder = Path(f"/proc/{pid}/root{DISKS_FOLDER}")
        try:
            mounts = list(folder.iterdir())
        except OSError:  # it has ended, or sees no disks
            continue
        for mount in mounts:
            _thaw(mount)


def _thaw(mount: Path) -> None:
    try:
        handle = os.open(mount, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        fcntl.ioctl(handle, _FITHAW, 0)
    except OSError:  # it was not frozen
        return
    finally:
        os.close(handle)


def _namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/mnt").readlink())
    except OSError:
        return ""
