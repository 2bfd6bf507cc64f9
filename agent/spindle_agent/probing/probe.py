"""One probe: write a block, flush it, and read it back from the disk, not from memory.

The file is kept and the same block is written again and again: that asks for no new space, so a full disk can be probed
too, and changes nothing in the file system but one block.
"""

import errno
import mmap
import os
import time
from dataclasses import dataclass
from typing import Final

from spindle.cluster import names
from spindle.disks.identity import parse_identity
from spindle_agent.preflight.look import PROBE_FILE
from spindle_agent.probing.messages import Watch

BLOCK: Final = 4096  # what direct I/O needs to be aligned to, at most, on any disk in use
_IDENTITY_BYTES: Final = 64 * 1024
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_NOT_ALLOWED: Final = frozenset({errno.EACCES, errno.EPERM})  # somebody's mistake, not the disk's failing
_NO_DIRECT_IO: Final = frozenset({errno.EINVAL, errno.EOPNOTSUPP})


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a probe went; see ``messages.Probed``."""

    seconds: float
    error: str | None = None
    full: bool = False
    skipped: bool = False


def probe(watch: Watch, block: mmap.mmap, back: mmap.mmap) -> Outcome:
    """Probe a disk if its identity is the one on record; blocks for as long as the disk likes.

    Everything goes through one descriptor of the volume's root, so that what is written to is what was asked for its
    identity, even if the disk is swapped in between.

    Args:
        watch: what to look at.
        block, back: anonymous memory of ``BLOCK`` bytes each, to write from and to read into.
    """
    started = time.monotonic()

    def done(**how: object) -> Outcome:
        return Outcome(seconds=time.monotonic() - started, **how)  # type: ignore[arg-type]

    try:
        root = os.open(watch.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return done(skipped=True)
    except OSError as error:
        return done(error=_words(error))
    try:
        if not _is_ours(root, watch):
            return done(skipped=True)
        block[:] = os.urandom(BLOCK)
        _write_and_read(root, block, back)
        return done() if block[:] == back[:] else done(error="what was read back is not what was written")
    except OSError as error:
        if error.errno in _NO_ROOM:
            return done(full=True)
        if error.errno in _NOT_ALLOWED:
            return done(skipped=True)
        return done(error=_words(error))
    finally:
        os.close(root)


def memory() -> mmap.mmap:
    """A block of memory that direct I/O takes."""
    return mmap.mmap(-1, BLOCK)


def _is_ours(root: int, watch: Watch) -> bool:
    try:
        file = os.open(names.IDENTITY_FILE, os.O_RDONLY | os.O_CLOEXEC, dir_fd=root)
    except FileNotFoundError:
        return False
    try:
        identity = parse_identity(os.read(file, _IDENTITY_BYTES).decode(errors="replace"))
    except ValueError:
        return False
    finally:
        os.close(file)
    return (identity.node_id, identity.disk, identity.directory_id) == (
        watch.node_id,
        watch.disk,
        watch.directory_id,
    )


def _write_and_read(root: int, block: mmap.mmap, back: mmap.mmap) -> None:
    try:
        _through(root, block, back, os.O_DIRECT)
    except OSError as error:
        if error.errno not in _NO_DIRECT_IO:
            raise
        _through(root, block, back, 0)


def _through(root: int, block: mmap.mmap, back: mmap.mmap, flags: int) -> None:
    file = os.open(PROBE_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, 0o600, dir_fd=root)
    try:
        os.pwritev(file, [block], 0)
        os.fsync(file)
        # Without direct I/O the kernel would answer from memory; with it this changes nothing.
        os.posix_fadvise(file, 0, BLOCK, os.POSIX_FADV_DONTNEED)
        os.preadv(file, [back], 0)
    finally:
        os.close(file)


def _words(error: OSError) -> str:
    return os.strerror(error.errno or 0)
