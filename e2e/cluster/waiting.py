"""Waiting for what cannot be awaited: a process to listen, a node to be ready. Always with a deadline."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class OverdueError(TimeoutError):
    """What was waited for did not happen in time; the message says what, and how long it was waited for."""


def pause(seconds: float) -> None:
    """Let some time pass."""
    threading.Event().wait(seconds)


def wait_for(
    what: str,
    probe: Callable[[], T | None],
    *,
    seconds: float,
    every: float = 0.1,
    detail: Callable[[], str] | None = None,
) -> T:
    """Ask again and again until the answer is something other than None, False or empty, and return it.

    Args:
        what: what is waited for, as an error shall name it.
        probe: the question; "not yet" is an answer, not an exception.
        seconds: how long to wait at most.
        every: seconds between two questions.
        detail: asked when time is up: what is known about the reason.

    Raises:
        OverdueError: time is up.
    """
    deadline = time.monotonic() + seconds
    while True:
        answer = probe()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            known = detail() if detail else ""
            raise OverdueError(f"{what}: not within {seconds:g} s. {known}".rstrip())
        pause(every)
