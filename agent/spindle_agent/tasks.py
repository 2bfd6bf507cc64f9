"""Endless tasks: if one ends, that is a defect, after which the process should be restarted."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger(__name__)

Start = Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"]


class Tasks:
    """Starts tasks, and reports when one has ended by itself."""

    def __init__(self, on_fault: Callable[[], None]) -> None:
        self._on_fault = on_fault

    def start(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        """Run an endless task; cancel it to end it."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled():
            log.error("the task %s has ended unexpectedly", task.get_name(), exc_info=task.exception())
            self._on_fault()
