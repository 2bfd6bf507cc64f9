"""A run with faults: rounds of one to three at once, each until the cluster has recovered; the result is a table and the acknowledged records."""

import random
import time
from dataclasses import dataclass, field
from typing import Any, Final

from e2e.chaos.bench import Bench
from e2e.chaos.faults import FAULTS, Fault
from e2e.chaos.people import People
from e2e.scenarios.lab import LabError, pause
from e2e.scenarios.stand import is_well

WELL_WITHIN: Final = 600.0  # seconds from the end of a round's faults until the cluster must have recovered
_APART: Final = 12.0  # seconds within which a round's faults start
_LASTS: Final = (5.0, 60.0)  # seconds that they last


@dataclass
class Round:
    """One round.

    Attributes:
        began: seconds since the start of the run.
        faults: a sentence for each.
        lasted: seconds until the last one was ended.
        took: seconds from then until the cluster had recovered; None if it did not.
        silent: longest time in which a partition acknowledged nothing, in seconds.
        waits: reasons in ``status.waiting``, in the order of their first appearance.
    """

    began: float
    faults: list[str] = field(default_factory=list)
    lasted: float = 0.0
    took: float | None = None
    silent: float = 0.0
    waits: list[str] = field(default_factory=list)

    def row(self, number: int) -> str:
        """Lines of the table."""
        end = f"recovered after {self.took:.0f} s" if self.took is not None else "NOT RECOVERED"
        head = f"{number:3}  {self.began:6.0f} s  lasted {self.lasted:3.0f} s, {end}, longest silence {self.silent:.1f} s"
        lines = [head, *(f"       - {fault}" for fault in self.faults)]
        if self.waits:
            lines.append(f"       waited for: {', '.join(self.waits)}")
        return "\n".join(lines)


class Life:
    """Rounds of faults on one cluster."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._began = time.monotonic()
        self.rounds: list[Round] = []

    @property
    def faults(self) -> int:
        """Number of faults so far."""
        return sum(len(each.faults) for each in self.rounds)

    @property
    def stuck(self) -> bool:
        """Whether the cluster did not recover in the last round."""
        return bool(self.rounds) and self.rounds[-1].took is None

    def round(self) -> Round:
        """Start one to three faults at once, end them, and wait until the cluster has recovered."""
        bench = self._bench
        bench.busy.clear()
        made = Round(began=time.monotonic() - self._began)
        self.rounds.append(made)
        chosen = choose(bench.rng)
        begin = time.monotonic()
        for fault in chosen:
            pause(bench.rng.uniform(0, _APART / len(chosen)))
            made.faults.append(self._begin(fault))
            print(f"   [{time.monotonic() - self._began:6.0f} s] {made.faults[-1]}", flush=True)
        self._look(made, bench.rng.uniform(*_LASTS))
        bench.end_faults()
        made.lasted = time.monotonic() - begin
        made.took = self._until_well(made)
        return made

    def _begin(self, fault: Fault) -> str:
        try:
            return fault.begin(self._bench)
        except (LabError, IndexError, KeyError) as error:
            # Its target does not exist or cannot be reached, because of another fault.
            return f"({fault.name}: not possible now: {str(error)[:80]})"

    def _look(self, made: Round, seconds: float) -> None:
        """Observe for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._note(made)
            pause(2.0)

    def _until_well(self, made: Round) -> float | None:
        began = time.monotonic()
        calm = 0
        people = People(self._bench)
        while time.monotonic() - began < WELL_WITHIN:
            people.help(self._note(made))
            calm = calm + 1 if self._is_well() else 0
            if calm == 3:  # the status may be older than the last fault
                return time.monotonic() - began
            pause(3.0)
        return None

    def _is_well(self) -> bool:
        try:
            return is_well(self._bench.lab) and not self._bench.load.silent()
        except (LabError, KeyError, OSError, ValueError):
            return False

    def _note(self, made: Round) -> list[dict[str, Any]]:
        """Record the reasons in ``status.waiting`` and the time without acknowledgements; returns ``status.waiting``."""
        try:
            waits: list[dict[str, Any]] = list(self._bench.lab.status().get("waiting", ()))
            silent = max(self._bench.load.silent().values(), default=0.0)
        except (LabError, KeyError, OSError, ValueError):
            return []  # the API server or a node is unavailable
        made.waits += [r for r in dict.fromkeys(wait["reason"] for wait in waits) if r not in made.waits]
        made.silent = max(made.silent, silent)
        return waits

    def table(self) -> str:
        """Table of the whole run."""
        return "\n".join(each.row(number) for number, each in enumerate(self.rounds, 1))


def choose(rng: random.Random) -> list[Fault]:
    """One to three faults, at most one of which destroys records."""
    chosen: list[Fault] = []
    for _ in range(rng.choice((1, 1, 2, 2, 3))):
        able = [fault for fault in FAULTS if not (fault.destroys and any(each.destroys for each in chosen))]
        chosen.append(rng.choices(able, weights=[fault.weight for fault in able])[0])
    return chosen
