"""Append rate of each replica of a broker, from the sizes that the broker reports."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from spindle_agent.broker.client import LogDir, Replica

_FAR: Final = 600.0  # seconds between two responses above which the growth in between is unknown

Place = tuple[str, Replica]  # path of the log dir, replica


@dataclass
class _Grown:
    size: int
    bytes: int = 0
    seconds: float = 0.0


class Growth:
    """Growth of all replicas of one broker between two samples.

    A replica shrinks by whole segments when old ones are deleted. Bytes appended between the same two responses are missed then,
    which is little, because responses are seconds apart.
    """

    def __init__(self) -> None:
        self._grown: dict[Place, _Grown] = {}
        self._looked_at: float | None = None

    def look(self, dirs: Iterable[LogDir], now: float) -> None:
        """Process a response of the broker; ``now`` in seconds of the monotonic clock."""
        since = now - self._looked_at if self._looked_at is not None else 0.0
        self._looked_at = now
        before = self._grown if since <= _FAR else {}
        found: dict[Place, _Grown] = {}
        for log_dir in dirs:
            for replica, size in log_dir.replicas.items():
                place = log_dir.path, replica
                known = before.get(place)
                if known is None:
                    known = _Grown(size)
                else:
                    known.bytes += max(0, size - known.size)
                    known.seconds += since
                    known.size = size
                found[place] = known
        self._grown = found

    def take(self) -> dict[Place, float]:
        """Bytes per second of each replica that was observed long enough; restarts the measurement."""
        rates = {place: each.bytes / each.seconds for place, each in self._grown.items() if each.seconds > 0}
        for each in self._grown.values():
            each.bytes, each.seconds = 0, 0.0
        return rates
