"""A partition that healing left on fewer racks than before, as recorded in the journal."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SpreadViolation:
    """A partition whose rack spread is to be restored.

    Attributes:
        racks: number of racks that it was on before.
        brokers: its brokers after Spindle's own moves, sorted; if another client moves it, the entry is removed.
    """

    topic: str
    partition: int
    racks: int
    brokers: tuple[int, ...]

    @property
    def key(self) -> tuple[str, int]:
        """(topic, partition)."""
        return self.topic, self.partition


def write_spread_violations(entries: Iterable[SpreadViolation]) -> dict[str, list[list[Any]]]:
    """The entries in the format of the journal, by topic: each a partition, its racks, and its brokers."""
    found: dict[str, list[list[Any]]] = defaultdict(list)
    for entry in entries:
        found[entry.topic].append([entry.partition, entry.racks, *entry.brokers])
    return dict(found)


def read_spread_violations(found: Mapping[str, Iterable[Iterable[Any]]]) -> tuple[SpreadViolation, ...]:
    """Parse the output of `write_spread_violations`."""
    return tuple(
        SpreadViolation(str(topic), int(index), racks=int(racks), brokers=tuple(int(b) for b in brokers))
        for topic, entries in found.items()
        for index, racks, *brokers in entries
    )
