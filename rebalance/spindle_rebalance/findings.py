"""Results of the history, passed from the data part of a run to the planning part."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from spindle.forecast.history import HOUR

# The shortest period whose rate the forecaster compares with longer ones.
LEAST_TOLD_S: Final = 3 * HOUR
REPLICAS: Final = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("broker", pa.int32(), nullable=False),
        pa.field("dir", pa.string(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("growth_bytes_per_s", pa.float64()),
        pa.field("append_p95", pa.float64()),
    ]
)
"""Columns of `Findings.replicas`: size in the broker's latest sample (bytes), growth rate, and the 95th percentile of the
append rate (bytes per second each; null with too few samples)."""


@dataclass(frozen=True)
class Poisoned:
    """An unusable record.

    Attributes:
        partition, offset: its position in the topic of samples.
        reason: what is wrong with it, as a sentence.
    """

    partition: int
    offset: int
    reason: str


@dataclass(frozen=True)
class ClockOff:
    """A broker whose clock was wrong, and how its samples were corrected.

    Attributes:
        seconds: largest difference of its clock from Kafka's; positive if it was ahead.
        records: number of records whose times were corrected by Kafka's timestamps.
    """

    broker: int
    seconds: float
    records: int


@dataclass(frozen=True)
class ReadReport:
    """What was read from the topic of samples.

    Attributes:
        records: records in the ranges, including unusable ones.
        rows: replica samples in them.
        poison: listed unusable records, a limited number; `poisoned` counts all.
        offsets: partition → first offset and last offset + 1; a run can be repeated with them.
        doubled: records left out as duplicates for the same broker and interval.
        clocks: brokers whose clocks were wrong.
    """

    records: int
    rows: int
    poison: tuple[Poisoned, ...]
    offsets: Mapping[int, tuple[int, int]]
    poisoned: int = 0
    doubled: int = 0
    clocks: tuple[ClockOff, ...] = ()


@dataclass(frozen=True)
class SlowFinding:
    """A disk that is slow in comparison with its peers.

    Attributes:
        since_ms: start of the slowness, in ms since 1970.
        times: ratio of its request latency to that of its peers.
        latency_ms, peers_ms: its request latency, and the typical one of its peers.
        peers: number of disks it was compared with.
        message: the finding as a sentence.
    """

    since_ms: int
    times: float
    latency_ms: float
    peers_ms: float
    peers: int
    message: str


@dataclass(frozen=True)
class DiskFinding:
    """Results of the history for one disk.

    Attributes:
        dir: path of the log dir.
        disk: name of the disk in the cluster's spec.
        kind: class of comparable disks.
        capacity, used: bytes, in the latest sample.
        history_s: seconds from its first to its latest sample.
        level_per_s: growth in bytes per second, averaged over day and week; negative if it shrinks, None if unknown.
        full_in_s: seconds from the latest sample until it reaches the requested level: earliest, expected,
            latest (an 80 % range, infinite for never); None with too little history.
        slow: None if the disk is not slow.
        backtest_error_h: error in hours of a forecast made from the history without its last part; None if
            there was nothing to compare with.
    """

    broker: int
    dir: str
    disk: str
    kind: str
    capacity: int
    used: int
    history_s: float
    level_per_s: float | None
    full_in_s: tuple[float, float, float] | None
    slow: SlowFinding | None
    backtest_error_h: float | None

    @property
    def told(self) -> bool:
        """Whether the history is long enough to report when the disk is full: some minutes do not predict days."""
        return self.full_in_s is not None and self.history_s >= LEAST_TOLD_S


@dataclass(frozen=True)
class Findings:
    """All results of one cluster's history.

    Attributes:
        replicas: a table of `REPLICAS`.
    """

    disks: tuple[DiskFinding, ...]
    replicas: pa.Table = field(repr=False)
    read: ReadReport


def too_little_history(disks: Sequence[DiskFinding]) -> str:
    """Why no forecast is reported for these disks, as a clause with the length of their longest history."""
    return f"too little history yet ({max(d.history_s for d in disks) / 60:.0f} min)"
