"""Looks through a log dir for what there is to be checked."""

import os
import stat
from collections.abc import Iterator

from spindle.scrub.catalog import file_name, inactive, partition_of
from spindle.scrub.finds import LOG
from spindle.scrub.schedule import Known


def survey(log_dir: int) -> Iterator[Known]:
    """All inactive segments below a log dir, one partition after the other; what comes and goes meanwhile is left out.

    Args:
        log_dir: descriptor of the folder.

    Raises:
        OSError: the disk does not answer as one that works.
    """
    for folder in sorted(names_in(log_dir)):
        if partition_of(folder) is not None:
            yield from _partition(log_dir, folder)


def names_in(folder: int) -> list[str]:
    """What a folder holds."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def open_folder(log_dir: int, folder: str) -> int | None:
    """A descriptor of a partition's folder; None if it is gone."""
    try:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=log_dir)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _partition(log_dir: int, folder: str) -> Iterator[Known]:
    opened = open_folder(log_dir, folder)
    if opened is None:
        return
    try:
        for segment in inactive(names_in(opened)):
            try:
                found = os.stat(file_name(segment.base, LOG), dir_fd=opened, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(found.st_mode):
                yield Known(folder, segment, found.st_size, found.st_mtime)
    finally:
        os.close(opened)
