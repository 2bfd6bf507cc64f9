"""The only way to open files on a volume: never through a link, never outside the volume, never anything but a regular file.

Kafka's container can write anything to a volume, with the same user id as agent and preflight. A link in place of an expected
file would lead them to other disks of the node. So each part of a path is opened separately, relative to the previous part
(``O_PATH | O_NOFOLLOW``), and checked before it is used; the checked object is then opened by its descriptor, not by its name.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final

LOOK: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_TRIES: Final = 5  # attempts for a file that appears and disappears while it is opened


class ForeignFileError(OSError):
    """The volume holds something other than the expected regular file or folder; ``errno`` is ELOOP."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(errno.ELOOP, f"{path} {what}", path)


def describe(number: int | None) -> str:
    """An errno in words. ELOOP is what `ForeignFileError` carries from a disk's process to the agent."""
    if number == errno.ELOOP:
        return "a link, a special file or a second hard link in place of the expected file"
    return os.strerror(number or 0)


@contextmanager
def opened_root(path: str, beneath: str = "") -> Iterator[int]:
    """A descriptor of a volume's root; arguments and errors as for `open_root`."""
    root = open_root(path, beneath)
    try:
        yield root
    finally:
        os.close(root)


def open_root(path: str, beneath: str = "") -> int:
    """A descriptor of a volume's root.

    Args:
        path: absolute path of the volume.
        beneath: a folder above it whose other entries belong to others: no part of the path below it may be a link, and only the last may be on
            another file system. Empty if the whole path is the administrator's.

    Raises:
        FileNotFoundError, NotADirectoryError: it does not exist, or the path below ``beneath`` leads elsewhere.
        OSError: the disk returned an error.
    """
    if not beneath:
        return os.open(path, FOLDER)
    *above, last = _parts(os.path.relpath(path, beneath))
    at = os.open(beneath, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        device = os.fstat(at).st_dev
        for part in above:
            at = _step(at, part)
            _check_folder(os.fstat(at), device, path)
        at = _step(at, last)
        about = os.fstat(at)
        _check_folder(about, about.st_dev, path)
        return os.open(f"/proc/self/fd/{at}", FOLDER)
    except ForeignFileError as error:
        raise FileNotFoundError(errno.ENOENT, str(error), path) from error
    finally:
        os.close(at)


def open_folder(root: int, path: str) -> int:
    """A descriptor of a folder below a volume's root.

    Args:
        root: descriptor of the root.
        path: relative to it, parts separated by slashes; empty for the root itself.

    Raises:
        FileNotFoundError, NotADirectoryError: it does not exist.
        ForeignFileError: a part of the path is a link, or is on another file system.
        OSError: the disk returned an error.
    """
    device = os.fstat(root).st_dev
    at = os.dup(root)
    try:
        for part in _parts(path):
            at = _step(at, part)
            _check_folder(os.fstat(at), device, path)
        return os.open(f"/proc/self/fd/{at}", FOLDER)
    finally:
        os.close(at)


def open_file(root: int, path: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """A descriptor of a regular file below a volume's root.

    Args:
        root: descriptor of the root.
        path: relative to it, parts separated by slashes.
        flags: flags of `os.open`. With ``O_CREAT`` a missing file is created, but not its folder.
        mode: permissions of a created file.

    Raises:
        FileNotFoundError, NotADirectoryError: it does not exist.
        ForeignFileError: a part of the path is a link; or the file is not a regular file, has a second hard link, or is on another file system.
        OSError: the disk returned an error.
    """
    folder, _, name = path.rpartition("/")
    device = os.fstat(root).st_dev
    at = open_folder(root, folder) if folder else os.dup(root)
    try:
        for _ in range(_TRIES):
            try:
                return open_existing(at, name, flags & ~(os.O_CREAT | os.O_EXCL), device, path)
            except FileNotFoundError:
                if not flags & os.O_CREAT:
                    raise
            with contextlib.suppress(FileExistsError):
                # O_EXCL creates a new file or fails; it follows no link.
                return os.open(name, flags | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=at)
        raise ForeignFileError(path, "appears and disappears while it is opened")
    finally:
        os.close(at)


def read_text(root: int, path: str, most: int) -> str | None:
    """Up to ``most`` bytes of a small file as text; None if it does not exist. Raises OSError."""
    data = read_bytes(root, path, most)
    return None if data is None else data.decode(errors="replace")


def read_bytes(root: int, path: str, most: int) -> bytes | None:
    """Up to ``most`` bytes of a small file; None if it does not exist. Raises OSError."""
    try:
        file = open_file(root, path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return os.read(file, most)
    finally:
        os.close(file)


def open_existing(folder: int, name: str, flags: int, device: int, path: str) -> int:
    """A descriptor of an existing regular file in a folder.

    Args:
        folder: descriptor of the folder.
        name: without slashes.
        flags: flags of `os.open` without ``O_CREAT``.
        device: of the volume.
        path: the file in messages.

    Raises:
        FileNotFoundError: it does not exist.
        ForeignFileError: as for `open_file`.
        OSError: the disk returned an error.
    """
    seen = os.open(name, LOOK, dir_fd=folder)
    try:
        about = os.fstat(seen)
        if about.st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if not stat.S_ISREG(about.st_mode):
            raise ForeignFileError(path, "is not a regular file")
        if about.st_nlink > 1:
            raise ForeignFileError(path, "has a second hard link")
        if about.st_dev != device:
            raise ForeignFileError(path, "is on another file system")
        return os.open(f"/proc/self/fd/{seen}", flags | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(seen)


def _step(folder: int, name: str) -> int:
    """A descriptor of what has this name in a folder, in place of the folder's."""
    following = os.open(name, LOOK, dir_fd=folder)
    os.close(folder)
    return following


def _check_folder(about: os.stat_result, device: int, path: str) -> None:
    if stat.S_ISLNK(about.st_mode):
        raise ForeignFileError(path, "leads through a link")
    if not stat.S_ISDIR(about.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    if about.st_dev != device:
        raise ForeignFileError(path, "is on another file system")


def _parts(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part]
    if ".." in parts or "." in parts:
        raise ValueError(f"{path} is not a path below the root")
    return parts


def write_durably(root: int, path: str, text: str) -> None:
    """Write a small file atomically and durably: after a power failure it is complete or absent. Raises OSError."""
    folder, _, name = path.rpartition("/")
    file = open_file(root, f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with open(file, "w", encoding="utf-8") as opened:  # noqa: PTH123 - of a descriptor
        opened.write(text)
        opened.flush()
        os.fsync(file)
    at = open_folder(root, folder)
    try:
        os.replace(f"{name}.tmp", name, src_dir_fd=at, dst_dir_fd=at)
        os.fsync(at)
    finally:
        os.close(at)


def make_folder(root: int, name: str) -> None:
    """Create a folder at the root if it does not exist. Raises OSError, and ForeignFileError if a link is in its place."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=root)
    os.close(open_folder(root, name))


def names_in(root: int, path: str, most: int | None = None) -> set[str]:
    """Names in a folder, at most ``most``; empty if it does not exist. Raises OSError."""
    try:
        folder = open_folder(root, path)
    except (FileNotFoundError, NotADirectoryError):
        return set()
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in islice(entries, most)}
    finally:
        os.close(folder)
