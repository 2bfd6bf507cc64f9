"""Reads the end of a partition's log from its folder."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from spindle.disks.log_end import NO_EPOCH, LogEnd, Read, last_batch, last_entry, last_epoch, topic_id
from spindle_agent import volume

_SEGMENT: Final = re.compile(r"[0-9]{20}\.log", re.ASCII)
_EPOCHS: Final = "leader-epoch-checkpoint"
_METADATA: Final = "partition.metadata"
_MOST: Final = 1 << 20  # maximum bytes of either file


def find_log_end(folder: int, sizes: Mapping[str, int]) -> LogEnd | None:
    """Where the log in a partition's folder ends; None if it cannot be read, or the files are not as Kafka writes them.

    Args:
        folder: descriptor of the folder.
        sizes: bytes of each plain file in it, by name.
    """
    segments = sorted(name for name in sizes if _SEGMENT.fullmatch(name))
    try:
        of = topic_id(volume.read_text(folder, _METADATA, _MOST))
        epoch = last_epoch(volume.read_text(folder, _EPOCHS, _MOST))
        if of is None or not segments:
            return None
        found = _last_batch(folder, segments[-1], sizes)
    except OSError:
        return None
    if found is None:
        return None
    epoch, offset = max(epoch, found[0]), found[1]
    # A log that had records has a leader epoch, unless its checkpoint was lost.
    return LogEnd(of, epoch, offset) if epoch != NO_EPOCH or offset == 0 else None


def _last_batch(folder: int, segment: str, sizes: Mapping[str, int]) -> tuple[int, int] | None:
    base, size = int(segment.removesuffix(".log")), sizes[segment]
    index = segment.removesuffix("log") + "index"
    start = 0
    if sizes.get(index):
        with _reading(folder, index) as read:
            start = last_entry(read, sizes[index])
    with _reading(folder, segment) as read:
        found = last_batch(read, size, base, start) if 0 < start < size else None
        return found or last_batch(read, size, base, 0)


@contextmanager
def _reading(folder: int, name: str) -> Iterator[Read]:
    file = volume.open_file(folder, name)
    try:
        yield lambda position, count: os.pread(file, count, position)
    finally:
        os.close(file)
