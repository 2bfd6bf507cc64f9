"""The broker's throttle for moves between its dirs: set before the first, steered, put back after the last (rule 10).

What it was before is on record in the status before it is changed, so that an agent that comes later can put it back. So is each
value that it is given; the former one holds until the record is written, and moves go on under it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_REMEMBERED: Final = 4  # values of ours, the latest ones


@dataclass(frozen=True)
class Record:
    """What is on record while the throttle is, or may be, ours.

    Attributes:
        before: the value that was there; None for none.
        ours: values that we have set, or were about to.
    """

    before: str | None
    ours: tuple[str, ...]

    def entry(self) -> dict[str, Any]:
        """``status.observed.throttle``."""
        made: dict[str, Any] = {"ours": list(self.ours)}
        return made if self.before is None else made | {"before": self.before}


@dataclass(frozen=True)
class Step:
    """What comes next.

    Attributes:
        record: that must be written before anything is changed, or kept; None for none.
        change: whether to set the throttle now (the record is known to be written).
        value: to what; None removes it.
        ready: whether moves may begin.
    """

    record: Record | None
    change: bool = False
    value: str | None = None
    ready: bool = False


def read(observed: Mapping[str, Any]) -> Record | None:
    """The record in a status."""
    entry = observed.get("throttle")
    if not entry:
        return None
    return Record(entry.get("before"), tuple(str(value) for value in entry.get("ours") or ()))


def rate(record: Record | None) -> int | None:
    """The bytes per second that were set, or about to be set, last; None for none."""
    last = record.ours[-1] if record is not None and record.ours else ""
    return int(last) if last.isdecimal() else None


def next_step(
    wanted: int | None, *, moving: bool, current: str | None, record: Record | None, written: Record | None
) -> Step:
    """What to do about the throttle.

    Args:
        wanted: bytes per second; None for no throttle.
        moving: whether any move is left to do.
        current: the broker's value; None for none.
        record: what we mean to be on record.
        written: what surely is.
    """
    if not moving or wanted is None:
        return _put_back(current, record, ready=wanted is None)
    value = str(wanted)
    if record is None:
        if current == value:
            return Step(None, ready=True)  # somebody set the very same: it stays theirs
        return Step(Record(current, (value,)))
    holds = written is not None and current in written.ours and current in record.ours
    if value not in record.ours:
        # The value that is in force must not be forgotten for the new one.
        kept = [each for each in record.ours if each != current][2 - _REMEMBERED :]
        in_force = [each for each in record.ours if each == current]
        return Step(Record(record.before, (*kept, *in_force, value)), ready=holds)
    if record != written:
        return Step(record, ready=holds)
    if current == value:
        return Step(record, ready=True)
    if current == record.before or current in record.ours:
        return Step(record, change=True, value=value)
    return Step(record, ready=True)  # somebody set another one since: theirs counts


def _put_back(current: str | None, record: Record | None, *, ready: bool) -> Step:
    if record is not None and current is None:
        # A broker with a cordon of a dir that it does not have tells no throttle (tests/kafka/test_cordons.py). It turns down this order then.
        return Step(record, change=True, ready=ready)
    if record is None or current not in record.ours:
        return Step(None, ready=ready)
    return Step(record, change=True, value=record.before, ready=ready)
