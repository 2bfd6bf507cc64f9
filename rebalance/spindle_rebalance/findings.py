"""What the history told: the data side of a run hands this to the side that plans."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from spindle.forecast.history import HOUR

# The shortest time whose rate the forecaster compares with that of longer ones.
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
"""Columns of `Findings.replicas`: size in the broker's latest sample (bytes), how fast it grows, and the rate at which it is
appended to that 95 % of the samples stay below (bytes per second each; null where there is too little to tell)."""


@dataclass(frozen=True)
class Poisoned:
    """A record that could not be used.

    Attributes:
        partition, offset: where it lies in the topic of samples.
        reason: what is wrong with it, in a sentence.
    """

    partition: int
    offset: int
    reason: str


@dataclass(frozen=True)
class ClockOff:
    """A broker whose clock was off, and how its samples were read.

    Attributes:
        seconds: that its clock was ahead of Kafka's, at its worst; negative for behind.
        records: whose times were put right by what Kafka stored.
    """

    broker: int
    seconds: float
    records: int


@dataclass(frozen=True)
class ReadReport:
    """What was read of the topic of samples.

    Attributes:
        records: records in the ranges, the unusable ones too.
        rows: samples of replicas in them.
        poison: unusable records, at most as many as are named; `poisoned` counts all.
        offsets: partition → first offset and the one after the last; with them a run can be repeated.
        doubled: records left out because their broker had reported for the same interval already.
        clocks: brokers whose clocks were off.
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
        since_ms: when it became so, in ms since 1970.
        times: how many times longer its requests take than those of its peers.
        latency_ms, peers_ms: what its requests take, and what is usual among its peers.
        peers: disks that it was compared with.
        message: the same in a sentence.
    """

    since_ms: int
    times: float
    latency_ms: float
    peers_ms: float
    peers: int
    message: str


@dataclass(frozen=True)
class DiskFinding:
    """What the history says of one disk.

    Attributes:
        dir: path of the log dir.
        disk: its name in the cluster's spec.
        kind: what it may be compared with.
        capacity, used: bytes, in the latest sample.
        history_s: seconds from its first sample to its latest one.
        level_per_s: bytes per second by which it fills, on average of day and week; negative while it empties, None if unknown.
        full_in_s: seconds from the latest sample until it reaches the level that was asked for: at the earliest, expected, at the
            latest (an 80 % range, infinite for never); None where there is too little history to tell.
        slow: None for a disk that is not.
        backtest_error_h: by how many hours a forecast made on the history without its last part was off; None if there was
            nothing to hold it against.
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
        """Whether there is enough history to tell people when it is full: a line through some minutes says nothing of days."""
        return self.full_in_s is not None and self.history_s >= LEAST_TOLD_S


@dataclass(frozen=True)
class Findings:
    """Everything that the history of one cluster told.

    Attributes:
        replicas: a table of `REPLICAS`.
    """

    disks: tuple[DiskFinding, ...]
    replicas: pa.Table = field(repr=False)
    read: ReadReport


def too_little_history(disks: Sequence[DiskFinding]) -> str:
    """Why nothing is told of when these disks are full, with how much history the best known of them has, as a clause."""
    return f"too little history yet ({max(d.history_s for d in disks) / 60:.0f} min)"
