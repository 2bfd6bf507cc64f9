"""One disk's process: a thread that only checks, and one that writes.

A write to a disk that does not answer cannot be ended, not even by killing the process: the kernel releases it only when the
disk answers. So the writing thread may hang forever, alone; the other continues to check, because what is mounted, and
whether it is read-only, can often still be read. If both hang, the missing reports show it.
"""

import contextlib
import errno
import os
import select
import signal
import socket
import threading
import time
from dataclasses import replace
from typing import Final, NoReturn

from spindle_agent.probing.ballast import keep
from spindle_agent.probing.messages import (
    LARGEST,
    Began,
    Probed,
    QuickChecked,
    Remember,
    Report,
    Watch,
    decode,
    encode,
    well,
)
from spindle_agent.probing.probe import memory, probe
from spindle_agent.probing.quick_check import QuickCheck, full_check, quick_check
from spindle_agent.probing.usage_record import UsageRecord

GLANCE_EVERY: Final = 0.5
LOOK_EVERY: Final = 30.0  # a full check even if nothing seems to have changed
_SIGN_OF_LIFE: Final = 2.0  # minimum seconds between reports of unchanged quick checks
_LEAST_PAUSE: Final = 0.02
_LATE: Final = 1.0  # seconds of timer lag from which it is reported at once


def run(channel: socket.socket, watch: Watch) -> NoReturn:
    """Run the worker until the other end of the channel is closed."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # the agent ends the worker by closing the channel
    worker = _Worker(channel, watch)
    threading.Thread(target=worker.write_for_ever, daemon=True).start()
    worker.look_for_ever()


def until_next(every: float, now: float) -> float:
    """Seconds until the next moment at which the workers of all disks run: at most ``every``.

    They run one after the other then, and what the first one has brought into the processor's caches serves all: on a node with twelve disks that
    takes half of the CPU time.

    Args:
        every: seconds between two such moments.
        now: seconds of the monotonic clock, which the processes share.
    """
    return every - now % every


def _with_ballast(watch: Watch, probed: Probed) -> Probed:
    """Maintain the ballast if the probe has just shown that the disk belongs to this broker and is writable or full."""
    full = probed.errno == errno.ENOSPC
    if probed.skipped or probed.wrong or (probed.errno and not full):
        return probed
    # A problem with the ballast is not a verdict on the disk: the probe decides that.
    with contextlib.suppress(OSError):
        return replace(probed, ballast=keep(watch, full=full))
    return probed


class _Worker:
    def __init__(self, channel: socket.socket, watch: Watch) -> None:
        self._channel = channel
        self._watch = watch
        self._probe_now = threading.Event()
        self._told: QuickChecked | None = None
        self._seen: QuickCheck | None = None
        self._looked_at = 0.0
        self._late = 0.0
        self._usage_record = UsageRecord()

    def look_for_ever(self) -> NoReturn:
        """Run quick checks, and receive the disks to watch."""
        while True:
            self._look()
            slept = time.monotonic()
            pause = until_next(GLANCE_EVERY, slept)
            if select.select([self._channel], [], [], pause)[0]:
                self._take_orders()
            else:
                self._late += max(0.0, time.monotonic() - slept - pause)

    def write_for_ever(self) -> NoReturn:
        """Probe at the configured interval, and at once on request."""
        block, back = memory(), memory()
        while True:
            began = time.monotonic()
            self._send(Began(at=began))
            watch = self._watch
            probed = _with_ballast(watch, probe(watch, block, back))
            if not (probed.errno or probed.skipped or probed.wrong):
                self._usage_record.see_to(watch, self._send)
            self._send(probed)
            pause = until_next(self._watch.interval, time.monotonic())
            self._probe_now.wait(max(pause, _LEAST_PAUSE))
            self._probe_now.clear()

    def _take_orders(self) -> None:
        """Receive what to watch; a repeated message means: check and write again now."""
        order = self._channel.recv(LARGEST)
        if not order:
            os._exit(0)  # the agent has ended; do not wait for a hung thread
        message = decode(order)
        if isinstance(message, Remember):
            self._usage_record.remember(message)
            return
        self._watch = message
        self._seen = None
        self._probe_now.set()

    def _look(self) -> None:
        now = time.monotonic()
        before, seen = self._seen, quick_check(self._watch, now, self._seen)
        if before is None or seen.fingerprint != before.fingerprint or now - self._looked_at >= LOOK_EVERY:
            self._send(full_check(self._watch, now))
            # Sent after the full check, so that the receiver of a change already knows its details.
            self._tell(seen)
            self._looked_at = now
        elif self._worth_telling(seen.glanced, now):
            self._tell(seen)
        self._seen = seen

    def _worth_telling(self, checked: QuickChecked, now: float) -> bool:
        told = self._told
        return told is None or not well(checked) or now - told.at >= _SIGN_OF_LIFE or self._late >= _LATE

    def _tell(self, seen: QuickCheck) -> None:
        self._told = replace(seen.glanced, late=round(self._late, 3))
        self._late = 0.0
        self._send(self._told)

    def _send(self, message: Report) -> None:
        try:
            self._channel.send(encode(message))
        except OSError:
            os._exit(0)
