"""Whether the agent had enough CPU time to observe the disks: on an overloaded node, a pending probe says nothing about a disk.

A hung disk delays its writers and raises the kernel's I/O pressure; it does not delay a timer, which waits only for time. So Spindle
judges by timers, and pressure on CPU or memory only corroborates them. Pressure alone proves nothing: a node whose CPUs are in demand
all of the time may still serve each timer within some hundredths of a second.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

WINDOW_SECONDS: Final = 10.0  # over which timers are evaluated: as long as the kernel's shortest averages
HOLD_SECONDS: Final = 20.0  # for which it counts after the last evidence
# Shares of the window by which timers were late. On two CPUs with 35 runnable processes, 3 % were observed.
_ALONE: Final = 0.25
_UNDER_PRESSURE: Final = 0.10
_CPU: Final = 70.0
_MEMORY: Final = 20.0


@dataclass(frozen=True)
class NodePressure:
    """The kernel's pressure figures (``/proc/pressure``, Linux's PSI): percent of the last ten seconds; None if not available.

    Attributes:
        cpu: share in which some task waited for a CPU (``some``).
        memory: share in which all runnable tasks waited for memory (``full``).
    """

    cpu: float | None = None
    memory: float | None = None

    @property
    def high(self) -> bool:
        """Whether CPU or memory is short."""
        return (self.cpu or 0.0) >= _CPU or (self.memory or 0.0) >= _MEMORY


NO_PRESSURE: Final = NodePressure()


def average(text: str, kind: str) -> float | None:
    """The ``avg10`` of a line of a file in ``/proc/pressure``; None if it is missing, or cannot be parsed.

    Args:
        text: the file.
        kind: ``some`` or ``full``.
    """
    found = re.search(rf"^{kind} .*\bavg10=(\d+(?:\.\d+)?)(?:\s|$)", text, re.MULTILINE)
    return float(found[1]) if found else None


def starved(late: float, pressure: NodePressure) -> bool:
    """Whether no process on this node can distinguish a hung disk from a probe that is not scheduled.

    Args:
        late: seconds by which the observer's timers were late within the window.
        pressure: the kernel's current pressure figures.
    """
    share = late / WINDOW_SECONDS
    return share >= _ALONE or (share >= _UNDER_PRESSURE and pressure.high)


def words(late: float, pressure: NodePressure) -> str:
    """The evidence, as a sentence."""
    figures = [
        f"{kind} {value:.0f} %"
        for kind, value in (("CPU", pressure.cpu), ("memory", pressure.memory))
        if value is not None and value >= 1
    ]
    more = f"; the kernel's pressure figures: {', '.join(figures)}" if figures else ""
    return f"Its timers were late by {late:.1f} of {WINDOW_SECONDS:.0f} s{more}."


@dataclass(frozen=True)
class Starved:
    """What an agent reports about itself.

    Attributes:
        since: when it began, by the clock of the agent's node.
        message: the evidence.
    """

    since: str
    message: str

    @classmethod
    def parse(cls, observed: Mapping[str, Any]) -> Self | None:
        """From ``status.observed``; None if the agent is not starved, or its version does not report it."""
        entry = observed.get("starved")
        if not isinstance(entry, Mapping):
            return None
        return cls(str(entry.get("since") or ""), str(entry.get("message") or ""))
