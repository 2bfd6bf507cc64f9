"""The file at a volume's root that stores which segments were checked. Only the disk's process calls this, because any call may hang."""

import contextlib
import errno
import os
from collections.abc import Sequence
from typing import Final

from spindle.api.names import SCRUB_FILE, SCRUB_FILE_NEW
from spindle.scrub.confirmation import SegmentProblem
from spindle.scrub.schedule import Runs
from spindle.scrub.state_file import ScrubState, parse, render
from spindle_agent import volume

# Maximum bytes; the file of a disk with ten thousand partitions has a megabyte. Somebody with write access to the disk could replace it, and parsing needs thirty times its size.
_MOST: Final = 4 << 20


def read(root: int, directory_id: str) -> ScrubState:
    """The stored state; empty if there is none that can be read.

    Args:
        root: descriptor of the volume's root, whose identity the caller has checked.
        directory_id: directory id of its log dir.
    """
    try:
        file = volume.open_file(root, SCRUB_FILE)
    except OSError:
        return ScrubState()
    with open(file, "rb") as opened, contextlib.suppress(OSError):  # noqa: PTH123 - of a descriptor
        data = opened.read(_MOST + 1)
        return parse(data, directory_id) if len(data) <= _MOST else ScrubState()
    return ScrubState()


def write(
    root: int,
    directory_id: str,
    runs: Runs,
    troubles: Sequence[SegmentProblem],
    suspects: Sequence[SegmentProblem] = (),
) -> None:
    """Store the state. It is written under another name first, so that the file is always complete; on a full disk the former file stays.

    Raises:
        OSError: it could not be written, or is too large to be read back. The only effect is that some segments are checked again.
    """
    content = render(directory_id, runs, troubles, suspects)
    if len(content) > _MOST:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), SCRUB_FILE)
    file = volume.open_file(root, SCRUB_FILE_NEW, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        with open(file, "wb") as opened:  # noqa: PTH123 - of a descriptor
            opened.write(content)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(SCRUB_FILE_NEW, dir_fd=root)
        raise
    os.rename(SCRUB_FILE_NEW, SCRUB_FILE, src_dir_fd=root, dst_dir_fd=root)
