"""Partition folders that two dirs of one broker hold: Kafka exits for ever on those, so one has to step aside."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from spindle.disks.log_end import LogEnd

STRAY_SUFFIX: Final = "-stray"
_FUTURE_SUFFIX: Final = "-future"
_PARTITION: Final = re.compile(r"[a-zA-Z0-9._-]+-\d+")
# A running broker writes its checkpoints every five seconds on each dir, so dirs that were in use together are no further apart.
_TOGETHER_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Copy:
    """One partition folder on one disk.

    Attributes:
        dir_used: when the log dir was last in use (its newest checkpoint), seconds since the epoch by the node's clock.
        written: when a file of the folder was last written, by that clock.
        size: bytes in the folder.
        end: where the log ends; None where that cannot be read.
    """

    folder: str
    disk: str
    dir_used: float
    written: float
    size: int
    end: LogEnd | None = None


def is_partition_folder(name: str) -> bool:
    """Whether a folder is a partition's current log: not a future, deleted or stray one."""
    return _PARTITION.fullmatch(name) is not None


def is_replica_folder(name: str) -> bool:
    """Whether a folder may hold what a broker has of a partition: its log, or one that a move has almost put in its place."""
    return is_partition_folder(name) or name.endswith(_FUTURE_SUFFIX)


def strays(copies: Iterable[Copy]) -> list[Copy]:
    """The copies that have to be renamed to ``<folder>-stray``, by folder and disk.

    Of several copies the current one is that whose log got furthest: by leader epoch, then by offset. Clocks have no part in that; a node's may have
    been wrong when a disk failed. Where the copies got equally far, or one of them cannot be read, it is the one on the dir that was in use last: a
    disk that comes back stopped being used when it failed, the dir that took over did not. Where the dirs were in use until the same moment
    (killed between the two renames that end a move) it is the one that was written last, then the larger one.
    """
    by_folder: dict[str, list[Copy]] = defaultdict(list)
    for copy in copies:
        if is_partition_folder(copy.folder):
            by_folder[copy.folder].append(copy)
    result: list[Copy] = []
    for held in by_folder.values():
        current = _current(_furthest(held))
        result += [copy for copy in held if copy is not current]
    return sorted(result, key=lambda copy: (copy.folder, copy.disk))


def _furthest(held: list[Copy]) -> list[Copy]:
    ends = [copy.end for copy in held if copy.end is not None]
    if len(ends) < len(held) or len({end.topic_id for end in ends}) > 1:
        return held  # of two topics of the same name neither has what the other has
    best = max((end.epoch, end.offset) for end in ends)
    return [copy for copy in held if copy.end is not None and (copy.end.epoch, copy.end.offset) == best]


def _current(held: list[Copy]) -> Copy:
    newest = max(copy.dir_used for copy in held)
    return max(
        (copy for copy in held if copy.dir_used >= newest - _TOGETHER_SECONDS),
        key=lambda copy: (copy.written, copy.size, copy.dir_used, copy.disk),
    )
