"""Time, random numbers and order of a simulated run: one heap of events, one generator of random numbers, one story."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

START = 1_760_000_000.0  # seconds since the epoch at the start of every run
MOST_EVENTS = 3_000_000  # per run; 40,000 are usual


class EndlessError(Exception):
    """A run has had so many events that something loops."""


@dataclass(frozen=True)
class Line:
    """One line of a run's story.

    Attributes:
        at: seconds since the start of the run.
        who: the actor (``broker 2``, ``operator a``, ``kubelet node1``, ``person``, ``disk node1/disk0``).
        what: what it did or what happened to it, a sentence without a full stop.
        why: the cause; empty if it is not known.
    """

    at: float
    who: str
    what: str
    why: str = ""


@dataclass
class Kernel:
    """Executes events in order of their time; events of the same time in an order that depends on the seed.

    Attributes:
        seed: of the run.
        rng: the only source of random numbers.
        now: true time, in seconds since the epoch. Nodes and pods may have clocks that differ.
        story: the story so far.
        events: number of executed events.
    """

    seed: int
    now: float = START
    story: list[Line] = field(default_factory=list)
    events: int = 0
    rng: random.Random = field(init=False)
    _heap: list[tuple[float, float, int, "Timer"]] = field(default_factory=list)
    _serial: int = 0
    _until: float = float("-inf")  # end of the current `run_until`

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def call_later(self, delay: float, what: Callable[[], None]) -> "Timer":
        """Schedule an event after this many seconds (0: as soon as the events before it are done)."""
        timer = Timer(self.now + max(0.0, delay), what)
        self._serial += 1
        heapq.heappush(self._heap, (timer.when, self.rng.random(), self._serial, timer))
        return timer

    def say(self, who: str, what: str, why: str = "") -> None:
        """Add a line to the story."""
        self.story.append(Line(self.now - START, who, what, why))

    def step(self) -> bool:
        """Execute the next event. Returns whether there was one."""
        while self._heap:
            when, _, _, timer = heapq.heappop(self._heap)
            if timer.cancelled:
                continue
            self.now = max(self.now, when)
            self.events += 1
            if self.events > MOST_EVENTS:
                raise EndlessError(f"not over after {MOST_EVENTS:,} events and {self.now - START:.0f} s")
            timer.what()
            return True
        return False

    def run_until(self, when: float) -> None:
        """Execute all events up to a time, and set the clock to it."""
        before, self._until = self._until, when
        try:
            while self._heap and self._heap[0][0] <= when:
                self.step()
        finally:
            self._until = before
        self.now = max(self.now, when)

    def comes_next(self, timer: "Timer") -> bool:
        """Consume an event if it is the next one and due, for a caller that continues without it."""
        if self._heap[0][3] is not timer or timer.when > self._until or self.events >= MOST_EVENTS:
            return False
        heapq.heappop(self._heap)
        self.now = max(self.now, timer.when)
        self.events += 1
        return True


@dataclass(slots=True)
class Timer:
    """A scheduled event."""

    when: float
    what: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        """Cancel it."""
        self.cancelled = True
