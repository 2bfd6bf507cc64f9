"""Limits of the machine that many nodes on one kernel reach."""

import os
from pathlib import Path
from typing import Final

_PER_NODE: Final = 8  # kubelet 6, containerd, kube-proxy
_CONTROL_PLANE: Final = 7
_SPARE: Final = 8  # for programs in pods that run as root


def inotify_shortage(nodes: int) -> str:
    """Why a testbed with this many nodes lacks inotify instances, or an empty string.

    They are counted per user. A kubelet without any neither works nor exits.
    """
    limit = int(Path("/proc/sys/fs/inotify/max_user_instances").read_text())
    wanted = _CONTROL_PLANE + _PER_NODE * nodes + _SPARE
    used = _inotify_in_use(os.getuid())
    if used + wanted <= limit:
        return ""
    return (
        f"{nodes} nodes need about {wanted} inotify instances and {used} of {limit} are in use: take another testbed "
        f"down, or allow more with sysctl fs.inotify.max_user_instances={used + wanted + 64}"
    )


def _inotify_in_use(user: int) -> int:
    """Number of inotify instances that processes of this user hold."""
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.stat().st_uid == user:
                count += sum(
                    str(file.readlink()) == "anon_inode:inotify" for file in (process / "fd").iterdir()
                )
        except OSError:  # it has ended meanwhile
            continue
    return count
