"""What a sample is made of, before it is packed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spindle_agent.broker.client import LogDir, Replica
from spindle_agent.samples.devices import Rates
from spindle_agent.samples.growth import Place


@dataclass(frozen=True)
class SeenDisk:
    """A disk as the agent knows it now.

    Attributes:
        device: ``major:minor``; None where it cannot be looked at.
        capacity, used: bytes of the file system; None likewise.
        state: as the operator has it; empty for none yet.
    """

    name: str
    log_dir: str
    state: str
    device: str | None = None
    capacity: int | None = None
    used: int | None = None


@dataclass(frozen=True)
class Row:
    """A disk in a sample."""

    disk: SeenDisk
    kind: str | None
    rates: Rates | None


@dataclass(frozen=True)
class Gathered:
    """One broker at one moment.

    Attributes:
        at_ms: wall clock.
        interval_s: seconds that the rates are over.
        rates: bytes per second by replica.
        led: what is known of leadership: whether this broker leads the partition.
    """

    cluster_id: str
    broker: int
    rack: str
    at_ms: int
    interval_s: float
    dirs: Sequence[LogDir]
    rates: Mapping[Place, float]
    led: Mapping[Replica, bool]
    disks: Sequence[Row]
