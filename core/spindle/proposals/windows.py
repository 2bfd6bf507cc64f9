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
    """State of the maintenance windows.

    Attributes:
        open: whether moves may start.
        at: time of the next change in seconds since the epoch; None for never or unknown.
        problem: the invalid window and why, as a sentence; empty if all are valid.
    """

    open: bool
    at: float | None = None
    problem: str = ""


ALWAYS: Final = WindowState(open=True)


def window_state(windows: Sequence[Window], now: float) -> WindowState:
    """Evaluate the windows; without any, moves may start at any time.

    An invalid window is never open and is reported, because its intention is unknown.

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
    """The last time at or before now, and the next one after now."""
    expression = _ALIASES.get(text, text)
    moment = datetime.fromtimestamp(int(now), UTC)
    minute = moment.replace(second=0)
    last = next(CronSim(expression, minute + timedelta(minutes=1), reverse=True))
    following = next(CronSim(expression, moment))
    return last.timestamp(), following.timestamp()
