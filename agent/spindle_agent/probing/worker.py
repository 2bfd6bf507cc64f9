"""One disk's process: a thread that only looks, and one that writes.

A write to a disk that does not answer cannot be ended, not even by killing the process: the kernel lets it go when the
disk answers. So the writing thread may hang for ever, alone; the other goes on looking, since what is mounted, and
whether it is read-only, can often be told all the same. Both may hang; then it is their silence that tells.
"""

import os
import select
import signal
import socket
import threading
import time
from typing import Final, NoReturn

from spindle_agent.probing.glance import Seen, glance, whole_look
from spindle_agent.probing.messages import (
    LARGEST,
    Began,
    Glanced,
    Probed,
    Report,
    Watch,
    decode,
    encode,
)
from spindle_agent.probing.probe import memory, probe

GLANCE_EVERY: Final = 0.5
PROBE_EVERY: Final = 2.0
LOOK_EVERY: Final = 30.0  # a whole look even if nothing seems to have changed
_SIGN_OF_LIFE: Final = 2.0  # a glance that says nothing new is sent as rarely as this
_AGAIN: Final = 0.05  # after which an error is asked for again
_INSISTING: Final = 3  # times in a row, at most, that an error shortens the pause


def run(channel: socket.socket, watch: Watch) -> NoReturn:
    """The worker's life; it ends when the other end of the channel is closed."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # whoever reads the channel says when it is over
    worker = _Worker(channel, watch)
    threading.Thread(target=worker.write_for_ever, daemon=True).start()
    worker.look_for_ever()


class _Worker:
    def __init__(self, channel: socket.socket, watch: Watch) -> None:
        self._channel = channel
        self._watch = watch
        self._probe_now = threading.Event()
        self._errors = 0
        self._told: Glanced | None = None
        self._fingerprint: tuple[object, ...] | None = None
        self._looked_at = 0.0

    def look_for_ever(self) -> NoReturn:
        """Glance, and read what is to be watched."""
        pause = 0.0
        while True:
            ready, _, _ = select.select([self._channel], [], [], pause)
            if ready:
                self._take_orders()
            pause = self._look()

    def write_for_ever(self) -> NoReturn:
        """Probe at an even pace; at once after an error, and when the looking thread asks for it."""
        block, back = memory(), memory()
        errors = 0
        while True:
            began = time.monotonic()
            self._send(Began(at=began))
            outcome = probe(self._watch, block, back)
            self._send(
                Probed(
                    at=time.monotonic(),
                    seconds=outcome.seconds,
                    error=outcome.error,
                    full=outcome.full,
                    skipped=outcome.skipped,
                )
            )
            errors = errors + 1 if outcome.error else 0
            pause = _AGAIN if 0 < errors < _INSISTING else PROBE_EVERY - (time.monotonic() - began)
            self._probe_now.wait(max(pause, _AGAIN))
            self._probe_now.clear()

    def _take_orders(self) -> None:
        order = self._channel.recv(LARGEST)
        if not order:
            os._exit(0)  # the agent is gone; a thread that hangs must not be waited for
        self._watch = decode(order)
        self._fingerprint = None
        self._probe_now.set()

    def _look(self) -> float:
        """Look once; returns the seconds until the next time."""
        now = time.monotonic()
        seen = glance(self._watch, now)
        if seen.fingerprint != self._fingerprint or now - self._looked_at >= LOOK_EVERY:
            self._send(whole_look(self._watch, now))
            # Told after it, so that whoever hears of a change knows what it is.
            self._tell(seen)
            self._looked_at = now
        elif self._news(seen.glanced):
            self._tell(seen)
        self._fingerprint = seen.fingerprint
        if seen.glanced.error is None:
            self._errors = 0
            return GLANCE_EVERY
        self._errors += 1
        self._probe_now.set()
        return _AGAIN if self._errors < _INSISTING else GLANCE_EVERY

    def _news(self, glanced: Glanced) -> bool:
        told = self._told
        return (
            told is None
            or (told.mounted, told.readonly, told.error)
            != (
                glanced.mounted,
                glanced.readonly,
                glanced.error,
            )
            or glanced.error is not None
            or glanced.at - told.at >= _SIGN_OF_LIFE
        )

    def _tell(self, seen: Seen) -> None:
        self._send(seen.glanced)
        self._told = seen.glanced

    def _send(self, message: Report) -> None:
        try:
            self._channel.send(encode(message))
        except OSError:
            os._exit(0)
