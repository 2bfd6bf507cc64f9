"""One probe: write a block, flush it, and read it back from the disk, not from the page cache.

The file is kept and the same block is rewritten each time: that needs no new space, so a full disk can be probed
too, and changes only one block of the file system.
"""

import errno
import mmap
import os
import time
from functools import lru_cache
from typing import Final

from spindle.api import names
from spindle.model.disk_identity import parse_identity
from spindle_agent import volume
from spindle_agent.preflight.look import PROBE_FILE
from spindle_agent.probing.messages import Order, Probed, Watch

BLOCK: Final = 4096  # largest alignment that direct I/O needs on current disks
_IDENTITY_BYTES: Final = 64 * 1024
_NOT_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR})
_NO_DIRECT_IO: Final = frozenset({errno.EINVAL, errno.EOPNOTSUPP})
_parsed: Final = lru_cache(maxsize=2)(parse_identity)  # it is read every two seconds, and stays the same


def memory() -> mmap.mmap:
    """A block of memory suitable for direct I/O."""
    return mmap.mmap(-1, BLOCK)


def probe(watch: Watch, block: mmap.mmap, back: mmap.mmap) -> Probed:
    """Probe a disk if it has the recorded identity; blocks until the disk answers.

    Everything uses one descriptor of the volume's root, so that the write goes to the volume whose identity was
    checked, even if the disk is swapped in between.

    Args:
        watch: the disk to probe.
        block, back: anonymous memory of ``BLOCK`` bytes each, to write from and to read into.
    """
    attempt = _Attempt(watch, block, back)
    started = time.monotonic()
    number, skipped = 0, False
    try:
        skipped = not attempt.run()
    except OSError as error:
        number = error.errno or errno.EIO
    finally:
        attempt.close()
    now = time.monotonic()
    if number in _NOT_THERE:
        number, skipped = 0, True
    wrong = not (number or skipped) and block[:] != back[:]
    return Probed(
        at=now,
        seconds=now - started,
        errno=number,
        doing=attempt.doing if number else "",
        wrong=wrong,
        skipped=skipped,
    )


def is_ours(root: int, watch: Order) -> bool:
    """Whether the volume behind a descriptor of its root has the recorded identity. Raises OSError."""
    file = volume.open_file(root, names.IDENTITY_FILE)
    try:
        identity = _parsed(os.read(file, _IDENTITY_BYTES).decode(errors="replace"))
    except ValueError:
        return False
    finally:
        os.close(file)
    return bool(watch.cluster_id) and (
        identity.cluster_id,
        identity.node_id,
        identity.disk,
        identity.directory_id,
    ) == (
        watch.cluster_id,
        watch.node_id,
        watch.disk,
        watch.directory_id,
    )


class _Attempt:
    """One attempt, which records the current step for error reports."""

    def __init__(self, watch: Watch, block: mmap.mmap, back: mmap.mmap) -> None:
        self._watch, self._block, self._back = watch, block, back
        self._root = -1
        self.doing = "open"

    def run(self) -> bool:
        """Write and read; returns False without a write if the disk does not belong to this broker. Raises OSError."""
        self._root = volume.open_root(self._watch.path, self._watch.beneath)
        if not is_ours(self._root, self._watch):
            return False
        self._block[:] = os.urandom(BLOCK)
        try:
            self._through(os.O_DIRECT)
        except OSError as error:
            if error.errno not in _NO_DIRECT_IO:
                raise
            self._through(0)
        return True

    def close(self) -> None:
        if self._root >= 0:
            os.close(self._root)

    def _through(self, flags: int) -> None:
        self.doing = "open"
        file = volume.open_file(self._root, PROBE_FILE, os.O_RDWR | os.O_CREAT | flags)
        try:
            self.doing = "write"
            os.pwritev(file, [self._block], 0)
            self.doing = "fsync"
            os.fsync(file)
            # Without direct I/O the kernel would answer from the page cache; with it this has no effect.
            os.posix_fadvise(file, 0, BLOCK, os.POSIX_FADV_DONTNEED)
            self.doing = "read"
            os.preadv(file, [self._back], 0)
        finally:
            os.close(file)
