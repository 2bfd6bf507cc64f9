"""The file on the disk that holds its past; only a disk's own process calls this, since any of it may hang."""

import os
from collections.abc import Iterator, Sequence

from spindle.cluster.names import HISTORY_FILE
from spindle_agent import volume
from spindle_agent.usage.records import FILE_SIZE, SIZE, Sample, head, offset, pack

_AT_ONCE = SIZE * 1000  # as much as one message to the agent holds


def write(root: int, directory_id: str, samples: Sequence[Sample]) -> None:
    """Write samples to the file at a volume's root, which is made, or made anew if it tells of another log dir.

    Args:
        root: descriptor of the volume's root, which the caller knows to be ours.
        directory_id: of the log dir on it.
        samples: what is new.

    Raises:
        OSError: the disk has no room for the file, or something is wrong with it.
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
    """The ring in pieces of whole records; nothing if there is none, or it tells of another log dir.

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
