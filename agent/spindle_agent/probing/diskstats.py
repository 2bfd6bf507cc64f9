"""Latency of the kernel's requests to each device, from the counters in ``/proc/diskstats``."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

WINDOW_SECONDS: Final = 10.0
_SECTOR: Final = 512  # bytes, independent of the device's block size
_LEAST_REQUESTS: Final = 3  # requests in the window; fewer are not significant


@dataclass(frozen=True)
class Counters:
    """Since boot: completed requests, their total milliseconds, and the number of writes."""

    requests: int
    milliseconds: int
    writes: int = 0


@dataclass(frozen=True)
class Traffic:
    """Since boot: completed reads and writes of one device, their bytes, and the total time of each kind."""

    reads: int
    read_bytes: int
    read_ms: int
    writes: int
    written_bytes: int
    write_ms: int


def traffic(text: str) -> dict[str, Traffic]:
    """``major:minor`` → traffic."""
    found = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 14:
            reads, _, read, read_ms, writes, _, written, write_ms = (int(field) for field in fields[3:11])
            found[f"{fields[0]}:{fields[1]}"] = Traffic(
                reads, _SECTOR * read, read_ms, writes, _SECTOR * written, write_ms
            )
    return found


def read_traffic(path: str = "/proc/diskstats") -> dict[str, Traffic]:
    """The traffic of all devices since boot."""
    return traffic(Path(path).read_text(encoding="ascii"))


def parse(text: str) -> dict[str, Counters]:
    """``major:minor`` → counters; reads, writes and, if the kernel reports them, flushes."""
    found = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 14:
            continue
        numbers = [int(field) for field in fields[3:]]
        writes = numbers[4]
        spent = numbers[3] + numbers[7]
        if len(numbers) >= 17:
            writes += numbers[15]
            spent += numbers[16]
        found[f"{fields[0]}:{fields[1]}"] = Counters(numbers[0] + writes, spent, writes)
    return found


def read(path: str = "/proc/diskstats") -> dict[str, Counters]:
    """The current counters of all devices."""
    return parse(Path(path).read_text(encoding="ascii"))


class Latencies:
    """Milliseconds per request of each device over the last ten seconds."""

    def __init__(self, window: float = WINDOW_SECONDS) -> None:
        self._window = window
        self._samples: deque[tuple[float, Mapping[str, Counters]]] = deque()
        self._wrote: dict[str, tuple[float, int]] = {}

    def add(self, now: float, counters: Mapping[str, Counters], devices: Iterable[str]) -> None:
        """Add a sample of the relevant devices."""
        sample = {name: counters[name] for name in devices if name in counters}
        self._samples.append((now, sample))
        known = self._wrote
        self._wrote = {
            name: known[name] if name in known and known[name][1] == each.writes else (now, each.writes)
            for name, each in sample.items()
        }
        while len(self._samples) > 2 and now - self._samples[1][0] >= self._window:
            self._samples.popleft()

    def of(self, device: str | None) -> float | None:
        """Latency of one device; None with too few requests."""
        if device is None or len(self._samples) < 2:
            return None
        last = self._samples[-1][1].get(device)
        first = next((sample[device] for _, sample in self._samples if device in sample), None)
        if last is None or first is None:
            return None
        requests = last.requests - first.requests
        if requests < _LEAST_REQUESTS:
            return None
        return max(0, last.milliseconds - first.milliseconds) / requests

    def quiet(self, device: str | None) -> float | None:
        """Seconds since a device last completed a write or flush, as of the latest sample.

        None for a device without counters. A device that was just added has been quiet since then.
        """
        wrote = self._wrote.get(device or "")
        return None if wrote is None else self._samples[-1][0] - wrote[0]
