"""Partition directories that exist in two log dirs of one broker: Kafka refuses to start with those, so one is renamed."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from spindle.disks.log_end import LogEnd

STRAY_SUFFIX: Final = "-stray"
_FUTURE_SUFFIX: Final = "-future"
_PARTITION: Final = re.compile(r"[a-zA-Z0-9._-]+-\d+")
# A running broker writes checkpoints every five seconds in each dir, so the times of dirs that were in use together differ by no more than this.
_TOGETHER_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Copy:
    """One partition directory on one disk.

    Attributes:
        dir_used: when the log dir was last in use (its newest checkpoint), seconds since the epoch by the node's clock.
        written: when a file of the directory was last written, by that clock.
        size: bytes in the directory.
        end: where the log ends; None if that cannot be read.
    """

    folder: str
    disk: str
    dir_used: float
    written: float
    size: int
    end: LogEnd | None = None


def is_partition_folder(name: str) -> bool:
    """Whether a directory is a partition's current log: not a future, deleted or stray one."""
    return _PARTITION.fullmatch(name) is not None


def is_replica_folder(name: str) -> bool:
    """Whether a directory may hold a broker's replica: its log, or a future log that a move has almost completed."""
    return is_partition_folder(name) or name.endswith(_FUTURE_SUFFIX)


def strays(copies: Iterable[Copy]) -> list[Copy]:
    """The copies to rename to ``<folder>-stray``, by directory and disk.

    The copy that stays is the one whose log is most recent: by leader epoch, then by offset. This does not depend on clocks; the clock of a node
    may have been wrong when a disk failed. If copies are equal in this, or one cannot be read, the copy in the dir that was in use last stays: a
    disk that returns stopped being used when it failed, the dir that replaced it did not. If the dirs were in use until the same moment
    (killed between the two renames that end a move), the copy written last stays, then the larger one.
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
        return held  # they are of two topics with the same name, and neither includes the other
    best = max((end.epoch, end.offset) for end in ends)
    return [copy for copy in held if copy.end is not None and (copy.end.epoch, copy.end.offset) == best]


def _current(held: list[Copy]) -> Copy:
    newest = max(copy.dir_used for copy in held)
    return max(
        (copy for copy in held if copy.dir_used >= newest - _TOGETHER_SECONDS),
        key=lambda copy: (copy.written, copy.size, copy.dir_used, copy.disk),
    )
