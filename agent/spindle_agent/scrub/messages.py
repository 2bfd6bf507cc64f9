"""What a disk's scrubbing process and the agent say to each other, in the form of `probing.messages`."""

from dataclasses import dataclass, field
from typing import Any, Final

MOST_TOLD: Final = 20  # corrupt segments that are named; the rest are counted


@dataclass(frozen=True, kw_only=True)
class Scrub:
    """To the process: what to read, and how fast.

    Attributes:
        path, cluster_id, node_id, disk, directory_id: as in `probing.messages.Watch`.
        rate: bytes per second.
        every_days: within which each segment is to be checked again.
        first: folders of partitions that are checked before all others, and of which it is told whether they are sound.
    """

    path: str
    cluster_id: str
    node_id: int
    disk: str
    directory_id: str
    rate: int
    every_days: int
    first: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Scrubbed:
    """How far it is.

    Attributes:
        directory_id: of the log dir that this is about.
        read, scans: bytes and segments that the process has read so far.
        segments, bytes, checked, oldest: as in `spindle.scrub.schedule.Figures`.
        corrupt: segments in which something was found and confirmed; `troubles` names at most `MOST_TOLD` of them, as the status has
            them.
        sound: those of `Scrub.first` of which all that is at rest was checked, and nothing was found.
        direct: whether all was surely read from the disk.
    """

    directory_id: str
    read: int = 0
    scans: int = 0
    segments: int = 0
    bytes: int = 0
    checked: int = 0
    oldest: float | None = None
    corrupt: int = 0
    troubles: list[dict[str, Any]] = field(default_factory=list)
    sound: list[str] = field(default_factory=list)
    direct: bool = True
