"""Writes ``status.observed`` on changes, at once for important ones, and retries until the API server has it."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from spindle.api.enums import Pressure
from spindle.moves.rate_control import pressure
from spindle_agent.backoff import Backoff
from spindle_agent.kube import Kube
from spindle_agent.tasks import Tasks
from spindle_shared.api_answers import ApiError

log = logging.getLogger(__name__)

Name = tuple[str, str]
Observed = dict[str, Any]

_FIGURES: Final = ("capacityBytes", "usedBytes", "latencyMs", "forecast", "scrub")
_PROGRESS: Final = ("bytes", "copied", "lagOffsets", "bytesPerSecond", "eta")
_SWING: Final = 0.03  # share of a disk's capacity
FIGURES_EVERY: Final = 60.0
PROGRESS_EVERY: Final = 5.0


def significant(observed: Mapping[str, Any]) -> Observed:
    """The part whose changes are written at once: everything except figures that change all the time."""
    return {
        **observed,
        "disks": [_urgent(disk) for disk in observed.get("disks") or ()],
        "moves": [_without(move, _PROGRESS) for move in observed.get("moves") or ()],
    }


def pressure_of(observed: Mapping[str, Any]) -> list[Pressure]:
    """I/O pressure of the disks from the figures; the operator adjusts throttles by it, for which a minute would be too late."""
    return [pressure(disk.get("latencyMs")) for disk in observed.get("disks") or ()]


def changed_much(observed: Mapping[str, Any], written: Mapping[str, Any]) -> bool:
    """Whether a disk's usage differs much from the written value, which the operator uses while the broker restarts."""
    before = {disk.get("name"): disk.get("usedBytes") for disk in written.get("disks") or ()}
    for disk in observed.get("disks") or ():
        used, was, capacity = disk.get("usedBytes"), before.get(disk.get("name")), disk.get("capacityBytes")
        if None not in (used, was, capacity) and abs(used - was) > _SWING * capacity:
            return True
    return False


def _urgent(disk: Mapping[str, Any]) -> Observed:
    # The soundness of a replica decides whether another one may be dropped, so it is withdrawn at once.
    return _without(disk, _FIGURES) | {"sound": (disk.get("scrub") or {}).get("sound") or []}


def _without(entry: Mapping[str, Any], fields: tuple[str, ...]) -> Observed:
    return {key: value for key, value in entry.items() if key not in fields}


class Writer:
    """Keeps one KafkaBroker's ``status.observed`` up to date."""

    def __init__(
        self,
        name: Name,
        write: Callable[[Observed], Any],
        stands: Observed | None,
        on_written: Callable[[], None],
    ) -> None:
        """A writer.

        Args:
            name: namespace and name of the KafkaBroker.
            write: a coroutine function that writes, and raises ApiError.
            stands: the current content of the status; None if it is empty.
            on_written: called after each write.
        """
        self._name = name
        self._write = write
        self._on_written = on_written
        self._wanted: Observed | None = None
        self._wake = asyncio.Event()
        self._written_at = -FIGURES_EVERY
        self.written = stands

    def offer(self, observed: Observed) -> None:
        """Set the content to write."""
        if observed != self._wanted:
            self._wanted = observed
            self._wake.set()

    def lost(self) -> None:
        """The written content was removed by somebody else."""
        self.written = None
        self._wake.set()

    def due(self, now: float) -> float | None:
        """Seconds until the next write; None if there is nothing to write."""
        wanted, written = self._wanted, self.written
        if wanted is None or wanted == written:
            return None
        if written is None or significant(wanted) != significant(written):
            return 0.0
        soon = (
            wanted.get("moves") != written.get("moves")
            or pressure_of(wanted) != pressure_of(written)
            or changed_much(wanted, written)
        )
        every = PROGRESS_EVERY if soon else FIGURES_EVERY
        return max(0.0, self._written_at + every - now)

    async def run(self) -> None:
        """Write until cancelled, one write after the other, always the latest content."""
        backoff = Backoff()
        while True:
            self._wake.clear()
            pause = self.due(time.monotonic())
            if pause == 0.0:
                await asyncio.sleep(await self._once(backoff))
                continue
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _once(self, backoff: Backoff) -> float:
        """Write; returns the seconds to wait before the next attempt."""
        wanted = self._wanted
        assert wanted is not None  # noqa: S101 - else nothing would be due
        try:
            await self._write(wanted)
        except ApiError as error:
            pause = backoff.failed()
            log.warning(
                "%s/%s: writing the status failed (next attempt in %.1f s): %s", *self._name, pause, error
            )
            return pause
        backoff.worked()
        self.written = wanted
        self._written_at = time.monotonic()
        self._on_written()
        return 0.0


class Publisher:
    """The writers of all brokers of this node. Content may be offered at any time, even while the API server is unreachable."""

    def __init__(self, kube: Kube, tasks: Tasks) -> None:
        self._kube = kube
        self._tasks = tasks
        self._writers: dict[Name, tuple[Writer, asyncio.Task[None]]] = {}
        self.writes = 0

    def see(self, name: Name, observed: Observed | None) -> None:
        """Record the current content of a KafkaBroker's status."""
        known = self._writers.get(name)
        if known is None:

            async def write(wanted: Observed) -> None:
                await self._kube.apply_status(*name, wanted)

            writer = Writer(name, write, observed, self._count)
            self._writers[name] = writer, self._tasks.start(writer.run(), f"status of {name[1]}")
        elif observed is None and known[0].written is not None:
            known[0].lost()

    def offer(self, name: Name, observed: Observed) -> None:
        """Set the content to write to a KafkaBroker's status."""
        if name in self._writers:
            self._writers[name][0].offer(observed)

    def forget(self, name: Name) -> None:
        """A KafkaBroker is no longer on this node."""
        known = self._writers.pop(name, None)
        if known is not None:
            known[1].cancel()

    def _count(self) -> None:
        self.writes += 1
