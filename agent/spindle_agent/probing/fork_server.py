"""The fork server, which starts workers: a small process, forked before the agent has loaded anything large.

A worker is a copy of this process and uses a few megabytes; a copy of the agent would use many times that, and an
agent with threads cannot be forked safely.
"""

import gc
import os
import resource
import signal
import socket
from pathlib import Path
from typing import Final, NoReturn, Self

from spindle_agent.probing import rehearsal, worker
from spindle_agent.probing.messages import LARGEST, Order, decode, encode
from spindle_agent.scrub import worker as scrubber
from spindle_agent.scrub.messages import Scrub

# Bytes that one worker may use on top of the forked process. It reads untrusted data, which could be made to exhaust the memory of the workers of all
# disks on the node: with the limit only this worker ends.
_MEMORY: Final = 192 << 20


class ForkServer:
    """The agent's side. Created once at the start, while the process is small and has one thread."""

    def __init__(self, channel: socket.socket, pid: int) -> None:
        self._channel = channel
        self.pid = pid

    @classmethod
    def start(cls) -> Self:
        """Fork the fork server."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        rehearsal.run()
        gc.collect()
        gc.freeze()  # existing objects are never collected, so their memory stays shared
        pid = os.fork()
        if pid == 0:
            ours.close()
            _serve(theirs)
        theirs.close()
        ours.setblocking(False)
        return cls(ours, pid)

    @property
    def channel(self) -> socket.socket:
        """Becomes readable only when the fork server has ended."""
        return self._channel

    def spawn(self, order: Order) -> socket.socket:
        """Start a worker for one disk, for probes or for scrubbing; the socket is the agent's end of its channel.

        Raises:
            OSError: the fork server has ended.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            socket.send_fds(self._channel, [encode(order)], [theirs.fileno()])
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        return ours


def _serve(channel: socket.socket) -> NoReturn:
    """Fork a worker for each request; end when the agent does."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # workers are not waited for: the kernel reaps them
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    while True:
        try:
            data, descriptors, _, _ = socket.recv_fds(channel, LARGEST, 1)
        except OSError:
            os._exit(0)
        if not data:
            os._exit(0)
        if os.fork() == 0:
            channel.close()
            _become_worker(descriptors[0], data)
        for descriptor in descriptors:
            os.close(descriptor)


def _become_worker(descriptor: int, data: bytes) -> NoReturn:
    code = 1
    _limit_memory()
    try:
        order, channel = decode(data), socket.socket(fileno=descriptor)
        if isinstance(order, Scrub):
            scrubber.run(channel, order)
        worker.run(channel, order)
    finally:
        os._exit(code)


def _limit_memory() -> None:
    data = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = data + _MEMORY if hard == resource.RLIM_INFINITY else min(data + _MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
