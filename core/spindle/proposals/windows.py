"""Maintenance windows: whether one is open, until when, and when the next one opens."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cronsim import CronSim, CronSimError

from spindle.api.engine import Window

_ALIASES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
}


@dataclass(frozen=True)
class WindowState:
    """How the windows stand.

    Attributes:
        open: whether moves may begin.
        at: when that changes next, in seconds since the epoch; None for never, or where it is not known.
        problem: the window that cannot be read, and why, as a sentence; empty if all can.
    """

    open: bool
    at: float | None = None
    problem: str = ""


ALWAYS: Final = WindowState(open=True)


def window_state(windows: Sequence[Window], now: float) -> WindowState:
    """How the windows stand; without any, moves may begin at any time.

    A window that cannot be read is never open, and says so: what was meant nobody knows.

    Args:
        windows: ``spec.rebalance.windows``.
        now: seconds since the epoch.
    """
    if not windows:
        return ALWAYS
    closes: list[float] = []
    opens: list[float] = []
    problem = ""
    for index, window in enumerate(windows):
        try:
            last, following = _around(window.start, now)
        except (CronSimError, StopIteration) as error:
            said = str(error) or "no such day exists"
            problem = (
                problem
                or f"spec.rebalance.windows[{index}].start {window.start!r} is not a valid cron expression: {said}."
            )
            continue
        end = last + 60.0 * window.duration_minutes
        if now < end:
            closes.append(end)
        opens.append(following)
    if closes:
        return WindowState(open=True, at=max(closes), problem=problem)
    return WindowState(open=False, at=min(opens, default=None), problem=problem)


def _around(text: str, now: float) -> tuple[float, float]:
    """The last time at or before now, and the next one after it."""
    expression = _ALIASES.get(text, text)
    moment = datetime.fromtimestamp(int(now), UTC)
    minute = moment.replace(second=0)
    last = next(CronSim(expression, minute + timedelta(minutes=1), reverse=True))
    following = next(CronSim(expression, moment))
    return last.timestamp(), following.timestamp()
