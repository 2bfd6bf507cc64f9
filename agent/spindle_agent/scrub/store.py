"""The file at a volume's root that holds what was checked; only a disk's own process calls this, since any of it may hang."""

import contextlib
import os
from collections.abc import Sequence
from typing import Final

from spindle.cluster.names import SCRUB_FILE, SCRUB_FILE_NEW
from spindle.scrub.confirmation import SegmentProblem
from spindle.scrub.schedule import Runs
from spindle.scrub.state_file import ScrubState, parse, render
from spindle_agent import volume

# Bytes: of a disk with ten thousand partitions it has one. Whoever writes to the disk may have put another there, and parsing takes thirty times as much.
_MOST: Final = 4 << 20


def read(root: int, directory_id: str) -> ScrubState:
    """What is kept; nothing where there is nothing that can be read.

    Args:
        root: descriptor of the volume's root, which the caller knows to be ours.
        directory_id: of the log dir on it.
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
    """Keep it. Under another name first, so that what stands is whole; on a disk without room the former stays.

    Raises:
        OSError: it could not be written. What is checked twice for that costs time, no more.
    """
    file = volume.open_file(root, SCRUB_FILE_NEW, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        with open(file, "wb") as opened:  # noqa: PTH123 - of a descriptor
            opened.write(render(directory_id, runs, troubles, suspects))
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(SCRUB_FILE_NEW, dir_fd=root)
        raise
    os.rename(SCRUB_FILE_NEW, SCRUB_FILE, src_dir_fd=root, dst_dir_fd=root)
