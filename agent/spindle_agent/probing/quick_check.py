"""A very cheap check of a disk, which can run twice a second.

A few system calls that the kernel answers from memory while the disk is healthy, and for which a file system that has shut down
returns an error: XFS when a folder is read, ext4 when a file is opened.
"""

import errno
import os
import stat
import time
from dataclasses import dataclass, replace
from typing import Final

from spindle.api import names
from spindle.model.disk_facts import Found
from spindle.model.disk_identity import META_PROPERTIES
from spindle_agent import volume
from spindle_agent.preflight.look import look_at
from spindle_agent.probing.messages import LARGEST, Inspected, QuickChecked, Watch, encode

_HEAD: Final = 64 * 1024
_STRANGERS: Final = 8  # foreign file names in a report: a few are enough
_SETTLED_NS: Final = 1_000_000_000  # a file may change again without another time only within a tick of the kernel, a few milliseconds


Stamp = tuple[object, ...]


@dataclass(frozen=True)
class QuickCheck:
    """One quick check.

    Attributes:
        glanced: its result.
        fingerprint: must be unchanged for the last full check to remain valid.
        stamp: what the kernel knows of the files behind the fingerprint: with the same stamp the fingerprint is the same. None without such files, or
            if they have just changed.
    """

    glanced: QuickChecked
    fingerprint: tuple[object, ...]
    stamp: Stamp | None = None


def quick_check(watch: Watch, now: float, before: QuickCheck | None = None) -> QuickCheck:
    """Check a disk quickly; blocks only if the kernel has to read from the disk and it does not answer.

    Args:
        watch: the disk.
        now: seconds of the monotonic clock.
        before: the check of this disk before; files with the same stamp are not read again.
    """
    try:
        root = volume.open_root(watch.path, watch.beneath)
        try:
            about, sizes = os.fstat(root), os.fstatvfs(root)
            stamp = _stamp(watch, root, about, sizes)
            if before is not None and stamp is not None and stamp == before.stamp:
                _some_names(root)
                fingerprint = before.fingerprint
            else:
                identity = _head(root, names.IDENTITY_FILE)
                # A folder of a shared file system counts as a disk if it has a disk's identity.
                if not _own_filesystem(watch, about) and not _says_ours(watch, identity):
                    return QuickCheck(QuickChecked(at=now, mounted=False), (about.st_dev, about.st_ino, None))
                parts = (identity, *_log_dir(root), _some_names(root), _readonly(sizes))
                fingerprint = (about.st_dev, about.st_ino, *parts)
        finally:
            os.close(root)
    except (FileNotFoundError, NotADirectoryError):
        return QuickCheck(QuickChecked(at=now, mounted=False), (None,))
    except PermissionError:
        return QuickCheck(QuickChecked(at=now, mounted=True, readable=False), ("denied",))
    except OSError as error:
        # An error that a mounted disk returns for a read is a problem of the disk.
        return QuickCheck(
            QuickChecked(at=now, mounted=True, errno=error.errno or errno.EIO), ("error", error.errno)
        )
    return QuickCheck(
        QuickChecked(
            at=now,
            mounted=True,
            readonly=_readonly(sizes),
            total_bytes=sizes.f_blocks * sizes.f_frsize,
            used_bytes=(sizes.f_blocks - sizes.f_bfree) * sizes.f_frsize,
        ),
        fingerprint,
        stamp,
    )


def _stamp(watch: Watch, root: int, about: os.stat_result, sizes: os.statvfs_result) -> Stamp | None:
    """The stamp of a volume. Raises OSError, also if the file system has shut down: the identity file is opened each time."""
    above = os.stat(watch.beneath or os.path.dirname(watch.path))  # noqa: PTH116, PTH120 - os names the errors that matter here
    try:
        file = volume.open_existing(root, names.IDENTITY_FILE, os.O_RDONLY, about.st_dev, names.IDENTITY_FILE)
        try:
            identity = os.fstat(file)
        finally:
            os.close(file)
        folder = os.open(names.LOG_SUBDIR, volume.LOOK, dir_fd=root)
        try:
            log_dir, meta = os.fstat(folder), os.stat(META_PROPERTIES, dir_fd=folder, follow_symlinks=False)
        finally:
            os.close(folder)
    except (FileNotFoundError, NotADirectoryError, volume.ForeignFileError):
        return None
    if max(identity.st_ctime_ns, meta.st_ctime_ns) > time.time_ns() - _SETTLED_NS:
        return None
    return (
        above.st_dev,
        _readonly(sizes),
        *(value for each in (about, identity, log_dir, meta) for value in (each.st_dev, each.st_ino)),
        identity.st_ctime_ns,
        meta.st_ctime_ns,
    )


def _readonly(sizes: os.statvfs_result) -> bool:
    return bool(sizes.f_flag & os.ST_RDONLY)


def full_check(watch: Watch, now: float) -> Inspected:
    """Check everything that needs no write."""
    unlike = -1  # not a device: the volume counts as mounted
    try:
        with volume.opened_root(watch.path, watch.beneath) as root:
            about = os.fstat(root)
            own, identity = _own_filesystem(watch, about), _head(root, names.IDENTITY_FILE)
            reference = unlike if own else about.st_dev
            # By its descriptor: a path below a folder of others must not be followed a second time.
            via = f"/proc/self/fd/{root}" if watch.beneath else ""
            found = look_at(watch.path, reference, shared=_says_ours(watch, identity), via=via)
    except OSError as error:
        if watch.beneath:
            return Inspected(at=now, found=_unread(error))
        return Inspected(at=now, found=look_at(watch.path, unlike, shared=False))
    return _short(Inspected(at=now, found=found))


def _unread(error: OSError) -> Found:
    """What an error says about a volume that was opened by its descriptor."""
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return Found(mounted=False)
    if isinstance(error, PermissionError):
        return Found(mounted=False, writable=False)
    return Found(mounted=True, error=volume.describe(error.errno))


def _short(replica_index: Inspected) -> Inspected:
    """The result of a full check, shortened to fit into one message whatever is on the disk."""
    found = replace(replica_index.found, strangers=replica_index.found.strangers[:_STRANGERS])
    replica_index = replace(replica_index, found=found)
    if len(encode(replica_index)) < LARGEST:
        return replica_index
    garbled = "its identity files are too long"
    return replace(
        replica_index, found=replace(found, identity=None, pending=None, meta=None, garbled=garbled)
    )


def _own_filesystem(watch: Watch, about: os.stat_result) -> bool:
    """Whether a path is on another file system than the node's own, that is, on a mounted disk.

    The path may be a mount point, or a folder in a file system on a device that is mounted further up. Without a device
    (tmpfs, an overlay) only a mount point counts, because the folder around all disks may be such a mount.
    """
    if not stat.S_ISDIR(about.st_mode):
        return False
    if watch.beneath:
        # All parts of the path but the last are on the file system of that folder (`volume.open_root`).
        return about.st_dev != os.stat(watch.beneath).st_dev  # noqa: PTH116 - only the number is wanted
    parent = os.stat(os.path.dirname(watch.path))  # noqa: PTH116, PTH120 - os names the errors that matter here
    if about.st_dev != parent.st_dev:
        return True
    root = os.stat(watch.root or os.path.dirname(watch.path))  # noqa: PTH116, PTH120 - as above
    return about.st_dev != root.st_dev and os.major(about.st_dev) != 0


def _says_ours(watch: Watch, identity: bytes | None) -> bool:
    return identity is not None and watch.directory_id.encode() in identity


def _head(root: int, path: str) -> bytes | None:
    """A small file's content; None if it does not exist. Anything other than a regular file is reported as such and changes the fingerprint."""
    try:
        return volume.read_bytes(root, path, _HEAD)
    except volume.ForeignFileError as error:
        return str(error).encode()


def _log_dir(root: int) -> tuple[bytes | None, bool | None]:
    """The content of the log dir's meta.properties, and whether the log dir has entries; None for each that does not exist."""
    try:
        folder = volume.open_folder(root, names.LOG_SUBDIR)
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except volume.ForeignFileError as error:
        return str(error).encode(), True
    try:
        meta = _head(folder, META_PROPERTIES)
        return meta, meta is not None or _some_names(folder)
    finally:
        os.close(folder)


def _some_names(folder: int) -> bool:
    """Whether a folder has entries. The kernel hands over hundreds of names where there are so many: not for a log dir twice a second."""
    with os.scandir(folder) as entries:
        return next(entries, None) is not None
