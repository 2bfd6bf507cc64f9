"""How late the agent's own timers are, in its event loop and in the processes that look at disks, and what the kernel says of it."""

import logging
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from spindle.disks.starved import (
    HOLD_SECONDS,
    NO_PRESSURE,
    WINDOW_SECONDS,
    NodePressure,
    average,
    starved,
    words,
)

log = logging.getLogger(__name__)

_FILES: Final = "/proc/pressure"


def read_pressure(folder: str = _FILES) -> NodePressure:
    """The kernel's figures now; nothing where it keeps none (before Linux 4.20, or without PSI)."""
    return NodePressure(_read(folder, "cpu", "some"), _read(folder, "memory", "full"))


def _read(folder: str, name: str, kind: str) -> float | None:
    try:
        return average((Path(folder) / name).read_text(encoding="ascii"), kind)
    except (OSError, ValueError):
        return None


class TimerLag:
    """Whether the agent is starved. Times are seconds of the monotonic clock."""

    def __init__(self) -> None:
        """Nothing is late yet."""
        self.pressure = NO_PRESSURE
        self._late: dict[str, deque[tuple[float, float]]] = {}
        self._due: float | None = None
        self._sign_at: float | None = None
        self._since = ""
        self._message = ""

    def expects(self, due: float) -> None:
        """The event loop is to come to its clock by then: until it does, it is late."""
        self._due = due

    def came(self, now: float) -> None:
        """It has come."""
        if self._due is not None:
            self.was_late("agent", now, now - self._due)
            self._due = None

    def was_late(self, who: str, at: float, seconds: float) -> None:
        """A timer ended so much later than it should have."""
        if seconds <= 0.0:
            return
        noted = self._late.setdefault(who, deque())
        noted.append((at, seconds))
        while noted and at - noted[0][0] > WINDOW_SECONDS:
            noted.popleft()

    def starved(self, now: float) -> bool:
        """Whether it is now, or was until a moment ago: what is judged now began then."""
        late = self._most(now)
        if starved(late, self.pressure):
            if self._sign_at is None:
                self._since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                self._message = words(late, self.pressure)
                log.warning("starved, so no verdict that a disk hangs or is slow: %s", self._message)
            self._sign_at = now
        elif self._sign_at is not None and now - self._sign_at >= HOLD_SECONDS:
            self._sign_at = None
            log.info("no longer starved")
        return self._sign_at is not None

    def fields(self) -> dict[str, dict[str, str]]:
        """For ``status.observed``; stays the same for as long as it lasts, as a write costs time, too."""
        if self._sign_at is None:
            return {}
        return {"starved": {"since": self._since, "message": self._message}}

    def _most(self, now: float) -> float:
        """Seconds by which the timers of the one that fared worst were late within the window, counted up to its length."""
        for who, noted in list(self._late.items()):
            while noted and now - noted[0][0] > WINDOW_SECONDS:
                noted.popleft()
            if not noted:
                del self._late[who]
        sums = {who: sum(seconds for _, seconds in noted) for who, noted in self._late.items()}
        if self._due is not None and now > self._due:
            sums["agent"] = sums.get("agent", 0.0) + now - self._due
        return min(WINDOW_SECONDS, max(sums.values(), default=0.0))
