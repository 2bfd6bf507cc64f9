"""The file on a disk with its usage history. Only the disk's process calls this, because any call may hang."""

import os
from collections.abc import Iterator, Sequence

from spindle.api.names import HISTORY_FILE
from spindle_agent import volume
from spindle_agent.usage.records import FILE_SIZE, SIZE, Sample, head, offset, pack

_AT_ONCE = SIZE * 1000  # the size of one message to the agent


def write(root: int, directory_id: str, samples: Sequence[Sample]) -> None:
    """Write samples to the file at a volume's root; the file is created, or recreated if it belongs to another log dir.

    Args:
        root: descriptor of the volume's root, whose identity the caller has checked.
        directory_id: directory id of its log dir.
        samples: the new samples.

    Raises:
        OSError: the disk has no space for the file, or returned an error.
    """
    file = volume.open_file(root, HISTORY_FILE, os.O_RDWR | os.O_CREAT)
    try:
        if os.pread(file, SIZE, 0) != head(directory_id):
            os.ftruncate(file, 0)
            os.posix_fallocate(file, 0, FILE_SIZE)
            os.pwrite(file, head(directory_id), 0)
        for sample in samples:
            os.pwrite(file, pack(sample), offset(sample))
    finally:
        os.close(file)


def read(root: int, directory_id: str) -> Iterator[bytes]:
    """The ring in parts of whole records; empty if there is no file, or it belongs to another log dir.

    Raises:
        OSError: the disk cannot be read.
    """
    try:
        file = volume.open_file(root, HISTORY_FILE)
    except FileNotFoundError:
        return
    try:
        if os.pread(file, SIZE, 0) != head(directory_id):
            return
        for start in range(SIZE, FILE_SIZE, _AT_ONCE):
            yield os.pread(file, min(_AT_ONCE, FILE_SIZE - start), start)
    finally:
        os.close(file)
