"""The observations of one round of probes of one disk: the input of `classify`.

All times are seconds of one monotonic clock: a clock that is set forward must not turn a slow write into a hung disk.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import Final

from spindle.model import disk_facts

# A device is far from its peers when a request takes this many times the median of the others, and at least this many
# milliseconds. To be near again it must fall well below that: the second value of each pair.
_FAR_FACTOR: Final = (5.0, 2.5)
_FAR_MS: Final = (50.0, 25.0)
# When more than this share of devices is far from the others, the node is slow, not the disks.
_FAR_SHARE: Final = 0.34


class ProbeOutcome(StrEnum):
    """How the latest probe of a disk ended."""

    OK = "ok"
    ERROR = "error"
    WRONG = "wrong"  # it read back different bytes than it wrote
    PENDING = "pending"  # it has not returned yet
    NONE = "none"  # nothing could be tested; no information on the disk


@dataclass(frozen=True)
class Probe:
    """The latest probe of a disk: write, fsync and read back if the disk is ours, otherwise only a stat.

    Attributes:
        since: when it started; needed while it is pending.
        at: when it returned. Rounds may be more frequent than probes: only another probe confirms an error, not the same
            result again. None if each round has its own probe.
        errno: of the error.
        doing: what failed or is pending: ``write``, ``fsync``, ``read``, ``check``.
        text: the error as text.
    """

    outcome: ProbeOutcome = ProbeOutcome.NONE
    since: float | None = None
    at: float | None = None
    errno: int | None = None
    doing: str = ""
    text: str = ""

    @classmethod
    def ok(cls) -> "Probe":
        """A successful probe."""
        return cls(ProbeOutcome.OK)

    @classmethod
    def error(cls, errno: int | None, doing: str, text: str = "", at: float | None = None) -> "Probe":
        """A failed system call; without an errno the text is used."""
        return cls(ProbeOutcome.ERROR, at=at, errno=errno, doing=doing, text=text)

    @classmethod
    def wrong(cls, at: float | None = None) -> "Probe":
        """A probe that read back different bytes than it wrote."""
        return cls(ProbeOutcome.WRONG, at=at, doing="read")

    @classmethod
    def pending(cls, since: float, doing: str) -> "Probe":
        """A probe that started at ``since`` and has not returned yet."""
        return cls(ProbeOutcome.PENDING, since=since, doing=doing)


@dataclass(frozen=True)
class Latency:
    """Recent request times of the device, compared to the other devices of the node.

    Attributes:
        own_ms: mean milliseconds per request; None while there were none.
        peers_ms: median of the others; None without peers.
        far: whether it is far from its peers (`compare`).
        quiet: seconds for which the device has completed no write at all; None if that is not known.
    """

    own_ms: float | None = None
    peers_ms: float | None = None
    far: bool = False
    quiet: float | None = None


@dataclass(frozen=True, kw_only=True)
class Signals:
    """One round of one disk. None is always "could not be observed", never "no": "unknown is not absent" (`docs/safety.md`, rule 8).

    Attributes:
        directory_id: recorded directory id of the disk.
        mode: of the disk, one of `facts.ACTIVE`, `facts.PLACEHOLDER`, `facts.ABSENT`. Kafka's report counts for an active
            one only; for an absent one any file system may be mounted.
        mounted: whether a separate file system is mounted there: its ``st_dev`` differs from that of the surrounding
            directory. Also True where several disks may share one file system.
        fs_uuid: UUID of the mounted file system.
        recorded_fs_uuid: recorded UUID; None while none was recorded.
        read_only: whether the file system is read-only.
        kafka_error: Kafka's error code of the log dir, 0 for none; None if Kafka could not be asked.
        content: what is on it, one of `facts.OURS`, `facts.BLANK`, `facts.FOREIGN`, `facts.UNKNOWN`
            (see `judge.content`).
        content_reason: why it is foreign, as text.
        starved: whether the observer has too little CPU time or memory to distinguish a delayed probe from a hung or slow disk (`starved`).
    """

    directory_id: str
    mode: str = disk_facts.ACTIVE
    mounted: bool | None = None
    fs_uuid: str | None = None
    recorded_fs_uuid: str | None = None
    read_only: bool | None = None
    probe: Probe = field(default_factory=Probe)
    latency: Latency = field(default_factory=Latency)
    kafka_error: int | None = None
    capacity_bytes: int | None = None
    used_bytes: int | None = None
    content: str = disk_facts.UNKNOWN
    content_reason: str = ""
    starved: bool = False

    @property
    def life(self) -> str:
        """A key that changes when the disk gets a new directory id, or waits for a replacement: history ends there."""
        return f"{self.directory_id} {'waits' if self.mode == disk_facts.ABSENT else 'stands'}"


def compare(mean_ms: Mapping[str, float | None], slow: Collection[str] = ()) -> dict[str, Latency]:
    """Compare each device with its peers on the node; the rebalance job compares disks of all nodes, see `spindle.disks.peers`.

    Args:
        mean_ms: device → mean milliseconds per request in the last interval; None while there were no requests.
        slow: devices whose disks already count as slow: those are near again only well below the threshold.
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
