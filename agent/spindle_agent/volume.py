"""The one way to open what stands on a volume: never through a link, never off the volume, never a thing that is no plain file.

Kafka's container may write to a volume whatever it likes, under the same user id as agent and preflight. A link that it leaves where one of our
files is expected would lead them to other disks of the node. So each part of a path is opened for itself, relative to the part before it
(``O_PATH | O_NOFOLLOW``), and looked at before it is used; what was looked at is then opened by its descriptor, not by its name.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final

_LOOK: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_TRIES: Final = 5  # at a file that comes and goes while it is opened


class ForeignFileError(OSError):
    """Something stands on the volume where a plain file or folder of ours is expected; ``errno`` is ELOOP."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(errno.ELOOP, f"{path} {what}", path)


@contextmanager
def opened_root(path: str) -> Iterator[int]:
    """A descriptor of a volume's root.

    Raises:
        OSError: there is no folder, or the disk does not give it.
    """
    root = os.open(path, _FOLDER)
    try:
        yield root
    finally:
        os.close(root)


def open_folder(root: int, path: str) -> int:
    """A descriptor of a folder below a volume's root.

    Args:
        root: descriptor of the root.
        path: relative to it, parts separated by slashes; empty for the root itself.

    Raises:
        FileNotFoundError, NotADirectoryError: there is none.
        ForeignFileError: a part of the path is a link, or lies on another file system.
        OSError: the disk does not give it.
    """
    device = os.fstat(root).st_dev
    at = os.dup(root)
    try:
        for part in _parts(path):
            following = os.open(part, _LOOK, dir_fd=at)
            os.close(at)
            at = following
            _check_folder(os.fstat(at), device, path)
        return os.open(f"/proc/self/fd/{at}", _FOLDER)
    finally:
        os.close(at)


def open_file(root: int, path: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """A descriptor of a plain file below a volume's root.

    Args:
        root: descriptor of the root.
        path: relative to it, parts separated by slashes.
        flags: as `os.open` takes them. With ``O_CREAT`` the file is made if there is none; its folder is not.
        mode: of a file that is made.

    Raises:
        FileNotFoundError, NotADirectoryError: there is none.
        ForeignFileError: a part of the path is a link; or what stands there is no plain file, has a second name, or lies on another file system.
        OSError: the disk does not give it.
    """
    folder, _, name = path.rpartition("/")
    device = os.fstat(root).st_dev
    at = open_folder(root, folder)
    try:
        for _ in range(_TRIES):
            try:
                return _existing(at, name, flags & ~(os.O_CREAT | os.O_EXCL), device, path)
            except FileNotFoundError:
                if not flags & os.O_CREAT:
                    raise
            with contextlib.suppress(FileExistsError):
                # O_EXCL makes a new file or nothing; it follows no link.
                return os.open(name, flags | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=at)
        raise ForeignFileError(path, "comes and goes while it is opened")
    finally:
        os.close(at)


def read_text(root: int, path: str, most: int) -> str | None:
    """Up to ``most`` bytes of a small file as text; None if there is none. Raises OSError."""
    data = read_bytes(root, path, most)
    return None if data is None else data.decode(errors="replace")


def read_bytes(root: int, path: str, most: int) -> bytes | None:
    """Up to ``most`` bytes of a small file; None if there is none. Raises OSError."""
    try:
        file = open_file(root, path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return os.read(file, most)
    finally:
        os.close(file)


def _existing(folder: int, name: str, flags: int, device: int, path: str) -> int:
    """Open a file that is there, once what stands there was looked at."""
    seen = os.open(name, _LOOK, dir_fd=folder)
    try:
        about = os.fstat(seen)
        if about.st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if not stat.S_ISREG(about.st_mode):
            raise ForeignFileError(path, "is no plain file")
        if about.st_nlink > 1:
            raise ForeignFileError(path, "has a second name")
        if about.st_dev != device:
            raise ForeignFileError(path, "lies on another file system")
        return os.open(f"/proc/self/fd/{seen}", flags | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(seen)


def _check_folder(about: os.stat_result, device: int, path: str) -> None:
    if stat.S_ISLNK(about.st_mode):
        raise ForeignFileError(path, "leads through a link")
    if not stat.S_ISDIR(about.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    if about.st_dev != device:
        raise ForeignFileError(path, "lies on another file system")


def _parts(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part]
    if ".." in parts or "." in parts:
        raise ValueError(f"{path} does not name a place below the root")
    return parts


def write_durably(root: int, path: str, text: str) -> None:
    """Write a small file so that after a power cut it is there whole or not at all. Raises OSError."""
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
    """Make a folder at the root unless there is one. Raises OSError, ForeignFileError where a link stands in its place."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=root)
    os.close(open_folder(root, name))


def names_in(root: int, path: str, most: int | None = None) -> set[str]:
    """What a folder holds, or so many of it; nothing if there is none. Raises OSError."""
    try:
        folder = open_folder(root, path)
    except (FileNotFoundError, NotADirectoryError):
        return set()
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in islice(entries, most)}
    finally:
        os.close(folder)
