"""Keeps the usage history of this node's disks and their forecasts."""

import asyncio
import base64
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from spindle.api.enums import DirMoveState
from spindle.api.thresholds import Thresholds
from spindle_agent.broker.client import LogDir
from spindle_agent.disk import Disk
from spindle_agent.moves.progress import Move, Progress
from spindle_agent.probing.messages import Recalled, well
from spindle_agent.probing.pool import Key
from spindle_agent.usage import forecast
from spindle_agent.usage.counting import AppendCounter
from spindle_agent.usage.forecast import Task, UsageForecast
from spindle_agent.usage.records import STEP, Sample, unpack
from spindle_agent.usage.usage_history import MINUTE, Minute, UsageHistory

_PAUSE: Final = 5.0
_STALE: Final = 1800.0


@dataclass
class _TrackedDisk:
    """State of one disk."""

    directory_id: str
    told: Mapping[str, Any] | None
    seen_at: float
    usage_history: UsageHistory = field(default_factory=UsageHistory)
    count: AppendCounter = field(default_factory=AppendCounter)
    sampled_at: float | None = None
    fresh: bool = False
    forecast: UsageForecast | None = None


class UsageTracker:
    """The disks of this node by key. Runs in the event loop; only the computation runs in a thread."""

    def __init__(self, remember: Callable[[Key, Sample], None]) -> None:
        """Start without disks.

        Args:
            remember: writes a sample to its disk.
        """
        self._remember = remember
        self._fills: dict[Key, _TrackedDisk] = {}

    def sees(self, key: Key, directory_id: str, observed: Mapping[str, Any] | None) -> None:
        """Add a recorded disk; its previous forecast remains valid until there is a new one."""
        known = self._fills.get(key)
        if known is None or known.directory_id != directory_id:
            told = (observed or {}).get("forecast") if known is None else None
            self._fills[key] = _TrackedDisk(directory_id, told, time.monotonic())

    def keep(self, keys: Collection[Key]) -> None:
        """Keep only these disks."""
        for key in self._fills.keys() - set(keys):
            del self._fills[key]

    def recalled(self, key: Key, report: Recalled) -> None:
        """A disk's process has read a part of the stored history."""
        fill = self._fills.get(key)
        if fill is not None and fill.directory_id == report.directory_id:
            fill.usage_history.recall(unpack(base64.b64decode(report.records)), time.time())
            fill.fresh = True

    def look(self, key: Key, log_dir: LogDir | None) -> None:
        """The broker reported a disk's log dir."""
        fill = self._fills.get(key)
        if fill is not None and log_dir is not None and not log_dir.error:
            fill.count.look(log_dir, time.monotonic())

    def sample(self, key: Key, disk: Disk) -> None:
        """Take the minute's sample of a disk if it is due and the disk is healthy and belongs to this broker."""
        fill, sizes, now = self._fills.get(key), disk.glanced, time.monotonic()
        if fill is None or sizes is None or not well(sizes) or not sizes.total_bytes or not disk.ours:
            return
        if fill.sampled_at is not None and now - fill.sampled_at < MINUTE:
            return
        fill.sampled_at = fill.seen_at = now
        append, moved = fill.count.take(now)
        done = fill.usage_history.add(Minute(time.time(), sizes.used_bytes, append, moved), sizes.total_bytes)
        fill.fresh = True
        if done is not None:
            self._remember(key, done)

    def told(self, key: Key) -> dict[str, Any]:
        """The disk's forecast for the status; empty if the disk was not observed for long."""
        fill = self._fills.get(key)
        if fill is None or fill.told is None or time.monotonic() - fill.seen_at > _STALE:
            return {}
        return {"forecast": dict(fill.told)}

    def forecasts(self) -> list[tuple[Key, UsageForecast]]:
        """Current forecasts of all disks with enough history."""
        return [
            (key, fill.forecast)
            for key, fill in self._fills.items()
            if fill.forecast is not None and self.told(key)
        ]

    async def run(
        self,
        thresholds: Callable[[Key], Thresholds],
        moving: Callable[[Key], tuple[int, int]],
        changed: Callable[[Key], None],
    ) -> None:
        """Forecast until cancelled.

        Args:
            thresholds: returns the thresholds of a disk.
            moving: returns the bytes that moves will still add to a disk, and free on it.
            changed: called with each disk whose forecast has changed.
        """
        while True:
            await self._round(thresholds, moving, changed)
            await asyncio.sleep(_PAUSE)

    async def _round(
        self,
        thresholds: Callable[[Key], Thresholds],
        moving: Callable[[Key], tuple[int, int]],
        changed: Callable[[Key], None],
    ) -> None:
        for key, fill in list(self._fills.items()):
            if not fill.fresh or (found := fill.usage_history.history()) is None:
                continue
            until, history = found
            if fill.forecast is not None and until < fill.forecast.made + min(STEP, history.step):
                continue
            fill.fresh = False
            arriving, leaving = moving(key)
            task = Task(until, history, thresholds(key), arriving, leaving)
            made = await asyncio.to_thread(forecast.make_forecast, task)
            fill.forecast, before = made, fill.told
            fill.told = forecast.as_status(made, before)
            if fill.told != before and self._fills.get(key) is fill:
                changed(key)


def thresholds_of(spec: Mapping[str, Any]) -> Thresholds:
    """Thresholds from a KafkaBroker's spec; the defaults if there are none or invalid ones."""
    try:
        return Thresholds.parse(spec.get("thresholds") or {})
    except ValidationError:
        return Thresholds()


def in_flight(moves: Mapping[Move, Progress], log_dir: str) -> tuple[int, int]:
    """Bytes that running moves will still add to a log dir, and bytes that they will free there."""
    arriving = leaving = 0
    for move, progress in moves.items():
        if progress.state is not DirMoveState.COPYING or progress.size is None:
            continue
        if move.to_dir == log_dir:
            arriving += max(0, progress.size - (progress.copied or 0))
        elif move.from_dir == log_dir:
            leaving += progress.size
    return arriving, leaving
