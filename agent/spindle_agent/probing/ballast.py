"""The ballast: a file beside the log dir that takes up room until the disk has next to none left.

It is deleted when less than its own size is free, and made again when four times as much is, so that it does not come and go. This
is decided here, on the node, since the operator may be away when it counts.
"""

import os
from typing import Final

from spindle.cluster import names
from spindle_agent import volume
from spindle_agent.probing.messages import Watch
from spindle_agent.probing.probe import is_ours

_AGAIN: Final = 4  # times its size must be free before it is made
_NEW: Final = f"{names.BALLAST_FILE}.new"


def keep(watch: Watch, *, full: bool = False) -> int:
    """Make or delete a disk's ballast as is due, where the disk's identity is the one on record.

    Args:
        watch: where, and how many bytes are wanted (0 for none).
        full: nothing could be written for want of space.

    Returns:
        bytes of ballast that stand now.

    Raises:
        OSError: the disk's own trouble.
    """
    root = os.open(watch.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
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
    """Under another name first: what stands under its own is whole."""
    file = volume.open_file(root, _NEW, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        os.posix_fallocate(file, 0, size)
    except OSError:
        os.unlink(_NEW, dir_fd=root)
        raise
    finally:
        os.close(file)
    os.rename(_NEW, names.BALLAST_FILE, src_dir_fd=root, dst_dir_fd=root)
