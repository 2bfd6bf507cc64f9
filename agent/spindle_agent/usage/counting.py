"""Bytes appended to a log dir, and bytes that came and went with whole replicas: from what its broker says of sizes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from spindle_agent.broker.client import LogDir, Replica

_DELETED_AFTER: Final = 60.0  # seconds after which Kafka deletes what it has given up, and the space is free


@dataclass
class AppendCounter:
    """What happened in one log dir between looks; the numbers are taken, and begin anew, with `take`."""

    _sizes: Mapping[Replica, int] | None = None
    _copies: Mapping[Replica, int] = field(default_factory=dict)
    _going: list[tuple[float, int]] = field(default_factory=list)
    _append: int | None = None
    _moved: int = 0

    def look(self, log_dir: LogDir, now: float) -> None:
        """Take in what the broker says now.

        Retention takes whole segments between two looks, and what was appended meanwhile is lost in the difference: looks
        are seconds apart, so that is little.
        """
        sizes, copies = dict(log_dir.replicas), {name: copy.size for name, copy in log_dir.copies.items()}
        before = self._sizes
        if before is not None:
            grown = (size - before[name] for name, size in sizes.items() if name in before)
            self._append = (self._append or 0) + sum(max(0, each) for each in grown)
            for name, size in sizes.items():
                if name not in before:  # a new one is small, a moved one was a copy here before
                    self._moved += size - self._copies.get(name, 0)
            self._moved += sum(size - self._copies.get(name, 0) for name, size in copies.items())
            gone = [size for name, size in before.items() if name not in sizes]
            given_up = [
                size for name, size in self._copies.items() if name not in copies and name not in sizes
            ]
            self._going += [(now + _DELETED_AFTER, size) for size in (*gone, *given_up)]
        self._sizes, self._copies = sizes, copies

    def take(self, now: float) -> tuple[int | None, int]:
        """Bytes appended (None if nobody said) and bytes moved since the last time."""
        self._moved -= sum(size for due, size in self._going if due <= now)
        self._going = [(due, size) for due, size in self._going if due > now]
        taken = self._append, self._moved
        self._append, self._moved = None, 0
        return taken
