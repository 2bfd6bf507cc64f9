"""Whether whoever looks at the disks of a node had time to look: on a machine that gives nobody time, what waits says nothing of a disk.

A disk that hangs makes what writes to it wait, and the kernel tell of pressure on I/O; it does not make a timer late that waits for nothing
but its time. So timers are what is judged by, and pressure on processors or memory only strengthens what they say. Pressure alone proves
nothing: a machine whose processors are asked for all of the time may still serve each timer within some hundredths of a second.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

WINDOW_SECONDS: Final = 10.0  # over which timers are looked at: as long as the kernel's shortest averages
HOLD_SECONDS: Final = 20.0  # for which it counts after the last sign of it
# Shares of the window by which timers were late. On two processors with 35 processes that wanted to run, 3 % were seen.
_ALONE: Final = 0.25
_UNDER_PRESSURE: Final = 0.10
_CPU: Final = 70.0
_MEMORY: Final = 20.0


@dataclass(frozen=True)
class NodePressure:
    """What the kernel says (``/proc/pressure``, Linux's PSI): percent of the last ten seconds; None where it does not say.

    Attributes:
        cpu: in which somebody waited for a processor (``some``).
        memory: in which all that wanted to run waited for memory (``full``).
    """

    cpu: float | None = None
    memory: float | None = None

    @property
    def high(self) -> bool:
        """Whether processors or memory are short."""
        return (self.cpu or 0.0) >= _CPU or (self.memory or 0.0) >= _MEMORY


NO_PRESSURE: Final = NodePressure()


def average(text: str, kind: str) -> float | None:
    """The ``avg10`` of a line of a file in ``/proc/pressure``; None if it is not there, or not to be understood.

    Args:
        text: the file.
        kind: ``some`` or ``full``.
    """
    found = re.search(rf"^{kind} .*\bavg10=(\d+(?:\.\d+)?)(?:\s|$)", text, re.MULTILINE)
    return float(found[1]) if found else None


def starved(late: float, pressure: NodePressure) -> bool:
    """Whether nobody on this machine can tell a disk that hangs from one whose turn does not come.

    Args:
        late: seconds by which the timers of one who looks were late within the window.
        pressure: what the kernel says now.
    """
    share = late / WINDOW_SECONDS
    return share >= _ALONE or (share >= _UNDER_PRESSURE and pressure.high)


def words(late: float, pressure: NodePressure) -> str:
    """What shows it, as a sentence."""
    told = [
        f"{kind} {value:.0f} %"
        for kind, value in (("processors", pressure.cpu), ("memory", pressure.memory))
        if value is not None and value >= 1
    ]
    more = f"; the kernel's pressure figures: {', '.join(told)}" if told else ""
    return f"Its timers were late by {late:.1f} of {WINDOW_SECONDS:.0f} s{more}."


@dataclass(frozen=True)
class Starved:
    """What an agent said of itself.

    Attributes:
        since: when it began, as it wrote it by its node's clock.
        message: what shows it.
    """

    since: str
    message: str

    @classmethod
    def parse(cls, observed: Mapping[str, Any]) -> Self | None:
        """From ``status.observed``; None if the agent is not starved, or is of a version that does not tell."""
        entry = observed.get("starved")
        if not isinstance(entry, Mapping):
            return None
        return cls(str(entry.get("since") or ""), str(entry.get("message") or ""))
