"""The ballast: a file next to the log dir that reserves space until the disk is almost full.

It is deleted when less than its own size is free, and recreated when four times its size is free, so that it does not oscillate. The
agent decides this on the node, because the operator may be down at that time.
"""

import os
from typing import Final

from spindle.api import names
from spindle_agent import volume
from spindle_agent.probing.messages import Watch
from spindle_agent.probing.probe import is_ours

_AGAIN: Final = 4  # times its size must be free before it is created
_NEW: Final = f"{names.BALLAST_FILE}.new"


def keep(watch: Watch, *, full: bool = False) -> int:
    """Create or delete a disk's ballast as needed, if the disk has the recorded identity.

    Args:
        watch: the disk, and the wanted bytes (0 for none).
        full: a write failed because the disk is full.

    Returns:
        Bytes of ballast present now.

    Raises:
        OSError: the disk returned an error.
    """
    root = volume.open_root(watch.path, watch.beneath)
    try:
        if not is_ours(root, watch):
            return 0
        sizes = os.fstatvfs(root)
        free = sizes.f_bavail * sizes.f_frsize
        standing, wanted = _size(root), watch.ballast
        if standing and (full or standing != wanted or free < wanted):
            os.unlink(names.BALLAST_FILE, dir_fd=root)
            return 0
        if not standing and wanted and not full and free >= _AGAIN * wanted:
            _make(root, wanted)
            return wanted
        return standing
    finally:
        os.close(root)


def _size(root: int) -> int:
    try:
        return os.stat(names.BALLAST_FILE, dir_fd=root, follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0


def _make(root: int, size: int) -> None:
    """Create it under another name first, so that the final file is always complete."""
    file = volume.open_file(root, _NEW, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        os.posix_fallocate(file, 0, size)
    except OSError:
        os.unlink(_NEW, dir_fd=root)
        raise
    finally:
        os.close(file)
    os.rename(_NEW, names.BALLAST_FILE, src_dir_fd=root, dst_dir_fd=root)
