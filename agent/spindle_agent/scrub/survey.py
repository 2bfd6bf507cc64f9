"""Lists the segments of a log dir that are to be checked."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from spindle.scrub.catalog import file_name, inactive, partition_of
from spindle.scrub.schedule import Known
from spindle.scrub.segment_errors import LOG
from spindle_agent import volume

BAD_MEDIUM: Final = frozenset({errno.EIO, errno.ENODATA, errno.EBADMSG, errno.EUCLEAN, errno.EREMOTEIO})
"""Errors of a disk that cannot read some data while the rest is readable."""

# Somebody with write access to the disk can create any number of files, and all disks of the node share the agent's memory.
_MOST_NAMES: Final = 200_000  # per folder
_MOST_SEGMENTS: Final = 400_000  # per disk


def survey(log_dir: int, unreadable: Callable[[str, OSError], None]) -> Iterator[Known]:
    """The inactive segments of a log dir, partition by partition, up to the limits above; files that appear or disappear in the meantime are left out.

    A segment whose inode cannot be read is included as empty with the time of its folder; reading it then reports the error.

    Args:
        log_dir: descriptor of the log dir.
        unreadable: called with each partition folder that the disk cannot read.

    Raises:
        OSError: the disk has an error that is not limited to one folder or file.
    """
    return islice(_all(log_dir, unreadable), _MOST_SEGMENTS)


def _all(log_dir: int, unreadable: Callable[[str, OSError], None]) -> Iterator[Known]:
    for folder in sorted(names_in(log_dir)):
        if partition_of(folder) is None:
            continue
        try:
            yield from _partition(log_dir, folder)
        except OSError as error:
            if error.errno not in BAD_MEDIUM:
                raise
            unreadable(folder, error)


def names_in(folder: int) -> list[str]:
    """Names in a folder; empty if there are more than Kafka would create, because a partial list is useless."""
    with os.scandir(folder) as entries:
        found = [entry.name for entry in islice(entries, _MOST_NAMES + 1)]
    return found if len(found) <= _MOST_NAMES else []


def open_folder(log_dir: int, folder: str) -> int | None:
    """A descriptor of a partition's folder; None if it is gone, or is not a folder on this disk."""
    try:
        return volume.open_folder(log_dir, folder)
    except (FileNotFoundError, NotADirectoryError, volume.ForeignFileError):
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
            except OSError as error:
                if error.errno not in BAD_MEDIUM:
                    raise
                yield Known(folder, segment, 0, os.fstat(opened).st_mtime)
                continue
            if stat.S_ISREG(found.st_mode):
                yield Known(folder, segment, found.st_size, found.st_mtime)
    finally:
        os.close(opened)
