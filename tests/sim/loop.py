"""Processes on the kernel: asyncio without real time and threads, clocks that differ, and blocking calls that wait for events.

A process is one `Process`: its event loop, its clock, its blocking calls. Killing it drops all of its pending work, like SIGKILL.
"""

import _thread
import asyncio
import contextlib
import contextvars
import datetime as dt
import os
import random
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from tests.sim.kernel import START, Kernel, Timer

_T = TypeVar("_T")
_EPOCH: Final = 100_000.0  # seconds on every monotonic clock at the start of a run


class KilledError(BaseException):
    """The process of a blocking call was killed."""


class Clock:
    """Replacements of `time.time` and the like: the clock of the process that runs now."""

    kernel: Kernel | None = None
    skew: float = 0.0

    @classmethod
    def now(cls) -> float:
        """Seconds since the epoch by the running process's clock."""
        assert cls.kernel is not None
        return cls.kernel.now + cls.skew

    @classmethod
    def monotonic(cls) -> float:
        """Monotonic seconds."""
        assert cls.kernel is not None
        return cls.kernel.now - START + _EPOCH


class SimDatetime(dt.datetime):
    """``datetime`` whose now is the running process's."""

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> "SimDatetime":
        return cls.fromtimestamp(Clock.now(), tz)


@contextlib.contextmanager
def simulated_time(kernel: Kernel) -> Iterator[None]:
    """Take time and random numbers of all simulated processes from the kernel."""
    saved = time.time, time.monotonic, os.urandom, random._urandom, Clock.kernel, Clock.skew  # type: ignore[attr-defined]
    state = random.getstate()
    entropy = random.Random(kernel.seed ^ 0x5EED)
    Clock.kernel, Clock.skew = kernel, 0.0
    time.time, time.monotonic = Clock.now, Clock.monotonic
    os.urandom = random._urandom = entropy.randbytes  # type: ignore[attr-defined]
    random.seed(kernel.seed)
    try:
        yield
    finally:
        time.time, time.monotonic, os.urandom, random._urandom, Clock.kernel, Clock.skew = saved  # type: ignore[attr-defined]
        random.setstate(state)


# The part of a loop that asyncio needs; the rest of its interface is not used here.
_Loop: Any = asyncio.AbstractEventLoop if not TYPE_CHECKING else Any


class Process(_Loop):  # type: ignore[misc]
    """One process: an event loop on the kernel. Handles of one iteration run in the order of their creation, as in asyncio."""

    def __init__(self, kernel: Kernel, name: str, skew: Callable[[], float] = lambda: 0.0) -> None:
        self.kernel = kernel
        self.name = name
        self.skew = skew
        self.alive = True
        self.paused_until = 0.0
        self.tasks: list[asyncio.Task[Any]] = []  # of a killed process: never finalised during the run
        self._ready: deque[asyncio.Handle] = deque()
        self._turn: Timer | None = None
        self._fibers: list[Fiber] = []
        self.on_error: Callable[[dict[str, Any]], None] = lambda _: None

    # -- what asyncio asks for

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return not self.alive

    def time(self) -> float:
        return Clock.monotonic()

    def call_soon(
        self, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if self.alive:
            self._ready.append(handle)
            self._wake()
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        handle = _Alarm(when, callback, args, self, context)
        if self.alive:
            handle.timer = self.kernel.call_later(when - self.time(), lambda: self._due(handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        timer = getattr(handle, "timer", None)
        if timer is not None:
            timer.cancel()

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def answer(self, future: "asyncio.Future[Any]", value: Any, error: Exception | None) -> None:
        """Set a future's result, unless its process was killed meanwhile."""
        if self.alive and not future.done():
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)

    def create_task(
        self,
        coro: Coroutine[Any, Any, _T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> "asyncio.Task[_T]":
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.tasks.append(task)
        if len(self.tasks) > 256:
            self.tasks = [each for each in self.tasks if not each.done()]
        return task

    def run_in_executor(self, _: Any, func: Callable[..., _T], *args: Any) -> "asyncio.Future[_T]":
        future: asyncio.Future[_T] = self.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except Exception as error:  # noqa: BLE001 - whatever it is belongs to whoever asked
                future.set_exception(error)
            else:
                future.set_result(result)

        self.call_soon(run)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.on_error(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.on_error(context)

    # -- execution

    def start(self, coro: Coroutine[Any, Any, Any], name: str = "main") -> "asyncio.Task[Any]":
        """Start a task of this process from outside of it."""
        with self.current():
            return self.create_task(coro, name=name)

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Make it the running process."""
        before, skew = asyncio._get_running_loop(), Clock.skew
        asyncio._set_running_loop(self)
        Clock.skew = self.skew()
        try:
            yield
        finally:
            asyncio._set_running_loop(before)
            Clock.skew = skew

    def kill(self) -> None:
        """SIGKILL."""
        self.alive = False
        self._ready.clear()
        if self._turn is not None:
            self._turn.cancel()
        for fiber in list(self._fibers):
            fiber.kill()

    def pause(self, seconds: float) -> None:
        """SIGSTOP for a while: nothing runs, time passes."""
        self.paused_until = max(self.paused_until, self.kernel.now + seconds)

    def fiber(self, call: Callable[[], _T]) -> "asyncio.Future[_T]":
        """Run a blocking call that may wait for events (`Fiber.wait`) in addition to this loop."""
        return Fiber(self, call).future

    def _wake(self) -> None:
        if self._turn is None:
            self._turn = self.kernel.call_later(max(0.0, self.paused_until - self.kernel.now), self._run)

    def _due(self, handle: "_Alarm") -> None:
        if self.alive and not handle.cancelled():
            self._ready.append(handle)
            self._wake()

    def _run(self) -> None:
        self._turn = None
        if not self.alive:
            return
        if self.paused_until > self.kernel.now:
            self._wake()
            return
        asyncio._set_running_loop(self)
        Clock.skew = self.skew()
        try:
            while self._ready and self.alive:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            asyncio._set_running_loop(None)
            Clock.skew = 0.0


class _Alarm(asyncio.TimerHandle):
    timer: Timer | None = None


class _Worker:
    """A thread that runs one fiber after the other; raw locks, because there are some ten thousand switches in a run."""

    idle: ClassVar[list[Any]] = []

    def __init__(self) -> None:
        self.go, self.back = _thread.allocate_lock(), _thread.allocate_lock()
        self.go.acquire()
        self.back.acquire()
        self.fiber: Fiber | None = None
        _thread.start_new_thread(self._main, ())

    def _main(self) -> None:
        while True:
            self.go.acquire()
            fiber = self.fiber
            assert fiber is not None
            fiber.work()
            self.fiber = None
            self.back.release()


class Fiber:
    """A blocking call in a thread of its own that runs only while no other one does: exactly one thread is active at any time."""

    running: "Fiber | None" = None

    def __init__(self, process: Process, call: Callable[[], Any]) -> None:
        self._process = process
        self.future: asyncio.Future[Any] = process.create_future()
        self._killed = self._over = False
        self._value: Any = None
        self._raised: BaseException | None = None
        self._call = call
        self._worker: _Worker | None = None
        process._fibers.append(self)
        process.kernel.call_later(0, self._resume)

    def work(self) -> None:
        """In the worker's thread: the call."""
        try:
            self._value = self._call()
        except BaseException as error:  # noqa: BLE001 - it is handed on
            self._raised = error
        self._over = True

    def _resume(self) -> None:
        """Run it until it waits or ends."""
        if self._over:
            return
        worker = self._worker
        if worker is None:
            if self._killed:
                self._over = True
                return
            worker = self._worker = _Worker.idle.pop() if _Worker.idle else _Worker()
            worker.fiber = self
        before, skew = Fiber.running, Clock.skew
        Fiber.running, Clock.skew = self, self._process.skew()
        worker.go.release()
        worker.back.acquire()
        Fiber.running, Clock.skew = before, skew
        if self._over:
            _Worker.idle.append(worker)
            if self in self._process._fibers:
                self._process._fibers.remove(self)
            if self._process.alive and not self.future.done():
                if self._raised is None:
                    self.future.set_result(self._value)
                elif isinstance(self._raised, Exception):
                    self.future.set_exception(self._raised)

    def sleep(self, seconds: float) -> None:
        """Called inside: wait. Threads are switched only if something else happens meanwhile."""
        kernel = self._process.kernel
        timer = kernel.call_later(max(seconds, self._process.paused_until - kernel.now), self._resume)
        if not self._killed and kernel.comes_next(timer):
            Clock.skew = self._process.skew()
            return
        worker = self._worker
        assert worker is not None
        worker.back.release()
        worker.go.acquire()
        if self._killed:
            raise KilledError

    def kill(self) -> None:
        """End it where it waits."""
        self._killed = True
        if not self._over:
            self._resume()
