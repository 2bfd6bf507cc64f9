"""How long the kernel's requests to each device take, from the counters in ``/proc/diskstats``."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

WINDOW_SECONDS: Final = 10.0
_LEAST_REQUESTS: Final = 3  # in the window: fewer say nothing about a device


@dataclass(frozen=True)
class Counters:
    """Since the machine started: finished requests, and the milliseconds that all of them took together."""

    requests: int
    milliseconds: int


def parse(text: str) -> dict[str, Counters]:
    """``major:minor`` → counters; reads, writes and, where the kernel tells them, flushes."""
    found = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 14:
            continue
        numbers = [int(field) for field in fields[3:]]
        requests = numbers[0] + numbers[4]
        spent = numbers[3] + numbers[7]
        if len(numbers) >= 17:
            requests += numbers[15]
            spent += numbers[16]
        found[f"{fields[0]}:{fields[1]}"] = Counters(requests, spent)
    return found


def read(path: str = "/proc/diskstats") -> dict[str, Counters]:
    """The counters of all devices now."""
    return parse(Path(path).read_text(encoding="ascii"))


class Latencies:
    """Milliseconds per request of each device over the last ten seconds."""

    def __init__(self, window: float = WINDOW_SECONDS) -> None:
        self._window = window
        self._samples: deque[tuple[float, Mapping[str, Counters]]] = deque()

    def add(self, now: float, counters: Mapping[str, Counters], devices: Iterable[str]) -> None:
        """Take a sample of the devices that matter."""
        self._samples.append((now, {name: counters[name] for name in devices if name in counters}))
        while len(self._samples) > 2 and now - self._samples[1][0] >= self._window:
            self._samples.popleft()

    def of(self, device: str | None) -> float | None:
        """Of one device; None where too little was asked of it."""
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
