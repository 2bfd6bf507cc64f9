"""Takes files out of memory, so that a benchmark reads them from the disk."""

import os
from collections.abc import Iterable
from pathlib import Path


def forget(paths: Iterable[Path]) -> None:
    """Have files on the disk, and not in memory. Of a loop device: its file, where direct reads of the device would find them."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
