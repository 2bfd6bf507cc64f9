"""Time, chance and order of a simulated life: one heap of events, one generator of random numbers, one story."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

START = 1_760_000_000.0  # seconds since the epoch at which every life begins
MOST_EVENTS = 3_000_000  # of one life; 40,000 are usual


class EndlessError(Exception):
    """A life has had so many events that something in it goes round in a circle."""


@dataclass(frozen=True)
class Line:
    """One line of a life's story.

    Attributes:
        at: seconds since the life began.
        who: the actor (``broker 2``, ``operator a``, ``kubelet node1``, ``person``, ``disk node1/disk0``).
        what: what it did or what happened to it, a plain sentence without a full stop.
        why: what led to it; empty if nothing more is known.
    """

    at: float
    who: str
    what: str
    why: str = ""


@dataclass
class Kernel:
    """Runs events in order of their time; events of the same time in an order that the seed decides.

    Attributes:
        seed: of the life.
        rng: the only source of chance.
        now: true time, in seconds since the epoch. Nodes and pods may have clocks that differ.
        story: what happened so far.
        events: how many events have run.
    """

    seed: int
    now: float = START
    story: list[Line] = field(default_factory=list)
    events: int = 0
    rng: random.Random = field(init=False)
    _heap: list[tuple[float, float, int, "Timer"]] = field(default_factory=list)
    _serial: int = 0
    _until: float = float("-inf")  # how far `run_until` goes just now

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def call_later(self, delay: float, what: Callable[[], None]) -> "Timer":
        """Have something happen after so many seconds (0: as soon as the events before it are over)."""
        timer = Timer(self.now + max(0.0, delay), what)
        self._serial += 1
        heapq.heappush(self._heap, (timer.when, self.rng.random(), self._serial, timer))
        return timer

    def say(self, who: str, what: str, why: str = "") -> None:
        """Add a line to the story."""
        self.story.append(Line(self.now - START, who, what, why))

    def step(self) -> bool:
        """Run the next event. Returns whether there was one."""
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
        """Run all events up to a time, and let it be that time."""
        before, self._until = self._until, when
        try:
            while self._heap and self._heap[0][0] <= when:
                self.step()
        finally:
            self._until = before
        self.now = max(self.now, when)

    def comes_next(self, timer: "Timer") -> bool:
        """Take an event as run, if it is the next one and due: for who made it in the event before, and goes on there instead."""
        if self._heap[0][3] is not timer or timer.when > self._until or self.events >= MOST_EVENTS:
            return False
        heapq.heappop(self._heap)
        self.now = max(self.now, timer.when)
        self.events += 1
        return True


@dataclass(slots=True)
class Timer:
    """An event to come."""

    when: float
    what: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        """Have it not happen."""
        self.cancelled = True
