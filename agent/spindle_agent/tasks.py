"""Tasks that have no end: one that ends all the same is a fault of ours, after which a new process is the best idea."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger(__name__)

Start = Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"]


class Tasks:
    """Starts tasks, and tells when one has ended by itself."""

    def __init__(self, on_fault: Callable[[], None]) -> None:
        self._on_fault = on_fault

    def start(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        """Run something that has no end; cancel it to end it."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled():
            log.error("%s has ended", task.get_name(), exc_info=task.exception())
            self._on_fault()
