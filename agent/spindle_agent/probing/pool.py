"""The workers of all disks, as the agent's event loop sees them: what to watch goes in, reports come out."""

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
_MOST_ABANDONED: Final = 8  # of one disk; each is a process that the kernel keeps until a disk answers


@dataclass
class _Worker:
    watch: Watch
    channel: socket.socket
    mount: tuple[int, str] | None
    writing_since: float | None = None


class Pool:
    """Starts, feeds and replaces workers. Lives in the event loop; never blocks, never touches a disk."""

    def __init__(
        self,
        fork_server: ForkServer,
        on_report: Callable[[Key, Report], None],
        on_start: Callable[[Key], None],
    ) -> None:
        """An empty pool.

        Args:
            fork_server: where workers come from.
            on_report: is given each report, in order.
            on_start: is told that reports are from another worker from now on.
        """
        self._fork_server = fork_server
        self._on_report = on_report
        self._on_start = on_start
        self._workers: dict[Key, _Worker] = {}
        self._wanted: dict[Key, Watch] = {}
        self._abandoned: dict[Key, int] = {}

    def set(self, wanted: Mapping[Key, Watch]) -> None:
        """Watch these disks from now on, and no others."""
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
        """Look at a disk and write to it again, now."""
        worker = self._workers.get(key)
        if worker is not None:
            self._order(key, worker, worker.watch)

    def remember(self, key: Key, record: Remember) -> None:
        """Have a record kept on a disk; it is lost if the disk has no worker just now, or one that does not listen."""
        worker = self._workers.get(key)
        if worker is not None:
            with contextlib.suppress(OSError):
                worker.channel.send(encode(record))

    def replace_stuck(self, now: float) -> None:
        """Give a worker that hangs in a file system which is no longer mounted at its path a successor.

        The mount table tells without asking the disk. On the same mount a successor would only hang beside it.
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
                    "%s: another file system is mounted while a write to the former one hangs", "/".join(key)
                )
                self._abandoned[key] = count + 1
                self._end(key)
                self._start(key)

    def close(self) -> None:
        """Let all workers end; one that hangs ends when its disk answers."""
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
                log.warning("the worker of %s has ended; starting another", "/".join(key))
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
            worker.mount = _mount(
                worker.watch.path
            )  # comes with each change, so this is what the next write is for
        self._on_report(key, report)

    def _respawn(self, key: Key) -> None:
        if key in self._wanted and key not in self._workers:
            self._start(key)


def _mount(path: str) -> tuple[int, str] | None:
    found = filesystem.mount_at(path)
    return None if found is None else (found.id, found.device)
