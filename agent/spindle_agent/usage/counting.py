"""Bytes appended to a log dir, and bytes added and removed with whole replicas, from the sizes that its broker reports."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from spindle_agent.broker.client import LogDir, Replica

_DELETED_AFTER: Final = (
    60.0  # seconds after which Kafka deletes files of a removed replica and frees the space
)


@dataclass
class AppendCounter:
    """Changes in one log dir between responses; `take` returns the counts and resets them."""

    _sizes: Mapping[Replica, int] | None = None
    _copies: Mapping[Replica, int] = field(default_factory=dict)
    _going: list[tuple[float, int]] = field(default_factory=list)
    _append: int | None = None
    _moved: int = 0

    def look(self, log_dir: LogDir, now: float) -> None:
        """Process the broker's current response.

        Retention deletes whole segments between two responses, and bytes appended in the meantime are missed then. Responses
        are seconds apart, so that is little.
        """
        sizes, copies = dict(log_dir.replicas), {name: copy.size for name, copy in log_dir.copies.items()}
        before = self._sizes
        if before == sizes and copies == self._copies:
            self._append = self._append or 0
        elif before is not None:
            grown = (size - before[name] for name, size in sizes.items() if name in before)
            self._append = (self._append or 0) + sum(max(0, each) for each in grown)
            for name, size in sizes.items():
                if name not in before:  # a new replica is small; a moved one was a future replica here before
                    self._moved += size - self._copies.get(name, 0)
            self._moved += sum(size - self._copies.get(name, 0) for name, size in copies.items())
            gone = [size for name, size in before.items() if name not in sizes]
            given_up = [
                size for name, size in self._copies.items() if name not in copies and name not in sizes
            ]
            self._going += [(now + _DELETED_AFTER, size) for size in (*gone, *given_up)]
        self._sizes, self._copies = sizes, copies

    def take(self, now: float) -> tuple[int | None, int]:
        """Bytes appended (None if not reported) and bytes moved since the last call."""
        self._moved -= sum(size for due, size in self._going if due <= now)
        self._going = [(due, size) for due, size in self._going if due > now]
        taken = self._append, self._moved
        self._append, self._moved = None, 0
        return taken
