"""Polling with a deadline: for a process to listen, a node to become ready."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class OverdueError(TimeoutError):
    """The condition was not met in time; the message says which one, and the time."""


def pause(seconds: float) -> None:
    """Wait for some time."""
    threading.Event().wait(seconds)


def wait_for(
    what: str,
    probe: Callable[[], T | None],
    *,
    seconds: float,
    every: float = 0.1,
    detail: Callable[[], str] | None = None,
) -> T:
    """Call ``probe`` until it returns something other than None, False or empty, and return that.

    Args:
        what: what is waited for, for the error message.
        probe: the check; it returns "not yet" instead of raising an exception.
        seconds: maximum time.
        every: seconds between two calls.
        detail: called when the time is up: what is known about the reason.

    Raises:
        OverdueError: the time is up.
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
