"""How late the agent's timers are, in its event loop and in the workers, and the kernel's pressure figures (PSI)."""

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
    """The kernel's current figures; empty if it has none (before Linux 4.20, or without PSI)."""
    return NodePressure(_read(folder, "cpu", "some"), _read(folder, "memory", "full"))


def _read(folder: str, name: str, kind: str) -> float | None:
    try:
        return average((Path(folder) / name).read_text(encoding="ascii"), kind)
    except (OSError, ValueError):
        return None


class TimerLag:
    """Whether the agent is starved. Times are seconds of the monotonic clock."""

    def __init__(self) -> None:
        """Start without lag."""
        self.pressure = NO_PRESSURE
        self._late: dict[str, deque[tuple[float, float]]] = {}
        self._due: float | None = None
        self._sign_at: float | None = None
        self._since = ""
        self._message = ""

    def expects(self, due: float) -> None:
        """The event loop should run its periodic work by then; after that it is late."""
        self._due = due

    def came(self, now: float) -> None:
        """The periodic work has run."""
        if self._due is not None:
            self.was_late("agent", now, now - self._due)
            self._due = None

    def was_late(self, who: str, at: float, seconds: float) -> None:
        """A timer fired this many seconds late."""
        if seconds <= 0.0:
            return
        noted = self._late.setdefault(who, deque())
        noted.append((at, seconds))
        while noted and at - noted[0][0] > WINDOW_SECONDS:
            noted.popleft()

    def starved(self, now: float) -> bool:
        """Whether the agent is starved now or was a moment ago, when the operations that are judged now started."""
        late = self._most(now)
        if starved(late, self.pressure):
            if self._sign_at is None:
                self._since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                self._message = words(late, self.pressure)
                log.warning("starved of CPU, so no disk is called hung or slow: %s", self._message)
            self._sign_at = now
        elif self._sign_at is not None and now - self._sign_at >= HOLD_SECONDS:
            self._sign_at = None
            log.info("no longer starved of CPU")
        return self._sign_at is not None

    def fields(self) -> dict[str, dict[str, str]]:
        """The entry in ``status.observed``; unchanged while the starvation lasts, because a status write costs CPU too."""
        if self._sign_at is None:
            return {}
        return {"starved": {"since": self._since, "message": self._message}}

    def _most(self, now: float) -> float:
        """Largest total lag of one process's timers within the window, limited to the window's length."""
        for who, noted in list(self._late.items()):
            while noted and now - noted[0][0] > WINDOW_SECONDS:
                noted.popleft()
            if not noted:
                del self._late[who]
        sums = {who: sum(seconds for _, seconds in noted) for who, noted in self._late.items()}
        if self._due is not None and now > self._due:
            sums["agent"] = sums.get("agent", 0.0) + now - self._due
        return min(WINDOW_SECONDS, max(sums.values(), default=0.0))
