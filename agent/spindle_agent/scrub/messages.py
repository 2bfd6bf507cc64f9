"""Messages between a disk's scrubbing process and the agent, encoded as in `probing.messages`."""

from dataclasses import dataclass, field
from typing import Any, Final

MOST_TOLD: Final = 20  # corrupt segments that are listed; the others are only counted


@dataclass(frozen=True, kw_only=True)
class Scrub:
    """To the process: what to read and how fast.

    Attributes:
        path, cluster_id, node_id, disk, directory_id: as in `probing.messages.Watch`.
        rate: bytes per second.
        every_days: days within which each segment is to be checked again.
        first: partition folders to check first; the process reports whether they are sound.
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
    """Progress of the process.

    Attributes:
        directory_id: directory id of the log dir.
        read, scans: bytes and segments that the process has read so far.
        segments, bytes, checked, oldest: as in `spindle.scrub.schedule.Figures`.
        corrupt: number of segments with confirmed errors; `troubles` lists at most `MOST_TOLD` of them in the format of the
            status.
        sound: folders of `Scrub.first` whose inactive segments were all checked without an error.
        direct: whether everything was certainly read from the disk.
        orders: how many orders the process has received after its first.
        resting: whether nothing is left to do for now, and everything found is stored on the disk, so that the process may be ended.
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
    orders: int = 0
    resting: bool = False
