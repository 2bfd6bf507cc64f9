"""Builds what only later chapters of the demo need, while earlier ones run."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, Generic, TypeVar

_NICE: Final = 10  # at 19 it would get nothing at all beside another busy program of this machine

T = TypeVar("T")


class Later(Generic[T]):
    """The result of a function that runs in the background at a low priority, with all programs that it starts.

    It ends with this process; what it builds continues at the next run.

    Args:
        make: the function.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: Future[T] = Future()
        threading.Thread(target=self._run, daemon=True).start()

    def done(self) -> bool:
        """Whether the function has ended."""
        return self._made.done()

    def get(self) -> T:
        """Wait for the result; what the function raised is raised here."""
        return self._made.result()

    def _run(self) -> None:
        # Linux keeps the priority by thread, and a program inherits it from the thread that starts it.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        try:
            self._made.set_result(self._make())
        except BaseException as error:  # noqa: BLE001 - raised by get()
            self._made.set_exception(error)
