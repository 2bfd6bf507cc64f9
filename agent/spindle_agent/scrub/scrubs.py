"""The scrubbing processes of all disks, managed by the agent's event loop."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from spindle.scrub.catalog import partition_of
from spindle_agent.probing.fork_server import ForkServer
from spindle_agent.probing.messages import LARGEST, decode, encode
from spindle_agent.scrub.messages import Scrub, Scrubbed

log = logging.getLogger(__name__)

Key = tuple[str, str, str]  # as in `probing.pool`

_AGAIN_AFTER: Final = 5.0  # seconds between two processes for one disk
_REST: Final = 600.0  # seconds until a disk on which nothing was due is looked through again
_HOUR: Final = 3600


@dataclass
class _Worker:
    order: Scrub
    channel: socket.socket
    orders: int = 0


@dataclass
class _Word:
    """The last report on a disk: from a process, or from the status before this agent started."""

    directory_id: str
    told: dict[str, Any]
    report: Scrubbed | None = None
    read: int = 0
    scans: int = 0


class Scrubs:
    """Starts, instructs and ends the processes. Runs in the event loop; never blocks and never accesses a disk."""

    def __init__(self, fork_server: ForkServer, changed: Callable[[Key], None]) -> None:
        """Create it without any process.

        Args:
            fork_server: starts processes.
            changed: called with each disk whose report has changed.
        """
        self._fork_server = fork_server
        self._changed = changed
        self._workers: dict[Key, _Worker] = {}
        self._words: dict[Key, _Word] = {}
        self._not_before: dict[Key, float] = {}
        self._resting: dict[Key, tuple[Scrub, float]] = {}

    def sees(self, key: Key, directory_id: str, observed: Mapping[str, Any] | None) -> None:
        """Add a disk to check; its previous report remains valid until a process reports."""
        known = self._words.get(key)
        if known is None or known.directory_id != directory_id:
            entry = (observed or {}) if known is None else {}
            told = {name: entry[name] for name in ("scrub", "corrupt") if name in entry}
            self._words[key] = _Word(directory_id, told)

    def keep(self, keys: Collection[Key]) -> None:
        """Keep only these disks."""
        for key in self._words.keys() - set(keys):
            del self._words[key]
            self._resting.pop(key, None)

    def set(self, wanted: Mapping[Key, Scrub]) -> None:
        """Run processes for exactly these disks, except where nothing is due."""
        for key in self._workers.keys() - wanted.keys():
            self._end(key)
        for key, order in wanted.items():
            worker = self._workers.get(key)
            if worker is None:
                self._start(key, order)
            elif worker.order != order:
                self._order(key, worker, order)

    def close(self) -> None:
        """End all processes; a hung one ends when its disk answers."""
        self.set({})

    def told(self, key: Key) -> dict[str, Any]:
        """The disk's scrubbing entries for the status."""
        known = self._words.get(key)
        return known.told if known is not None else {}

    def reports(self) -> Iterator[tuple[Key, Scrubbed, int, int]]:
        """For each disk the last report of its process, and the bytes and segments read since this agent started."""
        for key, word in self._words.items():
            if word.report is not None:
                yield key, word.report, word.read, word.scans

    def _start(self, key: Key, order: Scrub) -> None:
        loop = asyncio.get_running_loop()
        rested, until = self._resting.get(key, (None, 0.0))
        if loop.time() < (until if rested == order else self._not_before.get(key, 0.0)):
            return
        self._not_before[key] = loop.time() + _AGAIN_AFTER
        word = self._words.get(key)
        if word is not None and word.report is not None:
            word.report = replace(word.report, read=0, scans=0)  # a process counts from its own start
        channel = self._fork_server.spawn(order)
        self._workers[key] = _Worker(order, channel)
        loop.add_reader(channel, self._take, key)

    def _end(self, key: Key) -> None:
        worker = self._workers.pop(key)
        asyncio.get_running_loop().remove_reader(worker.channel)
        worker.channel.close()

    def _order(self, key: Key, worker: _Worker, order: Scrub) -> None:
        with contextlib.suppress(OSError):
            worker.channel.send(encode(order))
            worker.order = order
            worker.orders += 1
            return
        self._end(key)  # the next round starts a new one

    def _take(self, key: Key) -> None:
        try:
            data = self._workers[key].channel.recv(LARGEST)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            log.warning("%s: the scrubbing process has ended", "/".join(key))
            self._end(key)
            return
        report = decode(data)
        self._said(key, report)
        worker = self._workers.get(key)
        # A report on an earlier order says nothing about the present one.
        if worker is not None and report.resting and report.orders == worker.orders:
            self._resting[key] = worker.order, asyncio.get_running_loop().time() + _REST
            self._end(key)

    def _said(self, key: Key, report: Scrubbed) -> None:
        word = self._words.get(key)
        if word is None or word.directory_id != report.directory_id:
            return
        before = word.report
        # It counts anew for a new disk.
        anew = before is None or report.read < before.read
        word.read += report.read - (0 if anew or before is None else before.read)
        word.scans += report.scans - (0 if anew or before is None else before.scans)
        word.report = report
        told = tell(report)
        if told != word.told:
            for entry in told.get("corrupt", ()):
                if entry not in word.told.get("corrupt", ()):
                    log.warning("%s: %s", "/".join(key), describe(entry))
            word.told = told
            self._changed(key)


def tell(report: Scrubbed) -> dict[str, Any]:
    """A report as an entry of ``status.observed.disks``; rounded, so that not every segment causes a status write."""
    progress: dict[str, Any] = {
        "percent": 100 * report.checked // report.bytes if report.bytes else 100,
        "corrupt": report.corrupt,
    }
    if report.oldest is not None:
        hour = report.oldest // _HOUR * _HOUR
        progress["oldest"] = datetime.fromtimestamp(hour, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    named = (partition_of(folder) for folder in sorted(report.sound))
    if vouched := [{"topic": name[0], "partition": name[1]} for name in named if name is not None]:
        progress["sound"] = vouched
    corrupt = [
        {name: value for name, value in entry.items() if value is not None} for entry in report.troubles
    ]
    return {"scrub": progress} | ({"corrupt": corrupt} if corrupt else {})


def describe(entry: Mapping[str, Any]) -> str:
    """Describe a corrupt segment."""
    return (
        f"segment {entry['segment']} of {entry['topic']}-{entry['partition']} is corrupt: {entry['kind']} at byte "
        f"{entry['position']} of its {entry['file']} ({entry['message']})"
    )
