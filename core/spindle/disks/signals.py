"""What one round of probes sees of one disk: the input of `classify`.

All times are seconds of one clock that never jumps (a monotonic one): a clock that is set forward must not make a
slow write a hung disk.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import Final

from spindle.disks import facts

# A device is far from its peers when a request takes this many times as long there as with the median of the others,
# and at least so long that it is felt. To be near again it must come well below: the second of each pair.
_FAR_FACTOR: Final = (5.0, 2.5)
_FAR_MS: Final = (50.0, 25.0)
# Few at once: when more devices than this share are far from the others, the node is slow, not the disks.
_FAR_SHARE: Final = 0.34


class DiskVerdict(StrEnum):
    """What the probes of a disk come to."""

    HEALTHY = "Healthy"
    SUSPECT = "Suspect"  # something is odd; nothing is done yet
    SLOW = "Slow"
    FAILED = "Failed"
    MISSING = "Missing"  # nothing is mounted there
    SWAPPED = "Swapped"  # another file system is mounted there

    @property
    def bad(self) -> bool:
        """Whether the disk cannot serve its replicas."""
        return self in _BAD


_BAD: Final = {DiskVerdict.FAILED, DiskVerdict.MISSING, DiskVerdict.SWAPPED}


class ProbeOutcome(StrEnum):
    """How the latest probe of a disk ended."""

    OK = "ok"
    ERROR = "error"
    WRONG = "wrong"  # it read back other bytes than it wrote
    PENDING = "pending"  # it has not come back yet
    NONE = "none"  # nothing could be tried; says nothing of the disk


@dataclass(frozen=True)
class Probe:
    """The latest probe of a disk: write, fsync and read back where the disk is ours, else a mere look.

    Attributes:
        since: when it began; needed while it is pending.
        at: when it came back. Rounds may be more frequent than probes: an error is confirmed by another probe only, not
            by the same one told again. None where each round has a probe of its own.
        errno: of the error.
        doing: what failed or is pending: ``write``, ``fsync``, ``read``, ``look``.
        text: the error in words.
    """

    outcome: ProbeOutcome = ProbeOutcome.NONE
    since: float | None = None
    at: float | None = None
    errno: int | None = None
    doing: str = ""
    text: str = ""

    @classmethod
    def ok(cls) -> "Probe":
        """It did what it should."""
        return cls(ProbeOutcome.OK)

    @classmethod
    def error(cls, errno: int | None, doing: str, text: str = "", at: float | None = None) -> "Probe":
        """A system call failed; without a number the words must do."""
        return cls(ProbeOutcome.ERROR, at=at, errno=errno, doing=doing, text=text)

    @classmethod
    def wrong(cls, at: float | None = None) -> "Probe":
        """It read back other bytes than it wrote."""
        return cls(ProbeOutcome.WRONG, at=at, doing="read")

    @classmethod
    def pending(cls, since: float, doing: str) -> "Probe":
        """It began at ``since`` and has not come back yet."""
        return cls(ProbeOutcome.PENDING, since=since, doing=doing)


@dataclass(frozen=True)
class Latency:
    """How long a request to the device took lately, next to the other devices of the node.

    Attributes:
        own_ms: mean milliseconds a request; None while there were none.
        peers_ms: median of the others; None without peers.
        far: whether it is far from its peers (`compare`).
        quiet: seconds for which the device has finished no write of anybody; None if that is not known.
    """

    own_ms: float | None = None
    peers_ms: float | None = None
    far: bool = False
    quiet: float | None = None


@dataclass(frozen=True, kw_only=True)
class Signals:
    """One round of one disk. None is always "could not be seen" (rule 8), never "no".

    Attributes:
        directory_id: that the slot has on record.
        mode: of the slot, one of `facts.ACTIVE`, `facts.PLACEHOLDER`, `facts.ABSENT`. Kafka's word counts for an active
            one only; in an absent one any file system may be mounted.
        mounted: whether a file system of its own is mounted there: its ``st_dev`` is not that of the folder around
            it. True too where several disks may share one file system.
        fs_uuid: UUID of what is mounted.
        recorded_fs_uuid: UUID that is on record for the slot; None while none was recorded.
        read_only: whether the file system is read-only.
        kafka_error: what Kafka says of the log dir: 0, or its error code; None if it could not be asked.
        content: what is on it, one of `facts.OURS`, `facts.BLANK`, `facts.FOREIGN`, `facts.UNKNOWN`
            (`judge.content` tells).
        content_reason: why it is foreign, in words.
        starved: whether whoever looks has too little time of the machine to tell what waits from what hangs or is slow (`starved`).
    """

    directory_id: str
    mode: str = facts.ACTIVE
    mounted: bool | None = None
    fs_uuid: str | None = None
    recorded_fs_uuid: str | None = None
    read_only: bool | None = None
    probe: Probe = field(default_factory=Probe)
    latency: Latency = field(default_factory=Latency)
    kafka_error: int | None = None
    capacity_bytes: int | None = None
    used_bytes: int | None = None
    content: str = facts.UNKNOWN
    content_reason: str = ""
    starved: bool = False

    @property
    def life(self) -> str:
        """Changes when the slot gets a new directory id, or waits for a new disk: history ends there."""
        return f"{self.directory_id} {'waits' if self.mode == facts.ABSENT else 'stands'}"


def compare(mean_ms: Mapping[str, float | None], slow: Collection[str] = ()) -> dict[str, Latency]:
    """Each device next to its peers.

    Args:
        mean_ms: device → mean milliseconds a request in the last interval; None while there were no requests.
        slow: devices whose disks count as slow already: those are near again only well below the bound.
    """
    known = {device: value for device, value in mean_ms.items() if value is not None}
    made: dict[str, Latency] = {}
    for device, value in mean_ms.items():
        others = [each for peer, each in known.items() if peer != device]
        peers = median(others) if others else None
        bound = int(device in slow)
        far = (
            value is not None
            and peers is not None
            and value >= max(_FAR_MS[bound], _FAR_FACTOR[bound] * peers)
        )
        made[device] = Latency(value, peers, far)
    if sum(each.far for each in made.values()) > max(1.0, _FAR_SHARE * len(known)):
        return {device: Latency(each.own_ms, each.peers_ms) for device, each in made.items()}
    return made
