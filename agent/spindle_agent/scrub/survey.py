"""Looks through a log dir for what there is to be checked."""

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
"""Errors of a disk that does not give some of what is on it, while the rest can be had."""

# Whoever writes to the disk can make files without end, and the agent's memory is that of all disks of its node.
_MOST_NAMES: Final = 200_000  # of one folder
_MOST_SEGMENTS: Final = 400_000  # of one disk


def survey(log_dir: int, unreadable: Callable[[str, OSError], None]) -> Iterator[Known]:
    """The inactive segments below a log dir, one partition after the other, as many as a disk of Kafka's may have; what comes and goes meanwhile is left out.

    A segment whose inode the disk does not give is told as well, empty and of the time of its folder: whoever reads it sees what is wrong.

    Args:
        log_dir: descriptor of the folder.
        unreadable: is told of each partition's folder that the disk does not give.

    Raises:
        OSError: the disk does not answer as one that works, and not for one folder or file.
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
    """What a folder holds; nothing if that is more than any of Kafka's: of a part of it nothing could be said."""
    with os.scandir(folder) as entries:
        found = [entry.name for entry in islice(entries, _MOST_NAMES + 1)]
    return found if len(found) <= _MOST_NAMES else []


def open_folder(log_dir: int, folder: str) -> int | None:
    """A descriptor of a partition's folder; None if it is gone, or is no folder of this disk."""
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
