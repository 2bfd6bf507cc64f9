"""Progress output of the testbed: one line per step, with the time since the command started."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SILENCE_S: Final = 10.0  # no output for longer than this needs an explanation

_began = time.monotonic()
_quiet = bool(os.environ.get("SPINDLE_TESTBED_QUIET"))


class _Last:
    """What was said last, and when anything was."""

    text = ""
    at = _began


def say(text: str) -> None:
    """Print one line with the elapsed seconds to stderr (stdout is for results)."""
    _Last.text, _Last.at = text, time.monotonic()
    _print(text)


@contextmanager
def heartbeat() -> Iterator[None]:
    """Repeat the last line every ten seconds in which there is no other, so that long steps do not look hung."""
    over = threading.Event()
    thread = threading.Thread(target=_beat, args=(over,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _beat(over: threading.Event) -> None:
    while not over.wait(1.0):
        if _Last.text and time.monotonic() - _Last.at >= SILENCE_S:
            _Last.at = time.monotonic()
            _print(f"still: {_Last.text}")


def _print(text: str) -> None:
    if not _quiet:
        print(f"[{time.monotonic() - _began:6.1f} s] {text}", file=sys.stderr, flush=True)


class Progress:
    """Progress of work with a known number of parts, printed now and then with the remaining time.

    Args:
        what: the work's name.
        total: number of parts.
        every: minimum seconds between two lines.
    """

    def __init__(self, what: str, total: int, every: float = SILENCE_S) -> None:
        self._what, self._total, self._every = what, max(total, 1), every
        self._done = 0
        self._began = self._said = time.monotonic()

    def step(self, parts: int = 1) -> None:
        """Count parts as done."""
        self._done += parts
        now = time.monotonic()
        if now - self._said < self._every:
            return
        self._said = now
        say(
            f"{self._what}: {self._done} of {self._total}, {describe_left(self._done, self._total, now - self._began)}"
        )


def describe_left(done: int, total: int, elapsed: float) -> str:
    """Estimated remaining time at the current rate, in words."""
    if done <= 0:
        return "time left unknown"
    left = elapsed * max(total - done, 0) / done
    return f"about {left:.0f} s left" if left < 90 else f"about {left / 60:.0f} min left"
