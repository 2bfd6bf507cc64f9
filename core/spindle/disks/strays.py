"""Partition folders that two dirs of one broker hold: Kafka exits for ever on those, so one has to step aside."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

STRAY_SUFFIX: Final = "-stray"
_FUTURE_SUFFIX: Final = "-future"
_PARTITION: Final = re.compile(r"[a-zA-Z0-9._-]+-\d+")
# A running broker writes its checkpoints every five seconds on each dir, so dirs that were in use together are no further apart.
_TOGETHER_SECONDS: Final = 30.0


@dataclass(frozen=True, order=True)
class Copy:
    """One partition folder on one disk.

    Attributes:
        dir_used: when the log dir was last in use (its newest checkpoint), seconds since the epoch.
        written: when a file of the folder was last written.
        size: bytes in the folder.
    """

    folder: str
    disk: str
    dir_used: float
    written: float
    size: int


def is_partition_folder(name: str) -> bool:
    """Whether a folder is a partition's current log: not a future, deleted or stray one."""
    return _PARTITION.fullmatch(name) is not None


def is_replica_folder(name: str) -> bool:
    """Whether a folder may hold what a broker has of a partition: its log, or one that a move has almost put in its place."""
    return is_partition_folder(name) or name.endswith(_FUTURE_SUFFIX)


def strays(copies: Iterable[Copy]) -> list[Copy]:
    """The copies that have to be renamed to ``<folder>-stray``, sorted.

    Of several copies the current one is that on the dir that was in use last: a disk that comes back stopped being
    used when it failed, the dir that took over did not. Where the dirs were in use until the same moment (killed
    between the two renames that end a move) it is the one that was written last, then the larger one.
    """
    by_folder: dict[str, list[Copy]] = defaultdict(list)
    for copy in copies:
        if is_partition_folder(copy.folder):
            by_folder[copy.folder].append(copy)
    result: list[Copy] = []
    for held in by_folder.values():
        newest = max(copy.dir_used for copy in held)
        current = max(
            (copy for copy in held if copy.dir_used >= newest - _TOGETHER_SECONDS),
            key=lambda copy: (copy.written, copy.size, copy.dir_used, copy.disk),
        )
        result += [copy for copy in held if copy is not current]
    return sorted(result)
