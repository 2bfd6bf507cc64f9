"""The workers of all disks, managed by the agent's event loop: sends them the disks to watch and receives reports."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from spindle_agent.preflight import filesystem
from spindle_agent.probing.fork_server import ForkServer
from spindle_agent.probing.messages import (
    LARGEST,
    Began,
    Inspected,
    Probed,
    Remember,
    Report,
    Watch,
    decode,
    encode,
)

log = logging.getLogger(__name__)

Key = tuple[str, str, str]  # namespace and name of the KafkaBroker, name of the disk

_RESPAWN_AFTER: Final = 1.0
_STUCK_AFTER: Final = 3.0
_READS_AT_ONCE: Final = 64
_MOST_ABANDONED: Final = 8  # abandoned workers per disk; each is a process that exists until the disk answers


@dataclass
class _Worker:
    watch: Watch
    channel: socket.socket
    mount: tuple[int, str] | None
    writing_since: float | None = None


class Pool:
    """Starts, instructs and replaces workers. Runs in the event loop; never blocks and never accesses a disk."""

    def __init__(
        self,
        fork_server: ForkServer,
        on_report: Callable[[Key, Report], None],
        on_start: Callable[[Key], None],
    ) -> None:
        """An empty pool.

        Args:
            fork_server: starts workers.
            on_report: called with each report, in order.
            on_start: called when a new worker reports on a disk from now on.
        """
        self._fork_server = fork_server
        self._on_report = on_report
        self._on_start = on_start
        self._workers: dict[Key, _Worker] = {}
        self._wanted: dict[Key, Watch] = {}
        self._abandoned: dict[Key, int] = {}

    def set(self, wanted: Mapping[Key, Watch]) -> None:
        """Watch exactly these disks from now on."""
        self._wanted = dict(wanted)
        for key in self._workers.keys() - wanted.keys():
            self._end(key)
            self._abandoned.pop(key, None)
        for key, watch in wanted.items():
            worker = self._workers.get(key)
            if worker is None:
                self._start(key)
            elif worker.watch.path != watch.path:
                self._end(key)
                self._start(key)
            elif worker.watch != watch:
                self._order(key, worker, watch)

    def again(self, key: Key) -> None:
        """Check a disk and write to it now."""
        worker = self._workers.get(key)
        if worker is not None:
            self._order(key, worker, worker.watch)

    def remember(self, key: Key, record: Remember) -> None:
        """Store a record on a disk; it is lost if the disk currently has no worker, or a hung one."""
        worker = self._workers.get(key)
        if worker is not None:
            with contextlib.suppress(OSError):
                worker.channel.send(encode(record))

    def replace_stuck(self, now: float) -> None:
        """Replace a worker that hangs in a file system that is no longer mounted at its path.

        The mount table shows that without accessing the disk. On the same mount a new worker would hang too.
        """
        for key, worker in list(self._workers.items()):
            if worker.writing_since is None or now - worker.writing_since < _STUCK_AFTER:
                continue
            mount = _mount(worker.watch.path)
            if mount == worker.mount:
                continue
            count = self._abandoned.get(key, 0)
            if count < _MOST_ABANDONED:
                log.warning(
                    "%s: another file system is mounted while a write to the previous one hangs",
                    "/".join(key),
                )
                self._abandoned[key] = count + 1
                self._end(key)
                self._start(key)

    def close(self) -> None:
        """End all workers; a hung one ends when its disk answers."""
        self._wanted = {}
        for key in list(self._workers):
            self._end(key)

    def _start(self, key: Key) -> None:
        watch = self._wanted[key]
        channel = self._fork_server.spawn(watch)
        self._on_start(key)
        self._workers[key] = _Worker(watch, channel, _mount(watch.path))
        asyncio.get_running_loop().add_reader(channel, self._read, key)

    def _end(self, key: Key) -> None:
        worker = self._workers.pop(key)
        asyncio.get_running_loop().remove_reader(worker.channel)
        worker.channel.close()

    def _order(self, key: Key, worker: _Worker, watch: Watch) -> None:
        try:
            worker.channel.send(encode(watch))
        except OSError:
            self._end(key)
            self._start(key)
        else:
            worker.watch = watch

    def _read(self, key: Key) -> None:
        worker = self._workers[key]
        for _ in range(_READS_AT_ONCE):
            try:
                data = worker.channel.recv(LARGEST)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                log.warning("the worker of %s has ended; starting a new one", "/".join(key))
                self._end(key)
                asyncio.get_running_loop().call_later(_RESPAWN_AFTER, self._respawn, key)
                return
            self._take(key, worker, decode(data))

    def _take(self, key: Key, worker: _Worker, report: Report) -> None:
        if isinstance(report, Began):
            worker.writing_since = report.at
        elif isinstance(report, Probed):
            worker.writing_since = None
        elif isinstance(report, Inspected) and worker.writing_since is None:
            worker.mount = _mount(worker.watch.path)  # sent with each change, so the next write belongs to it
        self._on_report(key, report)

    def _respawn(self, key: Key) -> None:
        if key in self._wanted and key not in self._workers:
            self._start(key)


def _mount(path: str) -> tuple[int, str] | None:
    found = filesystem.mount_at(path)
    return None if found is None else (found.id, found.device)
