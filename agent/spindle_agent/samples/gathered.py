"""Contents of a sample before it is packed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spindle_agent.broker.client import LogDir, Replica
from spindle_agent.samples.devices import Rates
from spindle_agent.samples.growth import Place


@dataclass(frozen=True)
class SeenDisk:
    """A disk in its current state.

    Attributes:
        device: ``major:minor``; None if the disk cannot be inspected.
        capacity, used: bytes of the file system; None likewise.
        state: the operator's state of the disk; empty if there is none yet.
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
    """One broker at one point in time.

    Attributes:
        at_ms: wall clock in milliseconds.
        interval_s: seconds covered by the rates.
        rates: bytes per second by replica.
        led: partition → whether this broker leads it, if known.
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
